// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Costs of calls, against numbers worked out by hand.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "checkpoint/model_config.hpp"
#include "models/models.hpp"
#include "plan/cost.hpp"
#include "quant/precision.hpp"

namespace flashrt {
namespace {

const Call& call_of(const Plan& plan, const std::string& name) {
  for (const Call& call : plan.calls) {
    if (call.name == name) return call;
  }
  throw Error("no call " + name);
}

Plan full_size(const std::string& recipe) {
  return assign_precision(
      build_plan(full_size_config(ModelType::kPi05),
                 {.cameras = 2, .prompt_capacity = 200, .horizon = 10, .steps = 10}),
      Recipe::named(recipe));
}

void expect_cost(const Cost& cost, const Cost& expected) {
  EXPECT_EQ(cost.flops, expected.flops);
  EXPECT_EQ(cost.product, expected.product);
  EXPECT_EQ(cost.weight_bytes, expected.weight_bytes);
  EXPECT_EQ(cost.read_bytes, expected.read_bytes);
  EXPECT_EQ(cost.written_bytes, expected.written_bytes);
}

// 522 of 712 rows are valid: 512 of the images, 10 of the prompt.
TEST(Cost, OfALinearCountsValidRows) {
  const Plan plan = full_size("fp8");
  expect_cost(cost_of(plan, call_of(plan, "prefix.3.gate_up"), 10),
              {.flops = 2.0 * 522 * 2048 * 32768,
               .product = DType::kE4M3,
               .weight_bytes = 2048.0 * 32768 + 4 * 32768,
               .read_bytes = 522.0 * 2048,
               .written_bytes = 522.0 * 32768 * 2});
  const Plan wide = full_size("f32");
  expect_cost(cost_of(wide, call_of(wide, "denoise.velocity"), 10),
              {.flops = 2.0 * 10 * 1024 * 32,
               .product = DType::kF32,
               .weight_bytes = 4.0 * (32 * 1024 + 32),
               .read_bytes = 4.0 * 10 * 1024,
               .written_bytes = 4.0 * 10 * 32});
}

// What a device with the format would move, whatever the CPU holds.
TEST(Cost, OfNumberFormatsCountsTheirBits) {
  const auto cost_with = [](const RecipeRule& rule) {
    const Plan plan = assign_precision(
        build_plan(full_size_config(ModelType::kPi05),
                   {.cameras = 2, .prompt_capacity = 200, .horizon = 10, .steps = 10}),
        {.name = "test", .rules = {rule}});
    return cost_of(plan, call_of(plan, "prefix.3.gate_up"), 10);
  };
  const double numbers = 2048.0 * 32768;
  EXPECT_EQ(
      cost_with(
          {.match = "*", .weight = NumberFormat::kInt8, .weight_scale = WeightScale::kChannel})
          .weight_bytes,
      numbers + 4 * 32768);
  EXPECT_EQ(
      cost_with({.match = "*", .weight = NumberFormat::kE5M2, .weight_scale = WeightScale::kTensor})
          .weight_bytes,
      numbers + 4);
  const RecipeRule nvfp4{
      .match = "*", .weight = NumberFormat::kNvFp4, .activation = NumberFormat::kNvFp4};
  EXPECT_EQ(cost_with(nvfp4).weight_bytes, numbers * 4.5 / 8 + 4);
  EXPECT_EQ(cost_with(nvfp4).read_bytes, 522 * 2048 * 4.5 / 8);
  EXPECT_EQ(cost_with({.match = "*", .weight = NumberFormat::kMxFp4}).weight_bytes,
            numbers * 4.25 / 8);
}

TEST(Cost, OfAPlanCountsEveryWeightOnce) {
  for (const char* name : {"f32", "bf16", "fp8"}) {
    const Plan plan = full_size(name);
    double bytes = 0;
    for (const WeightInfo& info : plan.weights) {
      bytes += static_cast<double>(info.shape.elements()) * static_cast<double>(size_of(info.type));
      if (info.scale == WeightScale::kChannel)
        bytes += 4.0 * static_cast<double>(info.shape.rows());
    }
    EXPECT_EQ(weight_bytes(plan), bytes) << name;
  }
}

TEST(Cost, OfAttentionCountsTheKeysThatAreSeen) {
  const Plan plan = full_size("bf16");
  // 8 heads of 256 over one head of keys: 10 of the actions, 512 of the images, the prompt.
  expect_cost(cost_of(plan, call_of(plan, "denoise.0.attn"), 30),
              {.flops = 4.0 * 10 * 8 * 256 * 552,
               .product = DType::kBF16,
               .read_bytes = 2.0 * (10 * 2048 + 2 * 552 * 256),
               .written_bytes = 2.0 * 10 * 2048});
  // 16 heads of 72; a picture does not see the other.
  expect_cost(cost_of(plan, call_of(plan, "vision.0.attn"), 30),
              {.flops = 4.0 * 512 * 16 * 72 * 256,
               .product = DType::kBF16,
               .read_bytes = 2.0 * 3 * 512 * 1152,
               .written_bytes = 2.0 * 512 * 1152});
}

TEST(Cost, OfACausalMaskAndTwoRanges) {
  PlanBuilder b("test");
  const Value q = b.input("q", {4, 6}, DType::kF32), k = b.input("k", {9, 2}, DType::kF32),
              v = b.input("v", {9, 2}, DType::kF32);
  b.stage("s", When::kInfer, 1, [&] {
    b.attention("a", q, k, v,
                {.heads = 3,
                 .kv_heads = 1,
                 .head_dim = 2,
                 .mask = Mask::kCausal,
                 .mask_argument = 0,
                 .ranges = {{.begin = 0, .count = 3}, {.begin = 5, .count = 2}}});
  });
  const Plan plan = std::move(b).finish();
  // Queries 0 to 3 see keys up to their own of {0, 1, 2}, and both of {5, 6}: 3 + 4 + 5 + 5.
  expect_cost(cost_of(plan, plan.calls[0], 0), {.flops = 4.0 * 17 * 3 * 2,
                                                .read_bytes = 4.0 * (4 * 6 + 2 * 5 * 2),
                                                .written_bytes = 4.0 * 4 * 6});
}

TEST(Cost, OfEmbeddingsCountsTheRowsThatAreRead) {
  const Plan plan = full_size("fp8");
  expect_cost(
      cost_of(plan, call_of(plan, "prompt.embed"), 7),
      {.weight_bytes = 7.0 * 2048 * 2, .read_bytes = 7.0 * 4, .written_bytes = 7.0 * 2048 * 2});
  expect_cost(cost_of(plan, call_of(plan, "vision.patch"), 7),
              {.flops = 2.0 * 512 * 1152 * 588,
               .product = DType::kBF16,
               .weight_bytes = 2.0 * (1152 * 588 + 256 * 1152) + 4 * 1152,
               .read_bytes = 2.0 * 224 * 224 * 3,
               .written_bytes = 512.0 * 1152 * 2});
}

TEST(Cost, OfANormIsItsBytes) {
  const Plan plan = full_size("fp8");
  // residual and delta in, residual out in bf16; y in e4m3; gate, scale and shift in f32.
  expect_cost(
      cost_of(plan, call_of(plan, "denoise.4.mlp_norm"), 0),
      {.read_bytes = 10.0 * 1024 * 2 * 2 + 3 * 1024 * 4, .written_bytes = 10.0 * 1024 * (2 + 1)});
}

// The sums that the floors of docs/performance.md are made of.
TEST(Cost, OfAWholeInference) {
  const Plan plan = full_size("fp8");
  std::map<std::string, double> flops, weights;
  for (const Stage& stage : plan.stages) {
    for (int call = stage.first; call < stage.last; ++call) {
      const Cost cost = cost_of(plan, plan.calls[call], 10);
      flops[stage.name] += stage.repeat * cost.flops;
      weights[stage.name] += stage.repeat * cost.weight_bytes;
    }
  }
  EXPECT_NEAR(flops["vision"], 0.44e12, 0.01e12);
  EXPECT_NEAR(flops["prefix"], 2.02e12, 0.03e12);     // the last layer makes keys and values only
  EXPECT_NEAR(flops["denoise"], 0.070e12, 0.001e12);  // of that 0.008 is attention
  EXPECT_NEAR(weights["vision"], 0.41e9, 0.01e9);
  EXPECT_NEAR(weights["prefix"], 1.87e9, 0.02e9);
  EXPECT_NEAR(weights["denoise"], 3.11e9, 0.02e9);
}

}  // namespace
}  // namespace flashrt
