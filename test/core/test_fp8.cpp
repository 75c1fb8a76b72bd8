// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// base/fp8.hpp and base/half.hpp against an independent search in double, exhaustively where the
// inputs are finite in number.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "backends/cpu/vector_math.hpp"
#include "base/fp8.hpp"
#include "base/half.hpp"
#include "reference.hpp"

namespace flashrt {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNaN = std::numeric_limits<float>::quiet_NaN();

// The nearest code by looking at all of them; of two equally near ones the even one; saturating.
int nearest_code(double value) {
  const int sign = std::signbit(value) ? 128 : 0;
  if (std::isnan(value)) return sign | 127;
  if (std::isinf(value)) return sign | 126;
  int best = 0;
  for (int code = 1; code <= 126; ++code) {
    const double distance = std::abs(reference::e4m3_value(code) - std::abs(value));
    const double least = std::abs(reference::e4m3_value(best) - std::abs(value));
    if (distance < least || (distance == least && code % 2 == 0)) best = code;
  }
  return sign | best;
}

// Every bf16 and f16 number, and around every boundary between two numbers of a format the floats
// next to it.
std::vector<float> inputs(const std::vector<double>& numbers) {
  std::vector<float> values;
  for (int bits = 0; bits < 65536; ++bits) {
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits) << 16));
    const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
    const double f16 = exponent == 0    ? std::ldexp(mantissa, -24)
                       : exponent == 31 ? std::numeric_limits<double>::infinity()
                                        : std::ldexp(1024 + mantissa, exponent - 25);
    values.push_back(static_cast<float>(bits & 32768 ? -f16 : f16));
  }
  for (size_t i = 0; i + 1 < numbers.size(); ++i) {
    const auto middle = static_cast<float>((numbers[i] + numbers[i + 1]) / 2);
    for (const float near :
         {std::nextafter(middle, -kInfinity), middle, std::nextafter(middle, kInfinity)}) {
      values.push_back(near);
      values.push_back(-near);
    }
  }
  std::mt19937 random(5);
  for (int i = 0; i < 200000; ++i)
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  return values;
}

std::vector<double> e4m3_numbers() {
  std::vector<double> numbers;
  for (int code = 0; code <= 126; ++code) numbers.push_back(reference::e4m3_value(code));
  return numbers;
}

TEST(E4M3, DecodesEveryCode) {
  for (int code = 0; code < 256; ++code) {
    const double want = reference::e4m3_value(code);
    const float got = e4m3_to_float(static_cast<uint8_t>(code));
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got)) << code;
    } else {
      EXPECT_EQ(got, want) << code;
      EXPECT_EQ(std::signbit(got), code >= 128) << code;
      EXPECT_EQ(float_to_e4m3(got), code);
    }
  }
}

TEST(E4M3, RoundsToTheNearestCode) {
  for (const float value : inputs(e4m3_numbers())) {
    ASSERT_EQ(float_to_e4m3(value), nearest_code(value)) << std::hexfloat << value;
  }
}

TEST(E4M3, KnownCodes) {
  EXPECT_EQ(float_to_e4m3(0.0f), 0x00);
  EXPECT_EQ(float_to_e4m3(-0.0f), 0x80);
  EXPECT_EQ(float_to_e4m3(1.0f), 0x38);
  EXPECT_EQ(float_to_e4m3(1.0625f), 0x38);    // half way, down to even
  EXPECT_EQ(float_to_e4m3(1.1875f), 0x3a);    // half way, up to even
  EXPECT_EQ(float_to_e4m3(0x1p-9f), 0x01);    // smallest
  EXPECT_EQ(float_to_e4m3(0x1p-10f), 0x00);   // half of it, down to even
  EXPECT_EQ(float_to_e4m3(0x1.8p-9f), 0x02);  // half way, up to even
  EXPECT_EQ(float_to_e4m3(448.0f), 0x7e);
  EXPECT_EQ(float_to_e4m3(-1e30f), 0xfe);
  EXPECT_EQ(float_to_e4m3(kInfinity), 0x7e);
  EXPECT_EQ(float_to_e4m3(kNaN) & 0x7f, 0x7f);
}

uint32_t bits_of(double value) { return std::bit_cast<uint32_t>(static_cast<float>(value)); }

TEST(E4M3, ScaleReachesTheLargestCode) {
  EXPECT_EQ(e4m3_scale(448.0f), 1.0f);
  EXPECT_EQ(e4m3_scale(0.0f), 1.0f);
  for (const float amax : {std::numeric_limits<float>::denorm_min(), 1e-40f, 1e-37f, 3e38f}) {
    const float scale = e4m3_scale(amax);
    EXPECT_TRUE(std::isnormal(scale)) << amax;
    EXPECT_LE(amax / scale, 448.001f) << amax;
  }
}

TEST(BFloat16, RoundsToTheNearest) {
  std::vector<double> numbers;
  for (uint32_t code = 0; code < 0x7f80; ++code)
    numbers.push_back(std::bit_cast<float>(code << 16));
  for (const float value : inputs(numbers)) {
    const float got = bf16_to_float(float_to_bf16(value));
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(got));
    } else {
      ASSERT_EQ(bits_of(got), bits_of(reference::stored(DType::kBF16, value, 1)))
          << std::hexfloat << value;
    }
  }
}

TEST(BFloat16, KeepsEveryCode) {
  for (uint32_t code = 0; code < 65536; ++code) {
    const float value = bf16_to_float(static_cast<uint16_t>(code));
    ASSERT_EQ(float_to_bf16(value), std::isnan(value) ? code | 0x40 : code);
  }
}

double f16_number(int code) {
  const int exponent = (code >> 10) & 31, mantissa = code & 1023;
  return exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(Float16, RoundsToTheNearest) {
  std::vector<double> numbers;
  for (int code = 0; code < 0x7c00; ++code) numbers.push_back(f16_number(code));
  numbers.push_back(65536);  // where the next number would be: half way to it is infinity
  for (const float value : inputs(numbers)) {
    const float got = f16_to_float(float_to_f16(value));
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(got));
    } else {
      ASSERT_EQ(bits_of(got), bits_of(reference::stored(DType::kF16, value, 1)))
          << std::hexfloat << value;
    }
  }
}

TEST(Float16, DecodesAndKeepsEveryCode) {
  for (int code = 0; code < 65536; ++code) {
    const int magnitude = code & 0x7fff;
    const float value = f16_to_float(static_cast<uint16_t>(code));
    if (magnitude > 0x7c00) {
      ASSERT_TRUE(std::isnan(value)) << code;
      ASSERT_TRUE(std::isnan(f16_to_float(float_to_f16(value)))) << code;
      continue;
    }
    const double number = magnitude == 0x7c00 ? kInfinity : f16_number(magnitude);
    ASSERT_EQ(bits_of(value), bits_of(code & 0x8000 ? -number : number)) << code;
    ASSERT_EQ(float_to_f16(value), code);
  }
}

// The vector loops are compiled for several instruction sets; they must agree with the scalar
// functions bit for bit.
TEST(VectorLoops, EncodeLikeTheScalarFunctions) {
  const std::vector<float> values = inputs(e4m3_numbers());
  const auto n = static_cast<int64_t>(values.size());
  for (const DType type : {DType::kE4M3, DType::kBF16, DType::kF16}) {
    std::vector<std::byte> codes(values.size() * size_of(type));
    cpu::encode(type, values.data(), 0.75f, codes.data(), n);
    for (size_t i = 0; i < values.size(); ++i) {
      if (type == DType::kE4M3) {
        ASSERT_EQ(static_cast<uint8_t>(codes[i]), float_to_e4m3(values[i] / 0.75f))
            << std::hexfloat << values[i];
      } else {
        uint16_t code;
        std::memcpy(&code, codes.data() + 2 * i, 2);
        ASSERT_EQ(code, type == DType::kBF16 ? float_to_bf16(values[i]) : float_to_f16(values[i]));
      }
    }
  }
}

TEST(VectorLoops, DecodeEveryCode) {
  std::vector<uint8_t> small(256);
  std::vector<uint16_t> wide(65536);
  for (int code = 0; code < 256; ++code) small[code] = static_cast<uint8_t>(code);
  for (int code = 0; code < 65536; ++code) wide[code] = static_cast<uint16_t>(code);
  std::vector<float> out(65536);
  const auto same = [](float a, float b) {
    return (std::isnan(a) && std::isnan(b)) ||
           std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
  };
  cpu::decode(DType::kE4M3, reinterpret_cast<const std::byte*>(small.data()), 3.0f, out.data(),
              256);
  for (int code = 0; code < 256; ++code)
    ASSERT_TRUE(same(out[code], e4m3_to_float(small[code]) * 3.0f));
  cpu::decode(DType::kBF16, reinterpret_cast<const std::byte*>(wide.data()), 1.0f, out.data(),
              65536);
  for (int code = 0; code < 65536; ++code) ASSERT_TRUE(same(out[code], bf16_to_float(wide[code])));
  cpu::decode(DType::kF16, reinterpret_cast<const std::byte*>(wide.data()), 1.0f, out.data(),
              65536);
  for (int code = 0; code < 65536; ++code) ASSERT_TRUE(same(out[code], f16_to_float(wide[code])));
}

}  // namespace
}  // namespace flashrt
