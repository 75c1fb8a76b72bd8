// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// The angle of a rotary position, for the kernels that rotate.
#pragma once

#include "kernels/common.cuh"
#include "kernels/qkv_rope.cuh"

namespace flashrt::cuda {

// A position past the table, as base/rope.hpp computes it. Rare, and kept out of line: its double
// arithmetic would cost the kernels registers.
__device__ __noinline__ inline float2 computed_rotation(float inverse_frequency, int position) {
  const double angle = __fmul_rn(static_cast<float>(position), inverse_frequency);
  return {static_cast<float>(cos(angle)), static_cast<float>(sin(angle))};
}

// {cosine, sine} of column j < head_dim / 2 at a position of the table.
__device__ __forceinline__ float2 tabulated_rotation(const RopeTableView& rope, int head_dim,
                                                     int position, int j) {
  const float* row = rope.table + static_cast<int64_t>(position) * head_dim;
  return {row[j], row[j + head_dim / 2]};
}
// The same at any position.
__device__ __forceinline__ float2 rotation_of(const RopeTableView& rope, int head_dim, int position,
                                              int j) {
  return 0 <= position && position < rope.positions
             ? tabulated_rotation(rope, head_dim, position, j)
             : computed_rotation(rope.inverse_frequencies[j], position);
}

}  // namespace flashrt::cuda
