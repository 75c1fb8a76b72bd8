// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Number formats by name.
#include "base/number_format.hpp"

#include <string>

#include "bindings/bindings.hpp"

namespace py = pybind11;

namespace flashrt {
namespace {

NumberFormat known_format(const std::string& name) {
  if (const auto format = format_named(name)) return *format;
  std::string known;
  for (const NumberFormat format : kNumberFormats)
    known += (known.empty() ? "" : ", ") + std::string(name_of(format));
  throw Error(text("number format '", name, "'; known: ", known));
}

}  // namespace

void bind_number_format(py::module_& module) {
  py::list names;
  for (const NumberFormat format : kNumberFormats) names.append(std::string(name_of(format)));
  module.attr("NUMBER_FORMATS") = py::tuple(names);

  module.def(
      "format_info",
      [](const std::string& name) {
        const NumberFormat format = known_format(name);
        py::dict info;
        info["bits"] = bits_of(format);
        info["block"] = block_of(format);
        info["largest"] = largest(format);
        info["emulated"] = format != NumberFormat::kE4M3;
        return info;
      },
      py::arg("format"),
      "bits of one number with its part of a block's scale; block: numbers that share one; "
      "largest: "
      "magnitude with a scale of 1, 0 where there is no scale of a tensor; emulated: only the CPU "
      "backend runs it.");

  module.def(
      "format_scale",
      [](const std::string& format, float amax) { return scale_for(known_format(format), amax); },
      py::arg("format"), py::arg("amax"),
      "The scale that maps this magnitude to the largest code.");

  module.def(
      "round_to_format",
      [](const std::string& format, const Array<float>& values, float scale) {
        const NumberFormat known = known_format(format);
        FLASHRT_CHECK(values.ndim() > 0, "round_to_format: a single number, expected rows");
        const std::vector<int64_t> shape(values.shape(), values.shape() + values.ndim());
        std::vector<float> rounded(values.data(), values.data() + values.size());
        const auto width = static_cast<size_t>(shape.back());
        for (size_t begin = 0; begin < rounded.size(); begin += width)
          round_to(known, scale, std::span(rounded).subspan(begin, width));
        return to_array(rounded, shape);
      },
      py::arg("format"), py::arg("values").noconvert(), py::arg("scale") = 1.0f,
      "What the format holds of float32 values; blocks are counted along the last axis.");
}

}  // namespace flashrt
