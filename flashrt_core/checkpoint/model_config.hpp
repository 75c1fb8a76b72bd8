// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// ModelConfig: the dimensions of one checkpoint, read from its config.json and checked once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace flashrt {

struct VisionConfig {
  int image_size = 0;  // pixels, square
  int patch = 0;
  int width = 0;
  int layers = 0;
  int heads = 0;
  int mlp_width = 0;
  float eps = 1e-6f;
  // Side of the table of positions where it is resized to the grid of an image; 0: it fits as it
  // is.
  int position_grid = 0;

  int tokens() const { return (image_size / patch) * (image_size / patch); }  // per camera
  int head_dim() const { return width / heads; }
};

// One stack of Gemma, the language model or the action expert; or Qwen3.
struct GemmaConfig {
  int width = 0;
  int layers = 0;
  int mlp_width = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  float eps = 1e-6f;
  double rope_base = 10000.0;
};

// The diffusion transformer of GR00T, and the small networks around it that each embodiment has of
// its own.
struct DitConfig {
  int layers = 0;
  int heads = 0;
  int head_dim = 0;
  int mlp_width = 0;
  int output = 0;       // width of what it hands to the decoder
  int hidden = 0;       // width inside state encoder and decoder
  int positions = 0;    // rows of the table of action positions
  int embodiments = 0;  // slots of the small networks
  int buckets = 0;      // of the time from 0 to 1

  int width() const { return heads * head_dim; }
};

// Whose small networks are loaded.
struct Embodiment {
  int slot = -1;
  bool allow_untrained = false;  // although its numbers look like those it was initialised with
};

enum class ModelType { kPi05, kPi0, kGrootN16 };

struct ModelConfig {
  ModelType type = ModelType::kPi05;
  VisionConfig vision;
  GemmaConfig language;
  GemmaConfig expert;     // Pi only
  DitConfig dit;          // GR00T only, as the following
  int image_token = 0;    // marks the rows of a prompt that an image fills
  Embodiment embodiment;  // chosen by whoever loads the weights; no part of config.json
  int vocab_size = 0;
  int action_dim = 0;                     // padded, of the model
  int state_dim = 0;                      // padded; 0 where the state is part of the prompt
  int horizon = 0;                        // actions in a chunk
  int steps = 0;                          // denoise steps; 0 where the checkpoint does not say
  int prompt_capacity = 0;                // tokens; 0 where the checkpoint does not say
  double min_period = 0, max_period = 0;  // of the time features
};

std::string_view name_of(ModelType type);

// Rows that the image of a camera takes in the language model.
int image_tokens(const ModelConfig& config);

// The published size. Of Pi with the defaults of openpi: 32 actions wide, 50 in a chunk, ten steps.
ModelConfig full_size_config(ModelType type);
// By the name of the model, pi05, pi0 or groot_n16; of anything else the configuration of that
// checkpoint.
ModelConfig named_config(const std::filesystem::path& name_or_checkpoint);

// Reads a checkpoint folder. Accepts the layout of openpi and of lerobot (variants such as
// gemma_2b, named fields), an explicit one (model_type, vision, language, expert, action) and that
// of GR00T N1.6. Throws ModelNotSupportedError for Pi0-FAST and other versions of GR00T, Error for
// everything that is missing or contradicts itself.
ModelConfig read_model_config(const std::filesystem::path& checkpoint);

}  // namespace flashrt
