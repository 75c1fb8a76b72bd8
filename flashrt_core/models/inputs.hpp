// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// What a model is given: pictures, times, tokens, and what follows from sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "models/models.hpp"

namespace flashrt {

// Pictures of one size: those of all cameras, or of one camera each where sizes differ.
struct ImageInput {
  std::string suffix;  // of the names of its inputs: "images" + suffix, ...
  int images = 0;
  ImageSize size;

  int64_t elements() const { return int64_t{3} * images * size.height * size.width; }
};
// In the order of the cameras.
std::vector<ImageInput> image_inputs(const ModelConfig& config, const PlanOptions& options);

// One input of a plan, as its bytes.
struct InputData {
  std::string name;
  std::vector<std::byte> data;
};

// The times of the denoise steps, where nobody says otherwise.
std::vector<float> default_times(const ModelConfig& config, int steps);
// All that a plan reads at load.
std::vector<InputData> load_inputs(const ModelConfig& config, const PlanOptions& options,
                                   std::span<const float> times);

// All that a plan reads once per prompt.
struct PromptInputs {
  int length = 0;  // rows of the prompt, by which dynamic extents grow
  std::vector<InputData> inputs;
};
// tokens: of Pi the prompt; of GR00T the whole conversation, with as many image tokens as each
// image has rows. Error where they do not fit the plan.
PromptInputs prompt_inputs(const ModelConfig& config, const PlanOptions& options,
                           std::span<const int32_t> tokens);

// Where the rows of one observation of GR00T lie: for each camera its image, then the tokens up to
// the next one. The prompt is in front of them and is no part of them.
struct ObservationLayout {
  struct View {
    int image_begin = 0, image_rows = 0;
    int markup_begin = 0, markup_rows = 0;
  };
  std::vector<View> views;
  int rows = 0;         // of all
  int markup_rows = 0;  // of these, tokens
};
ObservationLayout observation_layout(const ModelConfig& config, const PlanOptions& options);

}  // namespace flashrt
