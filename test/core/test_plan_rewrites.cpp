// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// The plan rewrites of bench_ladder: a plan without a fusion computes what the fused plan computes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "backends/backend.hpp"
#include "bench/plan_rewrites.hpp"
#include "expect_error.hpp"
#include "models/models.hpp"
#include "quant/calibration.hpp"
#include "quant/precision.hpp"
#include "tiny_models.hpp"

namespace flashrt {
namespace {

constexpr PlanOptions kOptions{.cameras = 2, .prompt_capacity = 7, .horizon = 3, .steps = 4};
constexpr uint64_t kSeed = 5;

using Rewrite = std::function<void(Plan&, DerivedWeights&)>;

bool any_producer(const Op&) { return true; }

// In the order in which bench_ladder applies them.
const std::vector<std::pair<std::string, Rewrite>>& rewrites() {
  static const std::vector<std::pair<std::string, Rewrite>> all{
      {"split_linears", split_linears},
      {"quantize_apart",
       [](Plan& plan, DerivedWeights&) { quantize_apart(plan, DType::kBF16, any_producer); }},
      {"add_apart", [](Plan& plan, DerivedWeights&) { add_apart(plan); }},
      {"styles_in_loop", [](Plan& plan, DerivedWeights&) { styles_in_loop(plan); }},
      {"norms_apart", norms_apart},
      {"misalign_residuals", [](Plan& plan, DerivedWeights&) { misalign_residuals(plan); }},
      {"pairs_apart", [](Plan& plan, DerivedWeights&) { pairs_apart(plan); }}};
  return all;
}

Plan fused_plan(const std::string& recipe) {
  return assign_precision(build_plan(tiny_pi05(), kOptions), Recipe::named(recipe));
}

void write_inputs(Program& program) {
  const ModelConfig config = tiny_pi05();
  std::mt19937 random(17);
  std::normal_distribution<float> normal;
  const auto put = [&](std::string_view name, const auto& values) {
    program.write(name, std::as_bytes(std::span(values)));
  };
  const int size = config.vision.image_size;
  std::vector<uint8_t> images(size_t{3} * kOptions.cameras * size * size);
  for (uint8_t& pixel : images) pixel = static_cast<uint8_t>(random() % 256);
  put("images", images);
  put("tokens", std::vector<int32_t>{3, 1, 4, 1, 5});
  put("prompt_length", std::vector<int32_t>{5});
  std::vector<float> noise(size_t{1} * kOptions.horizon * config.action_dim);
  for (float& value : noise) value = normal(random);
  put("actions", noise);
  put("times", std::vector<float>{1, 0.75f, 0.5f, 0.25f});
}

// On the CPU, with poisoned memory.
std::vector<float> actions_of(Plan plan, DerivedWeights derived, const Calibration& calibration) {
  const auto backend = make_cpu_backend(1);
  const Weights weights = with_derived(Weights::random(tiny_pi05(), kSeed, 1), std::move(derived));
  const auto device_weights = backend->upload(plan, weights);
  const auto program =
      backend->compile(std::move(plan), device_weights, calibration, {.poison = true});
  write_inputs(*program);
  for (const When when : {When::kLoad, When::kPrompt, When::kInfer}) program->run(when);
  std::vector<float> actions(size_t{1} * kOptions.horizon * tiny_pi05().action_dim);
  program->read_float("actions", actions);
  return actions;
}

// Scales measured on float32 values.
Calibration calibrated() {
  const Plan quantised = fused_plan("fp8");
  Plan plan = fused_plan("f32");
  const auto backend = make_cpu_backend(1);
  const auto weights = backend->upload(plan, Weights::random(tiny_pi05(), kSeed, 1));
  const auto program = backend->compile(plan, weights, {}, {.keep_values = true});
  write_inputs(*program);
  for (const When when : {When::kLoad, When::kPrompt, When::kInfer}) program->run(when);
  Calibration calibration;
  for (const ValueInfo& info : quantised.values) {
    if (info.site.empty() || info.kind == Kind::kView) continue;
    const int64_t rows = info.rows.length ? info.rows.base + 5 : info.shape.rows();
    std::vector<float> values(static_cast<size_t>(rows * info.shape.width()));
    program->read_float(info.name, values);
    calibration.observe(info.site, -1, values);
  }
  calibration.finish(RangeEstimator::kMinMax, 1, false);
  return calibration;
}

double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(double{a[i]} - b[i], 2);
    norm += std::pow(double{b[i]}, 2);
  }
  return std::sqrt(difference / norm);
}

// bench_ladder takes them away from the front.
TEST(PlanRewrites, AloneAndTogetherComputeTheSame) {
  const std::vector<float> expected = actions_of(fused_plan("f32"), {}, {});
  for (size_t first = 0; first < rewrites().size(); ++first) {
    Plan plan = fused_plan("f32");
    DerivedWeights derived;
    for (size_t last = first; last < rewrites().size(); ++last) {
      rewrites()[last].second(plan, derived);
      EXPECT_LT(relative_difference(actions_of(plan, derived, {}), expected), 2e-6)
          << rewrites()[first].first << " to " << rewrites()[last].first;
    }
  }
}

// Values that are rounded to bf16 before they are rounded to e4m3, or before they are normalised,
// are rounded to a neighbour now and then.
TEST(PlanRewrites, KeepTheMeaningOfQuantisedPlans) {
  const Calibration calibration = calibrated();
  const std::vector<float> exact = actions_of(fused_plan("f32"), {}, {});
  const std::vector<float> expected = actions_of(fused_plan("fp8"), {}, calibration);
  const double error = relative_difference(expected, exact);
  Plan plan = fused_plan("fp8");
  DerivedWeights derived;
  for (const auto& [name, rewrite] : rewrites()) {
    rewrite(plan, derived);
    const std::vector<float> actions = actions_of(plan, derived, calibration);
    EXPECT_LT(relative_difference(actions, expected), 1.5 * error) << "up to " << name;
    EXPECT_LT(relative_difference(actions, exact), 1.5 * error) << "up to " << name;
  }
}

int count(const Plan& plan, const std::function<bool(const Call&)>& is_counted) {
  return static_cast<int>(std::ranges::count_if(plan.calls, is_counted));
}
template <class Operation>
bool is(const Call& call) {
  return std::holds_alternative<Operation>(call.op);
}

TEST(PlanRewrites, QuantizeOncePerLinear) {
  Plan plan = fused_plan("fp8");
  DerivedWeights derived;
  split_linears(plan, derived);
  const auto reads_e4m3 = [&](const Call& call) {
    const auto* op = std::get_if<Linear>(&call.op);
    return op && plan[op->x].type == DType::kE4M3;
  };
  const int linears = count(plan, reads_e4m3);
  ASSERT_GT(linears, 0);
  Plan norms = plan;
  quantize_apart(norms, DType::kBF16,
                 [](const Op& op) { return std::holds_alternative<AddNorm>(op); });
  quantize_apart(plan, DType::kBF16, any_producer);
  EXPECT_EQ(count(plan, is<Quantize>), linears);
  Plan in_two = norms;
  quantize_apart(in_two, DType::kBF16, any_producer);
  EXPECT_EQ(count(in_two, is<Quantize>), linears);
  EXPECT_GT(count(norms, is<Quantize>), 0);
  EXPECT_LT(count(norms, is<Quantize>), linears) << "glu, attention and gelu still write e4m3";
  for (const Call& call : plan.calls) {
    for_each_write(call, [&](Value value) {
      EXPECT_EQ(plan[value].type == DType::kE4M3, is<Quantize>(call)) << call.name;
    });
  }
  // Which has scales that a measured one can be multiplied with.
  for (size_t i = 0; i < plan.calls.size(); ++i) {
    const auto* op = std::get_if<Quantize>(&plan.calls[i].op);
    if (!op) continue;
    const auto* linear = std::get_if<Linear>(&plan.calls.at(i + 1).op);
    ASSERT_TRUE(linear) << plan.calls[i].name;
    EXPECT_EQ(linear->x, op->y) << plan.calls[i].name;
    EXPECT_EQ(plan.weight(linear->weight).type, DType::kE4M3) << plan.calls[i].name;
  }
}

TEST(PlanRewrites, SplitWhatWasMerged) {
  const Plan merged = fused_plan("f32");
  Plan plan = merged;
  DerivedWeights derived;
  split_linears(plan, derived);
  const auto more = [](int layers, int parts) { return layers * (parts - 1); };
  // q, k and v of both towers and the expert, k and v of the last prefix layer, gate and up.
  EXPECT_EQ(count(plan, is<Linear>) - count(merged, is<Linear>),
            more(2, 3) + more(1, 3) + more(2, 3) + more(1, 2) + more(1, 2) + more(2, 2));
  for (const WeightInfo& info : plan.weights) {
    for (const char* whole : {"qkv.weight", "qkv.bias", ".kv.weight", "gate_up.weight"})
      EXPECT_FALSE(info.name.ends_with(whole)) << info.name;
  }
}

TEST(PlanRewrites, MovePartsOfWiderValues) {
  Plan plan = fused_plan("bf16");
  misalign_residuals(plan);
  pairs_apart(plan);
  for (const Call& call : plan.calls) {
    if (const auto* op = std::get_if<AddNorm>(&call.op); op && op->residual_out) {
      EXPECT_EQ(plan[op->residual_out].row_stride, plan[op->residual_out].shape.width() + 1);
    }
    if (const auto* op = std::get_if<Glu>(&call.op)) {
      EXPECT_EQ(plan[op->gate_up].kind, Kind::kView);
    }
    if (const auto* op = std::get_if<QkvRope>(&call.op)) {
      EXPECT_EQ(plan[op->qkv].kind, Kind::kView);
    }
    if (const auto* op = std::get_if<EulerStep>(&call.op)) {
      EXPECT_EQ(plan[op->velocity].kind, Kind::kView);
    }
  }
}

TEST(PlanRewrites, AddBeforeTheNorm) {
  const Plan fused = fused_plan("f32");
  Plan plan = fused;
  add_apart(plan);
  const auto has_delta = [](const Call& call) {
    const auto* op = std::get_if<AddNorm>(&call.op);
    return op && op->delta;
  };
  EXPECT_EQ(count(plan, is<AddNorm>), count(fused, is<AddNorm>) + count(fused, has_delta));
  EXPECT_EQ(count(plan, has_delta), count(fused, has_delta));
}

TEST(PlanRewrites, StylesInEveryStep) {
  Plan plan = fused_plan("f32");
  const size_t calls = plan.calls.size();
  styles_in_loop(plan);
  EXPECT_EQ(plan.calls.size(), calls);
  for (const Stage& stage : plan.stages) EXPECT_NE(stage.when, When::kLoad);
  EXPECT_EQ(plan.stage_of(0).name, "prompt");
  PlanOptions guided = kOptions;
  guided.guided = true;
  Plan other = assign_precision(build_plan(tiny_pi05(), guided), Recipe::named("f32"));
  EXPECT_CONTAINS(error_text([&] { styles_in_loop(other); }),
                  "does not belong to the time of the step");
}

TEST(PlanRewrites, RowsAreMadeWhereverTheWholeIs) {
  const ModelConfig config = tiny_pi05();
  const std::string whole = "expert.0.attn_style.weight";  // in three parts of eight rows
  const HostTensor expected = Weights::random(config, kSeed, 1).load(whole);
  const Weights weights =
      with_derived(Weights::random(config, kSeed, 1),
                   {{"rows", {.whole = whole, .begin = 5, .rows = 13}}, {"ones", {.rows = 4}}});
  const HostTensor rows = weights.load("rows");
  const int64_t width = expected.shape.width();
  ASSERT_EQ(rows.shape, (Shape{13, width}));
  EXPECT_TRUE(std::equal(rows.data.begin(), rows.data.end(), expected.data.begin() + 5 * width));
  const auto random = weights.random_tensor("rows");
  ASSERT_TRUE(random);
  ASSERT_EQ(random->parts.size(), 3);
  std::vector<float> made;
  for (const RandomRows& part : random->parts) {
    for (int64_t i = 0; i < part.rows * width; ++i) made.push_back(part.numbers[i]);
  }
  EXPECT_EQ(made, rows.data);
  EXPECT_EQ(weights.load("ones").data, (std::vector<float>{1, 1, 1, 1}));
  EXPECT_FALSE(weights.random_tensor("ones"));
}

}  // namespace
}  // namespace flashrt
