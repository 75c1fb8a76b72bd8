// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Recipe: which linears run in which types. The plan does not know it; the precision pass applies
// it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/number_format.hpp"
#include "base/tensor.hpp"
#include "plan/plan.hpp"

namespace flashrt {

// What a recipe asks of a weight or an activation: a type, or a number format. e4m3 is both; a
// backend emulates the other formats in float32.
struct Precision {
  DType type = DType::kF32;
  NumberFormat format = NumberFormat::kNone;

  constexpr Precision() = default;
  constexpr Precision(DType stored)  // NOLINT: either is meant where one is given
      : type(stored), format(stored == DType::kE4M3 ? NumberFormat::kE4M3 : NumberFormat::kNone) {}
  constexpr Precision(NumberFormat wanted)  // NOLINT
      : type(wanted == NumberFormat::kE4M3 ? DType::kE4M3 : DType::kF32), format(wanted) {}

  bool is_emulated() const { return format != NumberFormat::kNone && type != DType::kE4M3; }
  auto operator<=>(const Precision&) const = default;
};

std::string_view name_of(Precision precision);
std::ostream& operator<<(std::ostream& out, Precision precision);

// Linears whose call name matches the pattern ('*' and '?') use these types. The last matching rule
// wins.
struct RecipeRule {
  std::string match;
  Precision weight;
  Precision activation;
  // Weights in e4m3, e5m2 and int8: kTensor or kChannel. nvfp4 and mxfp4 scale their blocks.
  WeightScale weight_scale = WeightScale::kNone;
  WeightRange weight_range;  // of weights whose format has a scale
  bool is_optional = false;  // may match no linear: of a recipe for several models
};

struct Recipe {
  std::string name;
  DType values = DType::kF32;  // type of every value that no rule decides: f32 or bf16
  std::vector<RecipeRule> rules;
  // Calibration holds quantised activations in the type of values, under the same site names.
  bool float_activations = false;

  // Every rule that is not optional matches a linear of the plan: a file may be misspelled.
  bool must_match = false;

  // The last rule that matches; null if none does.
  const RecipeRule* rule_for(std::string_view call) const;

  // "f32", "bf16", "fp8" (e4m3 weights and activations), "fp8_f16" (fp8 with f16 activations in the
  // denoise loop), "fp8_mixed" (fp8_f16 with the vision tower in bf16), or the path of a JSON file.
  static Recipe named(const std::string& name_or_path);
  // A file. Its rules must match.
  static Recipe parse(std::string_view json, std::string_view origin);
};

// '*' stands for any text, '?' for any one character.
bool matches(std::string_view pattern, std::string_view name);

}  // namespace flashrt
