// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// GR00T N1.6 checkpoints: the configuration, what is refused of it, and how weights are made of
// tensors.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <set>

#include "base/json.hpp"
#include "checkpoint/groot_config.hpp"
#include "checkpoint/safetensors.hpp"
#include "checkpoint/weights.hpp"
#include "expect_error.hpp"
#include "safetensors_writer.hpp"
#include "temporary_folder.hpp"

namespace flashrt {
namespace {

using nlohmann::json;

const std::filesystem::path kGolden = FLASHRT_TEST_DATA "/../../golden/groot_n16_tiny";

json golden_config() {
  const std::string path = kGolden / "config.json";
  return parse_json(read_text_file(path, 1 << 20), path);
}

ModelConfig read(const json& config) {
  const TemporaryFolder folder;
  folder.write("config.json", config.dump());
  return read_model_config(folder.path());
}

// ---- configuration

TEST(GrootConfig, IsReadWhole) {
  const ModelConfig c = read(golden_config());
  EXPECT_EQ(c.type, ModelType::kGrootN16);
  EXPECT_EQ(c.vision.image_size, 4 * 14);
  EXPECT_EQ(c.vision.position_grid, 4);
  EXPECT_EQ(image_tokens(c), 4);
  EXPECT_EQ(c.language.layers, 3) << "select_layer, not num_hidden_layers";
  EXPECT_EQ(c.language.kv_heads, 2);
  EXPECT_EQ(c.language.rope_base, 1e6);
  EXPECT_EQ(c.dit.layers, 8);
  EXPECT_EQ(c.dit.width(), 48);
  EXPECT_EQ(c.dit.mlp_width, 192);
  EXPECT_EQ(c.dit.embodiments, 5);
  EXPECT_EQ(c.image_token, 301);
  EXPECT_EQ(c.state_dim, 20);
  EXPECT_EQ(c.action_dim, 18);
  EXPECT_EQ(c.horizon, 10);
  EXPECT_EQ(c.steps, 4);
  EXPECT_EQ(c.embodiment.slot, -1);
}

TEST(GrootConfig, WithoutABackboneThePublishedOneIsMeant) {
  json config = golden_config();
  config.erase("backbone");
  config["select_layer"] = 16;
  config["backbone_embedding_dim"] = 2048;
  const ModelConfig c = read(config), full = full_size_config(ModelType::kGrootN16);
  EXPECT_EQ(c.vision.width, 1152);
  EXPECT_EQ(c.language.layers, full.language.layers);
  EXPECT_EQ(c.vocab_size, 151680);
  EXPECT_EQ(image_tokens(c), 81);
}

struct Fault {
  const char* pointer;
  json value;
  const char* expected;
};

TEST(GrootConfig, RefusesWhatIsNotImplemented) {
  const Fault faults[] = {
      {"/use_vlln", false, "use_vlln is false, expected true: nothing else is implemented"},
      {"/add_pos_embed", false, "add_pos_embed"},
      {"/use_alternate_vl_dit", false, "use_alternate_vl_dit"},
      {"/attend_text_every_n_blocks", 1, "attend_text_every_n_blocks"},
      {"/diffusion_model_cfg/norm_type", "layer_norm", "norm_type"},
      {"/diffusion_model_cfg/interleave_self_attention", false, "interleave_self_attention"},
      {"/diffusion_model_cfg/positional_embeddings", "sinusoidal", "positional_embeddings"},
      {"/diffusion_model_cfg/num_layers", 2, "num_layers is 2, expected"},
      {"/input_embedding_dim", 64, "input_embedding_dim is 64, expected 48, 4 heads of 12"},
      {"/backbone_embedding_dim", 32, "backbone_embedding_dim is 32, expected 64"},
      {"/action_horizon", 33, "action_horizon is 33, expected at most max_seq_len, 32"},
      {"/select_layer", 5, "num_hidden_layers is 4, expected at least select_layer, 5"},
      {"/backbone/model_type", "other", "model_type"},
      {"/backbone/use_pixel_shuffle", false, "use_pixel_shuffle"},
      {"/backbone/downsample_ratio", 0.25, "downsample_ratio"},
      {"/backbone/mlp_connector_layers", 1, "mlp_connector_layers"},
      {"/backbone/vision_config/use_rope", true, "use_rope"},
      {"/backbone/vision_config/use_windows_attn", true, "use_windows_attn"},
      {"/backbone/vision_config/hidden_act", "gelu", "hidden_act"},
      {"/backbone/vision_config/num_patches", 15, "the square of a whole number"},
      {"/backbone/vision_config/num_patches", 9, "the square of an even number"},
      {"/backbone/vision_config/num_attention_heads", 5, "a multiple of 5 heads"},
      {"/backbone/text_config/attention_bias", true, "attention_bias"},
      {"/backbone/text_config/sliding_window", 128, "sliding_window"},
      {"/backbone/text_config/hidden_act", "gelu", "hidden_act"},
      {"/backbone/text_config/num_key_value_heads", 3, "a multiple of 3 kv heads"},
      {"/backbone/text_config/head_dim", 15, "even (RoPE turns pairs)"},
  };
  for (const auto& [pointer, value, expected] : faults) {
    json config = golden_config();
    config[json::json_pointer(pointer)] = value;
    EXPECT_CONTAINS(error_text([&] { read(config); }), expected);
  }
}

// ---- weights

class GrootWeights : public testing::Test {
 protected:
  GrootWeights() : config_(read(golden_config())) {
    config_.embodiment.slot = 3;
    const SafetensorsFile file(kGolden / "model.safetensors");
    for (const StoredTensor& tensor : file.tensors()) {
      WrittenTensor& written = tensors_[tensor.name];
      written.shape = tensor.shape.extents();
      written.values.resize(static_cast<size_t>(tensor.shape.elements()));
      std::memcpy(written.values.data(), tensor.bytes.data(), tensor.bytes.size());
    }
  }

  Weights open() {
    folder_.write("model.safetensors", safetensors_file(tensors_));
    return Weights::open(folder_.path(), config_, 2);
  }
  std::string refusal() {
    return error_text([&] { open(); });
  }
  // Element [slot, ...] of a tensor with a first extent of slots, or of any tensor with a slot of
  // 0.
  const float* at(const std::string& name, int64_t slot = 0) {
    const WrittenTensor& tensor = tensors_.at(name);
    return tensor.values.data() +
           slot * static_cast<int64_t>(tensor.values.size()) / tensor.shape[0];
  }

  ModelConfig config_;
  TemporaryFolder folder_;
  std::map<std::string, WrittenTensor> tensors_;
};

const std::string kVisionTower = "backbone.model.vision_model.vision_model.";

TEST_F(GrootWeights, HaveTheShapesOfTheTable) {
  const Weights weights = open();
  for (const PlanWeight& weight : plan_weights(config_)) {
    const HostTensor tensor = weights.load(weight.name);
    EXPECT_EQ(tensor.shape, weight.shape) << weight.name;
    EXPECT_EQ(tensor.data.size(), static_cast<size_t>(tensor.shape.elements())) << weight.name;
  }
}

TEST_F(GrootWeights, ReorderPatchesAndSquares) {
  const Weights weights = open();
  const HostTensor patch = weights.load("vision.patch.weight");
  const float* stored = at(kVisionTower + "embeddings.patch_embedding.weight");
  for (const auto& [row, channel, y, x] : {std::array{0, 0, 0, 1}, {5, 2, 3, 4}, {47, 1, 13, 0}}) {
    EXPECT_EQ(patch.data[row * 588 + (channel * 14 + y) * 14 + x],
              stored[row * 588 + (y * 14 + x) * 3 + channel]);
  }
  const HostTensor connector = weights.load("connector_in.weight");
  const HostTensor norm = weights.load("connector.norm.bias");
  for (const auto& [row, channel, inside] : {std::array{0, 0, 1}, {9, 47, 2}, {63, 5, 3}}) {
    EXPECT_EQ(connector.data[row * 192 + inside * 48 + channel],
              at("backbone.model.mlp1.1.weight")[row * 192 + channel * 4 + inside]);
    EXPECT_EQ(norm.data[inside * 48 + channel],
              at("backbone.model.mlp1.0.bias")[channel * 4 + inside]);
  }
}

TEST_F(GrootWeights, FoldTheNormOfTheLanguageModel) {
  const Weights weights = open();
  const std::string layer = "backbone.model.language_model.model.layers.1.";
  const HostTensor qkv = weights.load("language.1.qkv.weight");
  const float* k = at(layer + "self_attn.k_proj.weight");
  const float* norm = at(layer + "input_layernorm.weight");
  for (const int column : {0, 17, 63}) {
    EXPECT_EQ(qkv.data[(64 + 3) * 64 + column],
              static_cast<float>(double{k[3 * 64 + column]} * norm[column]));
  }
}

TEST_F(GrootWeights, FoldLinearPairsOfTheirSlot) {
  const Weights weights = open();
  const std::string encoder = "action_head.action_encoder.";
  const float *w1 = at(encoder + "W1.W", 3), *w2 = at(encoder + "W2.W", 3),
              *b1 = at(encoder + "W1.b", 3), *b2 = at(encoder + "W2.b", 3);
  const HostTensor action = weights.load("action_in.weight"),
                   time = weights.load("action_time.weight"),
                   bias = weights.load("action_time.bias");
  double product = 0, sum = b2[7];
  for (int k = 0; k < 48; ++k) {
    product += double{w1[11 * 48 + k]} * w2[k * 48 + 7];
    sum += double{b1[k]} * w2[k * 48 + 7];
  }
  EXPECT_NEAR(action.data[7 * 18 + 11], product, 1e-6);
  EXPECT_NEAR(bias.data[7], sum, 1e-6);
  EXPECT_EQ(time.data[7 * 48 + 5], w2[(48 + 5) * 48 + 7]);

  const float *projection = at("action_head.model.proj_out_2.weight"),
              *layer = at("action_head.action_decoder.layer1.W", 3);
  double decoder = 0;
  for (int k = 0; k < 40; ++k) decoder += double{projection[k * 48 + 9]} * layer[k * 40 + 21];
  EXPECT_NEAR(weights.load("decoder.weight").data[21 * 48 + 9], decoder, 1e-6);
  EXPECT_EQ(weights.load("velocity.weight").data[2 * 40 + 6],
            at("action_head.action_decoder.layer2.W", 3)[6 * 18 + 2]);
}

TEST_F(GrootWeights, OfAnotherSlotHaveAnotherDigest) {
  const std::string digest = open().digest();
  EXPECT_TRUE(digest.ends_with(" slot 3")) << digest;
  config_.embodiment.slot = 2;
  EXPECT_NE(open().digest(), digest);
}

TEST_F(GrootWeights, NeedASlot) {
  config_.embodiment.slot = -1;
  EXPECT_CONTAINS(refusal(), "embodiment slot -1, it has slots 0 to 4; name the one of the robot");
  config_.embodiment.slot = 5;
  EXPECT_CONTAINS(refusal(), "embodiment slot 5, it has slots 0 to 4");
}

TEST_F(GrootWeights, RefuseASlotThatWasNotTrained) {
  WrittenTensor& encoder = tensors_.at("action_head.action_encoder.W1.W");
  const size_t count = encoder.values.size() / 5;
  double squares = 0;
  for (size_t i = 0; i < count; ++i) squares += std::pow(encoder.values[3 * count + i], 2);
  for (size_t i = 0; i < count; ++i)
    encoder.values[3 * count + i] *=
        static_cast<float>(0.02 / std::sqrt(squares / static_cast<double>(count)));
  EXPECT_CONTAINS(refusal(), "embodiment slot 3 looks as if it was never trained");
  config_.embodiment.allow_untrained = true;
  EXPECT_NO_THROW(open());
  config_.embodiment = {.slot = 2};
  EXPECT_NO_THROW(open());
}

TEST_F(GrootWeights, TolerateKnownTensorsWithoutUseAndRefuseOthers) {
  EXPECT_TRUE(tensors_.contains("backbone.model.language_model.lm_head.weight"));
  EXPECT_TRUE(tensors_.contains(kVisionTower + "head.probe"));
  tensors_["action_head.mask_token"] = {.shape = {1}, .values = {1}};
  EXPECT_CONTAINS(refusal(), "unknown tensors: action_head.mask_token");
  tensors_.erase("action_head.mask_token");
  tensors_.erase("action_head.vlln.bias");
  EXPECT_CONTAINS(refusal(), "missing tensors: action_head.vlln.bias");
}

// As published: 1106 tensors with 3286.6 million elements, of which the head of the vision tower
// and the output head of the language model are of no use.
TEST(GrootTable, HasTheTensorsOfThePublishedCheckpoint) {
  std::set<std::string> names;
  int64_t elements = 0;
  for (const PlanWeight& weight : plan_weights(full_size_config(ModelType::kGrootN16))) {
    for (const auto* sources : {&weight.parts, &weight.norm}) {
      for (const SourceTensor& source : *sources) {
        if (names.insert(source.names.front()).second) elements += source.shape.elements();
      }
    }
  }
  constexpr int kVisionHead = 11, kOutputHead = 1;
  EXPECT_EQ(names.size(), 1106u - kVisionHead - kOutputHead);
  EXPECT_NEAR(static_cast<double>(elements) / 1e6, 3286.6 - 15.2 - 310.6, 0.15);
}

}  // namespace
}  // namespace flashrt
