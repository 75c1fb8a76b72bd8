// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "quant/recipe_json.hpp"

#include <nlohmann/json.hpp>

#include "quant/range_estimator.hpp"

namespace flashrt {
namespace {

nlohmann::ordered_json json_of(const RecipeRule& rule, bool is_optional) {
  nlohmann::ordered_json json{{"match", rule.match},
                              {"weight", name_of(rule.weight)},
                              {"activation", name_of(rule.activation)}};
  if (rule.weight_scale != WeightScale::kNone)
    json["weight_scale"] = rule.weight_scale == WeightScale::kTensor ? "tensor" : "channel";
  if (rule.weight_range.estimator != RangeEstimator::kMinMax)
    json["weight_range"] = name_of(rule.weight_range.estimator);
  if (rule.weight_range.estimator == RangeEstimator::kPercentile)
    json["weight_fraction"] = rule.weight_range.fraction;
  if (is_optional) json["optional"] = true;
  return json;
}

}  // namespace

std::string recipe_json(const Recipe& recipe) {
  nlohmann::ordered_json rules = nlohmann::ordered_json::array();
  for (const RecipeRule& rule : recipe.rules)
    rules.push_back(json_of(rule, rule.is_optional || !recipe.must_match));
  nlohmann::ordered_json json{{"format", "flashrt_recipe"},
                              {"version", 1},
                              {"name", recipe.name},
                              {"values", name_of(recipe.values)}};
  if (recipe.float_activations) json["float_activations"] = true;
  json["rules"] = std::move(rules);
  return json.dump(1) + "\n";
}

}  // namespace flashrt
