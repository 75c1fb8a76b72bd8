// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// How kernels are launched: the device they run on, the stream, and whether they may start before
// the kernel ahead of them has ended.
//
// Dependent launch. A kernel that is launched `dependent` becomes resident as soon as there is room
// beside the ones ahead, several of which may still run or wait. Every kernel, whether it is
// launched so or not, calls wait_for_previous() in all threads, and until then reads weights and
// constants only and writes nothing. A kernel ends after its own wait, so behind that wait
// everything ahead has ended. Ahead of it, only what lies before a launch that is not dependent is
// known to have ended: an operand that says so (AttentionArgs::settled_begin) may be read then.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "base/check.hpp"

namespace flashrt::cuda {

struct DeviceInfo {
  int index = 0;
  std::string name;
  int major = 0, minor = 0;
  int multiprocessors = 0;
  size_t l2_bytes = 0;
  size_t shared_bytes_per_block = 0;  // the most a block may ask for
  bool is_integrated = false;         // shares its memory with the host
  // False: the kernels written for one architecture stay away, so that the portable ones are used.
  bool is_specialised = true;

  int compute_capability() const { return 10 * major + minor; }
};

struct Launch {
  cudaStream_t stream = nullptr;
  const DeviceInfo* device = nullptr;
  bool is_dependent = false;  // programmatic dependent launch, from compute capability 9.0 on
};

inline void check(cudaError_t status, const char* what) {
  FLASHRT_CHECK(status == cudaSuccess, what, ": ", cudaGetErrorName(status), ": ",
                cudaGetErrorString(status));
}

// Blocks of a grid-stride loop over so many items: enough to fill the device, no more than needed.
inline dim3 blocks_for(int64_t items, int threads, const Launch& launch) {
  constexpr int64_t kThreadsPerMultiprocessor = 2048;
  const int64_t full = launch.device->multiprocessors * kThreadsPerMultiprocessor / threads;
  return dim3(static_cast<unsigned>(std::clamp<int64_t>((items + threads - 1) / threads, 1, full)));
}

// Launches a kernel; `cluster` is the number of blocks along x that share a cluster.
template <class... Parameters, class... Arguments>
void launch_kernel(const char* name, void (*kernel)(Parameters...), dim3 grid, dim3 block,
                   size_t shared_bytes, const Launch& launch, int cluster,
                   Arguments&&... arguments) {
  constexpr size_t kStaticLimit = 48 * 1024;  // more has to be asked for
  if (shared_bytes > kStaticLimit) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared_bytes)),
          name);
  }
  cudaLaunchAttribute attributes[2];
  unsigned count = 0;
  if (launch.is_dependent) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count++].val.clusterDim = {static_cast<unsigned>(cluster), 1, 1};
  }
  const cudaLaunchConfig_t config{.gridDim = grid,
                                  .blockDim = block,
                                  .dynamicSmemBytes = shared_bytes,
                                  .stream = launch.stream,
                                  .attrs = attributes,
                                  .numAttrs = count};
  check(cudaLaunchKernelEx(&config, kernel, Parameters(std::forward<Arguments>(arguments))...),
        name);
}

}  // namespace flashrt::cuda
