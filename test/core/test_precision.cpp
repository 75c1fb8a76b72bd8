// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// The precision pass: which types are assigned, where a quantize call appears and where none does.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "expect_error.hpp"
#include "models/models.hpp"
#include "plan/print.hpp"
#include "quant/precision.hpp"
#include "tiny_models.hpp"

namespace flashrt {
namespace {

Recipe recipe_of(std::vector<RecipeRule> rules, DType values = DType::kBF16) {
  return {.name = "test", .values = values, .rules = std::move(rules)};
}

RecipeRule fp8(const std::string& match) {
  return {.match = match,
          .weight = DType::kE4M3,
          .activation = DType::kE4M3,
          .weight_scale = WeightScale::kChannel};
}

RecipeRule rule(const std::string& match, Precision precision) {
  return {.match = match, .weight = precision, .activation = precision};
}

const ValueInfo& info(const Plan& plan, std::string_view name) { return plan[plan.find(name)]; }

DType type(const Plan& plan, std::string_view name) { return info(plan, name).type; }

std::vector<std::string> call_names(const Plan& plan) {
  std::vector<std::string> names;
  for (const Call& call : plan.calls) names.push_back(call.name);
  return names;
}

// The name of what a linear reads.
std::string input_of(const Plan& plan, std::string_view call_name) {
  for (const Call& call : plan.calls) {
    if (call.name == call_name) return plan[std::get<Linear>(call.op).x].name;
  }
  ADD_FAILURE() << "no call " << call_name;
  return "";
}

using Names = std::vector<std::string>;

// norm -> up -> glu -> down, the residual beside.
Plan mlp() {
  PlanBuilder b("mlp");
  const Value x = b.input("x", {3, 8}, DType::kF32);
  b.stage("s", When::kInfer, 1, [&] {
    const Value embedded = b.linear("embed", x, "embed", 8, {.bias = true});
    const Normed norm = b.add_norm("norm", {.residual = embedded}, {.weight = "norm.weight"});
    const Value up = b.linear("up", norm.y, "up", 12, {.bias = true});
    const Value hidden = b.glu("glu", up, Activation::kSilu);
    const Value down = b.linear("down", hidden, "down", 8);
    b.add_norm("norm2", {.residual = embedded, .delta = down}, {});
  });
  return std::move(b).finish();
}

TEST(Precision, ProducersWriteWhatTheirReadersWant) {
  const Plan plan = assign_precision(mlp(), recipe_of({fp8("*"), rule("*.embed", DType::kF32)}));
  EXPECT_EQ(call_names(plan), call_names(mlp())) << "no quantize call";
  EXPECT_EQ(type(plan, "s.norm"), DType::kE4M3);
  EXPECT_EQ(type(plan, "s.glu"), DType::kE4M3);
  EXPECT_EQ(type(plan, "s.up"), DType::kBF16);
  EXPECT_EQ(type(plan, "s.embed"), DType::kBF16);
  EXPECT_EQ(type(plan, "s.norm2.residual"), DType::kBF16) << "nobody reads it";
  EXPECT_EQ(type(plan, "x"), DType::kF32);
  EXPECT_EQ(info(plan, "s.norm").site, "s.norm");
  EXPECT_EQ(info(plan, "s.up").site, "");
}

TEST(Precision, WeightsHaveTheTypeOfTheirRule) {
  const Plan plan = assign_precision(mlp(), recipe_of({fp8("*"), rule("*.embed", DType::kBF16)}));
  EXPECT_EQ(plan.weight("up.weight").type, DType::kE4M3);
  EXPECT_EQ(plan.weight("up.weight").scale, WeightScale::kChannel);
  EXPECT_EQ(plan.weight("embed.weight").type, DType::kBF16);
  EXPECT_EQ(plan.weight("embed.weight").scale, WeightScale::kNone);
  EXPECT_EQ(plan.weight("up.bias").type, DType::kF32);
  EXPECT_EQ(plan.weight("norm.weight").type, DType::kF32);
}

TEST(Precision, WithoutARuleALinearTakesValues) {
  const Plan plan = assign_precision(mlp(), recipe_of({fp8("*.up")}));
  EXPECT_EQ(type(plan, "s.norm"), DType::kE4M3);
  EXPECT_EQ(type(plan, "s.glu"), DType::kBF16);
  EXPECT_EQ(plan.weight("down.weight").type, DType::kF32);
}

TEST(Precision, Float32ChangesNothing) {
  for (const ModelConfig& config : {tiny_pi05(), tiny_pi0()}) {
    const Plan plan =
        build_plan(config, {.cameras = 2, .prompt_capacity = 7, .horizon = 3, .steps = 4});
    EXPECT_EQ(print(assign_precision(plan, Recipe::named("f32"))), print(plan));
  }
}

// Two linears and a norm read one value.
Plan shared_value() {
  PlanBuilder b("shared");
  const Value x = b.input("x", {3, 8}, DType::kF32);
  Value y;
  b.stage("first", When::kInfer, 1, [&] { y = b.linear("y", x, "y", 8); });
  b.stage("second", When::kInfer, 1, [&] {
    b.linear("a", y, "a", 4);
    b.linear("b", y, "b", 4);
    b.add_norm("norm", {.residual = y}, {});
  });
  return std::move(b).finish();
}

TEST(Precision, OneQuantizeServesAllWhoWantTheType) {
  const Plan plan = assign_precision(shared_value(), recipe_of({fp8("second.*")}));
  EXPECT_EQ(call_names(plan), (Names{"x.quantize", "first.y", "first.y.quantize", "second.a",
                                     "second.b", "second.norm"}));
  EXPECT_EQ(type(plan, "first.y"), DType::kBF16);
  EXPECT_EQ(info(plan, "first.y").site, "");
  EXPECT_EQ(type(plan, "first.y.quantize"), DType::kE4M3);
  EXPECT_EQ(info(plan, "first.y.quantize").site, "first.y");
  EXPECT_EQ(info(plan, "first.y.quantize").shape, (Shape{3, 8}));
  EXPECT_EQ(input_of(plan, "second.a"), "first.y.quantize");
  EXPECT_EQ(input_of(plan, "second.b"), "first.y.quantize");
  // It belongs to the stage of the producer.
  EXPECT_EQ(plan.stages[0].first, 0);
  EXPECT_EQ(plan.stages[0].last, 3);
  EXPECT_EQ(plan.stages[1].first, 3);
  EXPECT_EQ(plan.stages[1].last, 6);
}

TEST(Precision, EachWantedTypeHasItsOwnQuantize) {
  const Plan plan = assign_precision(
      shared_value(),
      recipe_of({rule("first.*", DType::kF32), fp8("second.a"), rule("second.b", DType::kF16)}));
  EXPECT_EQ(call_names(plan), (Names{"first.y", "first.y.quantize", "first.y.quantize.2",
                                     "second.a", "second.b", "second.norm"}));
  EXPECT_EQ(type(plan, input_of(plan, "second.a")), DType::kE4M3);
  EXPECT_EQ(type(plan, input_of(plan, "second.b")), DType::kF16);
  EXPECT_EQ(info(plan, input_of(plan, "second.b")).site, "") << "float16 has no scale";
}

TEST(Precision, AReaderOfFloat32KeepsTheValueInFloat32) {
  const Plan plan = assign_precision(
      shared_value(),
      recipe_of({rule("first.*", DType::kF32), fp8("second.a"), rule("second.b", DType::kF32)}));
  EXPECT_EQ(type(plan, "first.y"), DType::kF32);
  EXPECT_EQ(input_of(plan, "second.b"), "first.y");
  EXPECT_EQ(input_of(plan, "second.a"), "first.y.quantize");
}

TEST(Precision, InputsAndStatesAreCastWhereTheyAreRead) {
  PlanBuilder b("loop");
  const Value actions = b.state("actions", {3, 8});
  b.stage("before", When::kInfer, 1, [&] { b.linear("a", actions, "a", 4); });
  b.stage("loop", When::kInfer, 5, [&] {
    const Value velocity = b.linear("velocity", actions, "velocity", 8);
    b.euler_step("euler_step", {.actions = actions, .velocity = velocity, .step = -0.2f});
  });
  const Plan plan = assign_precision(std::move(b).finish(), recipe_of({fp8("*")}));
  EXPECT_EQ(call_names(plan), (Names{"actions.quantize", "before.a", "actions.quantize.2",
                                     "loop.velocity", "loop.euler_step"}));
  EXPECT_EQ(plan.stages[1].first, 2) << "once per iteration";
  EXPECT_EQ(type(plan, "actions"), DType::kF32);
  EXPECT_EQ(type(plan, "loop.velocity"), DType::kF32) << "the sampler integrates it";
  EXPECT_EQ(info(plan, "actions.quantize.2").site, "actions");
}

TEST(Precision, RowsOfAStepAreCastInsideTheLoop) {
  PlanBuilder b("steps");
  const Value table = b.input("table", {5, 8}, DType::kF32);
  Value rows;
  b.stage("load", When::kLoad, 1, [&] { rows = b.linear("rows", table, "rows", 8); });
  b.stage("loop", When::kInfer, 5, [&] {
    b.linear("a", b.at_step(rows), "a", 4);
    b.add_norm("norm", {.residual = b.at_step(rows)}, {});
  });
  const Plan plan = assign_precision(std::move(b).finish(),
                                     recipe_of({rule("load.*", DType::kF32), fp8("loop.*")}));
  EXPECT_EQ(call_names(plan),
            (Names{"load.rows", "load.rows[step].quantize", "loop.a", "loop.norm"}));
  EXPECT_EQ(plan.stages[1].first, 1);
  EXPECT_EQ(info(plan, "load.rows[step].quantize").site, "load.rows") << "without the step";
  EXPECT_EQ(info(plan, "load.rows[step].quantize").shape, (Shape{1, 8}));
}

TEST(Precision, AValueRewrittenInPlaceIsCastAnew) {
  Plan plan = [] {
    PlanBuilder b("in_place");
    const Value x = b.input("x", {3, 8}, DType::kF32);
    b.stage("s", When::kInfer, 1, [&] {
      const Value stream = b.linear("stream", x, "stream", 8);
      const Value a = b.linear("a", stream, "a", 8);
      b.add_norm("norm", {.residual = stream, .delta = a}, {});
      b.linear("b", stream, "b", 8);
    });
    return std::move(b).finish();
  }();
  auto& norm = std::get<AddNorm>(plan.calls[2].op);
  norm.residual_out = norm.residual;
  plan = assign_precision(std::move(plan),
                          recipe_of({rule("*", DType::kF32), fp8("s.a"), fp8("s.b")}));
  EXPECT_EQ(call_names(plan), (Names{"s.stream", "s.stream.quantize", "s.a", "s.norm",
                                     "s.stream.quantize.2", "s.b"}));
}

TEST(Precision, PartsShareTheTypeAndSiteOfTheWhole) {
  PlanBuilder b("parts");
  const Value x = b.input("x", {4, 8}, DType::kF32);
  b.stage("s", When::kInfer, 1, [&] {
    const Value top = b.linear("top", b.rows(x, 0, 1), "w", 8);
    const Value rest = b.linear("rest", b.rows(x, 1, 3), "w", 8);
    const Value whole = b.concat("whole", {top, rest});
    const Value qkv = b.linear("qkv", whole, "qkv", 12);
    b.attention("attn", b.columns(qkv, 0, 4), b.columns(qkv, 4, 4), b.columns(qkv, 8, 4),
                {.heads = 1, .kv_heads = 1, .head_dim = 4, .ranges = {{.begin = 0, .count = 4}}});
  });
  const Plan plan =
      assign_precision(std::move(b).finish(), recipe_of({rule("*", DType::kF32), fp8("s.qkv")}));
  EXPECT_EQ(plan.calls.size(), 4u);
  for (const char* name : {"whole", "s.top", "s.rest"}) {
    EXPECT_EQ(type(plan, name), DType::kE4M3) << name;
    EXPECT_EQ(info(plan, name).site, "whole") << name;
  }
  EXPECT_EQ(type(plan, "s.qkv"), DType::kBF16);
  EXPECT_EQ(type(plan, "s.qkv[:, 4:8]"), DType::kBF16);
  EXPECT_EQ(type(plan, "x[1:4]"), DType::kF32);
}

TEST(Precision, CalibrationKeepsCallsAndSitesAndHoldsValues) {
  const std::vector<Plan> plans{
      mlp(), shared_value(),
      build_plan(tiny_pi05(), {.cameras = 1, .prompt_capacity = 7, .horizon = 3, .steps = 4})};
  for (const Plan& plan : plans) {
    Recipe recipe = recipe_of({fp8("*")});
    const Plan quantised = assign_precision(plan, recipe);
    recipe.float_activations = true;
    const Plan measured = assign_precision(plan, recipe);
    EXPECT_EQ(call_names(measured), call_names(quantised));
    ASSERT_EQ(measured.values.size(), quantised.values.size());
    int sites = 0;
    for (size_t i = 0; i < measured.values.size(); ++i) {
      const ValueInfo &a = measured.values[i], &b = quantised.values[i];
      EXPECT_EQ(a.site, b.site);
      EXPECT_EQ(a.site.empty(), b.type != DType::kE4M3) << b.name;
      EXPECT_EQ(a.type, b.type == DType::kE4M3 ? DType::kBF16 : b.type) << b.name;
      sites += !a.site.empty();
    }
    EXPECT_GT(sites, 1);
  }
}

TEST(Precision, RefusesTwoTypesForOneWeight) {
  PlanBuilder b("twice");
  const Value x = b.input("x", {3, 8}, DType::kF32);
  b.stage("s", When::kInfer, 1, [&] {
    b.linear("a", x, "w", 8);
    b.linear("b", x, "w", 8);
  });
  const Plan plan = std::move(b).finish();
  EXPECT_CONTAINS(error_text([&] {
                    assign_precision(plan, recipe_of({fp8("s.b"), rule("s.a", DType::kBF16)}));
                  }),
                  "recipe test: weight w.weight would be bf16 for s.a and e4m3 for s.b");
}

// ---- number formats that are emulated

TEST(Precision, AnEmulatedFormatArisesFromAQuantizeCallAlone) {
  const Plan plan = assign_precision(
      mlp(), recipe_of({rule("*", NumberFormat::kInt8), rule("*.embed", DType::kF32)}));
  EXPECT_EQ(call_names(plan), (Names{"s.embed", "s.norm", "s.norm.quantize", "s.up", "s.glu",
                                     "s.glu.quantize", "s.down", "s.norm2"}));
  EXPECT_EQ(type(plan, "s.norm"), DType::kF32) << "rounded once, by the quantize call";
  EXPECT_EQ(info(plan, "s.norm").site, "");
  EXPECT_EQ(held_format(info(plan, "s.norm")), NumberFormat::kNone);
  EXPECT_EQ(input_of(plan, "s.up"), "s.norm.quantize");
  const ValueInfo& x = info(plan, "s.norm.quantize");
  EXPECT_EQ(x.type, DType::kF32);
  EXPECT_EQ(x.format, NumberFormat::kInt8);
  EXPECT_TRUE(x.holds_format);
  EXPECT_TRUE(is_emulated(x));
  EXPECT_EQ(x.site, "s.norm") << "the name that e4m3 has";
  EXPECT_EQ(type(plan, "s.embed"), DType::kBF16) << "the others are as in any recipe";
  EXPECT_EQ(plan.recipe, "test");
  EXPECT_CONTAINS(print(plan),
                  "s.norm.quantize = quantize x=s.norm -> y=s.norm.quantize [3, 8] "
                  "int8");
  EXPECT_CONTAINS(print(plan), "weight=up.weight int8");
}

TEST(Precision, EitherSideAloneMayBeInAFormat) {
  const Plan weights = assign_precision(
      mlp(),
      recipe_of({{.match = "*.up", .weight = NumberFormat::kNvFp4, .activation = DType::kBF16}}));
  EXPECT_EQ(input_of(weights, "s.up"), "s.norm") << "no quantize call";
  EXPECT_EQ(type_name(weights.weight("up.weight")), "nvfp4");
  EXPECT_EQ(weights.weight("up.weight").type, DType::kF32);
  EXPECT_EQ(type(weights, "s.norm"), DType::kBF16);
  const Plan activations = assign_precision(
      mlp(),
      recipe_of({{.match = "*.up", .weight = DType::kBF16, .activation = NumberFormat::kE5M2}}));
  EXPECT_EQ(input_of(activations, "s.up"), "s.norm.quantize");
  EXPECT_EQ(type_name(info(activations, "s.norm.quantize")), "e5m2");
  EXPECT_EQ(activations.weight("up.weight").type, DType::kBF16);
}

TEST(Precision, ABlockFormatWithoutAScaleNeedsNoSite) {
  const Plan plan = assign_precision(mlp(), recipe_of({rule("*.up", NumberFormat::kMxFp4)}));
  EXPECT_EQ(info(plan, "s.norm.quantize").site, "");
  EXPECT_TRUE(is_emulated(info(plan, "s.norm.quantize")));
}

TEST(Precision, OneQuantizePerFormatOfAValue) {
  const Plan plan = assign_precision(
      shared_value(),
      recipe_of({rule("first.*", DType::kF32), rule("second.a", NumberFormat::kInt8),
                 rule("second.b", NumberFormat::kMxFp4)}));
  EXPECT_EQ(call_names(plan), (Names{"first.y", "first.y.quantize", "first.y.quantize.2",
                                     "second.a", "second.b", "second.norm"}));
  EXPECT_EQ(type_name(info(plan, input_of(plan, "second.a"))), "int8");
  EXPECT_EQ(type_name(info(plan, input_of(plan, "second.b"))), "mxfp4");
  EXPECT_EQ(type(plan, "first.y"), DType::kBF16) << "as its norm reads it";
}

TEST(Precision, PlacedPartsAreRoundedAsAWhole) {
  PlanBuilder b("parts");
  const Value x = b.input("x", {4, 8}, DType::kF32);
  b.stage("s", When::kInfer, 1, [&] {
    const Value top = b.linear("top", b.rows(x, 0, 1), "w", 8);
    const Value rest = b.linear("rest", b.rows(x, 1, 3), "w", 8);
    b.linear("y", b.concat("whole", {top, rest}), "y", 4);
  });
  const Plan plan = assign_precision(
      std::move(b).finish(), recipe_of({rule("*", DType::kF32), rule("s.y", NumberFormat::kInt8)}));
  EXPECT_EQ(call_names(plan), (Names{"s.top", "s.rest", "whole.quantize", "s.y"}));
  EXPECT_EQ(info(plan, "whole.quantize").shape, (Shape{4, 8}));
}

TEST(Precision, CalibrationKeepsTheSitesOfEmulatedFormats) {
  const Plan model =
      build_plan(tiny_pi05(), {.cameras = 1, .prompt_capacity = 7, .horizon = 3, .steps = 4});
  for (const NumberFormat format : {NumberFormat::kInt8, NumberFormat::kNvFp4}) {
    Recipe recipe = recipe_of({rule("*", format)});
    const Plan quantised = assign_precision(model, recipe);
    recipe.float_activations = true;
    const Plan measured = assign_precision(model, recipe);
    EXPECT_EQ(call_names(measured), call_names(quantised));
    int sites = 0;
    for (size_t i = 0; i < measured.values.size(); ++i) {
      const ValueInfo &a = measured.values[i], &b = quantised.values[i];
      EXPECT_EQ(a.site, b.site);
      EXPECT_EQ(a.site.empty(), !is_emulated(b)) << b.name;
      EXPECT_FALSE(is_emulated(a)) << a.name;
      EXPECT_EQ(a.format, b.format) << "what the site is measured for";
      EXPECT_EQ(a.type, is_emulated(b) ? DType::kBF16 : b.type) << a.name;
      sites += !a.site.empty();
    }
    EXPECT_GT(sites, 1);
    // The same sites as e4m3 has, so that their calibrations can be compared.
    const Plan fp8_plan = assign_precision(model, recipe_of({fp8("*")}));
    std::set<std::string> names, fp8_names;
    for (const ValueInfo& value : quantised.values) names.insert(value.site);
    for (const ValueInfo& value : fp8_plan.values) fp8_names.insert(value.site);
    EXPECT_EQ(names, fp8_names);
  }
}

TEST(Precision, RefusesTwoFormatsForOneSite) {
  EXPECT_CONTAINS(
      error_text([&] {
        assign_precision(shared_value(), recipe_of({rule("second.a", NumberFormat::kInt8),
                                                    rule("second.b", NumberFormat::kE5M2)}));
      }),
      "recipe test: calibration site first.y would be int8 for one linear and e5m2 for another");
}

TEST(Precision, RefusesRulesThatMatchNoLinear) {
  Recipe recipe = recipe_of({fp8("*"), fp8("s.upp"), fp8("s.glu")});
  assign_precision(mlp(), recipe);  // made in code: for several models
  recipe.must_match = true;
  EXPECT_CONTAINS(error_text([&] { assign_precision(mlp(), recipe); }),
                  "recipe test: rule 1: 's.upp' matches no linear of mlp; nearest: 's.up'");
  recipe.rules[1].match = "s.u?";
  EXPECT_CONTAINS(error_text([&] { assign_precision(mlp(), recipe); }),
                  "rule 2: 's.glu' matches no linear of mlp");
  recipe.rules[2].is_optional = true;
  assign_precision(mlp(), recipe);
}

TEST(Precision, RefusesTwoFormatsForOneWeight) {
  PlanBuilder b("twice");
  const Value x = b.input("x", {3, 8}, DType::kF32);
  b.stage("s", When::kInfer, 1, [&] {
    b.linear("a", x, "w", 8);
    b.linear("b", x, "w", 8);
  });
  const Plan plan = std::move(b).finish();
  const RecipeRule nvfp4{.match = "s.a", .weight = NumberFormat::kNvFp4};
  const RecipeRule mxfp4{.match = "s.b", .weight = NumberFormat::kMxFp4};
  EXPECT_CONTAINS(error_text([&] {
                    assign_precision(plan, recipe_of({nvfp4, mxfp4}));
                  }),
                  "recipe test: weight w.weight would be nvfp4 for s.a and mxfp4 for s.b");
}

class PrecisionOfModels : public testing::TestWithParam<bool> {};

TEST_P(PrecisionOfModels, NoModelNeedsAQuantizeCall) {
  for (const ModelConfig& config : {tiny_pi05(), tiny_pi0()}) {
    const Plan plan = build_plan(
        config,
        {.cameras = 2, .prompt_capacity = 7, .horizon = 3, .steps = 4, .guided = GetParam()});
    for (const char* name : {"bf16", "fp8", "fp8_f16"}) {
      const Plan typed = assign_precision(plan, Recipe::named(name));
      EXPECT_EQ(call_names(typed), call_names(plan)) << name;
      const auto expect = [&](std::string_view value, DType expected) {
        EXPECT_EQ(type(typed, value), expected)
            << name << " " << config.vision.width << " " << value;
      };
      for (const char* value :
           {"actions", "times", "denoise.velocity", "denoise.norm", "styles.time"}) {
        expect(value, DType::kF32);
      }
      for (const char* value : {"cache.0.k", "cache.1.v", "prompt.embed", "prefix.embeds",
                                "denoise.0.qkv", "denoise.0.qkv_rope.q", "vision.projector"}) {
        expect(value, DType::kBF16);
      }
      const std::string recipe = name;
      expect("prefix.0.glu", recipe == "bf16" ? DType::kBF16 : DType::kE4M3);
      expect("vision.0.fc1", recipe == "bf16" ? DType::kBF16 : DType::kE4M3);
      expect("denoise.0.glu", recipe == "bf16"  ? DType::kBF16
                              : recipe == "fp8" ? DType::kE4M3
                                                : DType::kF16);
      EXPECT_EQ(typed.weight("language.embed").type, DType::kBF16);
      EXPECT_EQ(typed.weight("action_out.weight").type, DType::kF32);
      if (config.type == ModelType::kPi05) {
        expect("styles.0.attn_style", DType::kF32);
        expect("styles.time_out", DType::kF32);
      } else {
        expect("state", DType::kF32);
        expect("styles.time_part", DType::kF32);
        expect("denoise.action_in", DType::kF32);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Guided, PrecisionOfModels, testing::Bool());

}  // namespace
}  // namespace flashrt
