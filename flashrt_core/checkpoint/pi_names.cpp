// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "checkpoint/pi_names.hpp"

#include <utility>

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
  std::string pi05, pi0;  // a tensor that speaks for the family
  for (const auto& [name, unused] : store.tensors()) {
    const std::string canonical = canonical_name(name);
    if (canonical == "time_mlp_in.weight" || canonical.ends_with("norm.dense.weight")) pi05 = name;
    if (canonical == "state_proj.weight") pi0 = name;
  }
  const std::string folder = store.folder().string();
  FLASHRT_CHECK(pi05.empty() || pi0.empty(), "checkpoint ", folder, " has tensors of Pi0.5 (", pi05,
                ") and of Pi0 (", pi0, ")");
  FLASHRT_CHECK(
      !pi05.empty() || !pi0.empty(), "checkpoint ", folder, " is neither Pi0.5 nor Pi0: it has no ",
      "time_mlp_in.weight, no adaptive norm (...norm.dense.weight) and no state_proj.weight");
  return pi05.empty() ? ModelType::kPi0 : ModelType::kPi05;
}

}  // namespace flashrt
