// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// The scales of a plan's e4m3 values, looked up in a calibration once and checked.
#pragma once

#include <vector>

#include "plan/plan.hpp"
#include "quant/calibration.hpp"

namespace flashrt {

// Per storage value: one scale, or one per iteration of the stages that touch it; empty unless
// e4m3. Error if a site is unknown, a scale is not a positive number, or their number fits no
// stage.
std::vector<std::vector<float>> resolve_scales(const Plan& plan, const Calibration& calibration);

}  // namespace flashrt
