// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "runtime/free_memory.hpp"

#include "base/check.hpp"
#include "plan/memory.hpp"

namespace flashrt {

void check_free_memory(const Backend& backend, const Plan& plan, bool keep_values, size_t shared) {
  const auto workspace = [&](const Call& call) { return backend.workspace_bytes(plan, call); };
  const size_t arena = plan_memory(plan, workspace, keep_values).arena_bytes;
  const size_t weights = backend.weight_bytes(plan) - shared;
  const DeviceReport device = backend.device();
  FLASHRT_CHECK(weights + arena <= device.free_bytes, "model ", plan.model, " needs ",
                weights + arena, " bytes of memory (weights ", weights, ", values ", arena, "), ",
                device.free_bytes, " of ", device.total_bytes, " are free on ", device.name,
                "; end what else uses it, or choose a recipe with smaller weights");
}

}  // namespace flashrt
