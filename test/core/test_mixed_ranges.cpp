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

#include "base/number_format.hpp"
#include "compile_cpu.hpp"
#include "plan/builder.hpp"
#include "quant/precision.hpp"
#include "reference.hpp"

namespace flashrt {
namespace {

// Of normally distributed values in e4m3, root mean square: three bits behind the leading one.
constexpr double kNormalError = 0.0263;
// How far an error is from the one that is foretold, relative: among eight magnitudes of e2m1 it is
// not quite uniform over each step.
constexpr double kForetold = 0.08;

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
  const NumberFormat format = format_named(activation).value_or(NumberFormat::kNone);
  const float scale = scale_for(format, amax_of(reference.read));
  const std::string site = quantised[quantised.find(read_by_up(quantised))].site;
  Scales scales;
  if (!site.empty()) scales[site] = {scale};
  return {run(quantised, scales, ratio), reference, scale};
}

// The numbers of a format around a value: their distance, and where they end.
struct Steps {
  double step, largest;
};

Steps steps_around(NumberFormat format, double value, double scale, double block_amax) {
  switch (format) {
    case NumberFormat::kE4M3:
      return {reference::step_at(value / scale, 4, -6) * scale, 448 * scale};
    case NumberFormat::kE5M2:
      return {reference::step_at(value / scale, 3, -14) * scale, 57344 * scale};
    case NumberFormat::kInt8:
      return {scale, 127 * scale};
    case NumberFormat::kNvFp4:
      scale *= reference::e4m3_value(reference::e4m3_code(block_amax / 6 / scale));
      break;
    case NumberFormat::kMxFp4:
      scale = std::ldexp(1, std::ilogb(block_amax) - 2);
      break;
    case NumberFormat::kNone:
      return {0, std::numeric_limits<double>::infinity()};
  }
  return {reference::step_at(value / scale, 2, 0) * scale, 6 * scale};  // e2m1
}

// What the steps of a format foretell: an error that is uniform over the step around a value, all
// of a value that is below half a step, and what exceeds the largest number.
double foretold_error(NumberFormat format, std::span<const float> values, float scale) {
  const auto block = static_cast<size_t>(block_of(format));  // divides the width of a row
  double error = 0, square = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double value = std::abs(values[i]);
    const float block_amax = amax_of(values.subspan(i / block * block, block));
    const auto [step, largest] = steps_around(format, value, scale, block_amax);
    error += value > largest    ? std::pow(value - largest, 2)
             : value < step / 2 ? value * value
                                : step * step / 12;
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

constexpr float kRatios[] = {1, 10, 100, 300, 1000, 1e4, 3e4, 1e5, 1e6, 1e7, 1e8};

TEST(MixedRanges, TheStepsOfTheFormatForetellTheErrorOfTheSmallPart) {
  std::cout << "relative error of the small part, as foretold, as stored, after up, after norm; of "
               "the large part\n";
  for (const NumberFormat format : kNumberFormats) {
    double far_alone = 0;
    for (const float ratio : kRatios) {
      const auto [result, reference, scale] = mixed(std::string(name_of(format)), ratio);
      const double foretold = foretold_error(format, near_part(reference.read), scale);
      const double stored = error_of(near_part(result.read), near_part(reference.read));
      const double up = error_of(near_part(result.up), near_part(reference.up));
      const double normed = error_of(near_part(result.normed), near_part(reference.normed));
      const double far = error_of(far_part(result.read), far_part(reference.read));
      std::cout << std::setw(6) << name_of(format) << std::setw(8) << ratio << std::fixed
                << std::setprecision(4);
      for (const double error : {foretold, stored, up, normed, far})
        std::cout << std::setw(8) << error;
      std::cout << std::defaultfloat << '\n';
      EXPECT_NEAR(stored, foretold, kForetold * foretold) << format << ' ' << ratio;
      EXPECT_NEAR(up, stored, 0.06 * stored) << format << ' ' << ratio << ": a sum of many of them";
      EXPECT_GE(normed, 0.9 * up) << format << ' ' << ratio << ": a norm does not bring it back";
      if (ratio == 1) far_alone = far;
      EXPECT_NEAR(far, far_alone, 0.06 * far_alone) << format << ' ' << ratio << ": has its step";
    }
  }
}

// The ratio of ranges up to which a format holds the small part as well as alone, and the one from
// which on most of it is lost.
struct Reach {
  const char* format;
  float holds, loses;
};

TEST(MixedRanges, EachFormatHasItsReach) {
  constexpr Reach kReaches[] = {{"int8", 1, 300},
                                {"e4m3", 1000, 1e5},
                                {"e5m2", 1e6, 0},
                                {"nvfp4", 1000, 1e6},
                                {"mxfp4", 1e8, 0}};
  for (const auto& [format, holds, loses] : kReaches) {
    const auto stored = [&](float ratio) {
      const auto [result, reference, scale] = mixed(format, ratio);
      return error_of(near_part(result.read), near_part(reference.read));
    };
    const double alone = stored(1);
    EXPECT_LT(stored(holds), 1.1 * alone) << format;
    if (loses > 0) {
      EXPECT_GT(stored(loses), 0.4) << format;
    }
  }
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
  for (const std::string format : {"e4m3", "int8"}) {
    const Mixed placed = mixed(format, 300);
    for (const Join join : {Join::kCopied, Join::kConverted}) {
      const Mixed other = mixed(format, 300, join);
      EXPECT_EQ(other.result.read, placed.result.read) << format;
      EXPECT_EQ(other.result.up, placed.result.up) << format;
      EXPECT_EQ(other.result.normed, placed.result.normed) << format;
    }
  }
  // They do differ in how the parts come together.
  const auto calls = [](Join join) {
    return assign_precision(mixed_plan(join), reading_in("e4m3")).calls.size();
  };
  EXPECT_EQ(calls(Join::kPlaced), 6u);
  EXPECT_EQ(calls(Join::kCopied), 6u + 2u);
  EXPECT_EQ(calls(Join::kConverted), 6u + 2u) << "its float reader and a quantize call";
}

}  // namespace
}  // namespace flashrt
