// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "quant/equalisation.hpp"

#include <pybind11/stl.h>

#include "bindings/bindings.hpp"

namespace py = pybind11;

namespace flashrt {

void bind_equalisation(py::module_& module) {
  py::class_<ChannelMaxima>(module, "ChannelMaxima",
                            "Largest magnitude per channel of what norms write.")
      .def(py::init<>())
      .def_property_readonly("sites", &ChannelMaxima::sites)
      .def_readonly("samples", &ChannelMaxima::samples);

  py::class_<Equalisation>(module, "Equalisation", "A power of two per channel and site.")
      .def(py::init([](double strength, const std::map<std::string, std::vector<int>>& octaves) {
             Equalisation equalisation{.strength = strength, .octaves = {}};
             for (const auto& [site, channels] : octaves) equalisation.set(site, channels);
             return equalisation;
           }),
           py::arg("strength"), py::arg("octaves"))
      .def_readonly("strength", &Equalisation::strength)
      .def_readonly("octaves", &Equalisation::octaves);
}

}  // namespace flashrt
