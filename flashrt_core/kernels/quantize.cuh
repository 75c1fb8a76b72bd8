// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// quantize: y = x in another type. quantize_weight: the codes and scales of a weight, made once.
#pragma once

#include "kernels/launch.hpp"
#include "kernels/matrix.hpp"

namespace flashrt::cuda {

struct QuantizeArgs {
  Matrix x, y;  // [T, D]
};
const char* quantize(const QuantizeArgs& args, const Launch& launch);

// Rounds a float32 weight [rows, width] into y, which has room for it; the codes and scales are
// those of the CPU backend, bit for bit. y.stride may exceed the width: the rest becomes zero.
struct QuantizeWeightArgs {
  const float* x = nullptr;  // [rows, width], packed
  void* y = nullptr;
  DType type = DType::kF32;  // f32, bf16, f16 or e4m3
  int64_t rows = 0, width = 0, stride = 0;
  float* scales = nullptr;  // e4m3: written, scale_count values
  int64_t scale_count = 0;  // 0, 1 or rows
};
void quantize_weight(const QuantizeWeightArgs& args, const Launch& launch);

}  // namespace flashrt::cuda
