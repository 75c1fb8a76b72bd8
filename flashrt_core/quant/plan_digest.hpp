// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// What two plans must have in common to share scales or packed weights.
#pragma once

#include <string>

#include "plan/plan.hpp"

namespace flashrt {

// Over the model and its layers: every linear, norm, attention, rotation and gated unit with its
// name, attributes and weights. Not over what leaves a value where it was: types, quantised copies,
// cameras, lengths, steps, guidance, and how pictures come in. 16 hexadecimal digits.
std::string plan_digest(const Plan& plan);

}  // namespace flashrt
