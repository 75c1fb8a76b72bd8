// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Histogram: what it resolves, that order does not matter, and how it goes to a file and back.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "expect_error.hpp"
#include "quant/histogram.hpp"

namespace flashrt {
namespace {

constexpr double kBinWidth = 1.0 / 128;  // relative

std::vector<float> ramp(int count, float last) {
  std::vector<float> values;
  for (int i = 1; i <= count; ++i)
    values.push_back(last * static_cast<float>(i) / static_cast<float>(count));
  return values;
}

Histogram histogram_of(std::span<const float> values) {
  Histogram histogram;
  histogram.add(values);
  return histogram;
}

bool equal(const Histogram& a, const Histogram& b) {
  const Histogram::Content x = a.content(), y = b.content();
  return x.amax == y.amax && x.below == y.below && x.first == y.first && x.counts == y.counts;
}

TEST(Histogram, PercentilesAreRightToOneBin) {
  const Histogram histogram = histogram_of(ramp(10'000, -10.0f));
  EXPECT_EQ(histogram.amax(), 10.0f);
  EXPECT_EQ(histogram.count(), 10'000);
  for (const double fraction : {0.001, 0.5, 0.9, 0.999}) {
    EXPECT_GE(histogram.percentile(fraction), 10.0 * fraction * (1 - 1e-6));
    EXPECT_LE(histogram.percentile(fraction), 10.0 * fraction * (1 + kBinWidth + 1e-6));
  }
  EXPECT_EQ(histogram.percentile(1.0), 10.0f) << "never above the largest value";
}

TEST(Histogram, TellsSmallValuesApartBesideLargeOnes) {
  std::vector<float> values = ramp(10'000, 1.0f);
  values.push_back(1000.0f);
  EXPECT_NEAR(histogram_of(values).percentile(0.5), 0.5, 0.5 * kBinWidth);
}

TEST(Histogram, DoesNotDependOnTheOrderOfTheValues) {
  std::mt19937 random(1);
  std::vector<float> values = ramp(5'000, 3.0f);
  for (const float value : {1e6f, 1e-30f, 0.0f, 1e-4f, -2e-5f}) values.push_back(value);
  const Histogram expected = histogram_of(values);
  for (int i = 0; i < 5; ++i) {
    std::shuffle(values.begin(), values.end(), random);
    Histogram single;
    for (const float value : values) single.add(std::span(&value, 1));
    EXPECT_TRUE(equal(single, expected));
    Histogram merged = histogram_of(std::span(values).first(1'000));
    merged.merge(histogram_of(std::span(values).subspan(1'000)));
    EXPECT_TRUE(equal(merged, expected)) << "merging is adding";
  }
}

TEST(Histogram, AFactorOfAPowerOfTwoMovesEveryBin) {
  std::vector<float> values = ramp(3'000, 7.0f);
  const Histogram histogram = histogram_of(values);
  for (float& value : values) value *= 0x1p-40f;
  const Histogram scaled = histogram_of(values);
  EXPECT_EQ(scaled.content().counts, histogram.content().counts);
  EXPECT_EQ(scaled.percentile(0.9), histogram.percentile(0.9) * 0x1p-40f);
}

TEST(Histogram, CountsWhatIsFarBelowTogether) {
  const Histogram histogram = histogram_of(std::vector<float>{0, 1e-20f, -1e-15f, 1.0f});
  const std::vector<Histogram::Bin> bins = histogram.bins();
  ASSERT_EQ(bins.size(), 2u);
  EXPECT_EQ(bins[0].low, 0);
  EXPECT_EQ(bins[0].high, 0x1p-31);
  EXPECT_EQ(bins[0].count, 3);
  EXPECT_EQ(bins[1].low, 1);
  EXPECT_EQ(bins[1].high, 1 + kBinWidth);
  EXPECT_EQ(bins[1].count, 1);
}

TEST(Histogram, HoldsTheExtremesOfFloat) {
  constexpr float kLeast = std::numeric_limits<float>::denorm_min(),
                  kMost = std::numeric_limits<float>::max();
  Histogram histogram = histogram_of(std::vector<float>{0, kLeast});
  EXPECT_EQ(histogram.percentile(1.0), kLeast);
  EXPECT_EQ(histogram.bins().size(), 1u);
  histogram.add(std::vector<float>{kMost, -1.0f, 1024.0f});
  EXPECT_EQ(histogram.amax(), kMost);
  EXPECT_EQ(histogram.percentile(1.0), kMost);
  EXPECT_EQ(histogram.bins().back().high, 0x1p128);
  Histogram empty;
  EXPECT_EQ(empty.percentile(0.5), 0.0f);
  EXPECT_TRUE(empty.bins().empty());
  empty.merge(histogram);
  EXPECT_TRUE(equal(empty, histogram));
}

TEST(Histogram, ComesBackFromItsContent) {
  std::mt19937 random(2);
  std::lognormal_distribution<float> heavy(0, 8);
  std::vector<float> values(5'000);
  std::generate(values.begin(), values.end(), [&] { return heavy(random); });
  for (const auto& given :
       {values, std::vector<float>{}, std::vector<float>{0, 0}, std::vector<float>{3.0f}}) {
    Histogram histogram = histogram_of(given);
    Histogram again(histogram.content());
    EXPECT_TRUE(equal(again, histogram));
    histogram.add(values);
    again.add(values);
    EXPECT_TRUE(equal(again, histogram)) << "and goes on";
  }
}

TEST(Histogram, RefusesContentThatNoValuesGive) {
  const auto refusal = [](const auto& change) {
    Histogram::Content content = histogram_of(std::vector<float>{1, 2, 300}).content();
    change(content);
    return error_text([&] { Histogram histogram(content); });
  };
  EXPECT_CONTAINS(refusal([](auto& c) { c.amax = std::nanf(""); }), "the largest value is nan");
  EXPECT_CONTAINS(refusal([](auto& c) { c.amax = -1; }), "the largest value is -1");
  EXPECT_CONTAINS(refusal([](auto& c) { c.below = -1; }), "a count is negative");
  EXPECT_CONTAINS(refusal([](auto& c) { c.counts[1] = int64_t{1} << 60; }), "above 2^53");
  for (const auto& fault :
       {refusal([](auto& c) { c.amax = 600; }), refusal([](auto& c) { c.counts.pop_back(); }),
        refusal([](auto& c) { c.counts.back() = 0; }), refusal([](auto& c) { c.counts.clear(); }),
        refusal([](auto& c) { c.first -= 1; }), refusal([](auto& c) {
          c.first -= 8'000;
          c.counts.insert(c.counts.begin(), 8'000, 0);
        })}) {
    EXPECT_CONTAINS(fault, "of the largest value");
  }
}

TEST(Histogram, TakesTheSameMemoryHoweverMuchItHolds) {
  Histogram histogram;
  const std::vector<float> values = ramp(100, 3.0f);
  for (int i = 0; i < 10'000; ++i) histogram.add(values);
  EXPECT_EQ(histogram.count(), 1'000'000);
  EXPECT_LE(histogram.content().counts.size() * sizeof(int64_t), Histogram::bytes());
  EXPECT_LT(Histogram::bytes(), 33'000u);
}

}  // namespace
}  // namespace flashrt
