// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Copies into shared memory that run beside the computation.
#pragma once

#include "kernels/cluster.cuh"

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

}  // namespace flashrt::cuda
