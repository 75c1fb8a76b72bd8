// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// LinearChoice: which of the implementations computes a linear. They have one interface here, and
// names that outlast the process.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/library_gemm.hpp"
#include "kernels/linear.cuh"

namespace flashrt::cuda {

// Raised when kernels of linear change in a way that may change which is the fastest.
inline constexpr int kLinearKernelsVersion = 7;

struct LinearChoice {
  enum class Family { kWgmma, kStream, kSkinny, kFloat32, kLibrary, kGeneric };

  Family family = Family::kGeneric;
  int configuration = 0;  // of a kernel of our own that has some
  LibraryChoice library;
};

// Everything that accepts this call, in the order of preference when nothing is timed: the kernels
// made for its number of rows, those made for another, the library, and last what takes anything.
// Kernels of our own accumulate as the library is to: fast or not.
std::vector<LinearChoice> linear_choices(const LinearArgs& args, const LibraryGemm& library,
                                         const DeviceInfo& device);
// Whether a fast kernel does this call together with the operation that follows it.
bool has_fused_linear(const LinearArgs& args, const LibraryGemm& library, const DeviceInfo& device);

// "wgmma 128x192", "library direct 1 ff ...", "generic".
std::string name_of(const LinearChoice& choice);
// The same for people.
std::string describe(const LinearChoice& choice);
// The choice of this name, if it exists and accepts the call.
std::optional<LinearChoice> restore_linear_choice(std::string_view name, const LinearArgs& args,
                                                  const LibraryGemm& library,
                                                  const DeviceInfo& device);

size_t workspace_bytes(const LinearArgs& args, const LinearChoice& choice);
// Launches it; the names of the kernels. The workspace starts at a multiple of
// LibraryGemm::kWorkspaceAlignment.
const char* run_linear(const LinearArgs& args, const LinearChoice& choice,
                       const LibraryGemm& library, void* workspace, const Launch& launch);

}  // namespace flashrt::cuda
