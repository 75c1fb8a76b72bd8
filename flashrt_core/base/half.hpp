// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// bfloat16 and IEEE binary16 to and from float32: rounding to nearest even, NaN preserved, overflow
// to infinity.
#pragma once

#include <bit>
#include <cstdint>

namespace flashrt {

inline float bf16_to_float(uint16_t code) { return std::bit_cast<float>(uint32_t{code} << 16); }

inline uint16_t float_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t nan = (bits >> 16) | 0x40u;  // quiet: the payload may lie in the bits that are cut
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

inline float f16_to_float(uint16_t code) {
  const uint32_t sign = (uint32_t{code} & 0x8000u) << 16;
  const uint32_t magnitude = (uint32_t{code} & 0x7fffu) << 13;
  const uint32_t exponent = magnitude & (0x7c00u << 13);
  const uint32_t normal = magnitude + (112u << 23);  // bias 15 -> bias 127
  const uint32_t special =
      magnitude + (224u << 23);  // infinity and NaN keep an exponent of all ones
  // A subnormal is m * 2^-24: give it the exponent of 2^-14 with an implicit one, then take that
  // one away again.
  const float subnormal = std::bit_cast<float>(magnitude + (113u << 23)) - 0x1p-14f;
  const uint32_t finite = exponent == 0 ? std::bit_cast<uint32_t>(subnormal) : normal;
  return std::bit_cast<float>(sign | (exponent == (0x7c00u << 13) ? special : finite));
}

inline uint16_t float_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  // Below 2^-14 one unit of the result is 2^-24. Adding 0.5, whose unit is that, lets the addition
  // do the rounding.
  const uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) -
                             std::bit_cast<uint32_t>(0.5f);
  const uint32_t normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  const uint32_t finite = magnitude < (113u << 23) ? subnormal : normal;
  const uint32_t special = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
  return static_cast<uint16_t>(sign | (magnitude >= (143u << 23) ? special : finite));
}

}  // namespace flashrt
