// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// euler_step: actions += step * velocity, with optional guidance towards the previous chunk. In
// float32.

#include <algorithm>

#include "backends/cpu/kernel.hpp"

namespace flashrt::cpu {
namespace {

struct Args {
  View actions, velocity;
  float step;
  View time, guidance, previous, weights, committed_rows;
};

// velocity - guidance * weight * (previous - (actions - time * velocity)), into out.
void guide(const Args& args, int64_t row, float weight, const float* velocity, float* out) {
  const float time = *args.time.floats(0), pull = *args.guidance.floats(0) * weight;
  const float* actions = args.actions.floats(row);
  const float* previous = args.previous.floats(row);
  for (int64_t i = 0; i < args.actions.width; ++i) {
    const float x1 = actions[i] - time * velocity[i];
    out[i] = velocity[i] - pull * (previous[i] - x1);
  }
}

void euler_step(const Args& args, float* scratch) {
  const int64_t width = args.actions.width;
  const int64_t committed = args.committed_rows ? args.committed_rows.integer() : 0;
  for (int64_t row = 0; row < args.actions.rows; ++row) {
    float* actions = args.actions.floats(row);
    if (row < committed) {
      std::copy_n(args.previous.floats(row), width, actions);
      continue;
    }
    const float* velocity = load(args.velocity, row, 0, width, scratch);
    // A weight of zero takes the unguided path: its row has those bits, whatever `previous` holds.
    if (const float weight = args.weights ? *args.weights.floats(row) : 0.0f; weight != 0.0f) {
      guide(args, row, weight, velocity, scratch);
      velocity = scratch;
    }
    for (int64_t i = 0; i < width; ++i) actions[i] += args.step * velocity[i];
  }
}

}  // namespace

size_t workspace_bytes(const EulerStep& op, const Plan& plan, int) {
  Carver carver;
  carver.floats(plan[op.actions].shape.width());
  return carver.bytes();
}

Kernel bind(const EulerStep& op, const Binding& b) {
  const Operand actions = b.operand(op.actions), velocity = b.operand(op.velocity),
                time = b.operand(op.time), guidance = b.operand(op.guidance),
                previous = b.operand(op.previous), weights = b.operand(op.weights),
                committed_rows = b.operand(op.committed_rows);
  for (const Operand* operand : {&actions, &time, &guidance, &previous, &weights}) {
    FLASHRT_CHECK(!*operand || operand->type == DType::kF32, "euler_step ", b.call.name, ": ",
                  operand->name, " is ", operand->type, ", expected f32");
  }
  float* scratch = Carver(b.workspace).floats(0);
  const float step = op.step;
  return [=](int k) {
    euler_step({actions.at(k), velocity.at(k), step, time.at(k), guidance.at(k), previous.at(k),
                weights.at(k), committed_rows.at(k)},
               scratch);
  };
}

}  // namespace flashrt::cpu
