// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// The Euler sampler of the Pi models, with guidance towards the previous chunk (real-time chunking,
// Black et al. 2025, arXiv 2506.07339, with the identity for the Jacobian of the network).
#include "models/models.hpp"

namespace flashrt {

GuidanceInputs guidance_inputs(PlanBuilder& b, const ModelConfig& c, const PlanOptions& o) {
  if (!o.guided) return {};
  return {.committed_rows = b.input("committed_rows", {1}, DType::kI32),
          .previous = b.input("previous_actions", {o.horizon, c.action_dim}, DType::kF32),
          .weights = b.input("previous_weights", {o.horizon}, DType::kF32),
          .guidance = b.input("guidance", {o.steps}, DType::kF32)};
}

void euler_step(PlanBuilder& b, const PlanOptions& o, Value actions, Value velocity, Value times,
                const GuidanceInputs& g) {
  EulerStep step{
      .actions = actions, .velocity = velocity, .step = static_cast<float>(-1.0 / o.steps)};
  if (o.guided) {
    step.time = b.at_step(times);
    step.guidance = b.at_step(g.guidance);
    step.previous = g.previous;
    step.weights = g.weights;
    step.committed_rows = g.committed_rows;
  }
  b.euler_step("euler_step", step);
}

}  // namespace flashrt
