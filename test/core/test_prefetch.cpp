// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include <gtest/gtest.h>

#include "kernels/prefetch.hpp"

namespace flashrt::cuda {
namespace {

constexpr size_t kCacheBytes = 50 << 20;

// Only the address is taken.
WeightView weight(int64_t rows, int64_t width, int64_t stride, uintptr_t address = 1 << 20) {
  return {.data = reinterpret_cast<const void*>(address),
          .type = DType::kBF16,
          .rows = rows,
          .width = width,
          .stride = stride};
}

TEST(Prefetch, SharesCoverTheWeightOnceAndNothingBehindIt) {
  struct Case {
    WeightView weight;
    int64_t bytes;
  };
  for (const Case& c : {Case{weight(8192, 1024, 1024), 8192 * 2048}, Case{weight(1, 8, 8), 16},
                        Case{weight(3, 24, 40), 2 * 80 + 48}, Case{weight(1, 2048, 4096), 4096}}) {
    for (const int64_t blocks : {1, 16, 129, 1024, 100000}) {
      const Prefetch prefetch = prefetch_of(c.weight, blocks, kCacheBytes);
      EXPECT_EQ(prefetch.data, c.weight.data);
      EXPECT_EQ(prefetch.bytes, c.bytes);
      EXPECT_EQ(prefetch.bytes % 16, 0);
      EXPECT_EQ(prefetch.share % 128, 0);
      EXPECT_GE(prefetch.share * blocks, prefetch.bytes);
      EXPECT_LT((prefetch.share - 128) * blocks, prefetch.bytes) << "larger than need be";
    }
  }
}

TEST(Prefetch, WhatCannotBeBroughtOrKeptIsLeftAlone) {
  EXPECT_EQ(prefetch_of({}, 16, kCacheBytes).bytes, 0);
  EXPECT_EQ(prefetch_of(weight(0, 64, 64), 16, kCacheBytes).bytes, 0);
  EXPECT_EQ(prefetch_of(weight(4, 60, 64), 16, kCacheBytes).bytes, 0);
  EXPECT_EQ(prefetch_of(weight(4, 56, 60), 16, kCacheBytes).bytes, 0);
  EXPECT_EQ(prefetch_of(weight(4, 64, 64, 4098), 16, kCacheBytes).bytes, 0);
  const int64_t rows = kCacheBytes / 2 / 2048;
  EXPECT_EQ(prefetch_of(weight(rows, 1024, 1024), 16, kCacheBytes).bytes, kCacheBytes / 2);
  EXPECT_EQ(prefetch_of(weight(rows + 1, 1024, 1024), 16, kCacheBytes).bytes, 0);
}

}  // namespace
}  // namespace flashrt::cuda
