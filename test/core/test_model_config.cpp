// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// config.json in its three layouts, and the message for each way it can be wrong: field, value,
// what was expected.
#include <gtest/gtest.h>

#include "checkpoint/model_config.hpp"
#include "checkpoint/weights.hpp"
#include "expect_error.hpp"
#include "tiny_checkpoint.hpp"

namespace flashrt {
namespace {

using nlohmann::json;

ModelConfig read(const json& config) {
  const TemporaryFolder folder;
  folder.write("config.json", config.dump());
  return read_model_config(folder.path());
}

std::string refusal(const json& config) {
  return error_text([&] { read(config); });
}

json explicit_pi05() {
  return json::parse(R"({
    "model_type": "pi05",
    "vision": {"image_size": 56, "patch_size": 14, "num_channels": 3, "num_image_tokens": 16, "hidden_size": 48,
               "num_layers": 3, "num_heads": 4, "intermediate_size": 96, "layer_norm_eps": 1e-05,
               "activation": "gelu_tanh", "projection_dim": 64},
    "language": {"hidden_size": 64, "num_layers": 2, "intermediate_size": 128, "num_heads": 4, "num_kv_heads": 2,
                 "head_dim": 16, "vocab_size": 512, "rms_norm_eps": 1e-06, "rope_theta": 20000.0,
                 "activation": "gelu_tanh", "embedding_scale": 8.0},
    "expert": {"hidden_size": 32, "num_layers": 2, "intermediate_size": 60, "num_heads": 4, "num_kv_heads": 2,
               "head_dim": 16, "ada_rms": true, "rms_norm_eps": 1e-06, "activation": "gelu_tanh"},
    "action": {"action_dim": 31, "action_horizon": 9, "time_embedding_min_period": 0.005,
               "time_embedding_max_period": 5.0},
    "default_num_steps": 7, "default_max_token_len": 24})");
}

json explicit_pi0() {
  json config = explicit_pi05();
  config["model_type"] = "pi0";
  config["expert"]["ada_rms"] = false;
  config["action"]["state_dim"] = 30;
  return config;
}

json lerobot(const std::string& type) {
  return {{"type", type},
          {"paligemma_variant", "gemma_2b"},
          {"action_expert_variant", "gemma_300m"},
          {"dtype", "bfloat16"},
          {"chunk_size", 50},
          {"n_action_steps", 50},
          {"max_state_dim", 30},
          {"max_action_dim", 32},
          {"num_inference_steps", 10},
          {"min_period", 0.004},
          {"max_period", 4.0},
          {"image_resolution", {224, 224}},
          {"tokenizer_max_length", 200},
          {"use_visual_memory", false}};
}

TEST(ModelConfig, ReadsTheExplicitLayout) {
  const ModelConfig c = read(explicit_pi05());
  EXPECT_EQ(c.type, ModelType::kPi05);
  EXPECT_EQ(c.vision.image_size, 56);
  EXPECT_EQ(c.vision.tokens(), 16);
  EXPECT_EQ(c.vision.head_dim(), 12);
  EXPECT_EQ(c.vision.eps, 1e-5f);
  EXPECT_EQ(c.language.width, 64);
  EXPECT_EQ(c.language.mlp_width, 128);
  EXPECT_EQ(c.language.kv_heads, 2);
  EXPECT_EQ(c.language.rope_base, 20000.0);
  EXPECT_EQ(c.expert.rope_base, 20000.0) << "one axis of positions for both";
  EXPECT_EQ(c.expert.width, 32);
  EXPECT_EQ(c.expert.mlp_width, 60);
  EXPECT_EQ(c.vocab_size, 512);
  EXPECT_EQ(c.action_dim, 31);
  EXPECT_EQ(c.horizon, 9);
  EXPECT_EQ(c.state_dim, 0);
  EXPECT_EQ(c.steps, 7);
  EXPECT_EQ(c.prompt_capacity, 24);
  EXPECT_EQ(c.min_period, 0.005);
  EXPECT_EQ(c.max_period, 5.0);
  EXPECT_EQ(read(explicit_pi0()).state_dim, 30);
}

TEST(ModelConfig, StepsAndPromptCapacityMayBeAbsentOrNamedOtherwise) {
  json config = explicit_pi05();
  config.erase("default_num_steps");
  config.erase("default_max_token_len");
  EXPECT_EQ(read(config).steps, 0);
  EXPECT_EQ(read(config).prompt_capacity, 0);
  config["steps"] = 4;
  EXPECT_EQ(read(config).steps, 4);
  config["num_inference_steps"] = 5;
  EXPECT_CONTAINS(refusal(config), "expected 5, as another name of the same field says");
}

struct Fault {
  std::string name;
  std::string field;  // JSON pointer
  json value;         // null: the field is removed
  std::string expected;
};

const Fault kFaults[] = {
    {"text_for_number", "/vision/num_layers", "three",
     "vision.num_layers is \"three\", expected an integer from 1 to"},
    {"fraction", "/vision/num_layers", 3.0, "vision.num_layers is 3.0, expected an integer"},
    {"zero", "/language/num_heads", 0, "language.num_heads is 0, expected an integer from 1 to"},
    {"negative", "/action/action_horizon", -1, "action.action_horizon is -1"},
    {"beyond_int64", "/language/vocab_size", 18446744073709551615u,
     "language.vocab_size is 18446744073709551615"},
    {"absurd", "/vision/image_size", 1000000,
     "vision.image_size is 1000000, expected an integer from 1 to 8192"},
    {"missing", "/expert/hidden_size", nullptr, "expert.hidden_size missing, expected an integer"},
    {"no_section", "/action", nullptr, "action missing, expected an object"},
    {"patch_does_not_divide", "/vision/image_size", 57,
     "image size 57 is not a multiple of the patch 14"},
    {"image_tokens", "/vision/num_image_tokens", 17, "vision.num_image_tokens is 17, expected 16"},
    {"channels", "/vision/num_channels", 1, "vision.num_channels is 1, expected 3"},
    {"vision_heads", "/vision/num_heads", 5, "vision width 48 is not a multiple of its 5 heads"},
    {"kv_heads", "/language/num_kv_heads", 3, "language heads 4 are not a multiple of kv heads 3"},
    {"projection", "/vision/projection_dim", 63, "vision.projection_dim is 63, expected 64"},
    {"layers_differ", "/expert/num_layers", 3,
     "language layers 2, expert layers 3, expected the same"},
    {"heads_differ", "/expert/num_heads", 8, "language heads 4, expert heads 8"},
    {"kv_heads_differ", "/expert/num_kv_heads", 1, "language kv_heads 2, expert kv_heads 1"},
    {"head_dim_differs", "/expert/head_dim", 32, "language head_dim 16, expert head_dim 32"},
    {"rope_differs", "/expert/rope_theta", 10000.0,
     "language rope base 20000, expert rope base 10000"},
    {"expert_width_odd", "/expert/hidden_size", 33, "expert width 33, expected even"},
    {"activation", "/language/activation", "gelu",
     "language.activation is \"gelu\", expected gelu_tanh"},
    {"embedding_scale", "/language/embedding_scale", 1.0,
     "language.embedding_scale is 1.0, expected 8"},
    {"not_adaptive", "/expert/ada_rms", false, "expert.ada_rms is false, expected true for pi05"},
    {"periods", "/action/time_embedding_min_period", 6.0, "time periods from 6 to 5"},
    {"period_zero", "/action/time_embedding_min_period", 0,
     "action.time_embedding_min_period is 0"},
    {"other_model", "/model_type", "smolvla",
     "model_type is \"smolvla\", expected pi05, pi0 or Gr00tN1d6"},
    {"no_layout", "/model_type", nullptr, "describes no known model"},
};

class ModelConfigFault : public testing::TestWithParam<Fault> {};

TEST_P(ModelConfigFault, IsNamed) {
  json config = explicit_pi05();
  const json::json_pointer field(GetParam().field);
  if (GetParam().value.is_null()) {
    config.at(field.parent_pointer()).erase(field.back());
  } else {
    config[field] = GetParam().value;
  }
  const std::string text = refusal(config);
  EXPECT_CONTAINS(text, "config.json");
  EXPECT_CONTAINS(text, GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(All, ModelConfigFault, testing::ValuesIn(kFaults),
                         [](const auto& fault) { return fault.param.name; });

TEST(ModelConfig, RefusesAnOddHeadDimension) {
  json config = explicit_pi05();
  config["language"]["head_dim"] = config["expert"]["head_dim"] = 15;
  EXPECT_CONTAINS(refusal(config), "head_dim 15 is odd");
}

TEST(ModelConfig, ReadsTheLayoutOfLerobot) {
  const ModelConfig c = read(lerobot("pi05"));
  EXPECT_EQ(c.type, ModelType::kPi05);
  EXPECT_EQ(c.vision.width, 1152);
  EXPECT_EQ(c.vision.layers, 27);
  EXPECT_EQ(c.vision.head_dim(), 72);
  EXPECT_EQ(c.vision.tokens(), 256);
  EXPECT_EQ(c.language.width, 2048);
  EXPECT_EQ(c.language.mlp_width, 16384);
  EXPECT_EQ(c.expert.width, 1024);
  EXPECT_EQ(c.expert.mlp_width, 4096);
  EXPECT_EQ(c.expert.layers, 18);
  EXPECT_EQ(c.vocab_size, 257152);
  EXPECT_EQ(c.horizon, 50);
  EXPECT_EQ(c.action_dim, 32);
  EXPECT_EQ(c.state_dim, 0);
  EXPECT_EQ(c.steps, 10);
  EXPECT_EQ(c.prompt_capacity, 200);
  EXPECT_EQ(c.max_period, 4.0);
  EXPECT_EQ(read(lerobot("pi0")).state_dim, 30);
  json larger = lerobot("pi05");
  larger["image_resolution"] = {448, 448};
  EXPECT_EQ(read(larger).vision.tokens(), 1024);
}

TEST(ModelConfig, NamesFaultsInTheLayoutOfLerobot) {
  const auto with = [](const std::string& field, const json& value) {
    json config = lerobot("pi05");
    config[field] = value;
    return refusal(config);
  };
  EXPECT_CONTAINS(with("use_visual_memory", true), "use_visual_memory is true, expected false");
  EXPECT_CONTAINS(with("use_proprioceptive_memory", true),
                  "use_proprioceptive_memory is true, expected false");
  EXPECT_CONTAINS(with("paligemma_variant", "dummy"),
                  "paligemma_variant is \"dummy\", expected gemma_2b or gemma_300m");
  EXPECT_CONTAINS(with("action_expert_variant", "gemma_300m_lora"), "merge the LoRA adapters");
  EXPECT_CONTAINS(with("image_resolution", {224, 225}),
                  "image_resolution is [224,225], expected two equal numbers");
  EXPECT_CONTAINS(with("image_resolution", {225, 225}),
                  "image size 225 is not a multiple of the patch 14");
  json config = lerobot("pi05");
  config.erase("num_inference_steps");
  EXPECT_CONTAINS(refusal(config), "num_inference_steps missing");
}

TEST(ModelConfig, OpenpiTakesTheFamilyFromTheTensors) {
  const json config{{"action_dim", 32},
                    {"action_horizon", 15},
                    {"paligemma_variant", "gemma_2b"},
                    {"action_expert_variant", "gemma_300m"},
                    {"precision", "bfloat16"}};
  TinyCheckpoint pi05(tiny_pi05()), pi0(tiny_pi0());
  for (TinyCheckpoint* checkpoint : {&pi05, &pi0}) {
    checkpoint->folder().write("config.json", config.dump());
    checkpoint->write();
    const ModelConfig c = read_model_config(checkpoint->path());
    EXPECT_EQ(c.type, checkpoint->config().type);
    EXPECT_EQ(c.horizon, 15);
    EXPECT_EQ(c.state_dim, c.type == ModelType::kPi0 ? 32 : 0);
    EXPECT_EQ(c.steps, 0);
    EXPECT_EQ(c.prompt_capacity, 0);
    EXPECT_EQ(c.min_period, 0.004);
  }
  pi05.tensors() = {{"action_in_proj.weight", pi05["action_in_proj.weight"]}};
  pi05.write();
  EXPECT_CONTAINS(error_text([&] { read_model_config(pi05.path()); }), "is neither Pi0.5 nor Pi0");
}

// The dimensions of a variant are not in the file: the tensors decide whether they are true.
TEST(ModelConfig, TensorsOfOtherSizesThanTheVariantAreRefusedByName) {
  ModelConfig narrow = tiny_pi05();
  narrow.vision.layers = 27;
  narrow.language.layers = narrow.expert.layers = 18;
  TinyCheckpoint checkpoint(narrow);
  checkpoint.write();
  checkpoint.folder().write("config.json", lerobot("pi05").dump());
  const ModelConfig config = read_model_config(checkpoint.path());
  const std::string text = error_text([&] { Weights::open(checkpoint.path(), config, 1); });
  EXPECT_CONTAINS(text, "vision_model.embeddings.patch_embedding.weight");
  EXPECT_CONTAINS(text, "is [12, 3, 14, 14], config.json makes it [1152, 3, 14, 14]");
}

TEST(ModelConfig, OtherModelsAreNotSupportedYet) {
  const std::pair<json, std::string> configs[] = {
      {{{"model_type", "pi0_fast"}}, "Pi0-FAST (model_type pi0_fast) is not supported yet"},
      {{{"type", "pi0_fast"}}, "Pi0-FAST (type pi0_fast) is not supported yet"},
      {{{"model_type", "Gr00tN1d7"}}, "GR00T (model_type Gr00tN1d7) is not supported yet"},
      {{{"type", "groot"}}, "GR00T (type groot) is not supported yet"},
      {{{"vision_config", json::object()}, {"text_config", json::object()}},
       "is not supported yet"}};
  for (const auto& [config, expected] : configs) {
    try {
      read(config);
      ADD_FAILURE() << config;
    } catch (const ModelNotSupportedError& error) {
      EXPECT_CONTAINS(std::string(error.what()), expected);
    }
  }
}

TEST(ModelConfig, NamesUnreadableFiles) {
  const TemporaryFolder folder;
  const auto text = [&] { return error_text([&] { read_model_config(folder.path()); }); };
  EXPECT_CONTAINS(text(), "config.json: No such file");
  folder.write("config.json", "{\"type\":");
  EXPECT_CONTAINS(text(), "config.json is not valid JSON");
  folder.write("config.json", R"({"type":"pi05","type":"pi0"})");
  EXPECT_CONTAINS(text(), "'type' occurs twice");
  folder.write("config.json", "[]");
  EXPECT_CONTAINS(text(), "expected a JSON object, found array");
  folder.write("config.json",
               "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 812\n");
  EXPECT_CONTAINS(text(), "is a Git LFS pointer");
  folder.write("config.json", std::string(2'000'000, ' '));
  EXPECT_CONTAINS(text(), "has 2000000 bytes, expected at most");
  EXPECT_CONTAINS(error_text([&] { read_model_config(folder.path() / "none"); }),
                  "is not a folder");
}

}  // namespace
}  // namespace flashrt
