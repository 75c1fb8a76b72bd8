// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// quantize: y = x in another type. quantize_weight: the codes and scales of a weight, made once.
//
// Layout    x, y: [T, D], any strides and types. Weights: x [rows, width] packed, y with a stride.
// Work      one column per thread. A weight takes one pass for the largest magnitudes, if it has
//           scales, and one for the codes, four columns per thread where the width allows.
// Traffic   one read and one write; one more read for the magnitudes.
// Numerics  x / scale is the division of IEEE 754, rounded once to the code: the CPU's codes, bit
//           for bit. A maximum has no order, so the scales are the CPU's as well.
// Reference backends/cpu/quantize.cpp, backends/cpu/cpu_weights.cpp
#include <algorithm>
#include <cfloat>

#include "kernels/common.cuh"
#include "kernels/quantize.cuh"

namespace flashrt::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;

__global__ void __launch_bounds__(kThreads)
    quantize_kernel(const __grid_constant__ QuantizeArgs args) {
  wait_for_previous();
  const int64_t width = args.x.width, count = valid_rows(args.x) * width;
  const int64_t stride = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += stride)
    store(args.y, i / width, i % width, load(args.x, i / width, i % width));
}

// ---- weights

// base/fp8.hpp: zeros stay zeros under any scale, and no scale is subnormal.
__device__ float scale_of(float amax) {
  return amax > 0 ? fmaxf(__fdiv_rn(amax, kE4M3Limit), FLT_MIN) : 1.0f;
}

// In the threads of the first warp. NaN does not count, as on the CPU.
__device__ float block_max(float x) {
  __shared__ float maxima[kWarps];
  __syncthreads();  // the reads of the row before come before the writes of this one
  x = warp_max(x);
  if (threadIdx.x % kWarp == 0) maxima[threadIdx.x / kWarp] = x;
  __syncthreads();  // orders the writes of all warps before the reads of the first one
  return warp_max(threadIdx.x < kWarps ? maxima[threadIdx.x] : 0.0f);
}

struct WeightArgs {
  const float* x;
  void* y;
  int64_t rows, width, stride;
  float* scales;
  bool is_per_row;  // else one scale of all rows
};

// Scales of rows; or the largest magnitude of all, which starts as zero.
template <int N>
__global__ void __launch_bounds__(kThreads) weight_amax_kernel(const WeightArgs args) {
  wait_for_previous();
  float amax = 0;
  for (int64_t row = blockIdx.x; row < args.rows; row += gridDim.x) {
    const float* x = args.x + row * args.width;
    for (int64_t i = int64_t{threadIdx.x} * N; i < args.width; i += kThreads * N) {
      float values[N];
      load_floats(x + i, values);
#pragma unroll
      for (const float v : values) amax = fmaxf(amax, fabsf(v));
    }
    if (args.is_per_row) {
      amax = block_max(amax);
      if (threadIdx.x == 0) args.scales[row] = scale_of(amax);
      amax = 0;
    }
  }
  if (args.is_per_row) return;
  amax = block_max(amax);
  // Floats that are not negative are ordered as their bits.
  if (threadIdx.x == 0) atomicMax(reinterpret_cast<int*>(args.scales), __float_as_int(amax));
}

__global__ void amax_to_scale_kernel(float* scale) {
  wait_for_previous();
  *scale = scale_of(*scale);
}

template <class Y, int N>
__global__ void __launch_bounds__(kThreads) round_weight_kernel(const WeightArgs args) {
  wait_for_previous();
  const int64_t column = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * N;
  if (column >= args.stride) return;
  for (int64_t row = blockIdx.y; row < args.rows; row += gridDim.y) {
    float values[N] = {};
    if (column < args.width) load_floats(args.x + row * args.width + column, values);
    Vector<Y, N> codes;
    if constexpr (std::is_same_v<Y, e4m3>) {
      const float scale = args.scales[args.is_per_row ? row : 0];
#pragma unroll
      for (int i = 0; i < N; ++i) codes.at[i] = from_float<Y>(__fdiv_rn(values[i], scale));
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i) codes.at[i] = from_float<Y>(values[i]);
    }
    store_vector(static_cast<Y*>(args.y) + row * args.stride + column, codes);
  }
}

template <class Y, int N>
void launch_weight(const QuantizeWeightArgs& a, const Launch& launch) {
  const WeightArgs args{.x = a.x,
                        .y = a.y,
                        .rows = a.rows,
                        .width = a.width,
                        .stride = a.stride,
                        .scales = a.scales,
                        .is_per_row = a.scale_count > 1};
  if constexpr (std::is_same_v<Y, e4m3>) {
    if (!args.is_per_row)
      check(cudaMemsetAsync(a.scales, 0, sizeof(float), launch.stream), "quantize_weight");
    const dim3 blocks = blocks_for(a.rows * kThreads, kThreads, launch);
    launch_kernel("weight_amax", weight_amax_kernel<N>, blocks, kThreads, 0, launch, 1, args);
    if (!args.is_per_row)
      launch_kernel("amax_to_scale", amax_to_scale_kernel, 1, 1, 0, launch, 1, a.scales);
  }
  constexpr int64_t kMaxRows = 65535, kPerBlock = kThreads * N;
  const dim3 grid(static_cast<unsigned>((a.stride + kPerBlock - 1) / kPerBlock),
                  static_cast<unsigned>(std::min(a.rows, kMaxRows)));
  launch_kernel("round_weight", round_weight_kernel<Y, N>, grid, kThreads, 0, launch, 1, args);
}

template <class Y>
void launch_weight(const QuantizeWeightArgs& a, const Launch& launch) {
  constexpr int kColumns = 4;
  const bool has_vectors =
      is_aligned(a.x, DType::kF32, a.width, a.width, kColumns * sizeof(float)) &&
      is_aligned(a.y, a.type, a.stride, a.stride, kColumns * sizeof(Y));
  return has_vectors ? launch_weight<Y, kColumns>(a, launch) : launch_weight<Y, 1>(a, launch);
}

}  // namespace

const char* quantize(const QuantizeArgs& args, const Launch& launch) {
  constexpr const char* kName = "quantize";
  check_operand(kName, "x", args.x, args.x.rows, args.x.width);
  check_operand(kName, "y", args.y, args.x.rows, args.x.width);
  launch_kernel(kName, quantize_kernel, blocks_for(args.x.rows * args.x.width, kThreads, launch),
                kThreads, 0, launch, 1, args);
  return kName;
}

void quantize_weight(const QuantizeWeightArgs& args, const Launch& launch) {
  FLASHRT_CHECK(args.x && args.y && args.rows > 0 && args.width > 0 && args.stride >= args.width,
                "quantize_weight: [", args.rows, ", ", args.width, "] into rows of ", args.stride,
                ", expected a weight that is not empty and a stride of at least its width");
  const bool has_scales = args.type == DType::kE4M3;
  FLASHRT_CHECK(has_scales ? args.scales && (args.scale_count == 1 || args.scale_count == args.rows)
                           : args.scale_count == 0,
                "quantize_weight: ", args.scale_count, " scales of a weight of ", args.rows,
                " rows in ", args.type, ", expected 1 or one per row for e4m3 and none otherwise");
  switch (args.type) {
    case DType::kF32:
      return launch_weight<float>(args, launch);
    case DType::kBF16:
      return launch_weight<bf16>(args, launch);
    case DType::kF16:
      return launch_weight<f16>(args, launch);
    case DType::kE4M3:
      return launch_weight<e4m3>(args, launch);
    case DType::kI32:
    case DType::kU8:
      throw Error(text("quantize_weight: type ", args.type, ", expected f32, bf16, f16 or e4m3"));
  }
}

}  // namespace flashrt::cuda
