// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Copies that run beside the computation: into shared memory, and into the second-level cache.
#pragma once

#include "kernels/cluster.cuh"
#include "kernels/prefetch.hpp"

namespace flashrt::cuda {

// 16 bytes; zeros if the source is not valid: it is not read, and need not be an address.
__device__ __forceinline__ void copy_async(void* to, const void* from, bool is_valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(is_valid ? 16 : 0)
               : "memory");
}
__device__ __forceinline__ void end_copy_group() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Until at most so many of this thread's newest groups are under way.
template <int kGroups>
__device__ __forceinline__ void wait_copy_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
}

// One thread of every block asks for the block's share. Weights only: it may come before
// wait_for_previous(). Nothing waits for it, and below compute capability 9.0 nothing happens.
__device__ __forceinline__ void prefetch_share(const Prefetch& prefetch) {
#if __CUDA_ARCH__ >= 900
  const uint32_t block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const uint64_t begin = uint64_t{block} * prefetch.share;
  if (begin >= prefetch.bytes) return;
  const uint32_t left = prefetch.bytes - static_cast<uint32_t>(begin);
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(prefetch.data + begin),
               "r"(left < prefetch.share ? left : prefetch.share)
               : "memory");
#endif
}

}  // namespace flashrt::cuda
