// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "checkpoint/plan_weights.hpp"

#include "checkpoint/groot_weights.hpp"
#include "checkpoint/pi_weights.hpp"

namespace flashrt {

std::vector<PlanWeight> plan_weights(const ModelConfig& config) {
  return config.type == ModelType::kGrootN16 ? groot_weights(config) : pi_weights(config);
}

bool is_unused_tensor(std::string_view canonical, const ModelConfig& config) {
  return config.type == ModelType::kGrootN16 ? is_unused_groot_tensor(canonical)
                                             : is_unused_pi_tensor(canonical, config);
}

}  // namespace flashrt
