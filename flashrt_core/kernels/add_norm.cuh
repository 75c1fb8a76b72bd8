// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// add_norm: residual_out = residual + gate * delta;  y = norm(residual_out), scaled and shifted.
#pragma once

#include "kernels/launch.hpp"
#include "kernels/matrix.hpp"

namespace flashrt::cuda {

// Operands as in plan/op.hpp. gate, scale, shift and their committed_ counterparts are [1, D].
struct AddNormArgs {
  bool is_layer_norm = false;  // else RMSNorm
  float eps = 0;
  Matrix residual, delta;
  Matrix gate, scale, shift;
  Matrix committed_gate, committed_scale, committed_shift;
  const int32_t* committed_rows = nullptr;
  const float* weight = nullptr;  // [D]
  const float* bias = nullptr;    // [D]
  Matrix residual_out, y;
};

// Launchers return the name of the kernel that they launched.
const char* add_norm(const AddNormArgs& args, const Launch& launch);

}  // namespace flashrt::cuda
