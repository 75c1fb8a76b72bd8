// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "checkpoint/groot_config.hpp"

#include <cmath>

#include "checkpoint/config_bounds.hpp"

namespace flashrt {
namespace {

constexpr int kMinBlocks = 3;  // one that looks at text, one at images, one at itself
constexpr int kMerged = 2;     // patches of a square side that the connector merges
constexpr int kMlpFactor = 4;  // the MLP of the transformer is so many times as wide as itself
constexpr int kMaxSlots = 1 << 10, kMaxBuckets = 1 << 20;

constexpr VisionConfig kSiglip2So400m{.image_size = 252,
                                      .patch = 14,
                                      .width = 1152,
                                      .layers = 27,
                                      .heads = 16,
                                      .mlp_width = 4304,
                                      .eps = 1e-6f,
                                      .position_grid = 16};
constexpr GemmaConfig kQwen3{.width = 2048,
                             .layers = 16,
                             .mlp_width = 6144,
                             .heads = 16,
                             .kv_heads = 8,
                             .head_dim = 128,
                             .eps = 1e-6f,
                             .rope_base = 1e6};
constexpr int kVocabulary = 151680, kImageToken = 151669;

// ---- fields that choose between variants, of which one is implemented

void expect_flag(const JsonFields& fields, std::string_view key, bool expected) {
  if (fields.flag(key) != expected)
    fields.fail(key, text(expected ? "true" : "false", ": nothing else is implemented"));
}

void expect_text(const JsonFields& fields, std::string_view key, std::string_view expected) {
  if (fields.string(key) != expected)
    fields.fail(key, text("'", expected, "': nothing else is implemented"));
}

void expect_null(const JsonFields& fields, std::string_view key) {
  if (!fields.value(key).is_null()) fields.fail(key, "null: nothing else is implemented");
}

void expect_number(const JsonFields& fields, std::string_view key, double expected) {
  if (fields.number(key, -1e9, 1e9) != expected)
    fields.fail(key, text(expected, ": nothing else is implemented"));
}

// ---- parts

VisionConfig vision_config(const JsonFields& fields) {
  expect_text(fields, "hidden_act", "gelu_pytorch_tanh");
  expect_number(fields, "num_channels", 3);
  expect_flag(fields, "use_rope", false);
  expect_flag(fields, "use_windows_attn", false);
  VisionConfig c;
  c.patch = fields.integer("patch_size", 1, kMaxImage);
  c.width = fields.integer("hidden_size", 1, kMaxWidth);
  c.layers = fields.integer("num_hidden_layers", 1, kMaxLayers);
  c.heads = fields.integer("num_attention_heads", 1, kMaxHeads);
  c.mlp_width = fields.integer("intermediate_size", 1, kMaxWidth);
  c.eps = static_cast<float>(fields.number("layer_norm_eps", 0, 1));
  const int positions = fields.integer("num_patches", 1, kMaxRows);
  c.position_grid = static_cast<int>(std::lround(std::sqrt(positions)));
  if (c.position_grid * c.position_grid != positions)
    fields.fail("num_patches", "the square of a whole number");
  c.image_size = c.position_grid * c.patch;  // the size whose grid is that of the table
  if (c.position_grid % kMerged != 0)
    fields.fail("num_patches", "the square of an even number: squares of 2 x 2 patches are merged");
  if (c.width % c.heads != 0) fields.fail("hidden_size", text("a multiple of ", c.heads, " heads"));
  return c;
}

GemmaConfig language_config(const JsonFields& fields, int layers) {
  expect_text(fields, "hidden_act", "silu");
  expect_flag(fields, "attention_bias", false);
  expect_null(fields, "sliding_window");
  GemmaConfig c;
  c.width = fields.integer("hidden_size", 1, kMaxWidth);
  c.layers = layers;
  const int all_layers = fields.integer("num_hidden_layers", 1, kMaxLayers);
  if (layers > all_layers)
    fields.fail("num_hidden_layers", text("at least select_layer, ", layers));
  c.mlp_width = fields.integer("intermediate_size", 1, kMaxWidth);
  c.heads = fields.integer("num_attention_heads", 1, kMaxHeads);
  c.kv_heads = fields.integer("num_key_value_heads", 1, kMaxHeads);
  c.head_dim = fields.integer("head_dim", 1, kMaxWidth);
  c.eps = static_cast<float>(fields.number("rms_norm_eps", 0, 1));
  c.rope_base = fields.number("rope_theta", 1, 1e12);
  if (c.heads % c.kv_heads != 0)
    fields.fail("num_attention_heads", text("a multiple of ", c.kv_heads, " kv heads"));
  if (c.head_dim % 2 != 0) fields.fail("head_dim", "even (RoPE turns pairs)");
  return c;
}

void read_backbone(const JsonFields& root, ModelConfig& c) {
  const int layers = root.integer("select_layer", 1, kMaxLayers);
  if (!root.has("backbone")) {  // as published: the sizes are in the source of the model alone
    c.vision = kSiglip2So400m;
    c.language = kQwen3;
    c.language.layers = layers;
    c.vocab_size = kVocabulary;
    c.image_token = kImageToken;
    return;
  }
  const JsonFields backbone = root.object("backbone");
  expect_text(backbone, "model_type", "eagle_3_vl");
  expect_flag(backbone, "use_pixel_shuffle", true);
  expect_number(backbone, "downsample_ratio", 1.0 / kMerged);
  expect_number(backbone, "mlp_connector_layers", 2);
  const JsonFields language = backbone.object("text_config");
  c.vision = vision_config(backbone.object("vision_config"));
  c.language = language_config(language, layers);
  c.vocab_size = language.integer("vocab_size", 1, kMaxVocabulary);
  c.image_token = backbone.integer("image_token_index", 0, c.vocab_size - 1);
}

DitConfig dit_config(const JsonFields& root) {
  const JsonFields fields = root.object("diffusion_model_cfg");
  expect_null(fields, "positional_embeddings");
  expect_text(fields, "norm_type", "ada_norm");
  expect_flag(fields, "interleave_self_attention", true);
  DitConfig c;
  c.layers = fields.integer("num_layers", kMinBlocks, kMaxLayers);
  c.heads = fields.integer("num_attention_heads", 1, kMaxHeads);
  c.head_dim = fields.integer("attention_head_dim", 1, kMaxWidth / kMaxHeads);
  c.mlp_width = kMlpFactor * c.width();
  c.output = fields.integer("output_dim", 1, kMaxWidth);
  c.hidden = root.integer("hidden_size", 1, kMaxWidth);
  c.positions = root.integer("max_seq_len", 1, kMaxRows);
  c.embodiments = root.integer("max_num_embodiments", 1, kMaxSlots);
  c.buckets = root.integer("num_timestep_buckets", 1, kMaxBuckets);
  if (root.integer("input_embedding_dim", 1, kMaxWidth) != c.width()) {
    root.fail("input_embedding_dim", text(c.width(), ", ", c.heads, " heads of ", c.head_dim));
  }
  if (c.width() % 2 != 0 || c.width() < 4)
    root.fail("input_embedding_dim", "even and at least 4 (time features are sines and cosines)");
  return c;
}

}  // namespace

ModelConfig groot_config(const JsonFields& root) {
  expect_flag(root, "add_pos_embed", true);
  expect_flag(root, "use_vlln", true);
  expect_flag(root, "use_alternate_vl_dit", true);
  expect_number(root, "attend_text_every_n_blocks", 2);
  ModelConfig c{.type = ModelType::kGrootN16};
  read_backbone(root, c);
  if (root.integer("backbone_embedding_dim", 1, kMaxWidth) != c.language.width)
    root.fail("backbone_embedding_dim",
              text(c.language.width, ", the width of the language model"));
  c.dit = dit_config(root);
  c.action_dim = root.integer("max_action_dim", 1, kMaxWidth);
  c.state_dim = root.integer("max_state_dim", 1, kMaxWidth);
  c.horizon = root.integer("action_horizon", 1, kMaxRows);
  if (c.horizon > c.dit.positions)
    root.fail("action_horizon", text("at most max_seq_len, ", c.dit.positions));
  c.steps = root.integer("num_inference_timesteps", 1, kMaxRows);
  return c;
}

ModelConfig full_size_groot() {
  return {.type = ModelType::kGrootN16,
          .vision = kSiglip2So400m,
          .language = kQwen3,
          .dit = {.layers = 32,
                  .heads = 32,
                  .head_dim = 48,
                  .mlp_width = kMlpFactor * 1536,
                  .output = 1024,
                  .hidden = 1024,
                  .positions = 1024,
                  .embodiments = 32,
                  .buckets = 1000},
          .image_token = kImageToken,
          .vocab_size = kVocabulary,
          .action_dim = 128,
          .state_dim = 128,
          .horizon = 50,
          .steps = 4,
          .prompt_capacity = 64};  // 20 tokens around the instruction, and a long sentence
}

}  // namespace flashrt
