// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// What every program refuses, whatever it runs on: each throws an Error that names the call or the
// value and what was expected.
#pragma once

#include <cstddef>
#include <string_view>

#include "plan/plan.hpp"

namespace flashrt {

// A write of so many bytes into an input or a state: all of it, or whole rows where the length
// moves.
void check_write(const Plan& plan, Value value, size_t bytes);
// A call that runs alone.
void check_run_call(const Plan& plan, int call, int iteration, bool keeps_values);
// The last call of an inference that stops early.
void check_run_until(const Plan& plan, int call, int iteration);

// A number format that is emulated, for whatever does not emulate it: names the recipe, the linear
// and the format. `why` ends the text: what cannot have it, and what to do.
void check_not_emulated(const Plan& plan, std::string_view why);

}  // namespace flashrt
