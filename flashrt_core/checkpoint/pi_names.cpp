// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "checkpoint/pi_names.hpp"

#include <map>
#include <utility>

#include "checkpoint/groot_weights.hpp"

namespace flashrt {
namespace {

bool strip(std::string_view& name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return false;
  name.remove_prefix(prefix.size());
  return true;
}

// Prefix in a file -> prefix here. The first that fits counts.
constexpr std::pair<std::string_view, std::string_view> kPrefixes[] = {
    {"paligemma.model.vision_tower.vision_model.", "vision_tower."},
    {"paligemma.model.vision_tower.", "vision_tower."},
    {"paligemma.vision_tower.vision_model.", "vision_tower."},
    {"paligemma.vision_tower.", "vision_tower."},
    {"paligemma.model.multi_modal_projector.linear.", "projector."},
    {"paligemma.multi_modal_projector.linear.", "projector."},
    {"paligemma.language_model.model.", "language_model."},
    {"paligemma.model.language_model.", "language_model."},
    {"paligemma.language_model.lm_head.", "lm_head."},
    {"paligemma.lm_head.", "lm_head."},
    {"gemma_expert.model.", "gemma_expert."},
};

}  // namespace

std::string canonical_name(std::string_view name) {
  strip(name, "model.");
  if (!strip(name, "paligemma_with_expert.")) return std::string(name);
  for (const auto& [theirs, ours] : kPrefixes) {
    if (strip(name, theirs)) return std::string(ours) + std::string(name);
  }
  return std::string(name);
}

ModelType family_of(const TensorStore& store) {
  std::map<ModelType, std::string> found;  // with a tensor that speaks for the family
  for (const auto& [name, unused] : store.tensors()) {
    const std::string canonical = canonical_name(name);
    if (canonical == "time_mlp_in.weight" || canonical.ends_with("norm.dense.weight"))
      found[ModelType::kPi05] = name;
    if (canonical == "state_proj.weight") found[ModelType::kPi0] = name;
    if (canonical == kGrootActionEncoder) found[ModelType::kGrootN16] = name;
  }
  const std::string folder = store.folder().string();
  FLASHRT_CHECK(
      !found.empty(), "checkpoint ", folder,
      " is neither Pi0.5 nor Pi0 nor GR00T N1.6: it has no time_mlp_in.weight, no adaptive "
      "norm (...norm.dense.weight), no state_proj.weight and no ",
      kGrootActionEncoder);
  const auto& [type, first] = *found.begin();
  const auto& [other, second] = *found.rbegin();
  FLASHRT_CHECK(type == other, "checkpoint ", folder, " has tensors of ", name_of(type), " (",
                first, ") and of ", name_of(other), " (", second, ")");
  return type;
}

}  // namespace flashrt
