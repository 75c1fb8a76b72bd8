// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "checkpoint/pi_weights.hpp"

#include <array>
#include <cmath>

namespace flashrt {
namespace {

SourceTensor source(std::string name, Shape shape) { return {{std::move(name)}, std::move(shape)}; }

class Table {
 public:
  explicit Table(const ModelConfig& config) : config_(config) {}

  std::vector<PlanWeight> build() && {
    vision();
    language();
    for (int layer = 0; layer < config_.expert.layers; ++layer) expert_layer(layer);
    linear("action_in", "action_in_proj", config_.expert.width, config_.action_dim);
    linear("action_out", "action_out_proj", config_.action_dim, config_.expert.width);
    if (config_.type == ModelType::kPi05) {
      pi05_heads();
    } else {
      pi0_heads();
    }
    return std::move(weights_);
  }

 private:
  PlanWeight& add(std::string name, Shape shape, std::vector<SourceTensor> parts) {
    PlanWeight& weight = weights_.emplace_back();
    weight.name = std::move(name);
    weight.shape = std::move(shape);
    weight.parts = std::move(parts);
    return weight;
  }

  // The tensor as it is.
  PlanWeight& copy(const std::string& name, const std::string& from, Shape shape) {
    return add(name, shape, {source(from, shape)});
  }

  // A weight [rows, columns] and its bias.
  void linear(const std::string& name, const std::string& from, int64_t rows, int64_t columns) {
    copy(name + ".weight", from + ".weight", {rows, columns});
    copy(name + ".bias", from + ".bias", {rows});
  }

  void layer_norm(const std::string& name, const std::string& from) {
    copy(name + ".weight", from + ".weight", {config_.vision.width});
    copy(name + ".bias", from + ".bias", {config_.vision.width});
  }

  void vision() {
    const VisionConfig& c = config_.vision;
    const int64_t width = c.width, patch = c.patch;
    const std::string embeddings = "vision_tower.embeddings.";
    add("vision.patch.weight", {width, 3 * patch * patch},
        {source(embeddings + "patch_embedding.weight", {width, 3, patch, patch})});
    copy("vision.patch.bias", embeddings + "patch_embedding.bias", {width});
    copy("vision.patch.position", embeddings + "position_embedding.weight", {c.tokens(), width});
    for (int layer = 0; layer < c.layers; ++layer) {
      const std::string to = text("vision.", layer, "."),
                        from = text("vision_tower.encoder.layers.", layer, ".");
      layer_norm(to + "attn_norm", from + "layer_norm1");
      std::vector<SourceTensor> weights, biases;
      for (const char* projection : {"q_proj", "k_proj", "v_proj"}) {
        weights.push_back(source(from + "self_attn." + projection + ".weight", {width, width}));
        biases.push_back(source(from + "self_attn." + projection + ".bias", {width}));
      }
      add(to + "qkv.weight", {3 * width, width}, weights);
      add(to + "qkv.bias", {3 * width}, biases);
      linear(to + "attn_out", from + "self_attn.out_proj", width, width);
      layer_norm(to + "mlp_norm", from + "layer_norm2");
      linear(to + "fc1", from + "mlp.fc1", c.mlp_width, width);
      linear(to + "fc2", from + "mlp.fc2", width, c.mlp_width);
    }
    layer_norm("vision.norm", "vision_tower.post_layernorm");
    linear("projector", "projector", config_.language.width, width);
  }

  // The attention and MLP matrices of one Gemma layer. With fold, the norm before a matrix is
  // multiplied into it.
  void gemma_layer(const std::string& to, const std::string& from, const GemmaConfig& c, bool fold,
                   bool kv_only) {
    const int64_t width = c.width, mlp = c.mlp_width;
    const int64_t q = int64_t{c.heads} * c.head_dim, kv = int64_t{c.kv_heads} * c.head_dim;
    const auto norm = [&](const char* name) {
      return fold ? std::vector{source(from + name, {width})} : std::vector<SourceTensor>{};
    };
    std::vector<SourceTensor> qkv{source(from + "self_attn.k_proj.weight", {kv, width}),
                                  source(from + "self_attn.v_proj.weight", {kv, width})};
    if (!kv_only) qkv.insert(qkv.begin(), source(from + "self_attn.q_proj.weight", {q, width}));
    add(to + (kv_only ? "kv.weight" : "qkv.weight"), {(kv_only ? 0 : q) + 2 * kv, width}, qkv)
        .norm = norm("input_layernorm.weight");
    if (kv_only) return;
    copy(to + "attn_out.weight", from + "self_attn.o_proj.weight", {width, q});
    add(to + "gate_up.weight", {2 * mlp, width},
        {source(from + "mlp.gate_proj.weight", {mlp, width}),
         source(from + "mlp.up_proj.weight", {mlp, width})})
        .norm = norm("post_attention_layernorm.weight");
    copy(to + "down.weight", from + "mlp.down_proj.weight", {width, mlp});
  }

  void language() {
    const GemmaConfig& c = config_.language;
    const Shape table{config_.vocab_size, c.width};
    // Files whose embedding and output head are tied keep one of the two names.
    PlanWeight& embed = add("language.embed", table,
                            {{{"language_model.embed_tokens.weight", "lm_head.weight"}, table}});
    embed.factor = std::sqrt(static_cast<double>(c.width));
    for (int layer = 0; layer < c.layers; ++layer) {
      gemma_layer(text("language.", layer, "."), text("language_model.layers.", layer, "."), c,
                  true, layer == c.layers - 1);
    }
  }

  void expert_layer(int layer) {
    const bool adaptive = config_.type == ModelType::kPi05;
    const std::string to = text("expert.", layer, "."),
                      from = text("gemma_expert.layers.", layer, ".");
    gemma_layer(to, from, config_.expert, !adaptive, false);
    if (!adaptive) return;
    style(to + "attn_style", from + "input_layernorm");
    style(to + "mlp_style", from + "post_attention_layernorm");
  }

  // The dense layer that makes scale, shift and gate of an adaptive norm.
  void style(const std::string& name, const std::string& norm) {
    linear(name, norm + ".dense", 3 * int64_t{config_.expert.width}, config_.expert.width);
  }

  void pi05_heads() {
    const int64_t width = config_.expert.width;
    style("expert.norm_style", "gemma_expert.norm");
    linear("time_in", "time_mlp_in", width, width);
    linear("time_out", "time_mlp_out", width, width);
  }

  void pi0_heads() {
    const int64_t width = config_.expert.width;
    copy("expert.norm.weight", "gemma_expert.norm.weight", {width}).offset = 1;
    linear("state_in", "state_proj", width, config_.state_dim);
    // concat(action, time) times a matrix [D, 2D] is the sum of two products; the bias goes with
    // the time half.
    const Shape both{width, 2 * width};
    add("action_time_in.action.weight", {width, width},
        {source("action_time_mlp_in.weight", both)});
    add("action_time_in.time.weight", {width, width}, {source("action_time_mlp_in.weight", both)})
        .first_column = width;
    copy("action_time_in.time.bias", "action_time_mlp_in.bias", {width});
    linear("action_time_out", "action_time_mlp_out", width, width);
  }

  const ModelConfig& config_;
  std::vector<PlanWeight> weights_;
};

}  // namespace

std::vector<PlanWeight> pi_weights(const ModelConfig& config) { return Table(config).build(); }

bool is_unused_pi_tensor(std::string_view canonical, const ModelConfig& config) {
  // Written by transformers, of no effect.
  if (canonical.ends_with(".rotary_emb.inv_freq") ||
      canonical.ends_with(".embeddings.position_ids"))
    return true;
  // An optional memory of lerobot; configurations that switch it on are refused.
  if (canonical.starts_with("proprio_history_proj.")) return true;
  // Text is read, not written: both output heads, and the language model after its last keys and
  // values.
  static constexpr std::array<std::string_view, 4> kNames{
      "gemma_expert.lm_head.weight", "gemma_expert.embed_tokens.weight", "lm_head.weight",
      "language_model.norm.weight"};
  for (const std::string_view name : kNames) {
    if (canonical == name) return true;
  }
  static constexpr std::array<std::string_view, 6> kAfterLastKeys{
      "self_attn.q_proj.weight", "self_attn.o_proj.weight", "mlp.gate_proj.weight",
      "mlp.up_proj.weight",      "mlp.down_proj.weight",    "post_attention_layernorm.weight"};
  const std::string last = text("language_model.layers.", config.language.layers - 1, ".");
  for (const std::string_view name : kAfterLastKeys) {
    if (canonical == last + std::string(name)) return true;
  }
  return false;
}

}  // namespace flashrt
