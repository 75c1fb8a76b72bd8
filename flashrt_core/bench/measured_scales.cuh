// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// quantize_measured: y = x in e4m3, with the scale that the largest magnitude of x asks for.
#pragma once

#include "kernels/launch.hpp"
#include "kernels/matrix.hpp"

namespace flashrt::cuda {

struct MeasuredQuantizeArgs {
  Matrix x, y;            // [T, D]; y in e4m3, its own scale is not used
  float* amax = nullptr;  // scratch, one number
  // Scales of the weight that y is multiplied with, and where they go, times the scale of y.
  const float* weight_scales = nullptr;
  float* product_scales = nullptr;
  int64_t scale_count = 0;
};
void quantize_measured(const MeasuredQuantizeArgs& args, const Launch& launch);

}  // namespace flashrt::cuda
