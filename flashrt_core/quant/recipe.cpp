// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "quant/recipe.hpp"

#include <algorithm>
#include <optional>

#include "base/json.hpp"
#include "quant/range_estimator.hpp"

namespace flashrt {
namespace {

constexpr size_t kMaxRecipeBytes = 1u << 20;
constexpr std::string_view kFormat = "flashrt_recipe";
constexpr int kVersion = 1;

// The linears that stay in float32 in every recipe made here, as in the reference implementations:
// time and style, run once per load, and what touches the actions, whose errors nothing averages
// out.
constexpr std::string_view kFloatLinears[] = {
    "styles.*", "*.state_in", "*.action_in", "*.action_time_in", "*.action_time_out", "*.velocity"};

// Of GR00T: the networks that each embodiment has of its own.
constexpr std::string_view kHalfLinears[] = {"*.state_out", "*.action_out", "*.decoder"};

void add_float_linears(Recipe& recipe) {
  for (const std::string_view match : kFloatLinears)
    recipe.rules.push_back({.match = std::string(match)});
}

std::optional<Recipe> built_in(std::string_view name) {
  Recipe recipe{.name = std::string(name)};
  if (name == "f32") {
    recipe.rules = {{.match = "*"}};
    return recipe;
  }
  const RecipeRule fp8{.match = "*",
                       .weight = DType::kE4M3,
                       .activation = DType::kE4M3,
                       .weight_scale = WeightScale::kChannel};
  RecipeRule fp8_f16 = fp8;
  fp8_f16.match = "denoise.*";
  fp8_f16.activation = DType::kF16;
  const RecipeRule bf16{.match = "*", .weight = DType::kBF16, .activation = DType::kBF16};
  // The first token of a prompt is far larger than the others, and a prompt is computed once.
  RecipeRule prompt = fp8;
  prompt.match = "prompt.*";
  prompt.activation = DType::kBF16;
  // What is lost in the pictures is lost for every layer behind them: the vision tower in bf16
  // halves the error of the actions.
  RecipeRule vision = bf16;
  vision.match = "vision.*";
  recipe.values = DType::kBF16;
  if (name == "bf16") {
    recipe.rules = {bf16};
  } else if (name == "fp8") {
    recipe.rules = {fp8, prompt};
  } else if (name == "fp8_f16") {
    recipe.rules = {fp8, prompt, fp8_f16};
  } else if (name == "fp8_mixed") {
    recipe.rules = {fp8, prompt, fp8_f16, vision};
  } else {
    return std::nullopt;
  }
  for (const std::string_view match : kHalfLinears) {
    RecipeRule rule = bf16;
    rule.match = match;
    recipe.rules.push_back(rule);
  }
  add_float_linears(recipe);
  return recipe;
}

std::string_view name_of(WeightScale scale) {
  switch (scale) {
    case WeightScale::kNone:
      return "none";
    case WeightScale::kTensor:
      return "tensor";
    case WeightScale::kChannel:
      return "channel";
  }
  return "?";
}

constexpr Precision kValues[] = {DType::kF32, DType::kBF16};
constexpr Precision kPrecisions[] = {DType::kF32,          DType::kBF16,        DType::kF16,
                                     NumberFormat::kE4M3,  NumberFormat::kE5M2, NumberFormat::kInt8,
                                     NumberFormat::kNvFp4, NumberFormat::kMxFp4};

Precision one_of(const JsonFields& fields, std::string_view key,
                 std::span<const Precision> precisions) {
  const std::string name = fields.string(key);
  std::string expected;
  for (const Precision precision : precisions) {
    if (name == name_of(precision)) return precision;
    expected += (expected.empty() ? "" : ", ") + std::string(name_of(precision));
  }
  fields.fail(key, "one of " + expected);
}

WeightScale weight_scale(const JsonFields& fields, Precision weight) {
  constexpr std::string_view kKey = "weight_scale";
  const bool is_scaled = takes_weight_scale(weight.format);
  const std::string name = fields.has(kKey) ? fields.string(kKey) : "none";
  for (const WeightScale scale :
       {WeightScale::kNone, WeightScale::kTensor, WeightScale::kChannel}) {
    if (name != name_of(scale)) continue;
    if (is_scaled == (scale == WeightScale::kNone)) break;
    return scale;
  }
  fields.fail(kKey, text(is_scaled ? "tensor or channel" : "none", " for weights in ", weight));
}

WeightRange weight_range(const JsonFields& fields, Precision weight) {
  constexpr std::string_view kKey = "weight_range", kFraction = "weight_fraction";
  WeightRange range;
  if (fields.has(kKey)) {
    const auto estimator = estimator_named(fields.string(kKey));
    if (!estimator) fields.fail(kKey, "one of " + estimator_names());
    if (!has_scale(weight.format)) fields.fail(kKey, text("none for weights in ", weight));
    range.estimator = *estimator;
  }
  const bool is_percentile = range.estimator == RangeEstimator::kPercentile;
  if (is_percentile != fields.has(kFraction))
    fields.fail(kFraction, is_percentile ? "a number such as 0.999 for weight_range percentile"
                                         : "none without weight_range percentile");
  if (is_percentile) {
    range.fraction = fields.number(kFraction, 0, 1);
    if (range.fraction == 0) fields.fail(kFraction, "a number above 0");
  }
  return range;
}

RecipeRule read_rule(const nlohmann::json& json, const std::string& where) {
  const JsonFields fields(json, where);
  fields.allow_only({"match", "weight", "activation", "weight_scale", "weight_range",
                     "weight_fraction", "optional"});
  RecipeRule rule;
  rule.match = fields.string("match");
  if (rule.match.empty()) fields.fail("match", "a pattern of call names such as 'denoise.*'");
  rule.weight = one_of(fields, "weight", kPrecisions);
  rule.activation = one_of(fields, "activation", kPrecisions);
  rule.weight_scale = weight_scale(fields, rule.weight);
  rule.weight_range = weight_range(fields, rule.weight);
  if (fields.has("optional")) rule.is_optional = fields.flag("optional");
  return rule;
}

}  // namespace

std::string_view name_of(Precision precision) {
  return precision.is_emulated() ? name_of(precision.format) : name_of(precision.type);
}

std::ostream& operator<<(std::ostream& out, Precision precision) {
  return out << name_of(precision);
}

bool matches(std::string_view pattern, std::string_view name) {
  // Greedy, with one point to come back to: where the last '*' stopped taking characters.
  size_t p = 0, n = 0, star = std::string_view::npos, taken = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p, ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

const RecipeRule* Recipe::rule_for(std::string_view call) const {
  const auto last = std::find_if(rules.rbegin(), rules.rend(),
                                 [&](const RecipeRule& rule) { return matches(rule.match, call); });
  return last == rules.rend() ? nullptr : &*last;
}

Recipe Recipe::named(const std::string& name_or_path) {
  if (const auto recipe = built_in(name_or_path)) return *recipe;
  FLASHRT_CHECK(std::filesystem::exists(name_or_path), "recipe '", name_or_path,
                "' is neither f32, bf16, fp8, fp8_f16 or fp8_mixed nor a file");
  return parse(read_text_file(name_or_path, kMaxRecipeBytes), name_or_path);
}

Recipe Recipe::parse(std::string_view json, std::string_view origin) {
  const std::string where(origin);
  const nlohmann::json parsed = parse_json(json, where);
  const JsonFields fields(parsed, where + ": ");
  if (!fields.has("format") || fields.string("format") != kFormat)
    fields.fail("format", std::string(kFormat));
  if (fields.integer("version", 0, 1 << 30) != kVersion) fields.fail("version", text(kVersion));
  fields.allow_only({"format", "version", "name", "values", "float_activations", "rules"});
  Recipe recipe;
  recipe.name = fields.string("name");
  recipe.must_match = true;
  recipe.values = one_of(fields, "values", kValues).type;
  if (fields.has("float_activations")) recipe.float_activations = fields.flag("float_activations");
  for (const nlohmann::json& rule : fields.array("rules")) {
    recipe.rules.push_back(read_rule(rule, text(where, ": rule ", recipe.rules.size(), ": ")));
  }
  return recipe;
}

}  // namespace flashrt
