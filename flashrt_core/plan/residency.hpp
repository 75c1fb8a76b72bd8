// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Residency: which values of a program still have their memory, as its calls run one after the
// other. A value can be read once a call has written it and until a call writes over it.
#pragma once

#include <set>
#include <string_view>
#include <vector>

#include "plan/memory.hpp"
#include "plan/plan.hpp"

namespace flashrt {

class Residency {
 public:
  Residency(const Plan& plan, const MemoryPlan& memory);

  // The call has run in this iteration of its stage. If what it wrote was not kept, only the memory
  // it lies in is gone.
  void ran(int call, int iteration, bool is_kept = true);
  void lost(int storage) { is_held_[storage] = false; }
  // The value was written from outside, in memory of its own.
  void given(Value value, int iteration);

  // The storage of a value; Error, naming `value`, unless it can be read now.
  Value held(Value value) const;
  // The last iteration in which a call touched the value.
  int iteration_of(Value value) const;
  // Storage values that live within runs of `when` alone.
  const std::vector<int>& locals_of(When when) const { return locals_[static_cast<int>(when)]; }

 private:
  const Plan& plan_;
  std::vector<std::vector<int>> written_;      // per call: storage values it writes
  std::vector<std::vector<int>> overwritten_;  // per call: storage values whose memory that is too
  std::vector<std::vector<int>> locals_;       // per When
  std::vector<char> is_held_;                  // per storage value
  std::vector<int> stage_;      // per value: the last stage that touches it, -1: none
  std::vector<int> iteration_;  // per stage: the last one that ran
  std::vector<int> stage_of_call_;
};

// Bytes of a value that is not a view.
size_t bytes_of(const ValueInfo& info);

}  // namespace flashrt
