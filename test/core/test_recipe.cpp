// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Recipes: patterns, the ones that come with the package, and files.
#include <gtest/gtest.h>

#include "expect_error.hpp"
#include "quant/recipe.hpp"
#include "temporary_folder.hpp"

namespace flashrt {
namespace {

TEST(Recipe, PatternsMatchWholeNames) {
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("*", "prefix.3.qkv"));
  EXPECT_TRUE(matches("prefix.?.qkv", "prefix.3.qkv"));
  EXPECT_FALSE(matches("prefix.?.qkv", "prefix.13.qkv"));
  EXPECT_TRUE(matches("*.qkv", "prefix.13.qkv"));
  EXPECT_FALSE(matches("*.qkv", "prefix.13.qkv_rope"));
  EXPECT_FALSE(matches("qkv", "prefix.qkv"));
  EXPECT_TRUE(matches("*a*b*c", "xxaabbcbc"));
  EXPECT_FALSE(matches("*a*b*c", "xxaabbcb"));
  EXPECT_TRUE(matches("denoise.*", "denoise."));
  EXPECT_FALSE(matches("", "x"));
}

TEST(Recipe, TheLastMatchingRuleWins) {
  Recipe recipe{.rules = {{.match = "*", .weight = DType::kE4M3},
                          {.match = "denoise.*", .weight = DType::kBF16}}};
  EXPECT_EQ(recipe.rule_for("denoise.0.qkv")->weight, DType::kBF16);
  EXPECT_EQ(recipe.rule_for("prefix.0.qkv")->weight, DType::kE4M3);
  recipe.rules.erase(recipe.rules.begin());
  EXPECT_EQ(recipe.rule_for("prefix.0.qkv"), nullptr);
}

TEST(Recipe, BuiltInRecipesLeaveTimeAndActionsInFloat) {
  for (const char* name : {"bf16", "fp8", "fp8_f16", "fp8_mixed"}) {
    const Recipe recipe = Recipe::named(name);
    EXPECT_EQ(recipe.name, name);
    EXPECT_EQ(recipe.values, DType::kBF16);
    for (const char* call :
         {"styles.time_in", "styles.3.attn_style", "denoise.action_in", "denoise.velocity",
          "state.state_in", "denoise.action_time_in", "denoise.action_time_out"}) {
      EXPECT_EQ(recipe.rule_for(call)->weight, DType::kF32) << name << call;
      EXPECT_EQ(recipe.rule_for(call)->activation, DType::kF32) << name << call;
    }
  }
}

TEST(Recipe, BuiltInRecipesNameTheirTypes) {
  const auto types = [](const char* recipe, const char* call) {
    const Recipe named = Recipe::named(recipe);  // rule_for points into it
    const RecipeRule* rule = named.rule_for(call);
    return std::tuple(rule->weight, rule->activation, rule->weight_scale);
  };
  EXPECT_EQ(types("f32", "prefix.0.qkv"), std::tuple(DType::kF32, DType::kF32, WeightScale::kNone));
  EXPECT_EQ(types("bf16", "prefix.0.qkv"),
            std::tuple(DType::kBF16, DType::kBF16, WeightScale::kNone));
  EXPECT_EQ(types("fp8_mixed", "vision.0.qkv"),
            std::tuple(DType::kBF16, DType::kBF16, WeightScale::kNone));
  EXPECT_EQ(types("fp8_mixed", "prefix.0.qkv"), types("fp8", "prefix.0.qkv"));
  EXPECT_EQ(types("fp8_mixed", "denoise.0.qkv"), types("fp8_f16", "denoise.0.qkv"));
  EXPECT_EQ(types("fp8", "denoise.0.qkv"),
            std::tuple(DType::kE4M3, DType::kE4M3, WeightScale::kChannel));
  EXPECT_EQ(types("fp8_f16", "denoise.0.qkv"),
            std::tuple(DType::kE4M3, DType::kF16, WeightScale::kChannel));
  EXPECT_EQ(types("fp8_f16", "prefix.0.qkv"),
            std::tuple(DType::kE4M3, DType::kE4M3, WeightScale::kChannel));
}

TEST(Recipe, IsReadFromAFile) {
  const TemporaryFolder folder;
  const auto path = folder.write("recipe.json", R"({
    "format": "flashrt_recipe", "version": 1, "name": "mixed", "values": "bf16",
    "float_activations": true,
    "rules": [
      {"match": "*", "weight": "e4m3", "activation": "f16", "weight_scale": "tensor"},
      {"match": "*.velocity", "weight": "f32", "activation": "bf16"}
    ]})");
  const Recipe recipe = Recipe::named(path.string());
  EXPECT_EQ(recipe.name, "mixed");
  EXPECT_EQ(recipe.values, DType::kBF16);
  EXPECT_TRUE(recipe.float_activations);
  ASSERT_EQ(recipe.rules.size(), 2u);
  EXPECT_EQ(recipe.rules[0].match, "*");
  EXPECT_EQ(recipe.rules[0].weight, DType::kE4M3);
  EXPECT_EQ(recipe.rules[0].activation, DType::kF16);
  EXPECT_EQ(recipe.rules[0].weight_scale, WeightScale::kTensor);
  EXPECT_EQ(recipe.rules[1].match, "*.velocity");
  EXPECT_EQ(recipe.rules[1].weight, DType::kF32);
  EXPECT_EQ(recipe.rules[1].activation, DType::kBF16);
  EXPECT_EQ(recipe.rules[1].weight_scale, WeightScale::kNone);
}

TEST(Recipe, NamesNumberFormats) {
  const Recipe recipe = Recipe::parse(R"({
    "format": "flashrt_recipe", "version": 1, "name": "formats", "values": "f32",
    "rules": [
      {"match": "a", "weight": "int8", "activation": "int8", "weight_scale": "channel",
       "weight_range": "mse"},
      {"match": "b", "weight": "e5m2", "activation": "nvfp4", "weight_scale": "tensor",
       "weight_range": "percentile", "weight_fraction": 0.999},
      {"match": "c", "weight": "nvfp4", "activation": "bf16", "weight_range": "entropy"},
      {"match": "d", "weight": "mxfp4", "activation": "mxfp4", "optional": true}
    ]})",
                                      "r.json");
  EXPECT_TRUE(recipe.must_match);
  const RecipeRule &a = recipe.rules[0], &b = recipe.rules[1], &c = recipe.rules[2],
                   &d = recipe.rules[3];
  EXPECT_EQ(a.weight, NumberFormat::kInt8);
  EXPECT_EQ(a.activation, NumberFormat::kInt8);
  EXPECT_EQ(a.weight.type, DType::kF32) << "emulated";
  EXPECT_EQ(a.weight_scale, WeightScale::kChannel);
  EXPECT_EQ(a.weight_range, (WeightRange{RangeEstimator::kMse, 1}));
  EXPECT_FALSE(a.is_optional);
  EXPECT_EQ(b.weight, NumberFormat::kE5M2);
  EXPECT_EQ(b.activation, NumberFormat::kNvFp4);
  EXPECT_EQ(b.weight_range, (WeightRange{RangeEstimator::kPercentile, 0.999}));
  EXPECT_EQ(c.weight, NumberFormat::kNvFp4);
  EXPECT_EQ(c.activation, DType::kBF16);
  EXPECT_EQ(c.weight_scale, WeightScale::kNone);
  EXPECT_EQ(c.weight_range.estimator, RangeEstimator::kEntropy);
  EXPECT_EQ(d.weight, NumberFormat::kMxFp4);
  EXPECT_TRUE(d.is_optional);
}

TEST(Recipe, E4M3IsATypeAndAFormat) {
  EXPECT_EQ(Precision(DType::kE4M3), Precision(NumberFormat::kE4M3));
  EXPECT_FALSE(Precision(DType::kE4M3).is_emulated());
  EXPECT_TRUE(Precision(NumberFormat::kE5M2).is_emulated());
  EXPECT_FALSE(Precision(DType::kBF16).is_emulated());
}

TEST(Recipe, NamesWhatIsWrong) {
  const auto refusal = [](const std::string& rest) {
    return error_text([&] { Recipe::parse(R"({"format":"flashrt_recipe",)" + rest, "r.json"); });
  };
  const std::string head = R"("version":1,"name":"n","values":"bf16","rules":[)";
  EXPECT_CONTAINS(refusal(R"("version":2})"), "r.json: version is 2, expected 1");
  EXPECT_CONTAINS(refusal(R"("version":1,"name":"n","values":"e4m3","rules":[]})"),
                  "values is \"e4m3\", expected one of f32, bf16");
  EXPECT_CONTAINS(refusal(R"("version":1,"name":"n","values":"f32"})"), "rules missing");
  EXPECT_CONTAINS(refusal(head + R"(],"rule":[]})"), "rule is unknown; nearest: 'rules'");
  EXPECT_CONTAINS(
      refusal(head + R"({"match":"*","weight":"fp8","activation":"f32"}]})"),
      "r.json: rule 0: weight is \"fp8\", expected one of f32, bf16, f16, e4m3, e5m2, int8, "
      "nvfp4, mxfp4");
  EXPECT_CONTAINS(refusal(head + R"({"match":"*","weight":"e4m3","activation":"e4m3"}]})"),
                  "rule 0: weight_scale missing, expected tensor or channel for weights in e4m3");
  EXPECT_CONTAINS(
      refusal(head +
              R"({"match":"*","weight":"bf16","activation":"bf16","weight_scale":"tensor"}]})"),
      "weight_scale is \"tensor\", expected none for weights in bf16");
  const auto rule = [&](const std::string& rest) {
    return refusal(head + R"({"match":"*",)" + rest + "}]}");
  };
  EXPECT_CONTAINS(rule(R"("weight":"int8","activation":"int8")"),
                  "weight_scale missing, expected tensor or channel for weights in int8");
  EXPECT_CONTAINS(rule(R"("weight":"nvfp4","activation":"f32","weight_scale":"channel")"),
                  "weight_scale is \"channel\", expected none for weights in nvfp4");
  const std::string int8 = R"("weight":"int8","activation":"f32","weight_scale":"tensor",)";
  EXPECT_CONTAINS(rule(int8 + R"("weight_range":"max")"),
                  "weight_range is \"max\", expected one of min_max, percentile, entropy, mse");
  EXPECT_CONTAINS(rule(int8 + R"("weight_range":"percentile")"),
                  "weight_fraction missing, expected a number such as 0.999");
  EXPECT_CONTAINS(rule(int8 + R"("weight_range":"mse","weight_fraction":0.9)"),
                  "expected none without weight_range percentile");
  EXPECT_CONTAINS(rule(int8 + R"("weight_range":"percentile","weight_fraction":0)"),
                  "expected a number above 0");
  EXPECT_CONTAINS(rule(R"("weight":"mxfp4","activation":"f32","weight_range":"mse")"),
                  "weight_range is \"mse\", expected none for weights in mxfp4");
  EXPECT_CONTAINS(rule(R"("weight":"bf16","activation":"f32","weight_range":"mse")"),
                  "weight_range is \"mse\", expected none for weights in bf16");
  EXPECT_CONTAINS(refusal(head + R"({"match":"","weight":"f32","activation":"f32"}]})"),
                  "rule 0: match is \"\"");
  EXPECT_CONTAINS(
      refusal(head + R"({"match":"*","weight":"f32","activation":"f32","scale":"none"}]})"),
      "rule 0: scale is unknown");
  EXPECT_CONTAINS(error_text([] { Recipe::parse("{}", "r.json"); }), "r.json: format missing");
  EXPECT_CONTAINS(error_text([] { Recipe::named("fp9"); }),
                  "recipe 'fp9' is neither f32, bf16, fp8, fp8_f16 or fp8_mixed nor a file");
}

}  // namespace
}  // namespace flashrt
