// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// The names of tensors: many writers of Pi0 and Pi0.5, one spelling. Those of GR00T are spelt in
// one way.
#pragma once

#include <string>
#include <string_view>

#include "checkpoint/model_config.hpp"
#include "checkpoint/tensor_store.hpp"

namespace flashrt {

// The one spelling of a tensor that files of openpi, lerobot and their older and newer versions
// name differently:
//   model.paligemma_with_expert.paligemma.model.vision_tower.vision_model.post_layernorm.bias
//   paligemma_with_expert.paligemma.vision_tower.post_layernorm.bias
// are both vision_tower.post_layernorm.bias. The roots are vision_tower, projector,
// language_model, lm_head, gemma_expert and the small heads, which stay as they are.
std::string canonical_name(std::string_view name);

// Which family the tensors belong to, whatever the folder is called: Pi0.5 has a time MLP and
// adaptive norms, Pi0 has a state projection, GR00T N1.6 an action encoder per embodiment. Tensors
// of two families or of none are refused.
ModelType family_of(const TensorStore& store);

}  // namespace flashrt
