// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Number formats that the CPU backend emulates: weights and activations are what round_to() makes
// of them, a linear computes with those, and whatever does not emulate them refuses by name.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>
#include <map>
#include <random>

#include "compile_cpu.hpp"
#include "expect_error.hpp"
#include "plan/builder.hpp"
#include "plan/checks.hpp"
#include "quant/pack.hpp"
#include "quant/precision.hpp"
#include "temporary_folder.hpp"
#include "tiny_models.hpp"

namespace flashrt {
namespace {

constexpr NumberFormat kEmulated[] = {NumberFormat::kE5M2, NumberFormat::kInt8,
                                      NumberFormat::kNvFp4, NumberFormat::kMxFp4};

float amax_of(std::span<const float> values) {
  float amax = 0;
  for (const float value : values) amax = std::max(amax, std::abs(value));
  return amax;
}

std::vector<float> random_values(uint32_t seed, int64_t n, float deviation = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

// Rows of spreads from 1 to 100.
HostTensor random_tensor(uint32_t seed, int64_t rows, int64_t width) {
  HostTensor tensor{{rows, width}, random_values(seed, rows * width)};
  for (int64_t i = 0; i < rows * width; ++i)
    tensor.data[i] *= std::pow(100.0f, static_cast<float>(i / width) / static_cast<float>(rows));
  return tensor;
}

std::vector<float> rounded_values(const WeightInfo& info, const HostTensor& tensor) {
  ThreadPool pool(2);
  const RoundedWeight rounded = round_weight(info, tensor, pool);
  EXPECT_EQ(rounded.type, DType::kF32);
  EXPECT_TRUE(rounded.scales.empty()) << "real values have none";
  std::vector<float> values(tensor.data.size());
  EXPECT_EQ(rounded.data.size(), values.size() * sizeof(float));
  std::memcpy(values.data(), rounded.data.data(), rounded.data.size());
  return values;
}

double squared_error(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::pow(double{a[i]} - double{b[i]}, 2);
  return sum;
}

// ---- weights

TEST(EmulatedWeight, HoldsWhatTheFormatHoldsOfIt) {
  const HostTensor tensor = random_tensor(1, 9, 70);  // the last block of a row is short
  for (const NumberFormat format : kEmulated) {
    for (const WeightScale scale : {WeightScale::kTensor, WeightScale::kChannel}) {
      const bool has_choice = takes_weight_scale(format);
      if (!has_choice && scale == WeightScale::kChannel) continue;
      const WeightInfo info{.name = "w",
                            .shape = tensor.shape,
                            .scale = has_choice ? scale : WeightScale::kNone,
                            .format = format};
      std::vector<float> expected = tensor.data;
      for (int64_t row = 0; row < 9; ++row) {
        const auto values = std::span(expected).subspan(row * 70, 70);
        const auto scaled = scale == WeightScale::kChannel
                                ? std::span<const float>(tensor.data).subspan(row * 70, 70)
                                : std::span<const float>(tensor.data);
        round_to(format, scale_for(format, amax_of(scaled)), values);
      }
      EXPECT_EQ(rounded_values(info, tensor), expected) << format << ", " << describe(scale);
      EXPECT_NE(expected, tensor.data);
    }
  }
}

TEST(EmulatedWeight, AScalePerChannelIsFinerForSmallChannels) {
  const HostTensor tensor = random_tensor(2, 16, 64);
  const auto error = [&](WeightScale scale) {
    return squared_error(
        tensor.data,
        rounded_values(
            {.name = "w", .shape = tensor.shape, .scale = scale, .format = NumberFormat::kInt8},
            tensor));
  };
  EXPECT_LT(error(WeightScale::kChannel), 0.5 * error(WeightScale::kTensor));
}

TEST(EmulatedWeight, ItsRangeCutsOffWhatTheEstimatorSays) {
  HostTensor tensor{{8, 512}, random_values(3, 8 * 512)};
  for (int64_t row = 0; row < 8; ++row) tensor.data[row * 512 + 7] = 20;  // far from all others
  const auto rounded = [&](WeightRange range) {
    return rounded_values({.name = "w",
                           .shape = tensor.shape,
                           .scale = WeightScale::kChannel,
                           .format = NumberFormat::kInt8,
                           .range = range},
                          tensor);
  };
  const std::vector<float> whole = rounded({});
  EXPECT_FLOAT_EQ(whole[7], 20.0f);
  const std::vector<float> cut = rounded({RangeEstimator::kPercentile, 0.99});
  EXPECT_LT(cut[7], 4.0f) << "99 of 100 values";
  EXPECT_GT(cut[7], 2.0f);
  // The least squared error of a row is that of its range: no other estimator is below it.
  const double least = squared_error(rounded({RangeEstimator::kMse, 1}), tensor.data);
  EXPECT_LE(least, 1.05 * squared_error(whole, tensor.data));
  EXPECT_LE(least, 1.05 * squared_error(cut, tensor.data));
  EXPECT_NE(rounded({RangeEstimator::kEntropy, 1}), whole);
}

TEST(EmulatedWeight, E4M3HasARangeToo) {
  HostTensor tensor{{1, 4096}, random_values(4, 4096)};
  tensor.data[0] = 1000;
  ThreadPool pool(1);
  const auto scale = [&](WeightRange range) {
    return round_weight({.name = "w",
                         .shape = tensor.shape,
                         .type = DType::kE4M3,
                         .scale = WeightScale::kTensor,
                         .range = range},
                        tensor, pool)
        .scales;
  };
  EXPECT_EQ(scale({}), (std::vector<float>{1000.0f / 448}));
  EXPECT_LT(scale({RangeEstimator::kPercentile, 0.999})[0], 5.0f / 448);
}

TEST(EmulatedWeight, NamesWhatIsWrong) {
  HostTensor tensor{{2, 4}, std::vector<float>(8, 1.0f)};
  WeightInfo info{.name = "w", .shape = tensor.shape, .format = NumberFormat::kInt8};
  ThreadPool pool(1);
  const auto refusal = [&] { return error_text([&] { round_weight(info, tensor, pool); }); };
  EXPECT_CONTAINS(refusal(), "weight w: int8 with no scale");
  info.scale = WeightScale::kChannel;
  info.format = NumberFormat::kMxFp4;
  EXPECT_CONTAINS(refusal(), "weight w: mxfp4 with a scale per channel");
  info.format = NumberFormat::kInt8;
  info.range.estimator = RangeEstimator::kMse;
  tensor.data[3] = std::numeric_limits<float>::infinity();
  EXPECT_CONTAINS(refusal(), "weight w: not all of it is finite, which its range by mse needs");
}

// ---- activations

Recipe formats(NumberFormat weight, NumberFormat activation, DType values = DType::kF32) {
  Recipe recipe{.name = "test", .values = values};
  RecipeRule rule{.match = "*"};
  if (weight != NumberFormat::kNone) rule.weight = weight;
  if (takes_weight_scale(weight)) rule.weight_scale = WeightScale::kChannel;
  if (activation != NumberFormat::kNone) rule.activation = activation;
  recipe.rules = {rule};
  return recipe;
}

constexpr int64_t kRows = 6, kWidth = 40, kOut = 24;

// x, whose rows have a length, and a linear that reads its last columns in each of two steps.
Plan linear_plan() {
  PlanBuilder b("linear");
  const Value length = b.input("length", Shape{}, DType::kI32);
  const Value x =
      b.input("x", Rows{.capacity = kRows, .length = length}, {kWidth + 8}, DType::kF32);
  b.stage("s", When::kInfer, 2, [&] { b.linear("y", b.columns(x, 8, kWidth), "w", kOut); });
  return std::move(b).finish();
}

TEST(EmulatedActivation, ALinearComputesWithRoundedFactors) {
  const HostTensor w = random_tensor(5, kOut, kWidth);
  const std::vector<float> x = random_values(6, kRows * (kWidth + 8), 3);
  const int32_t length = 5;
  for (const NumberFormat format : kEmulated) {
    const Plan plan = assign_precision(linear_plan(), formats(format, format));
    const std::vector<float> scales{scale_for(format, 9.0f), scale_for(format, 4.0f)};
    Scales by_site;
    if (has_scale(format)) by_site["x[:, 8:48]"] = scales;
    const auto program = compile_cpu(plan, {{"w.weight", w}}, by_site);
    program->write("length", std::as_bytes(std::span(&length, 1)));
    program->write("x", std::as_bytes(std::span(x)));
    const std::vector<float> w_rounded = rounded_values(plan.weight("w.weight"), w);
    int iterations = 0;
    program->run_observed(When::kInfer, [&](int call, int iteration) {
      if (plan.calls[call].name != "s.y") return;
      ++iterations;
      std::vector<float> y(length * kOut);
      program->read_float("s.y", y);
      for (int64_t row = 0; row < length; ++row) {
        std::vector<float> in(x.begin() + row * (kWidth + 8) + 8,
                              x.begin() + (row + 1) * (kWidth + 8));
        round_to(format, scales[iteration], in);
        for (int64_t out = 0; out < kOut; ++out) {
          double sum = 0, size = 0;
          for (int64_t i = 0; i < kWidth; ++i) {
            const double product = double{in[i]} * double{w_rounded[out * kWidth + i]};
            sum += product;
            size += std::abs(product);
          }
          EXPECT_NEAR(y[row * kOut + out], sum, 1e-6 * size) << format << ", step " << iteration;
        }
      }
    });
    EXPECT_EQ(iterations, 2);
  }
}

TEST(EmulatedActivation, ValuesAreOnTheGridWhateverTheirProducerHolds) {
  PlanBuilder b("mlp");
  const Value x = b.input("x", {4, 48}, DType::kF32);
  b.stage("s", When::kInfer, 1, [&] {
    const Value h = b.linear("h", x, "h", 40);
    b.linear("y", h, "y", 8);
    b.add_norm("norm", {.residual = h}, {});  // holds h in bf16
  });
  Recipe recipe = formats(NumberFormat::kNone, NumberFormat::kNone, DType::kBF16);
  recipe.rules.push_back({.match = "s.y", .activation = NumberFormat::kNvFp4});
  const Plan plan = assign_precision(std::move(b).finish(), recipe);
  const float scale = scale_for(NumberFormat::kNvFp4, 20.0f);
  const auto program = compile_cpu(
      plan, {{"h.weight", random_tensor(7, 40, 48)}, {"y.weight", random_tensor(8, 8, 40)}},
      {{"s.h", {scale}}}, 2, {.keep_values = true});
  const std::vector<float> input = random_values(9, 4 * 48, 0.1f);
  program->write("x", std::as_bytes(std::span(input)));
  program->run(When::kInfer);
  std::vector<float> h(4 * 40), rounded(4 * 40);
  program->read_float("s.h", h);
  program->read_float("s.h.quantize", rounded);
  for (int row = 0; row < 4; ++row)
    round_to(NumberFormat::kNvFp4, scale, std::span(h).subspan(row * 40, 40));
  EXPECT_EQ(rounded, h);
  // What a comparison writes from outside is rounded as well.
  const std::vector<float> outside = random_values(10, 4 * 40);
  program->write_float("s.h.quantize", 0, outside);
  program->read_float("s.h.quantize", rounded);
  std::vector<float> expected = outside;
  for (int row = 0; row < 4; ++row)
    round_to(NumberFormat::kNvFp4, scale, std::span(expected).subspan(row * 40, 40));
  EXPECT_EQ(rounded, expected);
}

TEST(EmulatedActivation, NeedsItsCalibration) {
  const Plan plan =
      assign_precision(linear_plan(), formats(NumberFormat::kNone, NumberFormat::kInt8));
  const HostWeights weights{{"w.weight", random_tensor(5, kOut, kWidth)}};
  EXPECT_CONTAINS(error_text([&] { compile_cpu(plan, weights, {}); }),
                  "calibration has no site 'x[:, 8:48]'");
  EXPECT_CONTAINS(error_text([&] {
                    compile_cpu(plan, weights, {{"x[:, 8:48]", {1, 1, 1}}});
                  }),
                  "has 3 scales, stage s runs 2 times");
}

TEST(EmulatedActivation, RefusesTheScalesOfAnotherFormat) {
  const Plan plan =
      assign_precision(linear_plan(), formats(NumberFormat::kNone, NumberFormat::kInt8));
  Calibration calibration;
  calibration.set_scales("x[:, 8:48]", {1.0f}, NumberFormat::kE4M3);
  const auto weights = cpu_weights(plan, {{"w.weight", random_tensor(5, kOut, kWidth)}});
  EXPECT_CONTAINS(error_text([&] { make_cpu_backend(1)->compile(plan, weights, calibration, {}); }),
                  "calibration site x[:, 8:48] has scales for e4m3, the recipe holds it in int8; "
                  "calibrate with "
                  "this recipe");
}

// ---- four layers: the error of a format, alone and on both sides

Plan deep_plan() {
  PlanBuilder b("deep");
  const Value x = b.input("x", {32, 96}, DType::kF32);
  b.stage("s", When::kInfer, 1, [&] {
    Normed stream = b.add_norm("norm", {.residual = b.linear("in", x, "in", 96)}, {});
    for (int layer = 0; layer < 4; ++layer) {
      const std::string name = std::to_string(layer);
      const Value up = b.linear("up" + name, stream.y, "up" + name, 2 * 96);
      const Value hidden = b.glu("glu" + name, up, Activation::kSilu);
      const Value down = b.linear("down" + name, hidden, "down" + name, 96);
      stream = b.add_norm("norm" + name, {.residual = stream.residual, .delta = down}, {});
    }
  });
  return std::move(b).finish();
}

class DeepNetwork : public testing::Test {
 protected:
  DeepNetwork() {
    for (const WeightInfo& info : deep_plan().weights) {
      weights_[info.name] = {
          info.shape,
          random_values(static_cast<uint32_t>(weights_.size()) + 20, info.shape.elements(),
                        1 / std::sqrt(static_cast<float>(info.shape.width())))};
    }
  }

  std::vector<float> run(const Plan& plan, const Scales& scales, const Observer& observer = {}) {
    program_ = compile_cpu(plan, weights_, scales);
    const std::vector<float> x = random_values(11, 32 * 96);
    program_->write("x", std::as_bytes(std::span(x)));
    program_->run_observed(When::kInfer, observer);
    std::vector<float> y(32 * 96);
    program_->read_float("s.norm3", y);
    return y;
  }

  // Relative to the result in float32, root mean square.
  double error(NumberFormat weight, NumberFormat activation) {
    Recipe recipe = formats(weight, activation);
    recipe.float_activations = true;
    const Plan measured = assign_precision(deep_plan(), recipe);
    Scales scales;
    run(measured, {}, [&](int call, int) {
      for_each_write(measured.calls[call], [&](Value value) {
        const ValueInfo& info = measured[value];
        if (info.site.empty()) return;
        std::vector<float> values(info.shape.elements());
        program_->read_float(info.name, values);
        scales[info.site] = {scale_for(info.format, amax_of(values))};
      });
    });
    recipe.float_activations = false;
    const std::vector<float> y = run(assign_precision(deep_plan(), recipe), scales);
    const std::vector<float> exact = run(deep_plan(), {});
    return std::sqrt(squared_error(y, exact) /
                     squared_error(exact, std::vector<float>(exact.size())));
  }

  HostWeights weights_;
  std::unique_ptr<Program> program_;
};

TEST_F(DeepNetwork, ErrorsAreOrderedAsTheFormatsAre) {
  constexpr NumberFormat kNone = NumberFormat::kNone;
  // Of normally distributed values; ascending.
  constexpr NumberFormat kOrder[] = {NumberFormat::kInt8, NumberFormat::kE4M3, NumberFormat::kE5M2,
                                     NumberFormat::kNvFp4, NumberFormat::kMxFp4};
  EXPECT_EQ(error(kNone, kNone), 0);
  std::map<NumberFormat, double> weights, both;
  for (const NumberFormat format : kOrder) {
    weights[format] = error(format, kNone);
    const double activations = error(kNone, format);
    both[format] = error(format, format);
    std::cout << format << ": weights " << weights[format] << ", both " << both[format] << '\n';
    EXPECT_GT(both[format], std::max(weights[format], activations)) << format;
    EXPECT_LT(both[format], 1.2 * std::hypot(weights[format], activations))
        << format << ": the two are independent";
  }
  for (const auto& errors : {weights, both}) {
    double last = 0;
    for (const NumberFormat format : kOrder) {
      EXPECT_GT(errors.at(format), 1.05 * last) << format;
      last = errors.at(format);
    }
  }
  EXPECT_LT(both[NumberFormat::kInt8], 0.05);
  EXPECT_LT(both[NumberFormat::kE4M3], 0.12);
  EXPECT_LT(both[NumberFormat::kMxFp4], 0.6);
}

// ---- who does not emulate them

TEST(NotEmulated, IsRefusedByName) {
  constexpr NumberFormat kNone = NumberFormat::kNone;
  const auto refusal = [](NumberFormat weight, NumberFormat activation) {
    const Plan plan = assign_precision(linear_plan(), formats(weight, activation));
    return error_text([&] { check_not_emulated(plan, "say why"); });
  };
  EXPECT_EQ(refusal(NumberFormat::kInt8, kNone),
            "recipe test: call s.y reads its weight in int8; say why");
  EXPECT_EQ(refusal(kNone, NumberFormat::kNvFp4),
            "recipe test: call s.y reads its activation in nvfp4; say why");
  check_not_emulated(
      assign_precision(linear_plan(), formats(NumberFormat::kE4M3, NumberFormat::kE4M3)), "");
}

TEST(NotEmulated, PackingRefusesBeforeItReads) {
  const Plan plan =
      assign_precision(linear_plan(), formats(NumberFormat::kMxFp4, NumberFormat::kNone));
  const TemporaryFolder folder;
  ThreadPool pool(1);
  const auto path = folder.path() / "packed.safetensors";
  EXPECT_CONTAINS(error_text([&] {
                    write_packed(path, plan, Weights::random(tiny_pi05(), 1, 1), "test", pool);
                  }),
                  "recipe test: call s.y reads its weight in mxfp4; packed files do not hold it");
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(NotEmulated, APackedTensorIsNotTakenForOne) {
  const HostTensor tensor = random_tensor(1, 2, 32);
  ThreadPool pool(1);
  const WeightInfo plain{.name = "w", .shape = tensor.shape};
  const RoundedWeight rounded = round_weight(plain, tensor, pool);
  check_packed(plain, rounded.view());
  WeightInfo wanted = plain;
  wanted.format = NumberFormat::kNvFp4;
  EXPECT_CONTAINS(error_text([&] { check_packed(wanted, rounded.view()); }),
                  "weight w is wanted in nvfp4, which packed files do not hold");
}

TEST(NotEmulated, WeightsOfAnotherFormatAreNotTaken) {
  const Plan plan =
      assign_precision(linear_plan(), formats(NumberFormat::kInt8, NumberFormat::kNone));
  const HostWeights weights{{"w.weight", random_tensor(5, kOut, kWidth)}};
  const auto uploaded = cpu_weights(
      assign_precision(linear_plan(), formats(NumberFormat::kE5M2, NumberFormat::kNone)), weights);
  EXPECT_CONTAINS(error_text([&] { make_cpu_backend(1)->compile(plan, uploaded, {}, {}); }),
                  "weight w.weight is held as e5m2 with a scale per channel, the plan reads int8");
}

TEST(CpuWeights, BytesAreThoseOfFloat32) {
  const Plan plan =
      assign_precision(linear_plan(), formats(NumberFormat::kInt8, NumberFormat::kNone));
  const HostWeights weights{{"w.weight", random_tensor(5, kOut, kWidth)}};
  EXPECT_EQ(cpu::CpuWeights::bytes_for(plan), kOut * kWidth * sizeof(float));
  EXPECT_EQ(cpu_weights(plan, weights)->bytes(), kOut * kWidth * sizeof(float));
}

}  // namespace
}  // namespace flashrt
