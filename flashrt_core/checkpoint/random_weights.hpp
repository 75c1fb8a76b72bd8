// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Weights without a checkpoint: random numbers under the names of the plan, to measure full-size
// models. Deviations are such that activations stay of order 1 to 10 through all layers.
#pragma once

#include <string_view>
#include <vector>

#include "base/random.hpp"
#include "base/tensor.hpp"
#include "checkpoint/model_config.hpp"

namespace flashrt {

// Some rows of a tensor: element i of them, counted from their first, is numbers[i].
struct RandomRows {
  int64_t rows = 0;
  RandomNumbers numbers;
};

// A tensor as a description: a device makes it without the host. Parts are stacked row on row.
struct RandomTensor {
  std::string name;
  Shape shape;
  std::vector<RandomRows> parts;
};

// Every plan weight of this configuration.
//
// Trained vision and language models have a few channels and a token that are far larger than the
// rest. outliers multiplies so: what linears add to three channels of the residual streams of both,
// and the embedding of one token. All other numbers stay.
std::vector<RandomTensor> random_tensors(const ModelConfig& config, uint64_t seed,
                                         double outliers = 1);

// Begins every prompt of the models (<bos>); the token that outliers enlarge.
inline constexpr int32_t kOutlierToken = 2;

}  // namespace flashrt
