// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Small configurations with the structure of the real models.
#pragma once

#include "checkpoint/model_config.hpp"

namespace flashrt {

inline ModelConfig tiny_pi05() {
  return {
      .type = ModelType::kPi05,
      .vision =
          {.image_size = 28, .patch = 14, .width = 12, .layers = 2, .heads = 2, .mlp_width = 20},
      .language =
          {.width = 16, .layers = 2, .mlp_width = 24, .heads = 4, .kv_heads = 1, .head_dim = 8},
      .expert =
          {.width = 8, .layers = 2, .mlp_width = 12, .heads = 4, .kv_heads = 1, .head_dim = 8},
      .vocab_size = 32,
      .action_dim = 5,
      .horizon = 3,
      .min_period = 0.004,
      .max_period = 4.0};
}

inline ModelConfig tiny_pi0() {
  ModelConfig config = tiny_pi05();
  config.type = ModelType::kPi0;
  config.state_dim = 5;
  return config;
}

inline ModelConfig tiny_groot() {
  return {.type = ModelType::kGrootN16,
          .vision = {.image_size = 28,
                     .patch = 7,
                     .width = 12,
                     .layers = 2,
                     .heads = 2,
                     .mlp_width = 20,
                     .position_grid = 2},
          .language = {.width = 16,
                       .layers = 2,
                       .mlp_width = 24,
                       .heads = 4,
                       .kv_heads = 2,
                       .head_dim = 8,
                       .rope_base = 1e6},
          .dit = {.layers = 4,
                  .heads = 2,
                  .head_dim = 4,
                  .mlp_width = 32,
                  .output = 6,
                  .hidden = 10,
                  .positions = 5,
                  .embodiments = 3,
                  .buckets = 1000},
          .image_token = 30,
          .vocab_size = 32,
          .action_dim = 5,
          .state_dim = 6,
          .horizon = 3,
          .steps = 4};
}

}  // namespace flashrt
