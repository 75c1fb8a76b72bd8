// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// FP8 e4m3 to and from float32: 4 exponent bits (bias 7), 3 mantissa bits, no infinity, NaN is 0x7f
// and 0xff. Values are rounded to nearest even and saturate to +-448; NaN stays NaN.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>

namespace flashrt {

inline constexpr float kE4M3Max = 448.0f;

// real = quantised * scale: the scale that maps this magnitude to the largest code. Zeros stay
// zeros under any scale; a scale is never subnormal, so that neither it nor a quotient by it is
// lost.
inline float e4m3_scale(float amax) {
  if (!(amax > 0)) return 1.0f;
  return std::max(amax / kE4M3Max, std::numeric_limits<float>::min());
}

inline uint8_t float_to_e4m3(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 24) & 0x80u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t clamped =
      magnitude < 0x43e00000u ? magnitude : 0x43e00000u;  // 448 and everything above it
  // Below 2^-6 one unit of the result is 2^-9. Adding 2^14, whose unit is that, lets the addition
  // do the rounding.
  const uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(clamped) + 0x1p14f) -
                             std::bit_cast<uint32_t>(0x1p14f);
  const uint32_t normal = (clamped - (120u << 23) + 0x7ffffu + ((clamped >> 20) & 1u)) >> 20;
  const uint32_t finite = clamped < (121u << 23) ? subnormal : normal;
  return static_cast<uint8_t>(sign | (magnitude > 0x7f800000u ? 0x7fu : finite));
}

namespace detail {

constexpr std::array<float, 256> e4m3_values() {
  std::array<float, 256> values{};
  for (int code = 0; code < 256; ++code) {
    const int exponent = (code >> 3) & 15, mantissa = code & 7;
    float value = exponent == 0 ? static_cast<float>(mantissa) : static_cast<float>(8 + mantissa);
    for (int i = 1; i < exponent; ++i) value *= 2;
    value *= 0x1p-9f;
    if ((code & 0x7f) == 0x7f) value = std::numeric_limits<float>::quiet_NaN();
    values[code] = code & 0x80 ? -value : value;
  }
  return values;
}

}  // namespace detail

inline constexpr std::array<float, 256> kE4M3Values = detail::e4m3_values();

inline float e4m3_to_float(uint8_t code) { return kE4M3Values[code]; }

}  // namespace flashrt
