// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Recipe: which linears run in which types. The plan does not know it; the precision pass applies
// it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor.hpp"
#include "plan/plan.hpp"

namespace flashrt {

// Linears whose call name matches the pattern ('*' and '?') use these types. The last matching rule
// wins.
struct RecipeRule {
  std::string match;
  DType weight = DType::kF32;
  DType activation = DType::kF32;
  WeightScale weight_scale = WeightScale::kNone;  // e4m3 weights: kTensor or kChannel
};

struct Recipe {
  std::string name;
  DType values = DType::kF32;  // type of every value that no rule decides: f32 or bf16
  std::vector<RecipeRule> rules;
  // Calibration holds quantised activations in the type of values, under the same site names.
  bool float_activations = false;

  // The last rule that matches; null if none does.
  const RecipeRule* rule_for(std::string_view call) const;

  // "f32", "bf16", "fp8" (e4m3 weights and activations), "fp8_f16" (fp8 with f16 activations in the
  // denoise loop), "fp8_mixed" (fp8_f16 with the vision tower in bf16), or the path of a JSON file.
  static Recipe named(const std::string& name_or_path);
  static Recipe parse(std::string_view json, std::string_view origin);
};

// '*' stands for any text, '?' for any one character.
bool matches(std::string_view pattern, std::string_view name);

}  // namespace flashrt
