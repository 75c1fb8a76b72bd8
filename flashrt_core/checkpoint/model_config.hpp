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

  int tokens() const { return (image_size / patch) * (image_size / patch); }  // per camera
  int head_dim() const { return width / heads; }
};

// One Gemma stack: the language model or the action expert.
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

enum class ModelType { kPi05, kPi0 };

struct ModelConfig {
  ModelType type = ModelType::kPi05;
  VisionConfig vision;
  GemmaConfig language;
  GemmaConfig expert;
  int vocab_size = 0;
  int action_dim = 0;                     // padded, of the model
  int state_dim = 0;                      // padded; Pi0 only, 0 otherwise
  int horizon = 0;                        // actions in a chunk
  int steps = 0;                          // denoise steps; 0 where the checkpoint does not say
  int prompt_capacity = 0;                // tokens; 0 where the checkpoint does not say
  double min_period = 0, max_period = 0;  // of the time features
};

std::string_view name_of(ModelType type);

// The published size, with the defaults of openpi: 32 actions wide, 50 in a chunk, ten steps.
ModelConfig full_size_config(ModelType type);
// By the name of the model, pi05 or pi0; of anything else the configuration of that checkpoint.
ModelConfig named_config(const std::filesystem::path& name_or_checkpoint);

// Reads a checkpoint folder. Accepts the layout of openpi and of lerobot (variants such as
// gemma_2b, named fields) and an explicit one (model_type, vision, language, expert, action).
// Throws ModelNotSupportedError for Pi0-FAST and GR00T, Error for everything that is missing or
// contradicts itself.
ModelConfig read_model_config(const std::filesystem::path& checkpoint);

}  // namespace flashrt
