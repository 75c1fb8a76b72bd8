// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Random weights: the same bits wherever an element is made, and the magnitudes that are promised.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "checkpoint/weights.hpp"
#include "expect_error.hpp"
#include "models/models.hpp"
#include "tiny_models.hpp"

namespace flashrt {
namespace {

struct Moments {
  double mean = 0, deviation = 0;
};

Moments moments(std::span<const float> values) {
  Moments m;
  for (const float value : values) m.mean += value;
  m.mean /= static_cast<double>(values.size());
  for (const float value : values) m.deviation += (value - m.mean) * (value - m.mean);
  m.deviation = std::sqrt(m.deviation / static_cast<double>(values.size()));
  return m;
}

// Wide enough for statistics, small enough for seconds.
ModelConfig wide() {
  ModelConfig config = tiny_pi05();
  config.expert.width = 256;
  config.language.width = 128;
  return config;
}

TEST(RandomNumbers, AreWorkedOutByHand) {
  const RandomNumbers numbers{.key = 5, .offset = 7, .unit = 0.125f};
  for (const uint64_t index : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 40}) {
    // SplitMix64 started at 5 gives mix(5 + k * golden ratio) as its k-th number.
    uint64_t z = 5;
    z += 0x9e3779b97f4a7c15u * (index + 1);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    const double sum =
        static_cast<double>((z & 0xffff) + ((z >> 16) & 0xffff) + ((z >> 32) & 0xffff) + (z >> 48));
    EXPECT_EQ(numbers[index], static_cast<float>((sum - 131070 + 7) * 0.125));
  }
}

TEST(RandomNumbers, CanStartAnywhere) {
  const RandomNumbers numbers{.key = 5, .offset = 7, .unit = 0.125f};
  EXPECT_EQ(numbers.from(0)[3], numbers[3]);
  EXPECT_EQ(numbers.from(1000)[3], numbers[1003]);
}

TEST(RandomNumbers, LookNormal) {
  const RandomNumbers numbers{.key = 1, .offset = 0, .unit = static_cast<float>(kRandomUnit)};
  constexpr int kCount = 1 << 20;
  std::vector<float> values;
  for (int i = 0; i < kCount; ++i) values.push_back(numbers[i]);
  const Moments all = moments(values);
  EXPECT_NEAR(all.mean, 0, 5e-3);
  EXPECT_NEAR(all.deviation, 1, 5e-3);
  double product = 0;
  int beyond_two = 0;
  for (int i = 1; i < kCount; ++i) {
    product += values[i] * values[i - 1];
    beyond_two += std::abs(values[i]) > 2;
  }
  EXPECT_NEAR(product / kCount, 0, 5e-3) << "neighbours are independent";
  EXPECT_NEAR(beyond_two / static_cast<double>(kCount), 0.0430, 2e-3) << "of four uniforms";
}

TEST(RandomWeights, HaveEveryWeightOfThePlan) {
  for (const ModelConfig& config : {tiny_pi05(), tiny_pi0()}) {
    const Weights weights = Weights::random(config, 3, 2);
    const Plan plan =
        build_plan(config, {.cameras = 1, .prompt_capacity = 4, .horizon = 2, .steps = 2});
    for (const WeightInfo& info : plan.weights)
      EXPECT_EQ(weights.load(info.name).shape, info.shape) << info.name;
  }
}

// A device makes the numbers of the description.
void expect_described(const Weights& weights, const std::string& name) {
  const RandomTensor tensor = weights.random_tensor(name).value();
  const HostTensor loaded = weights.load(name);
  EXPECT_EQ(tensor.shape, loaded.shape);
  size_t at = 0;
  for (const auto& [rows, numbers] : tensor.parts) {
    for (int64_t i = 0; i < rows * tensor.shape.width(); ++i)
      ASSERT_EQ(loaded.data[at++], numbers[i]) << name << " element " << i;
  }
  EXPECT_EQ(at, loaded.data.size());
}

TEST(RandomWeights, AreTheNumbersOfTheirDescription) {
  const Weights weights = Weights::random(wide(), 3, 2);
  for (const char* name : {"language.embed", "expert.0.attn_style.weight", "vision.norm.bias"})
    expect_described(weights, name);
}

TEST(RandomWeights, FollowFromSeedAndNameOnAnyNumberOfThreads) {
  const auto load = [](uint64_t seed, const std::string& name, int threads) {
    return Weights::random(wide(), seed, threads).load(name).data;
  };
  const std::string name = "expert.0.gate_up.weight";
  EXPECT_EQ(load(1, name, 1), load(1, name, 3));
  EXPECT_NE(load(1, name, 1), load(2, name, 1));
  EXPECT_NE(load(1, name, 1), load(1, "expert.1.gate_up.weight", 1));
}

TEST(RandomWeights, HaveTheDeviationsOfTheirKind) {
  const Weights weights = Weights::random(wide(), 1, 2);
  const auto expect = [&](const std::string& name, double mean, double deviation) {
    const Moments m = moments(weights.load(name).data);
    EXPECT_NEAR(m.mean, mean, 0.2 * deviation + 0.02) << name;
    EXPECT_NEAR(m.deviation, deviation, 0.25 * deviation) << name;
  };
  expect("expert.0.gate_up.weight", 0, 1 / std::sqrt(256.0));
  expect("language.embed", 0, 1);
  expect("vision.norm.weight", 1, 0.1);
  expect("time_in.bias", 0, 0.05);
  const HostTensor style = weights.load("expert.norm_style.bias");
  EXPECT_NEAR(moments(std::span(style.data).first(512)).mean, 0, 0.02) << "scale and shift";
  EXPECT_NEAR(moments(std::span(style.data).last(256)).mean, 0.5, 0.05) << "gate";
}

// Rows, in order, in which the same seed with outliers of 100 has other numbers.
std::vector<int64_t> rows_of_outliers(std::string_view name) {
  constexpr double kFactor = 100;
  const HostTensor plain = Weights::random(wide(), 1, 1).load(name);
  const HostTensor large = Weights::random(wide(), 1, 1, kFactor).load(name);
  EXPECT_EQ(plain.shape, large.shape);
  const int64_t width = plain.shape.width();
  std::vector<int64_t> rows;
  for (int64_t row = 0; row < plain.shape.rows(); ++row) {
    const std::span a = std::span(plain.data).subspan(row * width, width);
    const std::span b = std::span(large.data).subspan(row * width, width);
    if (std::ranges::equal(a, b)) continue;
    rows.push_back(row);
    // One rounding of the factor times the unit, and one of either product.
    for (int64_t i = 0; i < width; ++i)
      EXPECT_NEAR(b[i], kFactor * a[i], kFactor * std::abs(a[i]) * 3 * 0x1p-24) << name << row;
  }
  return rows;
}

TEST(RandomWeights, HaveOutliersInThreeChannelsOfTheStreamsAndInOneToken) {
  using Rows = std::vector<int64_t>;
  const Rows vision{3, 6, 9}, language{32, 64, 96};  // widths 12 and 128
  for (const char* name : {"vision.patch.weight", "vision.patch.bias", "vision.0.attn_out.weight",
                           "vision.0.attn_out.bias", "vision.1.fc2.weight", "vision.1.fc2.bias"})
    EXPECT_EQ(rows_of_outliers(name), vision) << name;
  for (const char* name : {"projector.weight", "projector.bias", "language.0.attn_out.weight",
                           "language.0.down.weight"})
    EXPECT_EQ(rows_of_outliers(name), language) << name;
  EXPECT_EQ(rows_of_outliers("language.embed"), Rows{kOutlierToken});
  for (const char* name :
       {"vision.patch.position", "vision.0.qkv.weight", "vision.0.fc1.bias", "vision.norm.weight",
        "language.0.qkv.weight", "language.0.gate_up.weight", "language.1.kv.weight",
        "expert.0.attn_out.weight", "expert.0.down.weight", "expert.0.attn_style.weight",
        "action_in.weight", "action_out.weight"})
    EXPECT_EQ(rows_of_outliers(name), Rows{}) << name;
}

TEST(RandomWeights, WithOutliersAreTheNumbersOfTheirDescription) {
  const Weights weights = Weights::random(wide(), 3, 2, 100);
  for (const char* name : {"language.embed", "projector.weight", "vision.patch.bias"})
    expect_described(weights, name);
}

TEST(RandomWeights, RefuseOutliersThatAreNoFactorOrHaveNoToken) {
  for (const double factor : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_CONTAINS(error_text([&] { Weights::random(tiny_pi05(), 7, 1, factor); }),
                    "expected a factor above 0, 1 for none");
  }
  ModelConfig config = tiny_pi05();
  config.vocab_size = 2;
  EXPECT_CONTAINS(error_text([&] { Weights::random(config, 7, 1, 100); }),
                  "outliers need token 2, the vocabulary has 2");
}

TEST(RandomWeights, NameModelAndSeedInTheirDigest) {
  const std::string digest = Weights::random(tiny_pi05(), 7, 1).digest();
  EXPECT_EQ(digest.substr(0, 19), "random pi05 seed 7 ");
  EXPECT_EQ(digest.size(), 19u + 16u);
  EXPECT_EQ(digest, Weights::random(tiny_pi05(), 7, 2).digest());
  EXPECT_NE(digest.substr(19), Weights::random(tiny_pi05(), 8, 1).digest().substr(19));
  EXPECT_NE(digest.substr(19), Weights::random(wide(), 7, 1).digest().substr(19));
  const std::string outliers = Weights::random(tiny_pi05(), 7, 1, 100).digest();
  EXPECT_EQ(outliers.substr(0, 32), "random pi05 seed 7 outliers 100 ");
  EXPECT_NE(outliers.substr(32), digest.substr(19));
}

TEST(RandomWeights, NameUnknownWeights) {
  const Weights weights = Weights::random(tiny_pi05(), 7, 1);
  EXPECT_CONTAINS(error_text([&] { weights.load("language.embedd"); }),
                  "no weight 'language.embedd'; nearest: 'language.embed'");
}

TEST(RandomWeights, AreThereForTheFullSize) {
  for (const ModelType type : {ModelType::kPi05, ModelType::kPi0}) {
    double elements = 0;
    for (const RandomTensor& tensor : random_tensors(full_size_config(type), 0))
      elements += static_cast<double>(tensor.shape.elements());
    EXPECT_NEAR(elements, type == ModelType::kPi05 ? 3.24e9 : 3.13e9, 0.05e9);
  }
}

}  // namespace
}  // namespace flashrt
