// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "checkpoint/model_config.hpp"

#include <cmath>
#include <limits>
#include <optional>

#include "base/json.hpp"
#include "checkpoint/config_bounds.hpp"
#include "checkpoint/groot_config.hpp"
#include "checkpoint/pi_names.hpp"
#include "checkpoint/tensor_store.hpp"

namespace flashrt {
namespace {

constexpr size_t kMaxConfigBytes = 1u << 20;
constexpr double kPi0MinPeriod = 4e-3, kPi0MaxPeriod = 4.0;  // where a layout does not store them

// ---- what the layouts have in common

// One of several names of the same optional field; 0 where there is none. Two that disagree are
// refused.
int optional_integer(const JsonFields& fields, std::initializer_list<std::string_view> keys,
                     int max) {
  std::optional<int> found;
  for (const std::string_view key : keys) {
    if (!fields.has(key)) continue;
    const int value = fields.integer(key, 1, max);
    if (found && *found != value)
      fields.fail(key, text(*found, ", as another name of the same field says"));
    found = value;
  }
  return found.value_or(0);
}

// A field that may be left out but must not say anything else.
void expect_integer(const JsonFields& fields, std::string_view key, int expected,
                    std::string_view reason) {
  if (fields.has(key) && fields.integer(key, 0, std::numeric_limits<int>::max()) != expected) {
    fields.fail(key, text(expected, " (", reason, ")"));
  }
}

void expect_gelu_tanh(const JsonFields& fields) {
  if (fields.has("activation") && fields.string("activation") != "gelu_tanh")
    fields.fail("activation", "gelu_tanh");
}

void check(const ModelConfig& c, const std::string& origin) {
  const VisionConfig& v = c.vision;
  const GemmaConfig &l = c.language, &e = c.expert;
  FLASHRT_CHECK(v.image_size % v.patch == 0, origin, ": image size ", v.image_size,
                " is not a multiple of the patch ", v.patch);
  FLASHRT_CHECK(v.width % v.heads == 0, origin, ": vision width ", v.width,
                " is not a multiple of its ", v.heads, " heads");
  FLASHRT_CHECK(l.heads % l.kv_heads == 0, origin, ": language heads ", l.heads,
                " are not a multiple of kv heads ", l.kv_heads);
  FLASHRT_CHECK(l.head_dim % 2 == 0, origin, ": language head_dim ", l.head_dim,
                " is odd, expected even (RoPE turns pairs)");
  const auto shared = [&](std::string_view field, int language, int expert) {
    FLASHRT_CHECK(language == expert, origin, ": language ", field, " ", language, ", expert ",
                  field, " ", expert,
                  ", expected the same: their keys and values are read together");
  };
  shared("layers", l.layers, e.layers);
  shared("heads", l.heads, e.heads);
  shared("kv_heads", l.kv_heads, e.kv_heads);
  shared("head_dim", l.head_dim, e.head_dim);
  FLASHRT_CHECK(l.rope_base == e.rope_base, origin, ": language rope base ", l.rope_base,
                ", expert rope base ", e.rope_base, ", expected the same");
  FLASHRT_CHECK(e.width % 2 == 0 && e.width >= 4, origin, ": expert width ", e.width,
                ", expected even and at least 4 (time features are sines and cosines)");
  FLASHRT_CHECK(c.min_period < c.max_period, origin, ": time periods from ", c.min_period, " to ",
                c.max_period, ", expected ascending");
}

// ---- explicit layout: every dimension spelled out

GemmaConfig explicit_gemma(const JsonFields& fields) {
  expect_gelu_tanh(fields);
  GemmaConfig c;
  c.width = fields.integer("hidden_size", 1, kMaxWidth);
  c.layers = fields.integer("num_layers", 1, kMaxLayers);
  c.mlp_width = fields.integer("intermediate_size", 1, kMaxWidth);
  c.heads = fields.integer("num_heads", 1, kMaxHeads);
  c.kv_heads = fields.integer("num_kv_heads", 1, kMaxHeads);
  c.head_dim = fields.integer("head_dim", 1, kMaxWidth);
  c.eps = static_cast<float>(fields.number("rms_norm_eps", 0, 1));
  if (fields.has("rope_theta")) c.rope_base = fields.number("rope_theta", 1, 1e12);
  return c;
}

VisionConfig explicit_vision(const JsonFields& fields) {
  expect_gelu_tanh(fields);
  VisionConfig c;
  c.image_size = fields.integer("image_size", 1, kMaxImage);
  c.patch = fields.integer("patch_size", 1, kMaxImage);
  c.width = fields.integer("hidden_size", 1, kMaxWidth);
  c.layers = fields.integer("num_layers", 1, kMaxLayers);
  c.heads = fields.integer("num_heads", 1, kMaxHeads);
  c.mlp_width = fields.integer("intermediate_size", 1, kMaxWidth);
  c.eps = static_cast<float>(fields.number("layer_norm_eps", 0, 1));
  expect_integer(fields, "num_channels", 3, "pictures are RGB");
  expect_integer(fields, "num_image_tokens", c.tokens(), "one per patch");
  return c;
}

ModelConfig explicit_config(const JsonFields& root, ModelType type) {
  ModelConfig c;
  c.type = type;
  const JsonFields vision = root.object("vision"), language = root.object("language"),
                   expert = root.object("expert"), action = root.object("action");
  c.vision = explicit_vision(vision);
  c.language = explicit_gemma(language);
  c.expert = explicit_gemma(expert);
  if (!expert.has("rope_theta")) c.expert.rope_base = c.language.rope_base;
  c.vocab_size = language.integer("vocab_size", 1, kMaxVocabulary);
  expect_integer(vision, "projection_dim", c.language.width, "the width of the language model");
  if (language.has("embedding_scale")) {
    const double scale = std::sqrt(static_cast<double>(c.language.width));
    const double found = language.number("embedding_scale", 0, kMaxWidth);
    if (std::abs(found - scale) > 1e-6 * scale)
      language.fail("embedding_scale", text(scale, ", sqrt(hidden_size)"));
  }
  const bool adaptive = type == ModelType::kPi05;
  if (expert.has("ada_rms") && expert.flag("ada_rms") != adaptive) {
    expert.fail("ada_rms", text(adaptive ? "true" : "false", " for ", name_of(type)));
  }
  c.action_dim = action.integer("action_dim", 1, kMaxWidth);
  c.horizon = action.integer("action_horizon", 1, kMaxRows);
  if (type == ModelType::kPi0) c.state_dim = action.integer("state_dim", 1, kMaxWidth);
  c.min_period = action.number("time_embedding_min_period", 1e-9, 1e9);
  c.max_period = action.number("time_embedding_max_period", 1e-9, 1e9);
  c.steps = optional_integer(root, {"default_num_steps", "num_inference_steps", "steps"}, kMaxRows);
  c.prompt_capacity =
      optional_integer(root, {"default_max_token_len", "tokenizer_max_length"}, kMaxRows);
  return c;
}

// ---- layouts of openpi and lerobot: named variants

constexpr GemmaConfig kGemma2b{
    .width = 2048, .layers = 18, .mlp_width = 16384, .heads = 8, .kv_heads = 1, .head_dim = 256};
constexpr GemmaConfig kGemma300m{
    .width = 1024, .layers = 18, .mlp_width = 4096, .heads = 8, .kv_heads = 1, .head_dim = 256};
constexpr VisionConfig kSiglipSo400m{
    .image_size = 224, .patch = 14, .width = 1152, .layers = 27, .heads = 16, .mlp_width = 4304};
constexpr int kPaligemmaVocabulary = 257152;

GemmaConfig gemma_variant(const JsonFields& root, std::string_view key) {
  const std::string variant = root.string(key);
  if (variant == "gemma_2b") return kGemma2b;
  if (variant == "gemma_300m") return kGemma300m;
  if (variant.ends_with("_lora"))
    root.fail(key, "gemma_2b or gemma_300m: merge the LoRA adapters into the weights");
  root.fail(key, "gemma_2b or gemma_300m");
}

ModelConfig variant_config(const JsonFields& root, ModelType type) {
  ModelConfig c;
  c.type = type;
  c.vision = kSiglipSo400m;
  c.language = gemma_variant(root, "paligemma_variant");
  c.expert = gemma_variant(root, "action_expert_variant");
  c.vocab_size = kPaligemmaVocabulary;
  return c;
}

ModelConfig openpi_config(const JsonFields& root, const std::filesystem::path& checkpoint) {
  // The file does not say which family it is.
  ModelConfig c = variant_config(root, family_of(TensorStore(checkpoint)));
  c.action_dim = root.integer("action_dim", 1, kMaxWidth);
  c.horizon = root.integer("action_horizon", 1, kMaxRows);
  if (c.type == ModelType::kPi0) c.state_dim = c.action_dim;
  c.min_period = kPi0MinPeriod;
  c.max_period = kPi0MaxPeriod;
  return c;
}

ModelConfig lerobot_config(const JsonFields& root, ModelType type) {
  for (const std::string_view memory : {"use_visual_memory", "use_proprioceptive_memory"}) {
    if (root.has(memory) && root.flag(memory))
      root.fail(memory, "false: this memory is not supported");
  }
  ModelConfig c = variant_config(root, type);
  const auto resolution = root.array("image_resolution");
  if (resolution.size() != 2 || !resolution[0].is_number_unsigned() ||
      resolution[0] != resolution[1] || resolution[0] < 1 || resolution[0] > kMaxImage) {
    root.fail("image_resolution", text("two equal numbers from 1 to ", kMaxImage));
  }
  c.vision.image_size = resolution[0].get<int>();
  c.action_dim = root.integer("max_action_dim", 1, kMaxWidth);
  c.horizon = root.integer("chunk_size", 1, kMaxRows);
  if (type == ModelType::kPi0) c.state_dim = root.integer("max_state_dim", 1, kMaxWidth);
  c.steps = root.integer("num_inference_steps", 1, kMaxRows);
  c.prompt_capacity = root.integer("tokenizer_max_length", 1, kMaxRows);
  c.min_period = root.number("min_period", 1e-9, 1e9);
  c.max_period = root.number("max_period", 1e-9, 1e9);
  return c;
}

// ---- which layout, which model

ModelType model_type(const JsonFields& root, std::string_view key, const std::string& origin) {
  const std::string type = root.string(key);
  if (type == "pi05") return ModelType::kPi05;
  if (type == "pi0") return ModelType::kPi0;
  if (type == "pi0_fast")
    throw ModelNotSupportedError(
        text(origin, ": Pi0-FAST (", key, " ", type, ") is not supported yet"));
  if (type.starts_with("Gr00t") || type.starts_with("gr00t") || type.starts_with("groot")) {
    throw ModelNotSupportedError(text(origin, ": GR00T (", key, " ", type,
                                      ") is not supported yet; N1.6 in its own layout (",
                                      "model_type ", kGrootN16Type, ") is"));
  }
  root.fail(key, text("pi05, pi0 or ", kGrootN16Type));
}

}  // namespace

std::string_view name_of(ModelType type) {
  switch (type) {
    case ModelType::kPi05:
      return "pi05";
    case ModelType::kPi0:
      return "pi0";
    case ModelType::kGrootN16:
      return "groot_n16";
  }
  return "?";
}

int image_tokens(const ModelConfig& config) {
  // GR00T merges squares of 2 x 2 patches.
  return config.type == ModelType::kGrootN16 ? config.vision.tokens() / 4 : config.vision.tokens();
}

ModelConfig full_size_config(ModelType type) {
  if (type == ModelType::kGrootN16) return full_size_groot();
  ModelConfig c{.type = type,
                .vision = kSiglipSo400m,
                .language = kGemma2b,
                .expert = kGemma300m,
                .vocab_size = kPaligemmaVocabulary,
                .action_dim = 32,
                .horizon = 50,
                .steps = 10,
                .prompt_capacity = 200,
                .min_period = kPi0MinPeriod,
                .max_period = kPi0MaxPeriod};
  if (type == ModelType::kPi0) {
    c.state_dim = c.action_dim;
    c.prompt_capacity = 48;  // the state is not written in the prompt
  }
  return c;
}

ModelConfig named_config(const std::filesystem::path& name_or_checkpoint) {
  for (const ModelType type : {ModelType::kPi05, ModelType::kPi0, ModelType::kGrootN16}) {
    if (name_or_checkpoint == name_of(type)) return full_size_config(type);
  }
  return read_model_config(name_or_checkpoint);
}

ModelConfig read_model_config(const std::filesystem::path& checkpoint) {
  FLASHRT_CHECK(std::filesystem::is_directory(checkpoint), "checkpoint ", checkpoint.string(),
                " is not a folder");
  const std::filesystem::path path = checkpoint / "config.json";
  const std::string origin = path.string();
  const std::string content = read_text_file(path, kMaxConfigBytes);
  refuse_lfs_pointer(path, content);
  const nlohmann::json json = parse_json(content, origin);
  const JsonFields root(json, origin + ": ");

  ModelConfig config;
  if (root.has("model_type")) {
    if (root.string("model_type") == kGrootN16Type) return groot_config(root);
    config = explicit_config(root, model_type(root, "model_type", origin));
  } else if (root.has("type")) {
    config = lerobot_config(root, model_type(root, "type", origin));
  } else if (root.has("paligemma_variant")) {
    config = openpi_config(root, checkpoint);
  } else if (root.has("vision_config") && root.has("text_config")) {
    throw ModelNotSupportedError(text(origin,
                                      ": a vision-language backbone alone (vision_config and "
                                      "text_config, as of GR00T N1.7) is not ",
                                      "supported yet"));
  } else {
    throw Error(text(
        origin, " describes no known model, expected model_type (explicit), type (lerobot) or ",
        "paligemma_variant (openpi)"));
  }
  check(config, origin);
  return config;
}

}  // namespace flashrt
