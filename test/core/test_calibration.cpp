// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Calibration: observations, scales, and files that are refused when they do not fit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
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

TEST(Calibration, APartThatWasNotMeasuredByItselfHasTheScalesOfTheWhole) {
  Calibration calibration;
  calibration.set_scales("context", {0.5f});
  EXPECT_EQ(calibration.scales("context[6:11]"), std::vector<float>{0.5f});
  calibration.set_scales("context[6:11]", {0.25f});
  EXPECT_EQ(calibration.scales("context[6:11]"), std::vector<float>{0.25f});
  EXPECT_EQ(calibration.scales("context[0:6]"), std::vector<float>{0.5f});
  EXPECT_CONTAINS(error_text([&] { calibration.scales("contex[0:6]"); }),
                  "no site 'contex[0:6]'; nearest: 'context[6:11]', 'context'");
}

TEST(Calibration, ComesBackFromAFileBitForBit) {
  const TemporaryFolder folder;
  Calibration saved;
  saved.observations.weights_digest = "5705599c8dfe169a";
  saved.observations.plan_digest = "0123456789abcdef";
  saved.observations.samples = 8;
  saved.method = {.estimator = RangeEstimator::kPercentile, .fraction = 0.999, .per_step = true};
  saved.origin = "8 observations of a table";
  const std::vector<float> several{0.1f, 1.0f / 3.0f, std::numeric_limits<float>::denorm_min()};
  saved.set_scales("a", several, NumberFormat::kE4M3);
  saved.set_scales("b", {1e30f}, NumberFormat::kInt8);
  saved.save(folder.path() / "calibration.json");
  const Calibration loaded = Calibration::load(folder.path() / "calibration.json");
  EXPECT_EQ(loaded.observations.weights_digest, saved.observations.weights_digest);
  EXPECT_EQ(loaded.observations.plan_digest, saved.observations.plan_digest);
  EXPECT_EQ(loaded.observations.samples, 8);
  EXPECT_EQ(loaded.method, saved.method);
  EXPECT_EQ(loaded.origin, saved.origin);
  EXPECT_EQ(loaded.sites(), saved.sites());
  for (const std::string& site : saved.sites()) {
    EXPECT_EQ(loaded.scales(site), saved.scales(site));
    EXPECT_EQ(loaded.format(site), saved.format(site));
  }
  saved.set_scales("c", {1});
  EXPECT_CONTAINS(error_text([&] { saved.save(folder.path() / "calibration.json"); }),
                  "site c has scales of no format");
}

TEST(Calibration, RefusesFilesOfAnotherFormat) {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& content) {
    const auto path = folder.write("c.json", content);
    return error_text([&] { Calibration::load(path); });
  };
  const std::string head = R"({"format":"flashrt_calibration","version":)";
  const auto file = [&](const std::string& sites, const std::string& samples = "8",
                        const std::string& estimator = "min_max", const std::string& more = "") {
    return head + R"(3,"weights_digest":"","plan_digest":"","samples":)" + samples +
           R"(,"method":{"estimator":")" + estimator +
           R"(","fraction":1,"per_step":false},"origin":"","sites":)" + sites + more + "}";
  };
  const auto site = [&](const std::string& scales, const std::string& format = "e4m3") {
    return file(R"({"s":{"format":")" + format + R"(","scales":)" + scales + "}}");
  };
  for (const std::string version : {"1", "2", "4"}) {
    EXPECT_CONTAINS(refusal(head + version + R"(,"weights_digest":"","scales":{}})"),
                    "version is " + version +
                        ", expected 3, in which sites have number formats; `flashrt calibrate` "
                        "makes one");
  }
  EXPECT_CONTAINS(refusal(R"({"format":"flashrt_recipe"})"),
                  "format is \"flashrt_recipe\", expected flashrt_calibration");
  EXPECT_CONTAINS(refusal("{}"), "format missing");
  EXPECT_CONTAINS(refusal(file("{}", "8", "min_max", R"(,"zeros":{})")), "zeros is unknown");
  EXPECT_CONTAINS(refusal(file("{}", "0")), "samples is 0");
  EXPECT_CONTAINS(refusal(file("{}", "8", "median")),
                  "estimator is \"median\", expected min_max, percentile, entropy, mse");
  EXPECT_CONTAINS(refusal(file(R"({"s":[1]})")), "site s:  expected a JSON object");
  EXPECT_CONTAINS(refusal(site("1")), "site s: scales");
  EXPECT_CONTAINS(refusal(site(R"(["1"])")), "site s: scales");
  EXPECT_CONTAINS(refusal(site("[]")), "site s has no scale");
  EXPECT_CONTAINS(refusal(site("[-1]")), "site s: scale -1");
  EXPECT_CONTAINS(refusal(site("[1e60]")), "site s: scale inf");
  EXPECT_CONTAINS(refusal(site("[1]", "e3m4")), "site s: format is \"e3m4\"");
  EXPECT_CONTAINS(refusal(site("[1]", "mxfp4")), "expected a number format that has a scale");
  EXPECT_CONTAINS(refusal(head), "is not valid JSON");
}

// Some shapes of values, with the marks that a file keeps of an observation.
void observe(Calibration& calibration, int first, int last) {
  for (int number = first; number < last; ++number) {
    std::mt19937 random(number);
    calibration.observations.announce(text("sample ", number), text("digest ", number));
    calibration.observations.begin("weights", "plan");
    std::lognormal_distribution<float> heavy(0, 3);
    std::vector<float> values(500);
    for (int step = 0; step < 3; ++step) {
      std::generate(values.begin(), values.end(), [&] { return heavy(random) - 1; });
      calibration.observe("denoise.0.glu", step, values, NumberFormat::kInt8);
    }
    calibration.observe("prefix.0.glu", -1, values);
    calibration.observe("zero", -1, std::vector<float>{0, 0});
    calibration.observations.end(3);
  }
}

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Observations, GoOnFromAFileAsIfNeverInterrupted) {
  const TemporaryFolder folder;
  Calibration whole, begun;
  observe(whole, 0, 7);
  observe(begun, 0, 3);
  begun.observations.save(folder.path() / "a.json");
  Calibration resumed(Observations::load(folder.path() / "a.json"));
  EXPECT_EQ(resumed.observations.samples_digest, "digest 2");
  EXPECT_EQ(resumed.observations.last_sample, "sample 2");
  observe(resumed, 3, 7);
  resumed.observations.save(folder.path() / "a.json");
  whole.observations.save(folder.path() / "b.json");
  EXPECT_EQ(content_of(folder.path() / "a.json"), content_of(folder.path() / "b.json"));
  EXPECT_EQ(resumed.observations.first_samples,
            (std::vector<std::string>{"sample 0", "sample 1", "sample 2"}));
  for (const bool per_step : {false, true}) {
    for (const RangeEstimator estimator : {RangeEstimator::kMinMax, RangeEstimator::kPercentile,
                                           RangeEstimator::kEntropy, RangeEstimator::kMse}) {
      resumed.finish(estimator, 0.99, per_step);
      whole.finish(estimator, 0.99, per_step);
      for (const std::string& site : whole.sites())
        EXPECT_EQ(resumed.scales(site), whole.scales(site)) << site;
      EXPECT_EQ(resumed.scales("denoise.0.glu").size(), per_step ? 3u : 1u);
    }
  }
}

TEST(Observations, TakeTheSameMemoryHoweverManyThereAre) {
  Calibration calibration;
  observe(calibration, 0, 100);
  const size_t bytes = calibration.observations.bytes();
  observe(calibration, 100, 10'000);
  EXPECT_EQ(calibration.observations.samples, 10'000);
  EXPECT_EQ(calibration.observations.bytes(), bytes);
  EXPECT_EQ(bytes, 5 * Histogram::bytes()) << "three steps, two sites without";
  EXPECT_EQ(calibration.observations.first_samples.size(), 3u);
  const TemporaryFolder folder;
  calibration.observations.save(folder.path() / "a.json");
  EXPECT_LT(std::filesystem::file_size(folder.path() / "a.json"), bytes);
}

TEST(Observations, AreOfOneFormatPerSite) {
  Calibration calibration;
  calibration.observe("site", -1, std::vector<float>{127}, NumberFormat::kInt8);
  calibration.finish(RangeEstimator::kMinMax, 1, false);
  EXPECT_EQ(calibration.scales("site"), std::vector<float>{1});
  EXPECT_EQ(calibration.format("site"), NumberFormat::kInt8);
  EXPECT_CONTAINS(error_text([&] {
                    calibration.observe("site", -1, std::vector<float>{1}, NumberFormat::kE5M2);
                  }),
                  "site site was observed for int8, this recipe wants e5m2");
}

TEST(Observations, OfSeveralNumbersOfStepsHaveNoScalePerStep) {
  Calibration calibration;
  for (const int steps : {5, 10}) {
    calibration.observations.begin("weights", "plan");
    calibration.observe("site", 0, std::vector<float>{1});
    calibration.observations.end(steps);
  }
  EXPECT_CONTAINS(error_text([&] { calibration.finish(RangeEstimator::kMinMax, 1, true); }),
                  "5 and 10 denoise steps");
}

TEST(Observations, ThatFailedHalfwayAreNotSaved) {
  const TemporaryFolder folder;
  Calibration calibration;
  observe(calibration, 0, 1);
  calibration.observations.begin("weights", "plan");
  EXPECT_CONTAINS(
      error_text([&] { calibration.observe("zero", -1, std::vector<float>{std::nanf("")}); }),
      "element 0 is nan");
  EXPECT_CONTAINS(error_text([&] { calibration.observations.save(folder.path() / "a.json"); }),
                  "failed halfway");
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "a.json"));
}

TEST(Observations, RefuseFilesOfAnotherFormat) {
  const TemporaryFolder folder;
  Calibration calibration;
  observe(calibration, 0, 1);
  calibration.observations.save(folder.path() / "a.json");
  const std::string sound = content_of(folder.path() / "a.json");
  const auto refusal = [&](const std::string& part, const std::string& other) {
    std::string content = sound;
    const size_t at = content.find(part);
    EXPECT_NE(at, std::string::npos) << part;
    const auto path = folder.write("b.json", content.replace(at, part.size(), other));
    return error_text([&] { Observations::load(path); });
  };
  EXPECT_CONTAINS(refusal("flashrt_observations", "flashrt_calibration"),
                  "expected flashrt_observations");
  EXPECT_CONTAINS(refusal(R"("version":1)", R"("version":7)"), "version is 7");
  EXPECT_CONTAINS(refusal(R"("samples":1)", R"("samples":0)"), "samples is 0");
  EXPECT_CONTAINS(refusal(R"("steps":[3])", R"("steps":[-3])"), "-3 is no number of denoise steps");
  EXPECT_CONTAINS(refusal(R"("format":"int8")", R"("format":"int9")"),
                  "site denoise.0.glu: format is \"int9\"");
  EXPECT_CONTAINS(refusal(R"("step":1)", R"("step":0)"), "site denoise.0.glu: step 0 occurs twice");
  EXPECT_CONTAINS(refusal(R"("below":0)", R"("below":-1)"), "a count is -1");
  EXPECT_CONTAINS(refusal(R"("below":0)", R"("below":1.5)"), "a count is 1.5");
  EXPECT_CONTAINS(refusal(R"("amax":)", R"("amax":1)"), "of the largest value");
  EXPECT_CONTAINS(refusal("}", ""), "is not valid JSON");
}

TEST(Observations, AreOfOneCheckpointAndPlan) {
  Calibration calibration;
  Observations& observations = calibration.observations;
  for (const float value : {448.0f, 224.0f}) {
    observations.begin("weights", "plan");
    calibration.observe("site", -1, std::vector<float>{value});
    observations.end(1);
  }
  EXPECT_EQ(observations.samples, 2);
  EXPECT_CONTAINS(error_text([&] { observations.begin("others", "plan"); }),
                  "was measured on weights weights, these are others");
  EXPECT_CONTAINS(error_text([&] { observations.begin("weights", "other"); }),
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
