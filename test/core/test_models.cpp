// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// The models: their printed plans equal the saved texts, so that every change of a model is seen
// and meant.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>

#include "expect_error.hpp"
#include "models/inputs.hpp"
#include "plan/print.hpp"
#include "quant/plan_digest.hpp"
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

TEST(Models, GrootN16PlanIsAsSaved) {
  expect_saved(build_plan(tiny_groot(), kOptions), "groot_n16.plan.txt");
}

TEST(Models, GrootN16AtFullSizeHasSoManyCalls) {
  const PlanOptions options{.cameras = 2, .prompt_capacity = 64, .horizon = 50, .steps = 4};
  const Plan plan = build_plan(full_size_config(ModelType::kGrootN16), options);
  const auto calls = [&](std::string_view name) {
    const auto stage = std::ranges::find(plan.stages, name, &Stage::name);
    return stage->last - stage->first;
  };
  constexpr int kLanguage = 16 * 9, kNorms = 2;
  EXPECT_EQ(calls("styles"), 3 + 32 + 1 + 4);
  EXPECT_EQ(calls("prompt"), 1 + kLanguage + kNorms + 1 + 2);  // keys and values, markup of 2 views
  EXPECT_EQ(calls("vision"), 1 + 27 * 7 + 1);
  EXPECT_EQ(calls("backbone"), 2 + 2 + kLanguage + kNorms + 1 + 1);
  EXPECT_EQ(calls("state"), 2);
  EXPECT_EQ(calls("denoise"), 2 + 32 * 7 + 4);
  // 81 rows an image; "</img><image 2><img>", "</img><|im_end|>\n".
  EXPECT_EQ(plan[plan.find("backbone.embeds")].shape, (Shape{81 + 7 + 81 + 3, 2048}));
}

TEST(Models, GrootN16TakesImagesOfSeveralSizes) {
  PlanOptions options = kOptions;
  options.image_sizes = {{28, 14}, {14, 42}};
  options.markup_rows = {2, 4};
  const Plan plan = build_plan(tiny_groot(), options);
  EXPECT_EQ(plan[plan.find("images.0")].shape, (Shape{1, 28, 14, 3}));
  EXPECT_EQ(plan[plan.find("images.1")].shape, (Shape{1, 14, 42, 3}));
  EXPECT_EQ(plan[plan.find("vision.1.norm")].shape, (Shape{2 * 6, 12}));
  EXPECT_EQ(plan[plan.find("backbone.embeds")].shape, (Shape{2 + 2 + 3 + 4, 16}));
  const ObservationLayout layout = observation_layout(tiny_groot(), options);
  EXPECT_EQ(layout.views[1].image_begin, 4);
  EXPECT_EQ(layout.views[1].markup_begin, 7);
  EXPECT_EQ(layout.markup_rows, 6);
}

// Each moment is a token in front of those of the actions, which alone are decoded.
TEST(Models, GrootN16TakesTheStatesOfSeveralMoments) {
  PlanOptions options = kOptions;
  const Plan one = build_plan(tiny_groot(), options);
  options.state_rows = 3;
  const Plan plan = build_plan(tiny_groot(), options);
  const int64_t width = tiny_groot().dit.width();
  EXPECT_EQ(plan[plan.find("state")].shape, (Shape{3, tiny_groot().state_dim}));
  EXPECT_EQ(plan[plan.find("denoise.embeds")].shape, (Shape{3 + options.horizon, width}));
  EXPECT_EQ(plan[plan.find("denoise.decoder")].shape, one[one.find("denoise.decoder")].shape);
  EXPECT_EQ(plan_digest(plan), plan_digest(one));  // a calibration fits both
}

// So a calibration or a packed file fits any number of cameras, although their number decides how
// many calls read the last weights of the connector and those of the keys and values of text.
TEST(Models, GrootN16HasOneDigestForAnyNumberOfCameras) {
  const auto digest = [](int cameras, int blocks) {
    ModelConfig config = tiny_groot();
    config.dit.layers = blocks;
    PlanOptions options = kOptions;
    options.cameras = cameras;
    return plan_digest(build_plan(config, options));
  };
  EXPECT_EQ(digest(1, 4), digest(3, 4));
  EXPECT_NE(digest(1, 4), digest(1, 5));
}

TEST(Models, GrootN16RefusesWhatItDoesNotDo) {
  const auto text_of = [](const auto& change) {
    PlanOptions options = kOptions;
    change(options);
    return error_text([&] { build_plan(tiny_groot(), options); });
  };
  EXPECT_CONTAINS(text_of([](PlanOptions& o) { o.guided = true; }), "guidance is not supported");
  EXPECT_CONTAINS(text_of([](PlanOptions& o) { o.max_image_bytes = 100; }), "max_image_bytes");
  EXPECT_CONTAINS(text_of([](PlanOptions& o) { o.horizon = 6; }),
                  "horizon: 6, the table of action positions has 5");
  EXPECT_CONTAINS(text_of([](PlanOptions& o) {
                    o.image_sizes = {{28, 28}};
                  }),
                  "image sizes: 1, expected one per camera, 2");
  EXPECT_CONTAINS(text_of([](PlanOptions& o) {
                    o.image_sizes = {{28, 28}, {28, 20}};
                  }),
                  "image of camera 1: 28 x 20 pixels, expected multiples of 14");
  EXPECT_CONTAINS(text_of([](PlanOptions& o) {
                    o.markup_rows = {3, 0};
                  }),
                  "markup rows of camera 1: 0");
  EXPECT_CONTAINS(text_of([](PlanOptions& o) { o.state_rows = 0; }), "state rows: 0, expected 1");
  PlanOptions remembering = kOptions;
  remembering.state_rows = 2;
  EXPECT_CONTAINS(error_text([&] { build_plan(tiny_pi05(), remembering); }),
                  "state rows: 2, but pi05 is given the state of one moment");
  PlanOptions sized = kOptions;
  sized.image_sizes = {{28, 28}, {28, 28}};
  EXPECT_CONTAINS(error_text([&] { build_plan(tiny_pi05(), sized); }), "pi05 has square images");
}

// ---- inputs

std::vector<float> floats_of(const std::vector<InputData>& inputs, const std::string& name) {
  const auto& data = std::ranges::find(inputs, name, &InputData::name)->data;
  std::vector<float> values(data.size() / sizeof(float));
  std::memcpy(values.data(), data.data(), data.size());
  return values;
}

TEST(Inputs, TimesOfGrootAreBuckets) {
  EXPECT_EQ(default_times(tiny_groot(), 4), (std::vector<float>{0, 250, 500, 750}));
  EXPECT_EQ(default_times(tiny_groot(), 3), (std::vector<float>{0, 333, 666}));
}

TEST(Inputs, AGridOfTheSizeOfTheTableTakesItsEntries) {
  PlanOptions options = kOptions;
  options.image_sizes = {{14, 14}, {14, 14}};  // 2 x 2 patches
  const auto weights = floats_of(load_inputs(tiny_groot(), options, {}), "position_weights");
  ASSERT_EQ(weights.size(), size_t{2} * 4 * 4);
  for (size_t i = 0; i < weights.size(); ++i) EXPECT_EQ(weights[i], i / 4 % 4 == i % 4) << i;
}

TEST(Inputs, AnEnlargedGridIsMixedBetweenCentres) {
  // Four patches over two entries: centres at -1/4, 1/4, 3/4, 5/4 of the distance between them.
  const double along[4][2] = {{1, 0}, {0.75, 0.25}, {0.25, 0.75}, {0, 1}};
  const auto weights = floats_of(load_inputs(tiny_groot(), kOptions, {}), "position_weights");
  ASSERT_EQ(weights.size(), size_t{2} * 16 * 4);
  for (int token = 0; token < 16; ++token) {
    const int square = token / 4, inside = token % 4;
    const int row = square / 2 * 2 + inside / 2, column = square % 2 * 2 + inside % 2;
    for (int entry = 0; entry < 4; ++entry) {
      EXPECT_NEAR(weights[token * 4 + entry], along[row][entry / 2] * along[column][entry % 2],
                  1e-7)
          << token << ' ' << entry;
    }
  }
}

TEST(Inputs, AConversationIsSplitAtItsFirstImage) {
  PlanOptions options = kOptions;
  options.image_sizes = {{14, 28}, {14, 14}};
  options.markup_rows = {2, 1};
  const std::vector<int32_t> tokens{7, 8, 9, 30, 30, 11, 12, 30, 13};
  const PromptInputs prompt = prompt_inputs(tiny_groot(), options, tokens);
  EXPECT_EQ(prompt.length, 3);
  const auto& markup = std::ranges::find(prompt.inputs, "markup", &InputData::name)->data;
  const std::vector<int32_t> expected{11, 12, 13};
  ASSERT_EQ(markup.size(), expected.size() * sizeof(int32_t));
  EXPECT_EQ(std::memcmp(markup.data(), expected.data(), markup.size()), 0);

  const auto refusal = [&](std::vector<int32_t> changed) {
    return error_text([&] { prompt_inputs(tiny_groot(), options, changed); });
  };
  EXPECT_CONTAINS(refusal({7, 8, 9, 30, 30, 11, 30, 12, 13}), "token 6 is 30, expected no image");
  EXPECT_CONTAINS(refusal({7, 8, 9, 30, 11, 12, 30, 30, 13}), "token 4 is 11, expected the image");
  EXPECT_CONTAINS(refusal({7, 30, 30, 11, 12, 30}),
                  "5 tokens from the first image on, this engine "
                  "takes 6 for 2 images");
  EXPECT_CONTAINS(refusal({30, 30, 11, 12, 30, 13}), "0 tokens before the first image token (30)");
  EXPECT_CONTAINS(refusal({7, 32, 9, 30, 30, 11, 12, 30, 13}), "token 1 is 32");
}

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
