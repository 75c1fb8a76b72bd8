// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// The table of GR00T N1.6: which tensors of a checkpoint make each weight of the plan, and how.
#pragma once

#include <string_view>
#include <vector>

#include "checkpoint/plan_weights.hpp"

namespace flashrt {

// Small networks are those of config.embodiment.slot, or, where none is chosen, of the first: names
// and shapes are the same.
std::vector<PlanWeight> groot_weights(const ModelConfig& config);

bool is_unused_groot_tensor(std::string_view name);

// Speaks for the family, and holds [slots, in, out] numbers that training moves.
inline constexpr std::string_view kGrootActionEncoder = "action_head.action_encoder.W1.W";
// Deviation of these numbers in a slot that was never trained.
inline constexpr double kUntrainedDeviation = 0.02, kUntrainedMargin = 5e-4;

}  // namespace flashrt
