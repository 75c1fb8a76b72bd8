// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "quant/calibration.hpp"

#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include "bindings/bindings.hpp"

namespace py = pybind11;

namespace flashrt {
namespace {

void finish(Calibration& calibration, const std::string& estimator, double fraction,
            bool per_step) {
  const auto known = estimator_named(estimator);
  FLASHRT_CHECK(known, "range estimator '", estimator, "'; known: ", estimator_names());
  calibration.finish(*known, fraction, per_step);
}

std::string describe(const CalibrationMethod& method) {
  const bool cuts = method.estimator == RangeEstimator::kPercentile;
  return text(name_of(method.estimator), cuts ? text(" ", method.fraction) : "",
              method.per_step ? ", per step" : "");
}

void bind_observations(py::module_& module) {
  py::class_<Observations>(module, "Observations",
                           "What the values at calibration sites were, in bounded memory.")
      .def(py::init<>())
      .def_static("load", &Observations::load, py::arg("path"))
      .def("save", &Observations::save, py::arg("path"))
      .def("announce", &Observations::announce, py::arg("name"), py::arg("digest"),
           "What the next observation is: a name for people, and a digest over it and all before.")
      .def("check_fits", &Observations::check_fits, py::arg("name"), py::arg("weights"),
           py::arg("plan"))
      .def_property_readonly("bytes", &Observations::bytes)
      .def_readonly("weights_digest", &Observations::weights_digest)
      .def_readonly("plan_digest", &Observations::plan_digest)
      .def_readonly("equalisation", &Observations::equalisation)
      .def_readwrite("recipe", &Observations::recipe)
      .def_readonly("samples", &Observations::samples)
      .def_readonly("samples_digest", &Observations::samples_digest)
      .def_readonly("first_samples", &Observations::first_samples)
      .def_readonly("last_sample", &Observations::last_sample)
      .def_readonly("steps", &Observations::steps);
}

}  // namespace

void bind_calibration(py::module_& module) {
  bind_observations(module);
  py::class_<Calibration>(module, "Calibration", "Scales by site, measured on observations.")
      .def(py::init<>())
      .def(py::init<Observations>(), py::arg("observations"))
      .def_static("load", &Calibration::load, py::arg("path"))
      .def("save", &Calibration::save, py::arg("path"))
      .def("finish", &finish, py::arg("estimator") = "min_max", py::arg("fraction") = 0.9999,
           py::arg("per_step") = false,
           "Turns the observations into scales. fraction: of values inside the range, for the "
           "percentile.")
      .def("scales", &Calibration::scales, py::arg("site"))
      .def(
          "number_format",
          [](const Calibration& calibration, const std::string& site) {
            return name_of(calibration.format(site));
          },
          py::arg("site"))
      .def_property_readonly("sites", &Calibration::sites)
      .def_readonly("observations", &Calibration::observations)
      .def_property_readonly("weights_digest",
                             [](const Calibration& c) { return c.observations.weights_digest; })
      .def_property_readonly("plan_digest",
                             [](const Calibration& c) { return c.observations.plan_digest; })
      .def_property_readonly("equalisation",
                             [](const Calibration& c) { return c.observations.equalisation; })
      .def_property_readonly("samples", [](const Calibration& c) { return c.observations.samples; })
      .def_property_readonly("method", [](const Calibration& c) { return describe(c.method); })
      .def_readwrite("origin", &Calibration::origin);
}

}  // namespace flashrt
