// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Checkpoints of small Pi0.5 and Pi0 models, with the tensor names of openpi's converter.
#pragma once

#include <map>
#include <string>

#include "safetensors_writer.hpp"
#include "temporary_folder.hpp"
#include "tiny_models.hpp"

namespace flashrt {

class TinyCheckpoint {
 public:
  explicit TinyCheckpoint(const ModelConfig& config) : config_(config) {
    const VisionConfig& v = config.vision;
    const std::string tower = kRoot + "paligemma.model.vision_tower.vision_model.";
    add(tower + "embeddings.patch_embedding.weight", {v.width, 3, v.patch, v.patch});
    add(tower + "embeddings.patch_embedding.bias", {v.width});
    add(tower + "embeddings.position_embedding.weight", {v.tokens(), v.width});
    for (int i = 0; i < v.layers; ++i) {
      const std::string layer = tower + "encoder.layers." + std::to_string(i) + ".";
      for (const char* projection : {"q_proj", "k_proj", "v_proj", "out_proj"}) {
        linear(layer + "self_attn." + projection, v.width, v.width);
      }
      for (const char* norm : {"layer_norm1", "layer_norm2"}) {
        add(layer + norm + ".weight", {v.width});
        add(layer + norm + ".bias", {v.width});
      }
      linear(layer + "mlp.fc1", v.mlp_width, v.width);
      linear(layer + "mlp.fc2", v.width, v.mlp_width);
    }
    add(tower + "post_layernorm.weight", {v.width});
    add(tower + "post_layernorm.bias", {v.width});
    linear(kRoot + "paligemma.model.multi_modal_projector.linear", config.language.width, v.width);
    add(kRoot + "paligemma.lm_head.weight", {config.vocab_size, config.language.width});

    const bool adaptive = config.type == ModelType::kPi05;
    stack(kRoot + "paligemma.model.language_model.", config.language, false);
    stack(kRoot + "gemma_expert.model.", config.expert, adaptive);
    add(kRoot + "gemma_expert.lm_head.weight", {config.vocab_size, config.expert.width});
    const int width = config.expert.width;
    linear("action_in_proj", width, config.action_dim);
    linear("action_out_proj", config.action_dim, width);
    if (adaptive) {
      linear("time_mlp_in", width, width);
      linear("time_mlp_out", width, width);
    } else {
      linear("state_proj", width, config.state_dim);
      linear("action_time_mlp_in", width, 2 * width);
      linear("action_time_mlp_out", width, width);
    }
  }

  const ModelConfig& config() const { return config_; }
  const std::filesystem::path& path() const { return folder_.path(); }
  const TemporaryFolder& folder() const { return folder_; }
  std::map<std::string, WrittenTensor>& tensors() { return tensors_; }

  // By a name without the common root, for short tests.
  WrittenTensor& operator[](const std::string& name) {
    const auto found = tensors_.find(name);
    return found != tensors_.end() ? found->second : tensors_.at(kRoot + name);
  }

  // Another name for every tensor.
  template <class Rename>
  void rename(const Rename& rename) {
    std::map<std::string, WrittenTensor> renamed;
    for (auto& [name, tensor] : tensors_) renamed[rename(name)] = tensor;
    tensors_ = std::move(renamed);
  }

  void write() const { folder_.write("model.safetensors", safetensors_file(tensors_)); }

  // Different for every tensor and element, exact in float16 and bfloat16.
  void add(const std::string& name, const std::vector<int64_t>& shape) {
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    WrittenTensor tensor{.shape = shape};
    for (int64_t i = 0; i < count; ++i) {
      seed_ = seed_ * 1664525u + 1013904223u;
      tensor.values.push_back(static_cast<float>(static_cast<int>(seed_ >> 24) - 128) / 128.0f);
    }
    tensors_[name] = std::move(tensor);
  }

  static inline const std::string kRoot = "paligemma_with_expert.";

 private:
  void linear(const std::string& name, int64_t rows, int64_t columns) {
    add(name + ".weight", {rows, columns});
    add(name + ".bias", {rows});
  }

  void stack(const std::string& root, const GemmaConfig& c, bool adaptive) {
    const int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
    const auto norm = [&](const std::string& name) {
      if (adaptive) {
        linear(name + ".dense", 3 * c.width, c.width);
      } else {
        add(name + ".weight", {c.width});
      }
    };
    for (int i = 0; i < c.layers; ++i) {
      const std::string layer = root + "layers." + std::to_string(i) + ".";
      add(layer + "self_attn.q_proj.weight", {q, c.width});
      add(layer + "self_attn.k_proj.weight", {kv, c.width});
      add(layer + "self_attn.v_proj.weight", {kv, c.width});
      add(layer + "self_attn.o_proj.weight", {c.width, q});
      add(layer + "mlp.gate_proj.weight", {c.mlp_width, c.width});
      add(layer + "mlp.up_proj.weight", {c.mlp_width, c.width});
      add(layer + "mlp.down_proj.weight", {c.width, c.mlp_width});
      norm(layer + "input_layernorm");
      norm(layer + "post_attention_layernorm");
    }
    norm(root + "norm");
  }

  ModelConfig config_;
  TemporaryFolder folder_;
  std::map<std::string, WrittenTensor> tensors_;
  uint32_t seed_ = 1;
};

}  // namespace flashrt
