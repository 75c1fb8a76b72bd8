// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// euler_step: actions += step * velocity, with optional guidance towards the previous chunk.
#pragma once

#include "kernels/launch.hpp"
#include "kernels/matrix.hpp"

namespace flashrt::cuda {

// Operands as in plan/op.hpp; those of the guidance come together or not at all.
struct EulerArgs {
  Matrix actions;   // [N, A] f32, read and written
  Matrix velocity;  // [N, A]
  float step = 0;
  const float* time = nullptr;      // of this step
  const float* guidance = nullptr;  // of this step
  Matrix previous;                  // [N, A] f32
  const float* weights = nullptr;   // [N]
  const int32_t* committed_rows = nullptr;
};

const char* euler_step(const EulerArgs& args, const Launch& launch);

}  // namespace flashrt::cuda
