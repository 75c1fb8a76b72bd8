// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// quantize_measured: y = x in e4m3, with the scale that the largest magnitude of x asks for.
//
// Layout    x, y: [T, D], any strides and types.
// Work      four launches: clear, maximum (a block per row), scales (one per thread), codes (one
//           column per thread, like kernels/quantize.cu).
// Traffic   two reads and one write.
// Numerics  the scale is that of base/fp8.hpp, the codes those of kernels/quantize.cu.
#include <cfloat>

#include "bench/measured_scales.cuh"
#include "kernels/common.cuh"

namespace flashrt::cuda {
namespace {

constexpr int kThreads = 256;

__device__ float scale_of(float amax) {
  return amax > 0 ? fmaxf(__fdiv_rn(amax, kE4M3Limit), FLT_MIN) : 1.0f;
}

// Floats that are not negative are ordered as their bits.
__global__ void __launch_bounds__(kThreads) amax_kernel(const MeasuredQuantizeArgs args) {
  __shared__ int block_max;
  wait_for_previous();
  if (threadIdx.x == 0) block_max = 0;
  float amax = 0;
  const int64_t rows = valid_rows(args.x);
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    for (int64_t column = threadIdx.x; column < args.x.width; column += kThreads)
      amax = fmaxf(amax, fabsf(load(args.x, row, column)));
  }
  amax = warp_max(amax);
  __syncthreads();  // the maximum is cleared
  if (threadIdx.x % kWarp == 0) atomicMax(&block_max, __float_as_int(amax));
  __syncthreads();  // and that of all warps
  if (threadIdx.x == 0) atomicMax(reinterpret_cast<int*>(args.amax), block_max);
}

__global__ void __launch_bounds__(kThreads) scale_kernel(const MeasuredQuantizeArgs args) {
  wait_for_previous();
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < args.scale_count)
    args.product_scales[i] = __fmul_rn(args.weight_scales[i], scale_of(*args.amax));
}

__global__ void __launch_bounds__(kThreads) codes_kernel(const MeasuredQuantizeArgs args) {
  wait_for_previous();
  Matrix y = args.y;
  y.scale = scale_of(*args.amax);
  const int64_t width = args.x.width, count = valid_rows(args.x) * width;
  const int64_t stride = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += stride)
    store(y, i / width, i % width, load(args.x, i / width, i % width));
}

}  // namespace

void quantize_measured(const MeasuredQuantizeArgs& args, const Launch& launch) {
  check(cudaMemsetAsync(args.amax, 0, sizeof(float), launch.stream), "clearing the maximum");
  launch_kernel("amax", amax_kernel, blocks_for(args.x.rows * kThreads, kThreads, launch), kThreads,
                0, launch, 1, args);
  launch_kernel("scale", scale_kernel, blocks_for(args.scale_count, kThreads, launch), kThreads, 0,
                launch, 1, args);
  launch_kernel("codes", codes_kernel, blocks_for(args.x.rows * args.x.width, kThreads, launch),
                kThreads, 0, launch, 1, args);
}

}  // namespace flashrt::cuda
