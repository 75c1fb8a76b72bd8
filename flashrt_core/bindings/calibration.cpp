// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "quant/calibration.hpp"

#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include "bindings/bindings.hpp"

namespace py = pybind11;

namespace flashrt {

void bind_calibration(py::module_& module) {
  py::class_<Calibration>(module, "Calibration", "Scales by site, measured on observations.")
      .def(py::init<>())
      .def_static("load", &Calibration::load, py::arg("path"))
      .def("save", &Calibration::save, py::arg("path"))
      .def(
          "finish",
          [](Calibration& calibration, const std::string& estimator, double fraction,
             bool per_step) {
            const auto known = estimator_named(estimator);
            FLASHRT_CHECK(known, "range estimator '", estimator, "'; known: ", estimator_names());
            calibration.finish(*known, fraction, per_step);
          },
          py::arg("estimator") = "min_max", py::arg("fraction") = 0.9999,
          py::arg("per_step") = false,
          "Turns what was observed into scales. fraction: of values inside the range, for the "
          "percentile.")
      .def("scales", &Calibration::scales, py::arg("site"))
      .def_property_readonly("sites", &Calibration::sites)
      .def_readonly("weights_digest", &Calibration::weights_digest)
      .def_readonly("plan_digest", &Calibration::plan_digest)
      .def_readonly("samples", &Calibration::samples)
      .def_property_readonly("method",
                             [](const Calibration& calibration) {
                               const CalibrationMethod& method = calibration.method;
                               const bool cuts = method.estimator == RangeEstimator::kPercentile;
                               return text(name_of(method.estimator),
                                           cuts ? text(" ", method.fraction) : "",
                                           method.per_step ? ", per step" : "");
                             })
      .def_readwrite("origin", &Calibration::origin);
}

}  // namespace flashrt
