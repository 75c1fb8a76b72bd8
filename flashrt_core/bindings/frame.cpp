// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "bindings/frame.hpp"

#include <utility>

namespace py = pybind11;

namespace flashrt {
namespace {

std::shared_ptr<PythonFrame> make_frame(const py::buffer& data, const std::string& encoding,
                                        int height, int width, int step) {
  auto result = std::make_shared<PythonFrame>();
  result->memory = data.request();
  const py::buffer_info& memory = result->memory;
  py::ssize_t stride = 1;
  bool is_packed = memory.itemsize == 1;
  for (py::ssize_t axis = memory.ndim; axis-- > 0; stride *= memory.shape[axis])
    is_packed &= memory.strides[axis] == stride || memory.shape[axis] == 1;
  FLASHRT_CHECK(is_packed, "frame: its memory is not a sequence of bytes without gaps");
  result->frame = {
      .data = {static_cast<const std::byte*>(memory.ptr), static_cast<size_t>(memory.size)},
      .height = height,
      .width = width,
      .step = step,
      .format = pixel_format(encoding)};
  return result;
}

FrameOptions make_options(const std::string& fit, int rotation, float bars) {
  FLASHRT_CHECK(fit == "letterbox" || fit == "stretch", "fit '", fit,
                "'; known: letterbox, stretch");
  return {.fit = fit == "letterbox" ? Fit::kLetterbox : Fit::kStretch,
          .rotation = rotation,
          .bars = bars};
}

}  // namespace

void bind_frame(py::module_& module) {
  py::class_<PythonFrame, std::shared_ptr<PythonFrame>>(
      module, "Frame", py::buffer_protocol(),
      "A picture as a camera driver delivers it; its data are not copied.")
      .def_buffer([](const PythonFrame& frame) {
        const std::span<const std::byte> data = frame.frame.data;
        return py::buffer_info(reinterpret_cast<const uint8_t*>(data.data()),
                               static_cast<py::ssize_t>(data.size()));
      })
      .def(py::init(&make_frame), py::arg("data"), py::arg("encoding"), py::arg("height"),
           py::arg("width"), py::arg("step"));
  py::class_<FrameOptions>(module, "FrameOptions",
                           "How the frames of one camera are brought to the size of the model.")
      .def(py::init(&make_options), py::kw_only(), py::arg("fit") = "letterbox",
           py::arg("rotation") = 0, py::arg("bars") = -1.0f);
}

}  // namespace flashrt
