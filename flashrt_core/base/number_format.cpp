// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "base/number_format.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/fp8.hpp"

namespace flashrt {
namespace {

// A binary floating-point format without its codes.
struct Grid {
  int mantissa_bits = 0;
  int min_exponent = 0;  // below 2^this the distance between neighbours stays the same
  float largest = 0;
};

constexpr Grid kE4M3{.mantissa_bits = 3, .min_exponent = -6, .largest = kE4M3Max};
constexpr Grid kE5M2{.mantissa_bits = 2, .min_exponent = -14, .largest = 57344.0f};
constexpr Grid kE2M1{.mantissa_bits = 1, .min_exponent = 0, .largest = 6.0f};
// Integers are such a format whose range has one distance only.
constexpr Grid kInt8{.mantissa_bits = 7, .min_exponent = 7, .largest = 127.0f};

constexpr int kNvBlock = 16, kMxBlock = 32;
constexpr int kE2M1Exponent = 2;         // of its largest number
constexpr int kMinBlockExponent = -127;  // of a block scale of mxfp4

constexpr float power_of_two(int exponent) {
  return std::bit_cast<float>(static_cast<uint32_t>(127 + exponent) << 23);
}

// The nearest number of the grid, ties to even; saturates.
inline float nearest_on(const Grid& grid, float value) {
  const float magnitude = std::min(std::abs(value), grid.largest);
  const float above = std::max(magnitude, power_of_two(grid.min_exponent));
  const float exponent_alone = std::bit_cast<float>(std::bit_cast<uint32_t>(above) & 0x7f800000u);
  const float distance = exponent_alone * power_of_two(-grid.mantissa_bits);
  // A number whose unit is that distance: adding it lets the addition do the rounding.
  const float rounder = distance * 0x1.8p23f;
  return std::copysign((magnitude + rounder) - rounder, value);
}

void round_values(const Grid& grid, float scale, std::span<float> values) {
  for (float& value : values) value = nearest_on(grid, value / scale) * scale;
}

float amax_of(std::span<const float> values) {  // NaN is left out
  float amax = 0;
  for (const float value : values) amax = std::max(amax, std::abs(value));
  return amax;
}

float nv_block_scale(float amax, float scale) {
  return nearest_on(kE4M3, amax / kE2M1.largest / scale) * scale;
}

float mx_block_scale(float amax) {
  if (amax == 0) return std::ldexp(1.0f, kMinBlockExponent);
  const int exponent = std::ilogb(std::min(amax, std::numeric_limits<float>::max()));
  return std::ldexp(1.0f, std::max(exponent - kE2M1Exponent, kMinBlockExponent));
}

template <class BlockScale>
void round_blocks(size_t block, std::span<float> row, BlockScale&& block_scale) {
  for (size_t begin = 0; begin < row.size(); begin += block) {
    const std::span<float> values = row.subspan(begin, std::min(block, row.size() - begin));
    const float scale = block_scale(amax_of(values));
    if (scale > 0) {
      round_values(kE2M1, scale, values);
    } else {
      for (float& value : values) value *= 0.0f;  // too small for the scale of the tensor
    }
  }
}

}  // namespace

std::string_view name_of(NumberFormat format) {
  switch (format) {
    case NumberFormat::kNone:
      return "none";
    case NumberFormat::kE4M3:
      return "e4m3";
    case NumberFormat::kE5M2:
      return "e5m2";
    case NumberFormat::kInt8:
      return "int8";
    case NumberFormat::kNvFp4:
      return "nvfp4";
    case NumberFormat::kMxFp4:
      return "mxfp4";
  }
  return "?";
}

std::optional<NumberFormat> format_named(std::string_view name) {
  for (const NumberFormat format : kNumberFormats) {
    if (name == name_of(format)) return format;
  }
  return std::nullopt;
}

std::ostream& operator<<(std::ostream& out, NumberFormat format) { return out << name_of(format); }

float largest(NumberFormat format) {
  switch (format) {
    case NumberFormat::kNone:
    case NumberFormat::kMxFp4:
      return 0;
    case NumberFormat::kE4M3:
      return kE4M3.largest;
    case NumberFormat::kE5M2:
      return kE5M2.largest;
    case NumberFormat::kInt8:
      return kInt8.largest;
    case NumberFormat::kNvFp4:
      return kE2M1.largest * kE4M3.largest;
  }
  return 0;
}

int block_of(NumberFormat format) {
  return format == NumberFormat::kNvFp4 ? kNvBlock : format == NumberFormat::kMxFp4 ? kMxBlock : 1;
}

double bits_of(NumberFormat format) {
  constexpr double kCode = 4, kBlockScale = 8;
  switch (format) {
    case NumberFormat::kNone:
      return 0;
    case NumberFormat::kE4M3:
    case NumberFormat::kE5M2:
    case NumberFormat::kInt8:
      return 8;
    case NumberFormat::kNvFp4:
    case NumberFormat::kMxFp4:
      return kCode + kBlockScale / block_of(format);
  }
  return 0;
}

float scale_for(NumberFormat format, float amax) {
  if (!has_scale(format) || !(amax > 0)) return 1.0f;
  return std::max(amax / largest(format), std::numeric_limits<float>::min());
}

void round_to(NumberFormat format, float scale, std::span<float> row) {
  switch (format) {
    case NumberFormat::kNone:
      return;
    case NumberFormat::kE4M3:
      return round_values(kE4M3, scale, row);
    case NumberFormat::kE5M2:
      return round_values(kE5M2, scale, row);
    case NumberFormat::kInt8:
      round_values(kInt8, scale, row);
      for (float& value : row) value += 0.0f;  // an integer has no negative zero
      return;
    case NumberFormat::kNvFp4:
      return round_blocks(kNvBlock, row, [&](float amax) { return nv_block_scale(amax, scale); });
    case NumberFormat::kMxFp4:
      return round_blocks(kMxBlock, row, mx_block_scale);
  }
}

}  // namespace flashrt
