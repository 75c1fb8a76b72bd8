// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// The table of Pi0 and Pi0.5: which tensors of a checkpoint make each weight of the plan, and how.
#pragma once

#include <string_view>
#include <vector>

#include "checkpoint/plan_weights.hpp"

namespace flashrt {

std::vector<PlanWeight> pi_weights(const ModelConfig& config);

bool is_unused_pi_tensor(std::string_view canonical, const ModelConfig& config);

}  // namespace flashrt
