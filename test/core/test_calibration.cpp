// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Calibration: scales, and files that are refused when they do not fit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "expect_error.hpp"
#include "models/models.hpp"
#include "quant/calibration.hpp"
#include "quant/plan_digest.hpp"
#include "quant/precision.hpp"
#include "temporary_folder.hpp"
#include "tiny_models.hpp"

namespace flashrt {
namespace {

std::vector<float> ramp(int count, float last) {
  std::vector<float> values;
  for (int i = 1; i <= count; ++i)
    values.push_back(last * static_cast<float>(i) / static_cast<float>(count));
  return values;
}

TEST(Calibration, MinMaxScalesReachTheLargestCode) {
  Calibration calibration;
  calibration.observe("prefix.0.glu", -1, std::vector<float>{1, -896, 3});
  calibration.observe("prefix.0.glu", -1, std::vector<float>{2});
  calibration.observe("zero", -1, std::vector<float>{0, 0});
  calibration.finish(RangeEstimator::kMinMax, 1, false);
  EXPECT_EQ(calibration.scales("prefix.0.glu"), std::vector<float>{2.0f});
  EXPECT_EQ(calibration.scales("zero"), std::vector<float>{1.0f});
}

TEST(Calibration, PercentileCutsOutliers) {
  Calibration calibration;
  std::vector<float> values = ramp(9'999, 1.0f);
  values.push_back(100.0f);
  calibration.observe("site", -1, values);
  calibration.finish(RangeEstimator::kPercentile, 0.999, false);
  EXPECT_NEAR(calibration.scales("site")[0] * 448.0f, 1.0f, 1.0f / 128);
  EXPECT_CONTAINS(error_text([&] { calibration.finish(RangeEstimator::kPercentile, 1.5, false); }),
                  "fraction 1.5");
}

TEST(Calibration, KeepsOneScaleOrOnePerStep) {
  Calibration calibration;
  for (int step = 0; step < 3; ++step) {
    calibration.observe("denoise.0.glu", step,
                        std::vector<float>{448.0f * static_cast<float>(step + 1)});
  }
  calibration.observe("prefix.0.glu", -1, std::vector<float>{448.0f});
  calibration.finish(RangeEstimator::kMinMax, 1, true);
  EXPECT_EQ(calibration.scales("denoise.0.glu"), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(calibration.scales("prefix.0.glu"), std::vector<float>{1});
  calibration.finish(RangeEstimator::kMinMax, 1, false);
  EXPECT_EQ(calibration.scales("denoise.0.glu"), std::vector<float>{3});

  calibration.observe("denoise.0.glu", 4, std::vector<float>{1});
  EXPECT_CONTAINS(error_text([&] { calibration.finish(RangeEstimator::kMinMax, 1, true); }),
                  "site denoise.0.glu: step 3 was not observed, step 4 was");
}

TEST(Calibration, RefusesValuesThatAreNotFinite) {
  Calibration calibration;
  EXPECT_CONTAINS(error_text([&] {
                    calibration.observe("denoise.0.glu", 2, std::vector<float>{1, std::nanf("")});
                  }),
                  "site denoise.0.glu, step 2: element 1 is nan");
  EXPECT_CONTAINS(error_text([&] { calibration.finish(RangeEstimator::kMinMax, 1, false); }),
                  "nothing was observed");
}

TEST(Calibration, NamesUnknownSitesWithTheNearest) {
  Calibration calibration;
  calibration.set_scales("prefix.3.qkv", {1});
  calibration.set_scales("denoise.3.glu", {1});
  EXPECT_CONTAINS(error_text([&] { calibration.scales("prefix.3.qkw"); }),
                  "no site 'prefix.3.qkw'; nearest: 'prefix.3.qkv', 'denoise.3.glu'");
  EXPECT_CONTAINS(error_text([&] { calibration.set_scales("x", {0.0f}); }),
                  "scale 0, expected finite and above 0");
  EXPECT_CONTAINS(error_text([&] { calibration.set_scales("x", {}); }), "has no scale");
}

TEST(Calibration, ComesBackFromAFileBitForBit) {
  const TemporaryFolder folder;
  Calibration saved;
  saved.weights_digest = "5705599c8dfe169a";
  saved.plan_digest = "0123456789abcdef";
  saved.samples = 8;
  saved.method = {.estimator = RangeEstimator::kPercentile, .fraction = 0.999, .per_step = true};
  saved.origin = "8 observations of a table";
  saved.set_scales("a", {0.1f, 1.0f / 3.0f, std::numeric_limits<float>::denorm_min()});
  saved.set_scales("b", {1e30f});
  saved.save(folder.path() / "calibration.json");
  const Calibration loaded = Calibration::load(folder.path() / "calibration.json");
  EXPECT_EQ(loaded.weights_digest, saved.weights_digest);
  EXPECT_EQ(loaded.plan_digest, saved.plan_digest);
  EXPECT_EQ(loaded.samples, 8);
  EXPECT_EQ(loaded.method, saved.method);
  EXPECT_EQ(loaded.origin, saved.origin);
  EXPECT_EQ(loaded.sites(), saved.sites());
  for (const std::string& site : saved.sites()) EXPECT_EQ(loaded.scales(site), saved.scales(site));
}

TEST(Calibration, RefusesFilesOfAnotherFormat) {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& content) {
    const auto path = folder.write("c.json", content);
    return error_text([&] { Calibration::load(path); });
  };
  const std::string head = R"({"format":"flashrt_calibration","version":)";
  const auto file = [&](const std::string& scales, const std::string& samples = "8",
                        const std::string& estimator = "min_max", const std::string& more = "") {
    return head + R"(2,"weights_digest":"","plan_digest":"","samples":)" + samples +
           R"(,"method":{"estimator":")" + estimator +
           R"(","fraction":1,"per_step":false},"origin":"","scales":)" + scales + more + "}";
  };
  EXPECT_CONTAINS(refusal(head + R"(1,"weights_digest":"","origin":"","scales":{}})"),
                  "version is 1, expected 2");
  EXPECT_CONTAINS(refusal(R"({"format":"flashrt_recipe"})"),
                  "format is \"flashrt_recipe\", expected flashrt_calibration");
  EXPECT_CONTAINS(refusal("{}"), "format missing");
  EXPECT_CONTAINS(refusal(file("{}", "8", "min_max", R"(,"zeros":{})")), "zeros is unknown");
  EXPECT_CONTAINS(refusal(file("{}", "0")), "samples is 0");
  EXPECT_CONTAINS(refusal(file("{}", "8", "median")),
                  "estimator is \"median\", expected min_max, percentile, entropy, mse");
  EXPECT_CONTAINS(refusal(file(R"({"s":1})")), "site s, expected a list");
  EXPECT_CONTAINS(refusal(file(R"({"s":[-1]})")), "site s: scale -1");
  EXPECT_CONTAINS(refusal(file(R"({"s":[1e60]})")), "site s: scale inf");
  EXPECT_CONTAINS(refusal(head), "is not valid JSON");
}

TEST(Calibration, RemembersWhatWasObserved) {
  Calibration calibration;
  calibration.begin_observation("weights", "plan");
  calibration.observe("site", -1, std::vector<float>{448});
  calibration.begin_observation("weights", "plan");
  calibration.observe("site", -1, std::vector<float>{224});
  EXPECT_EQ(calibration.samples, 2);
  EXPECT_CONTAINS(error_text([&] { calibration.begin_observation("others", "plan"); }),
                  "was measured on weights weights, these are others");
  EXPECT_CONTAINS(error_text([&] { calibration.begin_observation("weights", "other"); }),
                  "was measured on plan plan, this is other");
  calibration.finish(RangeEstimator::kMinMax, 0.5, true);
  EXPECT_EQ(calibration.method, (CalibrationMethod{.per_step = true})) << "min-max has no fraction";
}

TEST(PlanDigest, IsOfTheLayersAlone) {
  const PlanOptions options{.cameras = 1, .prompt_capacity = 4, .horizon = 3, .steps = 2};
  const auto digest = [&](const ModelConfig& config, PlanOptions changed,
                          const std::string& recipe = "f32") {
    return plan_digest(assign_precision(build_plan(config, changed), Recipe::named(recipe)));
  };
  const std::string expected = digest(tiny_pi05(), options);
  EXPECT_EQ(expected.size(), 16u);
  for (const char* recipe : {"bf16", "fp8", "fp8_f16"})
    EXPECT_EQ(digest(tiny_pi05(), options, recipe), expected) << recipe;
  const auto changed = [&](const auto& change) {
    PlanOptions other = options;
    change(other);
    return digest(tiny_pi05(), other);
  };
  EXPECT_EQ(changed([](PlanOptions& o) { o.cameras = 3; }), expected);
  EXPECT_EQ(changed([](PlanOptions& o) { o.prompt_capacity = 9; }), expected);
  EXPECT_EQ(changed([](PlanOptions& o) { o.horizon = 7; }), expected);
  EXPECT_EQ(changed([](PlanOptions& o) { o.steps = 5; }), expected);
  EXPECT_EQ(changed([](PlanOptions& o) { o.guided = true; }), expected);
  EXPECT_EQ(changed([](PlanOptions& o) { o.float_images = true; }), expected);

  EXPECT_NE(digest(tiny_pi0(), options), expected);
  ModelConfig config = tiny_pi05();
  config.language.eps = 1e-5f;
  EXPECT_NE(digest(config, options), expected);
  config = tiny_pi05();
  config.expert.mlp_width *= 2;
  EXPECT_NE(digest(config, options), expected);
  config = tiny_pi05();
  config.expert.rope_base = config.language.rope_base = 5000;
  EXPECT_NE(digest(config, options), expected);
}

}  // namespace
}  // namespace flashrt
