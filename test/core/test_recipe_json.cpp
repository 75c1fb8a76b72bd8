// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Recipes as text: what is written is read as the same recipe.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "models/models.hpp"
#include "plan/print.hpp"
#include "quant/precision.hpp"
#include "quant/recipe_json.hpp"
#include "tiny_models.hpp"

namespace flashrt {
namespace {

TEST(RecipeJson, EveryFieldIsWrittenAsItWasRead) {
  const nlohmann::json written = nlohmann::json::parse(R"({
    "format": "flashrt_recipe", "version": 1, "name": "all of them", "values": "bf16",
    "float_activations": true,
    "rules": [
      {"match": "*", "weight": "f32", "activation": "f16"},
      {"match": "a.*", "weight": "int8", "activation": "e5m2", "weight_scale": "tensor",
       "weight_range": "percentile", "weight_fraction": 0.75, "optional": true},
      {"match": "b.?", "weight": "e4m3", "activation": "e4m3", "weight_scale": "channel",
       "weight_range": "mse"},
      {"match": "c", "weight": "nvfp4", "activation": "mxfp4"}
    ]})");
  const Recipe recipe = Recipe::parse(written.dump(), "r.json");
  EXPECT_EQ(nlohmann::json::parse(recipe_json(recipe)), written);
}

TEST(RecipeJson, BuiltInRecipesAreTheSameFromAFile) {
  for (const char* name : {"f32", "bf16", "fp8", "fp8_f16", "fp8_mixed"}) {
    const Recipe built_in = Recipe::named(name);
    const Recipe from_file = Recipe::parse(recipe_json(built_in), name);
    const Plan plan = build_plan(tiny_pi05(), {.prompt_capacity = 4, .horizon = 4, .steps = 2});
    EXPECT_EQ(print(assign_precision(plan, built_in)), print(assign_precision(plan, from_file)));
  }
}

}  // namespace
}  // namespace flashrt
