// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// qkv_rope: splits qkv into heads, normalises and rotates q and k, stores k and v in the cache.
#pragma once

#include "kernels/launch.hpp"
#include "kernels/matrix.hpp"

namespace flashrt::cuda {

// Rotations of positions 0 to positions - 1. Positions past the table are computed from the
// frequencies, as base/rope.hpp does.
struct RopeTableView {
  const float* table = nullptr;  // [positions, head_dim]: head_dim / 2 cosines, then the sines
  const float* inverse_frequencies = nullptr;  // [head_dim / 2]
  int positions = 0;

  explicit operator bool() const { return table != nullptr; }
};

struct QkvRopeArgs {
  Matrix qkv;     // [T, (H + 2K)*E], or [T, 2K*E] without q
  int heads = 0;  // 0: no q
  int kv_heads = 0;
  int head_dim = 0;
  RopeTableView rope;  // absent: no rotation
  int position_start = 0;
  const int32_t* position = nullptr;  // added to it, if given
  bool position_is_settled = false;   // absent, or written before a launch that is not dependent
  const float* q_norm = nullptr;      // [E]
  const float* k_norm = nullptr;
  float eps = 0;
  Matrix q, k, v;
};

const char* qkv_rope(const QkvRopeArgs& args, const Launch& launch);

}  // namespace flashrt::cuda
