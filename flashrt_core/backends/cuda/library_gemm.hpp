// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// LibraryGemm: linear by cuBLASLt. The library offers algorithms for the shape at hand; which of
// them is the fastest has to be timed.
//
// The library writes y itself (direct) if that gives what the kernels of our own compute: the
// product times its scales, plus a residual, rounded once to a y that is not quantised. Everything
// else leaves the product as float32 in the workspace and goes through linear_finish: the library
// takes a bias only in the 16 bits of y, and ours is float32; it adds a residual before the
// activation, not after it; it multiplies by the inverse of y's scale where we divide.
//
// The library cannot read the number of valid rows from the device and computes all rows.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/device.hpp"
#include "kernels/linear.cuh"

struct cublasLtContext;

namespace flashrt::cuda {

// One algorithm of the library, as it describes it, and who finishes the call.
struct LibraryChoice {
  enum class Route { kDirect, kFinish };

  Route route = Route::kDirect;
  std::array<uint64_t, 8> algorithm{};
  size_t workspace_bytes = 0;  // of the library alone
};

class LibraryGemm {
 public:
  // The most workspace that an algorithm may ask for, beside the product.
  static constexpr size_t kMaxWorkspaceBytes = size_t{64} << 20;
  static constexpr size_t kWorkspaceAlignment = 256;

  // On the current device. fast_accumulation: products of e4m3 are summed with fewer bits. Without
  // is_offered it accepts no call.
  explicit LibraryGemm(bool fast_accumulation, bool is_offered = true);
  ~LibraryGemm();
  LibraryGemm(const LibraryGemm&) = delete;
  LibraryGemm& operator=(const LibraryGemm&) = delete;

  static int version();  // 130100
  bool fast_accumulation() const { return fast_accumulation_; }

  // What the library recommends for this call, best first; empty if it does not compute it. Memory
  // is not touched; pointers count by their alignment.
  std::vector<LibraryChoice> candidates(const LinearArgs& args) const;
  // The choice with this name, if the library accepts it for this call. Names last as long as the
  // version of the library.
  std::optional<LibraryChoice> restore(const LinearArgs& args, std::string_view name) const;
  static std::string name_of(const LibraryChoice& choice);
  // "direct, algorithm 66, tile 24, stages 36, cluster 3, split 1": for people.
  static std::string describe(const LibraryChoice& choice);

  static size_t workspace_bytes(const LinearArgs& args, const LibraryChoice& choice);
  // The workspace starts at a multiple of kWorkspaceAlignment.
  const char* run(const LinearArgs& args, const LibraryChoice& choice, void* workspace,
                  const Launch& launch) const;

 private:
  class Problem;
  Problem problem(const LinearArgs& args, LibraryChoice::Route route, void* product) const;
  std::vector<LibraryChoice> candidates(const LinearArgs& args, LibraryChoice::Route route) const;

  cublasLtContext* handle_ = nullptr;
  bool fast_accumulation_, is_offered_;
  DeviceBuffer ones_;  // float32: x has one scale, but beside scales per channel the library wants
                       // one for each row
};

}  // namespace flashrt::cuda
