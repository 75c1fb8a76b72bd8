// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// A plan as text: one line per call. Saved texts are compared in tests, so the form is stable.
#pragma once

#include <string>

#include "plan/plan.hpp"

namespace flashrt {

std::string print(const Plan& plan);

}  // namespace flashrt
