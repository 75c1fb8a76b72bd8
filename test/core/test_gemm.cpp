// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Matrix products of the CPU backend: every version for few rows, and tiles of any shape.

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "backends/cpu/few_rows.hpp"
#include "backends/cpu/gemm.hpp"

namespace flashrt::cpu {
namespace {

constexpr int64_t kPadding = 3;  // between rows, NaN

// Random matrices with padded rows, and their product in double.
struct Problem {
  std::vector<float> a, b;
  std::vector<double> c;
  MatrixProduct product;

  Problem(int64_t rows, int64_t columns, int64_t depth) {
    std::mt19937 random(static_cast<uint32_t>(rows * 7919 + columns * 31 + depth));
    std::normal_distribution<float> normal;
    const int64_t stride = depth + kPadding;
    a.assign(rows * stride, NAN);
    b.assign(columns * stride, NAN);
    for (auto* matrix : {&a, &b}) {
      for (size_t i = 0; i < matrix->size(); ++i) {
        if (static_cast<int64_t>(i) % stride < depth) (*matrix)[i] = normal(random);
      }
    }
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns; ++column) {
        double sum = 0;
        for (int64_t k = 0; k < depth; ++k)
          sum += double{a[row * stride + k]} * b[column * stride + k];
        c.push_back(sum);
      }
    }
    product = {.rows = rows,
               .columns = columns,
               .depth = depth,
               .a = a.data(),
               .a_stride = stride,
               .b = b.data(),
               .b_stride = stride};
  }

  // Products of order 1 in float32: the error grows like the root of their number.
  double bound() const { return 4e-7 * std::sqrt(static_cast<double>(product.depth)) * 8; }
};

TEST(FewRows, EveryVersionMatchesDouble) {
  for (const FewRowsVersion& version : few_rows_versions()) {
    for (const int64_t rows : {1, 2, 3, 5, 6, 7, 10, 13, 50, 64}) {
      for (const int64_t columns : {1, 3, 4, 9}) {
        for (const int64_t depth : {1, 4, 15, 16, 33, 1024, 1040, 2051}) {
          const Problem p(rows, columns, depth);
          std::vector<float> c(rows * (columns + 1), 0.5f), scratch(rows * kFewRowsDepth, NAN);
          version.multiply(p.product, c.data(), columns + 1, scratch.data());
          for (int64_t i = 0; i < rows * columns; ++i) {
            ASSERT_NEAR(c[i / columns * (columns + 1) + i % columns], p.c[i], p.bound())
                << version.name << " " << rows << "x" << columns << "x" << depth << ", element "
                << i;
          }
          for (int64_t row = 0; row < rows; ++row)
            ASSERT_EQ(c[row * (columns + 1) + columns], 0.5f);
        }
      }
    }
  }
}

TEST(FewRows, ARowDoesNotDependOnTheOthers) {
  const Problem p(13, 9, 1040);
  std::vector<float> scratch(13 * kFewRowsDepth), all(13 * 9), alone(9);
  for (const FewRowsVersion& version : few_rows_versions()) {
    version.multiply(p.product, all.data(), 9, scratch.data());
    for (int64_t row = 0; row < 13; ++row) {
      MatrixProduct one = p.product;
      one.rows = 1;
      one.a += row * one.a_stride;
      version.multiply(one, alone.data(), 9, scratch.data());
      for (int64_t i = 0; i < 9; ++i)
        ASSERT_EQ(alone[i], all[row * 9 + i]) << version.name << " row " << row;
    }
  }
}

TEST(Tiles, CoverEveryElementOnce) {
  use_single_threaded_blas();
  ThreadPool pool(2);
  std::vector<float> scratch(2 * kTileFloats);
  for (const int64_t rows : {1, 64, 65, 384, 385, 449}) {
    for (const int64_t columns : {1, 128, 129, 512, 513}) {
      const Problem p(rows, columns, 5);
      std::vector<float> c(rows * columns, NAN);
      multiply_tiles(pool, p.product, scratch.data(), [&](const Tile& tile, int) {
        for (int64_t r = 0; r < tile.rows; ++r) {
          for (int64_t i = 0; i < tile.columns; ++i) {
            float& out = c[(tile.row + r) * columns + tile.column + i];
            EXPECT_TRUE(std::isnan(out));
            out = tile.at(r)[i];
          }
        }
      });
      for (int64_t i = 0; i < rows * columns; ++i)
        ASSERT_NEAR(c[i], p.c[i], p.bound()) << rows << "x" << columns;
    }
  }
}

}  // namespace
}  // namespace flashrt::cpu
