// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// What Python gives of one camera: a frame whose memory belongs to a Python object.
#pragma once

#include <memory>

#include "base/frame.hpp"
#include "bindings/bindings.hpp"

namespace flashrt {

struct PythonFrame {
  pybind11::buffer_info memory;  // keeps the object and its memory in place
  Frame frame;
};
using PythonFrames = std::vector<std::shared_ptr<PythonFrame>>;

}  // namespace flashrt
