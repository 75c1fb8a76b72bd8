// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Range estimators: distributions whose best range is known, and what holds for every one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <set>

#include "expect_error.hpp"
#include "quant/range_estimator.hpp"

namespace flashrt {
namespace {

using enum RangeEstimator;
using enum NumberFormat;

constexpr NumberFormat kScaled[] = {kE4M3, kE5M2, kInt8, kNvFp4};
constexpr RangeEstimator kAll[] = {kMinMax, kPercentile, kEntropy, kMse};
const double kStep = std::exp2(1.0 / 16);  // from one range that is looked at to the next

Histogram histogram_of(std::span<const float> values) {
  Histogram histogram;
  histogram.add(values);
  return histogram;
}

std::vector<float> draw(int count, int seed, const std::function<float(std::mt19937&)>& one) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = one(random);
  return values;
}

std::vector<float> normal(int count, int seed = 1, float deviation = 1) {
  return draw(count, seed, std::normal_distribution<float>(0, deviation));
}

// Shapes that sites have, from a few values to many.
std::vector<std::vector<float>> shapes() {
  std::vector<std::vector<float>> all{{1.0f},
                                      {0.3f, 0.3f, -0.3f},
                                      {0, 0, 0, 5.0f},
                                      {1e-30f, 1.0f},
                                      normal(50),
                                      normal(20'000, 2),
                                      draw(20'000, 3, std::lognormal_distribution<float>(0, 2)),
                                      draw(5'000, 4, std::uniform_real_distribution<float>(-1, 1)),
                                      draw(20'000, 5, std::cauchy_distribution<float>())};
  for (const float factor : {10.0f, 100.0f, 1000.0f}) {
    std::vector<float> values = normal(20'000, 6);
    values.push_back(factor);
    all.push_back(values);
  }
  return all;
}

double range_of(std::span<const float> values, RangeEstimator estimator, NumberFormat format,
                double fraction = 0.999) {
  return flashrt::range_of(histogram_of(values), estimator, format, fraction);
}

double mean_squared_error(std::vector<float> values, NumberFormat format, double range) {
  const std::vector<float> exact = values;
  const float scale = scale_for(format, static_cast<float>(range));
  // Each by itself: blocks are no matter of the range.
  for (float& value : values) round_to(format, scale, std::span(&value, 1));
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) sum += std::pow(double{values[i]} - exact[i], 2);
  return sum / static_cast<double>(values.size());
}

TEST(RangeEstimator, MinMaxAndTheWholePercentileAreTheLargestValue) {
  for (const auto& values : shapes()) {
    const double largest = std::abs(*std::max_element(
        values.begin(), values.end(), [](float a, float b) { return std::abs(a) < std::abs(b); }));
    for (const NumberFormat format : kScaled) {
      EXPECT_EQ(range_of(values, kMinMax, format), largest);
      EXPECT_EQ(range_of(values, kPercentile, format, 1.0), largest);
    }
  }
}

TEST(RangeEstimator, NoneGoesBeyondTheLargestValueOrToZero) {
  for (const auto& values : shapes()) {
    for (const NumberFormat format : kScaled) {
      for (const RangeEstimator estimator : kAll) {
        const double range = range_of(values, estimator, format);
        EXPECT_GT(range, 0) << name_of(estimator);
        EXPECT_LE(range, range_of(values, kMinMax, format)) << name_of(estimator);
      }
    }
  }
}

TEST(RangeEstimator, PowersOfTwoScaleTheRange) {
  for (auto values : shapes()) {
    const std::vector<float> unscaled = values;
    for (float& value : values) value *= 0x1p-12f;
    for (const NumberFormat format : kScaled) {
      for (const RangeEstimator estimator : kAll) {
        EXPECT_EQ(range_of(values, estimator, format),
                  range_of(unscaled, estimator, format) * 0x1p-12)
            << name_of(estimator) << ' ' << format;
      }
    }
  }
}

TEST(RangeEstimator, MseIsNeverWorseThanMinMax) {
  for (const auto& values : shapes()) {
    const Histogram histogram = histogram_of(values);
    for (const NumberFormat format : kScaled) {
      const double best =
          expected_squared_error(histogram, format, flashrt::range_of(histogram, kMse, format, 1));
      for (const RangeEstimator estimator : {kMinMax, kEntropy}) {
        const double range = flashrt::range_of(histogram, estimator, format, 1);
        EXPECT_LE(best, expected_squared_error(histogram, format, range))
            << name_of(estimator) << ' ' << format;
      }
    }
  }
}

TEST(RangeEstimator, TheExpectedErrorIsThatOfTheValues) {
  for (const NumberFormat format : {kE4M3, kE5M2, kInt8}) {
    for (const auto& values :
         {normal(50'000, 7), draw(50'000, 8, std::lognormal_distribution<float>(0, 1))}) {
      const Histogram histogram = histogram_of(values);
      for (const double share : {1.0, 0.7, 0.3, 0.05}) {
        const double range = share * histogram.amax();
        const double error = mean_squared_error(values, format, range);
        EXPECT_NEAR(expected_squared_error(histogram, format, range), error, 0.02 * error)
            << format << ", " << share;
      }
    }
  }
}

// Its codes are those that round_to() gives: a value that is one has no error.
TEST(RangeEstimator, CodesOfAFormatHaveNoError) {
  for (const NumberFormat format : {kE4M3, kE5M2, kInt8}) {
    std::set<float> codes;
    for (int i = 0; i < 200 * 34; ++i) {
      float value = largest(format) * std::exp2(static_cast<float>(-i) / 200);
      round_to(format, 1.0f, std::span(&value, 1));
      if (value > 0) codes.insert(value);
    }
    EXPECT_GT(codes.size(), format == kE5M2 ? 120u : 125u);
    for (const float code : codes) {
      // Nothing of a bin is beyond the largest value, and codes begin bins: all is in one point.
      const Histogram one = histogram_of(std::vector<float>{code});
      EXPECT_EQ(expected_squared_error(one, format, largest(format)), 0) << code;
    }
  }
}

// Of a normal distribution in 8 bits: 3.93 deviations (Banner et al., "Post training 4-bit
// quantization of convolutional networks", 2019, appendix), and by brute force over the values.
TEST(RangeEstimator, MseFindsTheKnownClipOfANormalDistribution) {
  const std::vector<float> values = normal(1'000'000, 7);
  const double found = range_of(values, kMse, kInt8);
  double best = 0, least = 1;
  for (double clip = 3.5; clip < 4.6; clip += 0.05) {
    const double error = mean_squared_error(values, kInt8, clip);
    if (error < least) {
      best = clip;
      least = error;
    }
  }
  EXPECT_NEAR(best, 3.93, 0.15);
  EXPECT_NEAR(found, best, best * (kStep - 1) + 0.05);
  EXPECT_LE(mean_squared_error(values, kInt8, found), 1.01 * least);
}

// n values of a flat distribution and one at a: a range c costs c^2 / (12 * 127^2) by its steps and
// (a - c)^2 / n by what it cuts off, least at c = a / (1 + n / (12 * 127^2)).
TEST(RangeEstimator, MseWeighsAnOutlierAgainstTheStepsOfInt8) {
  constexpr double kOutlier = 20;
  for (const int count : {10'000, 100'000, 1'000'000}) {
    std::vector<float> values = draw(count, 9, std::uniform_real_distribution<float>(-1, 1));
    values.push_back(kOutlier);
    const double best = kOutlier / (1 + count / (12 * 127.0 * 127.0));
    EXPECT_NEAR(range_of(values, kMse, kInt8), best, best * (kStep - 1)) << count;
  }
}

// A thousand ranges, by brute force: none is better by more than the bins and steps leave open.
TEST(RangeEstimator, MseIsBestOfAllRanges) {
  for (const auto& values : shapes()) {
    if (values.size() < 1'000) continue;
    const Histogram histogram = histogram_of(values);
    for (const NumberFormat format : kScaled) {
      double least = std::numeric_limits<double>::infinity();
      for (int i = 0; i < 1'000; ++i) {
        least = std::min(least, expected_squared_error(histogram, format,
                                                       histogram.amax() * std::exp2(-i * 0.01)));
      }
      const double range = flashrt::range_of(histogram, kMse, format, 1);
      EXPECT_LE(expected_squared_error(histogram, format, range), 1.05 * least) << format;
    }
  }
}

TEST(RangeEstimator, EntropyCutsOffWhatIsFarOutInInt8) {
  std::vector<float> values = normal(100'000, 10);
  values.push_back(100.0f);
  const double range = range_of(values, kEntropy, kInt8);
  EXPECT_GT(range, 3.0);
  EXPECT_LT(range, 6.0);
}

// Codes of floating point are as dense below as above: a hundred times wider costs them nothing.
TEST(RangeEstimator, EntropyKeepsInFloatingPointWhatItCutsOffInInt8) {
  std::vector<float> values = normal(100'000, 10);
  const std::vector<float> far = draw(100, 12, std::uniform_real_distribution<float>(50, 100));
  values.insert(values.end(), far.begin(), far.end());
  EXPECT_LT(range_of(values, kEntropy, kInt8), 10.0);
  EXPECT_GT(range_of(values, kEntropy, kE4M3), 90.0);
  EXPECT_GT(range_of(values, kEntropy, kE5M2), 90.0);
}

// 2^20 times wider is more than the codes of e4m3 reach down, not more than those of e5m2.
TEST(RangeEstimator, EntropyCutsOffWhatTakesAllCodesOfAFormat) {
  std::vector<float> values = normal(100'000, 11);
  values.push_back(0x1p18f);
  EXPECT_LT(range_of(values, kEntropy, kE4M3), 0x1p14);
  EXPECT_GT(range_of(values, kEntropy, kE5M2), 0x1p14);
}

// Two heights of a step: below 1 three times as many as above. A range of 2 keeps both, and what
// its codes merge is flat, so nothing is lost; any smaller one adds up what it cuts off in one bin.
TEST(RangeEstimator, EntropyOfAFlatDistributionKeepsAll) {
  std::vector<float> values;
  for (int i = 0; i < 100'000; ++i) {
    values.push_back(static_cast<float>(i + 0.5) * 1e-5f);
    if (i % 3 == 0) values.push_back(1 + static_cast<float>(i + 0.5) * 1e-5f);
  }
  const double largest = range_of(values, kMinMax, kInt8);
  EXPECT_GE(range_of(values, kEntropy, kInt8), largest / kStep);
}

TEST(RangeEstimator, NothingButZerosHasNoRange) {
  for (const RangeEstimator estimator : kAll) {
    EXPECT_EQ(range_of(std::vector<float>{0, 0}, estimator, kE4M3), 0);
    EXPECT_EQ(range_of({}, estimator, kInt8), 0);
  }
}

TEST(RangeEstimator, ConstantsAreKept) {
  for (const NumberFormat format : kScaled) {
    for (const RangeEstimator estimator : kAll)
      EXPECT_EQ(range_of(std::vector<float>(100, -0.75f), estimator, format), 0.75);
  }
}

TEST(RangeEstimator, AFormatWithoutAScaleHasTheLargestValue) {
  for (const RangeEstimator estimator : kAll)
    EXPECT_EQ(range_of(normal(1'000), estimator, kMxFp4), range_of(normal(1'000), kMinMax, kE4M3));
  EXPECT_CONTAINS(error_text([] { expected_squared_error(histogram_of(normal(9)), kMxFp4, 1); }),
                  "mxfp4");
}

TEST(RangeEstimator, RefusesFractionsThatAreNone) {
  for (const double fraction : {0.0, -1.0, 1.5}) {
    EXPECT_CONTAINS(error_text([&] { range_of(normal(9), kPercentile, kE4M3, fraction); }),
                    "fraction");
  }
}

TEST(RangeEstimator, NamesComeBack) {
  for (const RangeEstimator estimator : kAll)
    EXPECT_EQ(estimator_named(name_of(estimator)), estimator);
  EXPECT_EQ(estimator_named("median"), std::nullopt);
  EXPECT_EQ(estimator_names(), "min_max, percentile, entropy, mse");
}

}  // namespace
}  // namespace flashrt
