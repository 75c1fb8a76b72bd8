// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// What enters a model: patches of images, rows of the token table, features of the time.
#pragma once

#include "kernels/launch.hpp"
#include "kernels/matrix.hpp"

namespace flashrt::cuda {

// y[n*T + t] = the pixels of patch t of image n as (channel, dy, dx); bytes become u8 / 255 * 2
// - 1. Columns of y past 3 * patch * patch become zero. Patches run over squares of group x group
// as in plan/op.hpp. The linear that follows is patch_embed's product.
struct PatchesArgs {
  const void* images = nullptr;  // [count, height, width, 3] RGB
  DType type = DType::kU8;       // kU8 or kF32
  int count = 0, height = 0, width = 0, patch = 0, group = 1;
  Matrix y;  // [count * (height / patch) * (width / patch), at least 3 * patch * patch]
};
const char* patches(const PatchesArgs& args, const Launch& launch);

// y[i] = table[tokens[i]]; a token outside the table gives zeros and is refused by the engine
// before.
struct TokenEmbedArgs {
  const int32_t* tokens = nullptr;
  WeightView table;  // [vocabulary, D]
  Matrix y;          // [T, D]
};
const char* token_embed(const TokenEmbedArgs& args, const Launch& launch);

// y[s] = concat(sin(u), cos(u)) as in plan/op.hpp, evaluated in double.
struct TimeEmbedArgs {
  const float* times = nullptr;
  double min_period = 0, max_period = 0;
  Matrix y;  // [S, D]
};
const char* time_embed(const TimeEmbedArgs& args, const Launch& launch);

}  // namespace flashrt::cuda
