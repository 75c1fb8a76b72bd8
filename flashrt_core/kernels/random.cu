// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// fill_random: out[i] = numbers[begin + i].
//
// Layout    out: [count] f32.
// Work      a grid-stride loop; every element is a hash of its index.
// Traffic   one write.
// Numerics  the bits of RandomNumbers on the host.
// Reference base/random.hpp
#include <algorithm>

#include "kernels/common.cuh"
#include "kernels/random.cuh"

namespace flashrt::cuda {
namespace {

__global__ void fill_random_kernel(float* out, int64_t begin, int64_t count,
                                   RandomNumbers numbers) {
  wait_for_previous();
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride)
    out[i] = numbers[begin + i];
}

}  // namespace

void fill_random(float* out, int64_t begin, int64_t count, const RandomNumbers& numbers,
                 const Launch& launch) {
  constexpr int kThreads = 256, kBlocksPerMultiprocessor = 8;
  const int64_t blocks =
      std::min<int64_t>((count + kThreads - 1) / kThreads,
                        int64_t{kBlocksPerMultiprocessor} * launch.device->multiprocessors);
  if (blocks == 0) return;
  launch_kernel("fill_random", fill_random_kernel, dim3(static_cast<unsigned>(blocks)), kThreads, 0,
                launch, 1, out, begin, count, numbers);
}

}  // namespace flashrt::cuda
