// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// The models: their printed plans equal the saved texts, so that every change of a model is seen
// and meant.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "expect_error.hpp"
#include "models/models.hpp"
#include "plan/print.hpp"
#include "quant/precision.hpp"
#include "tiny_models.hpp"

namespace flashrt {
namespace {

std::string saved(const std::string& name) {
  std::ifstream file(FLASHRT_TEST_DATA "/" + name);
  EXPECT_TRUE(file) << "no file " << FLASHRT_TEST_DATA << "/" << name;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void expect_saved(const Plan& plan, const std::string& name) {
  const std::string printed = print(plan);
  if (printed == saved(name)) return;
  const std::string path = testing::TempDir() + name;
  std::ofstream(path) << printed;
  ADD_FAILURE() << "the plan differs from test/core/data/" << name << "; the new one is " << path
                << ". If the change is meant, copy it there.";
}

const PlanOptions kOptions{.cameras = 2, .prompt_capacity = 7, .horizon = 3, .steps = 4};

TEST(Models, Pi05PlanIsAsSaved) {
  expect_saved(build_plan(tiny_pi05(), kOptions), "pi05.plan.txt");
}

TEST(Models, Pi0PlanIsAsSaved) { expect_saved(build_plan(tiny_pi0(), kOptions), "pi0.plan.txt"); }

TEST(Models, GuidedPi05PlanIsAsSaved) {
  PlanOptions options = kOptions;
  options.guided = true;
  expect_saved(build_plan(tiny_pi05(), options), "pi05_guided.plan.txt");
}

TEST(Models, FramesAreResizedInTheirOwnStage) {
  PlanOptions options = kOptions;
  options.max_image_bytes = 1001;
  for (const bool floats : {false, true}) {
    options.float_images = floats;
    const Plan plan = assign_precision(build_plan(tiny_pi05(), options), Recipe::named("bf16"));
    const auto first = std::ranges::find(plan.stages, When::kInfer, &Stage::when);
    EXPECT_EQ(first->name, "input");
    EXPECT_EQ(first->last - first->first, 1);
    const int64_t size = tiny_pi05().vision.image_size;
    EXPECT_EQ(plan[plan.find("frames")].shape, (Shape{2, 1008}));  // whole units of 16 bytes
    const ValueInfo& images = plan[plan.find("input.images")];
    EXPECT_EQ(images.shape, (Shape{2, size, size, 3}));
    EXPECT_EQ(images.type, floats ? DType::kF32 : DType::kU8);
    EXPECT_THROW(plan.find("images"), Error);
  }
}

TEST(Models, LastPrefixLayerStopsAfterKeysAndValues) {
  const Plan plan = build_plan(tiny_pi05(), kOptions);
  EXPECT_NO_THROW(plan.find("prefix.0.down"));
  EXPECT_NO_THROW(plan.find("prefix.1.kv"));
  EXPECT_THROW(plan.find("prefix.1.attn_out"), Error);
  for (const WeightInfo& weight : plan.weights) EXPECT_NE(weight.name, "language.1.qkv.weight");
}

TEST(Models, RefusesImpossibleOptions) {
  const auto text_of = [](PlanOptions options) {
    return error_text([&] { build_plan(tiny_pi05(), options); });
  };
  EXPECT_CONTAINS(text_of({.cameras = 0, .prompt_capacity = 7, .horizon = 3, .steps = 4}),
                  "cameras: 0");
  EXPECT_CONTAINS(text_of({.cameras = 1, .prompt_capacity = 0, .horizon = 3, .steps = 4}),
                  "prompt capacity: 0");
  EXPECT_CONTAINS(text_of({.cameras = 1, .prompt_capacity = 7, .horizon = 0, .steps = 4}),
                  "horizon: 0");
  EXPECT_CONTAINS(text_of({.cameras = 1, .prompt_capacity = 7, .horizon = 3, .steps = 0}),
                  "denoise steps: 0");
  EXPECT_CONTAINS(text_of({.cameras = 65, .prompt_capacity = 7, .horizon = 3, .steps = 4}),
                  "cameras: 65, expected 1 to 64");
  EXPECT_CONTAINS(text_of({.cameras = 1, .prompt_capacity = 2147483647, .horizon = 3, .steps = 4}),
                  "prompt capacity: 2147483647, expected 1 to 16384");
}

TEST(Models, RefusesMoreImageTokensThanCanBeCounted) {
  ModelConfig config = tiny_pi05();
  config.vision.image_size = 8192;
  config.vision.patch = 1;
  EXPECT_CONTAINS(error_text([&] { build_plan(config, kOptions); }),
                  "cameras: 2 of 67108864 image tokens each, expected at most 1048576 tokens");
}

}  // namespace
}  // namespace flashrt
