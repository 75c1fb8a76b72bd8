// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// exp and the activations in float32, without branches or library calls so that loops over them
// vectorise.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace flashrt {

enum class Activation { kNone, kGeluTanh, kGeluErf, kSilu, kRelu };

// exp(x) within 2e-7 relative on [-87.33, 88.37]; 0 below, 2.4e38 above; NaN stays NaN.
// x = n ln 2 + r, |r| <= ln 2 / 2; exp(r) by a polynomial of degree 6 (coefficients of Cephes expf,
// S. Moshier).
inline float fast_exp(float x) {
  constexpr float kLow = -87.33f, kHigh = 88.37f;
  constexpr float kRound =
      0x1.8p23f;  // adding it rounds to an integer, which is then in the low bits
  const float clamped = x < kLow ? kLow : x > kHigh ? kHigh : x;
  const float shifted = clamped * 1.44269504f + kRound;
  const float n = shifted - kRound;
  const float r = (clamped - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const uint32_t power = (std::bit_cast<uint32_t>(shifted) + 127u) << 23;
  const float value = p * std::bit_cast<float>(power);
  return x < kLow ? 0.0f : value;
}

inline float sigmoid(float x) { return 1.0f / (1.0f + fast_exp(-x)); }

// Below it GELU and SiLU are 0 in float32, and so is their limit, where the formulas multiply by
// infinity. NaN stays NaN.
inline constexpr float kActivationFloor = -104.0f;
inline float above_floor(float x) { return x < kActivationFloor ? kActivationFloor : x; }

inline float silu(float x) {
  x = above_floor(x);
  return x * sigmoid(x);
}

// 0.5 x (1 + tanh(u)) = x sigmoid(2u), u = sqrt(2 / pi) (x + 0.044715 x^3). Within 1e-6 max(1, |x|)
// of the formula.
inline float gelu_tanh(float x) {
  constexpr float kTwiceRoot = 1.59576912f;  // 2 sqrt(2 / pi)
  x = above_floor(x);
  return x * sigmoid(kTwiceRoot * (x + 0.044715f * x * x * x));
}

inline float gelu_erf(float x) {
  x = above_floor(x);
  return 0.5f * x * (1.0f + std::erf(x * 0.70710678f));
}

}  // namespace flashrt
