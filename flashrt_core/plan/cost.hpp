// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// What a call costs at least: arithmetic and bytes that follow from the plan alone, whatever runs
// it.
#pragma once

#include <string_view>

#include "plan/plan.hpp"

namespace flashrt {

// Bytes are those of the types and number formats: where a backend emulates a format, it moves
// more.
struct Cost {
  double flops = 0;             // of matrix products: two per multiplication and addition
  DType product = DType::kF32;  // the widest type among their factors: the rate that applies
  double weight_bytes = 0;      // every weight read once, with its scales
  double read_bytes = 0;        // every operand read once: valid rows, and the keys that are seen
  double written_bytes = 0;

  double bytes() const { return weight_bytes + read_bytes + written_bytes; }
};

// Of one iteration of the call. `length` is what the length inputs of the plan hold.
Cost cost_of(const Plan& plan, const Call& call, int64_t length);

// Of all weights of the plan with their scales.
double weight_bytes(const Plan& plan);

}  // namespace flashrt
