// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Clusters of blocks, and the barriers in shared memory by which they hand numbers on. From compute
// capability 9.0 on; launchers use clusters nowhere else, where this compiles to nothing.
#pragma once

#include <cstdint>

namespace flashrt::cuda {

__device__ __forceinline__ uint32_t shared_address(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// ---- barriers

__device__ __forceinline__ void init_barrier(uint32_t barrier, int arrivals) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
#endif
}
// Shows initialised barriers to the copy engine and to the other blocks, before this block says
// that it has started.
__device__ __forceinline__ void publish_barriers() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}
// One arrival, and the bytes that are to come in this phase.
__device__ __forceinline__ void arrive_expecting(uint32_t barrier, uint32_t bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
#endif
}
// Returns once the phase of this parity has ended. Before the first phase, the one of parity 1 has.
// The scope is the block: what comes lies in its shared memory. A wider one would throw away the
// first-level cache.
__device__ __forceinline__ void wait_barrier(uint32_t barrier, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
  uint32_t done;
  do {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n"
        "}\n"
        : "=r"(done)
        : "r"(barrier), "r"(parity)
        : "memory");
  } while (!done);
#endif
}

// ---- clusters

// For a wait that finds every block started: it passes no data on.
__device__ __forceinline__ void cluster_started() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void cluster_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}
// The address of the same variable in the shared memory of another block.
__device__ __forceinline__ uint32_t address_in_block(uint32_t address, uint32_t rank) {
#if __CUDA_ARCH__ >= 900
  asm("mapa.shared::cluster.u32 %0, %0, %1;" : "+r"(address) : "r"(rank));
#endif
  return address;
}

// ---- sending: what blocks store into each other's shared memory counts towards the bytes that the
// receiver's barrier expects; so nobody waits but the receiver.

// One thread sets up the barrier of its block, before this block says that it has started.
__device__ __forceinline__ void expect_bytes(uint64_t* barrier, int bytes) {
  init_barrier(shared_address(barrier), 1);
  publish_barriers();
  arrive_expecting(shared_address(barrier), bytes);
}
__device__ __forceinline__ void send(float4* to, const float4& x, uint64_t* barrier, int rank) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, "
      "[%5];" ::"r"(address_in_block(shared_address(to), rank)),
      "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w), "r"(address_in_block(shared_address(barrier), rank))
      : "memory");
#endif
}
// The same, or nothing, by the same instructions.
__device__ __forceinline__ void send_if(bool is_sent, float4* to, const float4& x,
                                        uint64_t* barrier, int rank) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %6, 0;\n"
      "@p st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, "
      "%4}, [%5];\n"
      "}\n" ::"r"(address_in_block(shared_address(to), rank)),
      "f"(x.x), "f"(x.y), "f"(x.z), "f"(x.w), "r"(address_in_block(shared_address(barrier), rank)),
      "r"(static_cast<int>(is_sent))
      : "memory");
#endif
}
__device__ __forceinline__ void wait_for_bytes(uint64_t* barrier) {
  wait_barrier(shared_address(barrier), 0);
}

}  // namespace flashrt::cuda
