// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "plan/memory.hpp"

#include <algorithm>
#include <optional>

namespace flashrt {
namespace {

constexpr size_t kAlignment = 256;

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

bool meet(const LiveRange& a, const LiveRange& b) { return a.first <= b.last && b.first <= a.last; }

size_t aligned_bytes(const ValueInfo& info) {
  return aligned(info.shape.elements() * size_of(info.type));
}

}  // namespace

std::vector<LiveRange> live_ranges(const Plan& plan, const std::vector<bool>& joined) {
  const auto runs_with_next = [&](int call) {
    return call >= 0 && call < static_cast<int>(joined.size()) && joined[call];
  };
  const int calls = static_cast<int>(plan.calls.size());
  const LiveRange whole{0, calls};
  std::vector<std::optional<LiveRange>> ranges(plan.values.size());
  std::vector<std::vector<const Stage*>> writers(plan.values.size());

  const auto extend = [&](Value storage, int first, int last) {
    auto& range = ranges[storage.id];
    range = range ? LiveRange{std::min(range->first, first), std::max(range->last, last)}
                  : LiveRange{first, last};
  };

  for (const Stage& stage : plan.stages) {
    for (int index = stage.first; index < stage.last; ++index) {
      for_each_write(plan.calls[index], [&](Value value) {
        const Value storage = plan.storage_of(value);
        writers[storage.id].push_back(&stage);
        extend(storage, runs_with_next(index - 1) ? index - 1 : index, index);
      });
    }
  }
  for (const Stage& stage : plan.stages) {
    for (int index = stage.first; index < stage.last; ++index) {
      for_each_read(plan.calls[index], [&](Value value) {
        const Value storage = plan.storage_of(value);
        extend(storage, index, runs_with_next(index) ? index + 1 : index);
        for (const Stage* writer : writers[storage.id]) {
          if (writer->when != stage.when) {
            extend(storage, whole.first,
                   whole.last);  // a later run reads it again: it must survive this one
          } else if (stage.repeat > 1 && writer != &stage) {
            extend(storage, index, stage.last - 1);  // the next iteration reads it again
          }
        }
      });
    }
  }

  std::vector<LiveRange> result(plan.values.size(), whole);
  for (size_t id = 0; id < plan.values.size(); ++id) {
    if (plan.values[id].kind == Kind::kLocal && ranges[id]) result[id] = *ranges[id];
  }
  return result;
}

MemoryPlan plan_memory(const Plan& plan, const std::function<size_t(const Call&)>& workspace_bytes,
                       bool keep_values, const std::vector<bool>& joined) {
  const std::vector<LiveRange> ranges = live_ranges(plan, joined);
  MemoryPlan memory;
  memory.offset.assign(plan.values.size(), 0);

  std::vector<int> order;
  for (size_t id = 0; id < plan.values.size(); ++id) {
    if (plan.values[id].kind == Kind::kView) continue;
    order.push_back(static_cast<int>(id));
    memory.unplanned_bytes += aligned_bytes(plan.values[id]);
  }
  // Large values first: small ones fit into the gaps. Ties keep the order of the plan, so the
  // result is repeatable.
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return aligned_bytes(plan.values[a]) > aligned_bytes(plan.values[b]);
  });

  std::vector<int> placed;  // ascending by offset
  for (const int id : order) {
    const size_t bytes = aligned_bytes(plan.values[id]);
    size_t offset = 0;
    for (const int other : placed) {
      if (!keep_values && !meet(ranges[id], ranges[other])) continue;
      if (offset + bytes <= memory.offset[other]) break;
      offset = std::max(offset, memory.offset[other] + aligned_bytes(plan.values[other]));
    }
    memory.offset[id] = offset;
    const auto position =
        std::upper_bound(placed.begin(), placed.end(), offset,
                         [&](size_t value, int other) { return value < memory.offset[other]; });
    placed.insert(position, id);
    memory.workspace_offset = std::max(memory.workspace_offset, offset + bytes);
  }

  for (const Call& call : plan.calls) {
    memory.workspace_bytes = std::max(memory.workspace_bytes, aligned(workspace_bytes(call)));
  }
  memory.arena_bytes = memory.workspace_offset + memory.workspace_bytes;
  memory.unplanned_bytes += memory.workspace_bytes;
  return memory;
}

}  // namespace flashrt
