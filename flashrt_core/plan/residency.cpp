// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "plan/residency.hpp"

namespace flashrt {

size_t bytes_of(const ValueInfo& info) { return info.shape.elements() * size_of(info.type); }

Residency::Residency(const Plan& plan, const MemoryPlan& memory)
    : plan_(plan),
      written_(plan.calls.size()),
      overwritten_(plan.calls.size()),
      locals_(3),
      is_held_(plan.values.size(), false),
      stage_(plan.values.size(), -1),
      iteration_(plan.stages.size(), 0),
      stage_of_call_(plan.calls.size(), 0) {
  std::vector<std::set<When>> whens(plan.values.size());
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    for (int index = stage.first; index < stage.last; ++index) {
      stage_of_call_[index] = static_cast<int>(s);
      const auto touch = [&](Value value) {
        stage_[value.id] = static_cast<int>(s);
        whens[plan.storage_of(value).id].insert(stage.when);
      };
      for_each_read(plan.calls[index], touch);
      for_each_write(plan.calls[index], touch);
    }
  }
  for (size_t id = 0; id < plan.values.size(); ++id) {
    const ValueInfo& info = plan.values[id];
    is_held_[id] = info.kind == Kind::kInput || info.kind == Kind::kState;
    if (info.kind == Kind::kLocal && whens[id].size() == 1)
      locals_[static_cast<int>(*whens[id].begin())].push_back(static_cast<int>(id));
  }
  for (size_t index = 0; index < plan.calls.size(); ++index) {
    for_each_write(plan.calls[index], [&](Value value) {
      const int storage = plan.storage_of(value).id;
      const size_t begin = memory.offset[storage], end = begin + bytes_of(plan.values[storage]);
      written_[index].push_back(storage);
      for (size_t id = 0; id < plan.values.size(); ++id) {
        if (plan.values[id].kind == Kind::kView || static_cast<int>(id) == storage) continue;
        const size_t other = memory.offset[id];
        if (other < end && begin < other + bytes_of(plan.values[id]))
          overwritten_[index].push_back(static_cast<int>(id));
      }
    });
  }
}

void Residency::ran(int call, int iteration, bool is_kept) {
  iteration_[stage_of_call_[call]] = iteration;
  for (const int id : overwritten_[call]) is_held_[id] = false;
  for (const int id : written_[call]) is_held_[id] = is_kept;
}

void Residency::given(Value value, int iteration) {
  is_held_[plan_.storage_of(value).id] = true;
  if (stage_[value.id] >= 0) iteration_[stage_[value.id]] = iteration;
}

Value Residency::held(Value value) const {
  const Value storage = plan_.storage_of(value);
  FLASHRT_CHECK(is_held_[storage.id], "read ", plan_[value].name,
                ": it was not computed yet, or its memory was used again; compile with keep_values "
                "to keep it");
  return storage;
}

int Residency::iteration_of(Value value) const {
  return stage_[value.id] < 0 ? 0 : iteration_[stage_[value.id]];
}

}  // namespace flashrt
