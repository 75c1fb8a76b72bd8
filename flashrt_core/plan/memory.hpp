// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// The memory pass: where each value lives in one arena.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "plan/plan.hpp"

namespace flashrt {

struct MemoryPlan {
  std::vector<size_t> offset;  // bytes, per value; views have none of their own
  size_t workspace_offset = 0;
  size_t workspace_bytes = 0;
  size_t arena_bytes = 0;      // everything, workspace included
  size_t unplanned_bytes = 0;  // what it would be if no memory were reused
};

// First and last call that touch each storage value; a value that outlives runs spans them all.
struct LiveRange {
  int first = 0, last = 0;
};
// joined[i]: calls i and i + 1 run as one, so what the first reads outlives what the second writes.
std::vector<LiveRange> live_ranges(const Plan& plan, const std::vector<bool>& joined = {});

// Values whose live ranges do not meet share memory. keep_values: none do.
MemoryPlan plan_memory(const Plan& plan, const std::function<size_t(const Call&)>& workspace_bytes,
                       bool keep_values, const std::vector<bool>& joined = {});

}  // namespace flashrt
