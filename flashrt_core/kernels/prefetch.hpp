// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Prefetch: what the blocks of one kernel bring into the second-level cache for a later one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/matrix.hpp"

namespace flashrt::cuda {

// Block b of the grid brings the bytes [b * share, (b + 1) * share), as far as there are so many.
struct Prefetch {
  const std::byte* data = nullptr;
  uint32_t bytes = 0;  // a multiple of 16, like where it begins
  uint32_t share = 0;
};

// From the first element of a weight to the last one, and nothing behind it. Nothing at all if it
// is absent, if its rows are not made of the 16 bytes that move at a time, or if it would push out
// of the cache what the kernels in between need.
inline Prefetch prefetch_of(const WeightView& weight, int64_t blocks, size_t cache_bytes) {
  constexpr int64_t kPiece = 16, kLine = 128;  // a share is whole lines of the cache
  if (!weight || weight.rows == 0 || !is_aligned(weight, kPiece)) return {};
  const int64_t bytes = ((weight.rows - 1) * weight.stride + weight.width) *
                        static_cast<int64_t>(size_of(weight.type));
  if (bytes > static_cast<int64_t>(cache_bytes / 2)) return {};
  const int64_t share = (bytes + blocks * kLine - 1) / (blocks * kLine) * kLine;
  return {.data = static_cast<const std::byte*>(weight.data),
          .bytes = static_cast<uint32_t>(bytes),
          .share = static_cast<uint32_t>(share)};
}

}  // namespace flashrt::cuda
