// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// The failure of quantisation in miniature: rows of hundreds and rows of one are placed in one
// value, which has one scale, so the small rows are rounded with the step of the large ones. Which
// formats lose them, from which ratio on, how much of them, and which rule of a recipe keeps them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <random>

#include "base/fp8.hpp"
#include "compile_cpu.hpp"
#include "plan/builder.hpp"
#include "quant/precision.hpp"
#include "reference.hpp"

namespace flashrt {
namespace {

// Of normally distributed values in e4m3, root mean square: three bits behind the leading one.
constexpr double kNormalError = 0.0263;

constexpr int64_t kRows = 48, kWidth = 64, kHidden = 96;  // rows of each part

// How the two parts come to lie in one value.
enum class Join {
  kPlaced,    // the calls that make them write them there
  kCopied,    // they are made elsewhere, and a call each copies them
  kConverted  // they are held in float32, and one call converts the whole for its reader
};

// Six calls: far and near, which are placed in `whole`; up, which reads it; glu, down, norm.
Plan mixed_plan(Join join, bool has_norm_before = false) {
  PlanBuilder b("mixed");
  const Value x_far = b.input("x_far", {kRows, kWidth}, DType::kF32);
  const Value x_near = b.input("x_near", {kRows, kWidth}, DType::kF32);
  b.stage("s", When::kInfer, 1, [&] {
    Value far = b.linear("far", x_far, "far", kWidth);
    Value near = b.linear("near", x_near, "near", kWidth);
    if (join == Join::kCopied) {
      far = b.linear("far_copy", far, "identity", kWidth);
      near = b.linear("near_copy", near, "identity", kWidth);
    }
    const Value whole = b.concat("whole", {far, near});
    Value read = whole;
    if (has_norm_before) read = b.add_norm("norm_before", {.residual = whole}, {}).y;
    const Value up = b.linear("up", read, "up", 2 * kHidden);
    const Value hidden = b.glu("glu", up, Activation::kSilu);
    const Value down = b.linear("down", hidden, "down", kWidth);
    b.add_norm("norm", {.residual = down}, {});
    if (join == Join::kConverted) b.linear("float_reader", whole, "down_float", kWidth);
  });
  return std::move(b).finish();
}

HostTensor random_tensor(uint32_t seed, int64_t rows, int64_t width, float factor) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, factor);
  HostTensor tensor{{rows, width}, std::vector<float>(static_cast<size_t>(rows * width))};
  for (float& value : tensor.data) value = normal(random);
  return tensor;
}

HostWeights mixed_weights() {
  const auto linear = [](uint32_t seed, int64_t rows, int64_t width) {
    return random_tensor(seed, rows, width, 1 / std::sqrt(static_cast<float>(width)));
  };
  HostTensor identity{{kWidth, kWidth}, std::vector<float>(kWidth * kWidth)};
  for (int64_t i = 0; i < kWidth; ++i) identity.data[i * kWidth + i] = 1;
  return {
      {"far.weight", linear(1, kWidth, kWidth)},        {"near.weight", linear(2, kWidth, kWidth)},
      {"up.weight", linear(3, 2 * kHidden, kWidth)},    {"down.weight", linear(4, kWidth, kHidden)},
      {"down_float.weight", linear(5, kWidth, kWidth)}, {"identity.weight", identity}};
}

// Everything in float32 but what `up` reads.
Recipe reading_in(const std::string& activation) {
  return Recipe::parse(R"({"format": "flashrt_recipe", "version": 1, "name": "mixed",
      "values": "f32", "rules": [
        {"match": "*", "weight": "f32", "activation": "f32"},
        {"match": "*.up", "weight": "f32", "activation": ")" +
                           activation + R"("}]})",
                       "test");
}

struct Result {
  std::vector<float> read;    // what `up` reads, by rows: those of far, then those of near
  std::vector<float> up;      // what it makes of it
  std::vector<float> normed;  // by the last call, which brings both to one range again
};

std::vector<float> values_of(const Program& program, const std::string& name) {
  const ValueInfo& info = program.plan()[program.plan().find(name)];
  std::vector<float> values(static_cast<size_t>(info.shape.elements()));
  program.read_float(name, values);
  return values;
}

std::string read_by_up(const Plan& plan) {
  for (const Call& call : plan.calls) {
    if (call.name == "s.up") return plan[std::get<Linear>(call.op).x].name;
  }
  ADD_FAILURE() << "no call up";
  return "";
}

Result run(const Plan& plan, const Scales& scales, float ratio) {
  const auto program =
      compile_cpu(plan, mixed_weights(), scales, 1, {.keep_values = true, .poison = true});
  const auto write = [&](const char* name, uint32_t seed, float factor) {
    const HostTensor x = random_tensor(seed, kRows, kWidth, factor);
    program->write(name, std::as_bytes(std::span(x.data)));
  };
  write("x_far", 11, ratio);
  write("x_near", 12, 1);
  program->run(When::kInfer);
  return {.read = values_of(*program, read_by_up(plan)),
          .up = values_of(*program, "s.up"),
          .normed = values_of(*program, "s.norm")};
}

float amax_of(std::span<const float> values) {
  float amax = 0;
  for (const float value : values) amax = std::max(amax, std::abs(value));
  return amax;
}

std::span<const float> far_part(const std::vector<float>& rows) {
  return std::span(rows).first(rows.size() / 2);
}
std::span<const float> near_part(const std::vector<float>& rows) {
  return std::span(rows).last(rows.size() / 2);
}

// Root mean square of the error, relative to that of the values.
double error_of(std::span<const float> values, std::span<const float> reference) {
  double error = 0, square = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    error += std::pow(static_cast<double>(values[i]) - reference[i], 2);
    square += std::pow(static_cast<double>(reference[i]), 2);
  }
  return std::sqrt(error / square);
}

struct Mixed {
  Result result, reference;  // in float32
  float scale = 1;           // of what `up` reads: the largest value is the largest code
};

Mixed mixed(const std::string& activation, float ratio, Join join = Join::kPlaced,
            bool has_norm_before = false) {
  const Plan plan = mixed_plan(join, has_norm_before);
  const Result reference = run(assign_precision(plan, Recipe::named("f32")), {}, ratio);
  const Plan quantised = assign_precision(plan, reading_in(activation));
  const float scale = e4m3_scale(amax_of(reference.read));
  const std::string site = quantised[quantised.find(read_by_up(quantised))].site;
  Scales scales;
  if (!site.empty()) scales[site] = {scale};
  return {run(quantised, scales, ratio), reference, scale};
}

// What the step of the format foretells: an error that is uniform over the step, or all of a value
// that is below half a step.
double foretold_error(std::span<const float> values, float scale) {
  double error = 0, square = 0;
  for (const double value : values) {
    const double step = reference::step_of(DType::kE4M3, value, scale);
    error += std::abs(value) < step / 2 ? value * value : step * step / 12;
    square += value * value;
  }
  return std::sqrt(error / square);
}

TEST(MixedRanges, APlanOfSixCallsPlacesBothPartsInOneValueOfOneScale) {
  const Plan plan = assign_precision(mixed_plan(Join::kPlaced), reading_in("e4m3"));
  ASSERT_EQ(plan.calls.size(), 6u) << "no call joins the parts";
  const Value whole = plan.find("whole");
  for (const char* part : {"s.far", "s.near"}) {
    const ValueInfo& info = plan[plan.find(part)];
    EXPECT_EQ(info.storage, whole) << part;
    EXPECT_EQ(info.site, "whole") << part << ": a part has no scale of its own";
  }
}

TEST(MixedRanges, TheStepsOfTheFormatForetellTheErrorOfTheSmallPart) {
  std::cout << "e4m3, one scale: relative error of the small part\n"
               "     ratio  foretold  stored  after up  after norm  large part\n";
  for (const float ratio : {1.0f, 10.0f, 300.0f, 1e4f, 3e4f, 1e5f, 3e5f, 1e6f}) {
    const auto [result, reference, scale] = mixed("e4m3", ratio);
    const double foretold = foretold_error(near_part(reference.read), scale);
    const double stored = error_of(near_part(result.read), near_part(reference.read));
    const double up = error_of(near_part(result.up), near_part(reference.up));
    const double normed = error_of(near_part(result.normed), near_part(reference.normed));
    const double far = error_of(far_part(result.read), far_part(reference.read));
    std::cout << std::setw(10) << ratio << std::fixed << std::setprecision(4) << std::setw(10)
              << foretold << std::setw(8) << stored << std::setw(10) << up << std::setw(12)
              << normed << std::setw(12) << far << std::defaultfloat << '\n';
    EXPECT_NEAR(stored, foretold, 0.05 * foretold) << ratio;
    EXPECT_NEAR(up, stored, 0.05 * stored) << ratio << ": a sum of many rounded values";
    EXPECT_GE(normed, up) << ratio << ": a norm after the loss does not bring it back";
    EXPECT_NEAR(far, kNormalError, 0.001) << ratio << ": what is large has its step";
  }
}

// A format with an exponent of its own per value rounds both parts alike until the small one falls
// under the smallest exponent.
TEST(MixedRanges, E4m3HoldsRangesOfHundredsAndLosesThoseOfAHundredThousand) {
  const auto stored = [](float ratio) {
    const auto [result, reference, scale] = mixed("e4m3", ratio);
    return error_of(near_part(result.read), near_part(reference.read));
  };
  EXPECT_NEAR(stored(300), kNormalError, 0.001);
  EXPECT_GT(stored(1e5), 0.4);
  EXPECT_EQ(stored(1e6), 1) << "nothing of it is left";
}

TEST(MixedRanges, ActivationsInBfloat16KeepBothParts) {
  for (const float ratio : {300.0f, 1e5f, 1e6f}) {
    const auto [result, reference, scale] = mixed("bf16", ratio);
    for (const auto part : {near_part, far_part}) {
      EXPECT_LT(error_of(part(result.read), part(reference.read)), 0.002) << ratio;
      EXPECT_LT(error_of(part(result.normed), part(reference.normed)), 0.005) << ratio;
    }
  }
}

// Why the prefix of the models can hold image and text rows in one value: their first reader is a
// norm, which brings every row to one range before anything is quantised.
TEST(MixedRanges, ANormBeforeTheReaderKeepsBothParts) {
  const auto [result, reference, scale] = mixed("e4m3", 1e5, Join::kPlaced, true);
  for (const auto part : {near_part, far_part})
    EXPECT_NEAR(error_of(part(result.read), part(reference.read)), kNormalError, 0.001);
}

TEST(MixedRanges, PlacementDoesNotHideIt) {
  for (const float ratio : {300.0f, 1e5f}) {
    const Mixed placed = mixed("e4m3", ratio);
    for (const Join join : {Join::kCopied, Join::kConverted}) {
      const Mixed other = mixed("e4m3", ratio, join);
      EXPECT_EQ(other.result.read, placed.result.read) << ratio;
      EXPECT_EQ(other.result.up, placed.result.up) << ratio;
      EXPECT_EQ(other.result.normed, placed.result.normed) << ratio;
    }
  }
  // They do differ in how the parts come together.
  const auto calls = [](Join join) {
    return assign_precision(mixed_plan(join), reading_in("e4m3")).calls.size();
  };
  EXPECT_EQ(calls(Join::kCopied), 6u + 2u);
  EXPECT_EQ(calls(Join::kConverted), 6u + 2u) << "its float reader and a quantize call";
}

}  // namespace
}  // namespace flashrt
