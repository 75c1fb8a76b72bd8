// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// The precision pass: the type of every tensor and weight, decided by its readers.
#pragma once

#include "plan/plan.hpp"
#include "quant/recipe.hpp"

namespace flashrt {

// If all readers of a value are linears that want one type, its producer writes that type; otherwise one quantize call
// per wanted type is added. Inputs keep their type; states and the values the flow matching integrates
// (actions, velocity, times) stay float32.
Plan assign_precision(Plan plan, const Recipe& recipe);

}  // namespace flashrt
