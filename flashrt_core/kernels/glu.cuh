// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// glu: y = activation(gate_up[:, :F]) * gate_up[:, F:].
#pragma once

#include "base/math.hpp"
#include "kernels/launch.hpp"
#include "kernels/matrix.hpp"

namespace flashrt::cuda {

struct GluArgs {
  Activation activation = Activation::kGeluTanh;
  Matrix gate_up;  // [T, 2F]
  Matrix y;        // [T, F]
};

const char* glu(const GluArgs& args, const Launch& launch);

}  // namespace flashrt::cuda
