// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// linear: y = activation(x W^T + bias + shift) + residual, and what a kernel may do with y before
// it leaves the registers. Five families of kernels of our own compute it; each says what it
// takes, and whoever launches chooses among those that do.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/math.hpp"
#include "kernels/glu.cuh"
#include "kernels/launch.hpp"
#include "kernels/matrix.hpp"
#include "kernels/qkv_rope.cuh"
#include "kernels/solver.cuh"

namespace flashrt::cuda {

// A following operation that the kernel does itself, on y rounded to y.type: the result has the
// bits of the two operations one after the other. At most one is set.
struct LinearArgs {
  Matrix x;                     // [T, D]
  WeightView weight;            // [width, D]
  const float* bias = nullptr;  // [width]
  Matrix shift;                 // [1, width]
  Activation activation = Activation::kNone;
  Matrix residual;  // [T, width]
  Matrix y;  // [T, width]; with `glu` or `rope` its data is null: y is not kept, only its type and
             // scale count

  std::optional<GluArgs> glu;       // glu.gate_up is y
  std::optional<QkvRopeArgs> rope;  // rope.qkv is y
  std::optional<EulerArgs> euler;   // euler.velocity is y, which is kept; unguided only

  // The weight of the next linear that runs on the stream, if that is known. No result depends on
  // it: a kernel that leaves memory idle may bring it into the second-level cache. It must stay
  // allocated as long as this call may run, and with it every graph that holds the call.
  WeightView next_weight;
};

// ---- Any shape, any types; slow. The only family that is never refused (without glu and rope).
bool linear_generic_accepts(const LinearArgs& args);
const char* linear_generic(const LinearArgs& args, const Launch& launch);

// ---- Few rows: reads the weights once, at the speed of memory. A configuration is an index into
// this list.
std::span<const char* const> linear_skinny_configurations();
bool linear_skinny_accepts(const LinearArgs& args, int configuration, const DeviceInfo& device);
const char* linear_skinny(const LinearArgs& args, int configuration, const Launch& launch);

// ---- Few rows in float32.
std::span<const char* const> linear_f32_configurations();
bool linear_f32_accepts(const LinearArgs& args, int configuration, const DeviceInfo& device);
const char* linear_f32(const LinearArgs& args, int configuration, const Launch& launch);

// ---- Few rows on sm_90: warp-group matrix instructions in blocks so small that several kernels
// share a multiprocessor.
std::span<const char* const> linear_stream_configurations();
bool linear_stream_accepts(const LinearArgs& args, int configuration, const DeviceInfo& device);
const char* linear_stream(const LinearArgs& args, int configuration, const Launch& launch);

// ---- Many rows on sm_90: warp-group matrix instructions on tiles that the copy engine brings.
std::span<const char* const> linear_wgmma_configurations();
bool linear_wgmma_accepts(const LinearArgs& args, int configuration, const DeviceInfo& device);
const char* linear_wgmma(const LinearArgs& args, int configuration, const Launch& launch);

// ---- The rest of a linear whose product a library computed: scales, bias, shift, activation,
// residual and conversion of product [T, width] f32.
const char* linear_finish(const LinearArgs& args, const Matrix& product, const Launch& launch);

}  // namespace flashrt::cuda
