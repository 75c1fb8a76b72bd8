// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// resize: images[n] = the frame of camera n, turned, brought to RGB, scaled and placed between
// bars.
#pragma once

#include "kernels/launch.hpp"
#include "kernels/matrix.hpp"

namespace flashrt::cuda {

// Operands as in plan/op.hpp. Descriptors are trusted: whoever writes them has checked that they
// stay inside the frame.
struct ResizeArgs {
  const uint8_t* frames = nullptr;       // [cameras, frame_bytes], aligned to words
  int64_t frame_bytes = 0;               // a multiple of 4
  const int32_t* descriptors = nullptr;  // [cameras, frame_descriptor_layout(size).words]
  void* images = nullptr;                // [cameras, size, size, 3] RGB
  DType type = DType::kU8;               // kU8 or kF32
  int cameras = 0, size = 0;
};
const char* resize(const ResizeArgs& args, const Launch& launch);

}  // namespace flashrt::cuda
