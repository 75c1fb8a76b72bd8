// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// base/number_format.hpp against a search over all numbers of a format in double, and against its
// formulas.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/fp8.hpp"
#include "base/number_format.hpp"

namespace flashrt {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNaN = std::numeric_limits<float>::quiet_NaN();

// The magnitudes of a format, ascending, so that the index of one has the parity of its code.
std::vector<double> numbers(int exponents, int mantissas, int bias, double largest) {
  std::vector<double> values;
  for (int exponent = 0; exponent < exponents; ++exponent) {
    for (int mantissa = 0; mantissa < mantissas; ++mantissa) {
      const double fraction = static_cast<double>(mantissa) / mantissas;
      const double value = exponent == 0 ? std::ldexp(fraction, 1 - bias)
                                         : std::ldexp(1 + fraction, exponent - bias);
      if (value <= largest) values.push_back(value);
    }
  }
  return values;
}

std::vector<double> numbers(NumberFormat format) {
  switch (format) {
    case NumberFormat::kE4M3:
      return numbers(16, 8, 7, 448);
    case NumberFormat::kE5M2:
      return numbers(31, 4, 15, 57344);
    case NumberFormat::kInt8: {
      std::vector<double> values;
      for (int value = 0; value <= 127; ++value) values.push_back(value);
      return values;
    }
    default:
      return numbers(4, 2, 1, 6);  // e2m1
  }
}

// The number of the format nearest to this one; of two equally near ones the one with the even
// code.
double nearest_number(const std::vector<double>& magnitudes, double value) {
  if (std::isnan(value)) return value;
  const double magnitude = std::min(std::abs(value), magnitudes.back());
  const auto above = std::lower_bound(magnitudes.begin(), magnitudes.end(), magnitude);
  auto index = above - magnitudes.begin();
  if (index > 0) {
    const double up = *above - magnitude, down = magnitude - magnitudes[index - 1];
    if (down < up || (down == up && index % 2 == 1)) --index;
  }
  return std::copysign(magnitudes[index], value);
}

bool same_bits(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

// What is special about a format: its numbers, what lies half way between them, their neighbours,
// and beyond; then values of every magnitude.
std::vector<float> inputs(const std::vector<double>& magnitudes) {
  std::vector<float> values{0.0f,
                            kInfinity,
                            kNaN,
                            std::numeric_limits<float>::max(),
                            std::numeric_limits<float>::min(),
                            std::numeric_limits<float>::denorm_min()};
  for (size_t i = 0; i < magnitudes.size(); ++i) {
    const double next = i + 1 < magnitudes.size() ? magnitudes[i + 1] : magnitudes[i] * 1.125;
    for (const double exact : {magnitudes[i], (magnitudes[i] + next) / 2}) {
      const auto value = static_cast<float>(exact);
      for (const float near :
           {std::nextafter(value, -kInfinity), value, std::nextafter(value, kInfinity)})
        values.push_back(near);
    }
  }
  std::mt19937 random(7);
  for (int i = 0; i < 100000; ++i)
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  std::normal_distribution<float> normal;
  for (int i = 0; i < 20000; ++i) values.push_back(normal(random) * 10);
  const size_t count = values.size();
  for (size_t i = 0; i < count; ++i) values.push_back(-values[i]);
  return values;
}

class WithoutBlocks : public testing::TestWithParam<NumberFormat> {};

TEST_P(WithoutBlocks, RoundToTheNearestNumber) {
  const NumberFormat format = GetParam();
  const std::vector<double> magnitudes = numbers(format);
  const std::vector<float> values = inputs(magnitudes);
  for (const float scale : {1.0f, 0.25f, 0.0123f, 3e5f, std::numeric_limits<float>::min()}) {
    std::vector<float> rounded = values;
    round_to(format, scale, rounded);
    for (size_t i = 0; i < values.size(); ++i) {
      const auto code = static_cast<float>(nearest_number(magnitudes, values[i] / scale));
      const float expected = code * scale + (format == NumberFormat::kInt8 ? 0.0f : -0.0f);
      ASSERT_TRUE(same_bits(rounded[i], expected))
          << format << ": " << std::hexfloat << values[i] << " by " << scale << " is " << rounded[i]
          << ", expected " << expected;
    }
  }
}

TEST_P(WithoutBlocks, LargestIsTheLastNumber) {
  EXPECT_EQ(largest(GetParam()), numbers(GetParam()).back());
  EXPECT_TRUE(has_scale(GetParam()));
  EXPECT_EQ(block_of(GetParam()), 1);
  EXPECT_EQ(bits_of(GetParam()), 8);
}

INSTANTIATE_TEST_SUITE_P(Formats, WithoutBlocks,
                         testing::Values(NumberFormat::kE4M3, NumberFormat::kE5M2,
                                         NumberFormat::kInt8),
                         [](const auto& test) { return std::string(name_of(test.param)); });

// The CPU backend and CUDA store e4m3 as codes; the format must be the same one.
TEST(NumberFormat, E4M3IsTheStoredType) {
  const std::vector<float> values = inputs(numbers(NumberFormat::kE4M3));
  for (const float scale : {1.0f, 0.0123f}) {
    std::vector<float> rounded = values;
    round_to(NumberFormat::kE4M3, scale, rounded);
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_TRUE(same_bits(rounded[i], e4m3_to_float(float_to_e4m3(values[i] / scale)) * scale))
          << std::hexfloat << values[i];
    }
  }
  for (const float amax : {0.0f, 1e-40f, 1.0f, 3e38f, kNaN})
    EXPECT_EQ(scale_for(NumberFormat::kE4M3, amax), e4m3_scale(amax)) << amax;
}

// ---- blocks, by their formulas

float block_scale(NumberFormat format, float amax, float scale) {
  if (format == NumberFormat::kNvFp4) {
    return e4m3_to_float(float_to_e4m3(amax / 6.0f / scale)) * scale;
  }
  int exponent = -127;  // by search: the OCP rule takes the largest power of two up to amax
  while (exponent < 125 && std::ldexp(1.0, exponent + 3) <= static_cast<double>(amax)) ++exponent;
  return static_cast<float>(std::ldexp(1.0, exponent));
}

std::vector<float> by_formula(NumberFormat format, float scale, std::vector<float> row) {
  static const std::vector<double> kE2M1 = numbers(NumberFormat::kNvFp4);
  const size_t block = format == NumberFormat::kNvFp4 ? 16 : 32;
  for (size_t begin = 0; begin < row.size(); begin += block) {
    const size_t end = std::min(row.size(), begin + block);
    float amax = 0;
    for (size_t i = begin; i < end; ++i)
      if (std::abs(row[i]) > amax) amax = std::abs(row[i]);
    const float unit = block_scale(format, amax, scale);
    for (size_t i = begin; i < end; ++i) {
      row[i] = unit == 0 ? row[i] * 0.0f
                         : static_cast<float>(nearest_number(kE2M1, row[i] / unit)) * unit;
    }
  }
  return row;
}

class WithBlocks : public testing::TestWithParam<NumberFormat> {
 protected:
  void expect_formula(float scale, const std::vector<float>& row) const {
    std::vector<float> rounded = row;
    round_to(GetParam(), scale, rounded);
    const std::vector<float> expected = by_formula(GetParam(), scale, row);
    for (size_t i = 0; i < row.size(); ++i) {
      ASSERT_TRUE(same_bits(rounded[i], expected[i]))
          << GetParam() << ", " << i << " of " << row.size() << ": " << std::hexfloat << row[i]
          << " is " << rounded[i] << ", expected " << expected[i];
    }
  }
};

TEST_P(WithBlocks, RoundByTheirFormula) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  for (const int width : {1, 7, 15, 16, 17, 31, 32, 33, 48, 100, 1000}) {
    for (int i = 0; i < 200; ++i) {
      std::vector<float> row(width);
      const float spread = std::exp2(static_cast<float>(i % 60) - 30);
      float amax = 0;
      for (float& value : row) {
        value = normal(random) * spread * (i % 3 == 0 ? std::exp(2 * normal(random)) : 1.0f);
        amax = std::max(amax, std::abs(value));
      }
      expect_formula(scale_for(GetParam(), amax), row);
      expect_formula(scale_for(GetParam(), amax / 100), row);   // saturates
      expect_formula(scale_for(GetParam(), amax * 1e5f), row);  // some block scales are zero
    }
  }
}

TEST_P(WithBlocks, RoundEveryBitPattern) {
  std::mt19937 random(13);
  for (int i = 0; i < 5000; ++i) {
    std::vector<float> row(70);  // infinities, NaN and subnormals among them
    for (float& value : row) value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (i % 3 == 0)
      for (float& value : row) value *= std::exp2(-100.0f);
    expect_formula(1.0f, row);
  }
}

TEST_P(WithBlocks, RoundTiesToTheEvenCode) {
  // With 6 as the largest number of each block, codes are the values themselves.
  const size_t block = static_cast<size_t>(block_of(GetParam()));
  std::vector<float> row{6.0f,  0.25f, 0.75f, 1.25f,  1.75f,  2.5f,  3.5f,  5.0f,
                         -0.0f, 0.0f,  -5.0f, -0.25f, -0.75f, 5.01f, 4.99f, 0.26f};
  const std::vector<float> expected{6.0f,  0.0f, 1.0f,  1.0f,  2.0f,  2.0f, 4.0f, 4.0f,
                                    -0.0f, 0.0f, -4.0f, -0.0f, -1.0f, 6.0f, 4.0f, 0.5f};
  row.resize(block);
  round_to(GetParam(), 1.0f, row);
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(same_bits(row[i], expected[i])) << i << ": " << row[i];
  for (size_t i = expected.size(); i < block; ++i) EXPECT_EQ(row[i], 0.0f);
}

TEST_P(WithBlocks, KeepABlockOfZerosAndTheOthersApart) {
  const auto block = static_cast<size_t>(block_of(GetParam()));
  std::vector<float> row(2 * block + 3, 0.0f);
  row[block] = 3.0f;         // alone in the second block
  row[2 * block] = 1000.0f;  // makes the short last one coarse
  row[2 * block + 1] = 3.0f;
  round_to(GetParam(), scale_for(GetParam(), 1000.0f), row);
  for (size_t i = 0; i < block; ++i) EXPECT_EQ(row[i], 0.0f);
  EXPECT_NEAR(row[block], 3.0f, 0.2f);
  EXPECT_NEAR(row[2 * block], 1000.0f, 250.0f);
  EXPECT_EQ(row[2 * block + 1], 0.0f);
}

INSTANTIATE_TEST_SUITE_P(Formats, WithBlocks,
                         testing::Values(NumberFormat::kNvFp4, NumberFormat::kMxFp4),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST(NumberFormat, Sizes) {
  EXPECT_EQ(largest(NumberFormat::kNvFp4), 6 * 448);
  EXPECT_EQ(largest(NumberFormat::kMxFp4), 0);
  EXPECT_FALSE(has_scale(NumberFormat::kMxFp4));
  EXPECT_EQ(scale_for(NumberFormat::kMxFp4, 100.0f), 1.0f);
  EXPECT_EQ(block_of(NumberFormat::kNvFp4), 16);
  EXPECT_EQ(block_of(NumberFormat::kMxFp4), 32);
  EXPECT_EQ(bits_of(NumberFormat::kNvFp4), 4.5);
  EXPECT_EQ(bits_of(NumberFormat::kMxFp4), 4.25);
  EXPECT_EQ(bits_of(NumberFormat::kNone), 0);
}

TEST(NumberFormat, ScaleReachesTheLargestCode) {
  for (const NumberFormat format : kNumberFormats) {
    EXPECT_EQ(scale_for(format, 0.0f), 1.0f);
    if (!has_scale(format)) continue;
    EXPECT_EQ(scale_for(format, largest(format)), 1.0f);
    for (const float amax : {std::numeric_limits<float>::denorm_min(), 1e-40f, 1e-37f, 3e38f}) {
      const float scale = scale_for(format, amax);
      EXPECT_TRUE(std::isnormal(scale)) << format << ' ' << amax;
      EXPECT_LE(amax / scale, largest(format) * 1.00001f) << format << ' ' << amax;
    }
  }
}

TEST(NumberFormat, Names) {
  for (const NumberFormat format : kNumberFormats) EXPECT_EQ(format_named(name_of(format)), format);
  EXPECT_EQ(format_named("none"), std::nullopt);
  EXPECT_EQ(format_named("int4"), std::nullopt);
}

TEST(NumberFormat, NoneLeavesValuesAlone) {
  std::vector<float> row{1.2345f, kInfinity, -0.0f};
  const std::vector<float> before = row;
  round_to(NumberFormat::kNone, 1.0f, row);
  for (size_t i = 0; i < row.size(); ++i) EXPECT_TRUE(same_bits(row[i], before[i]));
}

}  // namespace
}  // namespace flashrt
