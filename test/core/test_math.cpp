// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// base/math.hpp against double: the bounds its comments give.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "base/math.hpp"

namespace flashrt {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(FastExp, IsWithinItsBound) {
  double worst = 0;
  for (double x = -87.33; x <= 88.37; x += 1e-4) {
    const auto rounded = static_cast<float>(x);
    const double want = std::exp(static_cast<double>(rounded));
    worst = std::max(worst, std::abs(fast_exp(rounded) - want) / want);
  }
  EXPECT_LE(worst, 2e-7);
}

TEST(FastExp, AtTheEdges) {
  EXPECT_EQ(fast_exp(0.0f), 1.0f);
  EXPECT_EQ(fast_exp(-0.0f), 1.0f);
  EXPECT_EQ(fast_exp(-88.0f), 0.0f);
  EXPECT_EQ(fast_exp(-kInfinity), 0.0f);
  EXPECT_GE(fast_exp(1000.0f), 2e38f);
  EXPECT_TRUE(std::isfinite(fast_exp(kInfinity)));
  EXPECT_TRUE(std::isnan(fast_exp(std::numeric_limits<float>::quiet_NaN())));
}

template <class Fast, class Exact>
void expect_close(Fast fast, Exact exact, double bound) {
  for (double x = -30; x <= 30; x += 1e-4) {
    const auto rounded = static_cast<float>(x);
    const double want = exact(static_cast<double>(rounded));
    ASSERT_LE(std::abs(fast(rounded) - want), bound * std::max(1.0, std::abs(x))) << rounded;
  }
}

TEST(Activations, GeluTanhIsWithinItsBound) {
  expect_close(
      gelu_tanh,
      [](double x) {
        return 0.5 * x *
               (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
      },
      1e-6);
}

TEST(Activations, SiluIsWithinItsBound) {
  expect_close(
      silu, [](double x) { return x / (1 + std::exp(-x)); }, 1e-6);
}

TEST(Activations, FarFromZero) {
  for (const auto& activation : {gelu_tanh, gelu_erf, silu}) {
    EXPECT_EQ(activation(0.0f), 0.0f);
    EXPECT_EQ(activation(1e4f), 1e4f);
    EXPECT_NEAR(activation(-1e4f), 0.0f, 1e-30f);
    EXPECT_NEAR(activation(-1e38f), 0.0f, 1e-30f);
    EXPECT_NEAR(activation(-kInfinity), 0.0f, 1e-30f);
    EXPECT_EQ(activation(kInfinity), kInfinity);
    EXPECT_TRUE(std::isnan(activation(std::numeric_limits<float>::quiet_NaN())));
  }
}

}  // namespace
}  // namespace flashrt
