// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Comparing two engines call by call: each call of the second one works on what the first one
// computed, so that a difference belongs to the call that shows it and to none before.
#pragma once

#include <string>
#include <vector>

#include "runtime/engine.hpp"

namespace flashrt {

// One result of one call on both engines. Errors are relative to the root mean square of the first
// engine's values.
struct CallDifference {
  std::string call, operation, value;
  int iteration = 0;                    // of the call's stage
  std::string first_type, second_type;  // "f32", "int8", ...
  double rms = 0;                       // of the error
  double worst = 0;                     // largest error of one element
  int64_t worst_at = 0;                 // its index among the valid rows
  int64_t not_finite = 0;               // elements that are infinite or NaN in either
  double bound = 0;                     // of rms
  std::string reason;                   // where the bound comes from

  bool passed() const { return not_finite == 0 && rms <= bound; }
};

// In the order of the second engine's calls. Stops after the first result beyond its bound, unless
// all are asked for. Both engines are compiled with keep_values and for the same sizes; what only
// one of them computes (quantised copies) is not compared, but is part of the calls that read it.
std::vector<CallDifference> compare(Engine& first, Engine& second, const ModelInput& input,
                                    bool all);

}  // namespace flashrt
