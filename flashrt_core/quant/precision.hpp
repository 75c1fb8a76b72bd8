// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// The precision pass: the type of every tensor and weight, decided by its readers.
#pragma once

#include "plan/plan.hpp"
#include "quant/recipe.hpp"

namespace flashrt {

// If all readers of a value want one type, its producer writes that type. Otherwise the value is
// held in `values` of the recipe (float32 if any reader wants that), and one quantize call is added
// per type that linears want beside it.
//   x of a linear                         the activation type of its rule, `values` without a rule
//   residual, delta, q, k, v and the like `values`
//   style rows, velocity, times           float32
// What is wanted in a number format that backends emulate is always made by a quantize call, from
// whole rows: also where it has one reader only. If all readers want such formats, the producer
// writes float32, so that values are rounded once.
// KV caches are held in `values`; other states and all inputs keep their type. Parts of a value
// have its type. Weights: those of linears as their rule says, biases and norms float32, embedding
// tables and patches in `values`.
// Error where a rule that must match does not, and where one weight or calibration site would be in
// two forms.
Plan assign_precision(Plan plan, const Recipe& recipe);

}  // namespace flashrt
