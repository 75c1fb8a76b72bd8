// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// attention: y = softmax(q k^T * scale + mask) v, query head h on kv head h / (H / K).
#pragma once

#include <cstdint>

#include "kernels/launch.hpp"
#include "kernels/matrix.hpp"

namespace flashrt::cuda {

// Keys [begin, begin + count + *length); length is on the device and optional.
struct AttentionRange {
  int begin = 0;
  int count = 0;
  const int32_t* length = nullptr;
};

struct AttentionArgs {
  static constexpr int kMaxRanges = 16;

  Matrix q;     // [T, H*E]
  Matrix k, v;  // [S, K*E]
  Matrix y;     // [T, H*E]
  int heads = 0, kv_heads = 0, head_dim = 0;
  float scale = 0;
  bool is_causal = false;  // of the first range, query i sees keys with index <= i + causal_offset
  int causal_offset = 0;
  int block = 0;  // > 0: query i sees the keys of its own block of so many rows
  AttentionRange ranges[kMaxRanges] = {};  // ascending
  int range_count = 0;
  // Settled is what was written before a launch that is not dependent, so that a kernel may read it
  // before wait_for_previous(): the lengths of the ranges and of q; and if those, rows of k and v
  // from this one on (negative: none).
  bool lengths_are_settled = false;
  int settled_begin = -1;
};

const char* attention(const AttentionArgs& args, const Launch& launch);

}  // namespace flashrt::cuda
