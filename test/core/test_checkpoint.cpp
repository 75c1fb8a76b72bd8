// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Weights: folding and packing against the formula, every layout of names, and refusals before
// anything is loaded.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <iterator>
#include <limits>

#include "checkpoint/plan_weights.hpp"
#include "checkpoint/weights.hpp"
#include "expect_error.hpp"
#include "tiny_checkpoint.hpp"

namespace flashrt {
namespace {

const std::string kLanguage = "paligemma.model.language_model.";
const std::string kExpert = "gemma_expert.model.";

Weights open(const TinyCheckpoint& checkpoint) {
  return Weights::open(checkpoint.path(), checkpoint.config(), 2);
}

std::vector<std::string> names(const ModelConfig& config) {
  std::vector<std::string> result;
  for (const PlanWeight& weight : plan_weights(config)) result.push_back(weight.name);
  return result;
}

std::string refusal(const TinyCheckpoint& checkpoint) {
  checkpoint.write();
  return error_text([&] { open(checkpoint); });
}

// The rows of some tensors, one after the other, each column times 1 + norm, rounded once.
std::vector<float> folded(TinyCheckpoint& checkpoint, const std::vector<std::string>& names,
                          const std::string& norm) {
  std::vector<float> result;
  for (const std::string& name : names) {
    const WrittenTensor& tensor = checkpoint[name];
    const auto columns = static_cast<size_t>(tensor.shape.back());
    for (size_t i = 0; i < tensor.values.size(); ++i) {
      const double factor = norm.empty() ? 1.0 : 1.0 + double{checkpoint[norm].values[i % columns]};
      result.push_back(static_cast<float>(double{tensor.values[i]} * factor));
    }
  }
  return result;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(Weights, FoldsAndPacksPi05) {
  ModelConfig config = tiny_pi05();
  config.language.width = 6;  // sqrt(6) is not a float
  TinyCheckpoint checkpoint(config);
  checkpoint.write();
  const Weights weights = open(checkpoint);

  const std::string layer = kLanguage + "layers.0.", expert = kExpert + "layers.0.";
  const HostTensor qkv = weights.load("language.0.qkv.weight");
  EXPECT_EQ(qkv.shape, (Shape{(4 + 2) * 8, 6}));
  EXPECT_EQ(qkv.data, folded(checkpoint,
                             {layer + "self_attn.q_proj.weight", layer + "self_attn.k_proj.weight",
                              layer + "self_attn.v_proj.weight"},
                             layer + "input_layernorm.weight"));
  EXPECT_EQ(weights.load("language.0.gate_up.weight").data,
            folded(checkpoint, {layer + "mlp.gate_proj.weight", layer + "mlp.up_proj.weight"},
                   layer + "post_attention_layernorm.weight"));
  EXPECT_EQ(weights.load("language.0.down.weight").data,
            checkpoint[layer + "mlp.down_proj.weight"].values);

  // The last layer ends with its keys and values.
  const std::string last = kLanguage + "layers.1.";
  EXPECT_EQ(weights.load("language.1.kv.weight").data,
            folded(checkpoint, {last + "self_attn.k_proj.weight", last + "self_attn.v_proj.weight"},
                   last + "input_layernorm.weight"));
  EXPECT_CONTAINS(error_text([&] { weights.load("language.1.qkv.weight"); }),
                  "no weight 'language.1.qkv.weight'; nearest: 'language.");

  // Adaptive norms have no weight to fold.
  EXPECT_EQ(weights.load("expert.1.qkv.weight").data,
            folded(checkpoint,
                   {kExpert + "layers.1.self_attn.q_proj.weight",
                    kExpert + "layers.1.self_attn.k_proj.weight",
                    kExpert + "layers.1.self_attn.v_proj.weight"},
                   ""));
  EXPECT_EQ(weights.load("expert.0.attn_style.weight").data,
            checkpoint[expert + "input_layernorm.dense.weight"].values);
  EXPECT_EQ(weights.load("expert.0.mlp_style.bias").data,
            checkpoint[expert + "post_attention_layernorm.dense.bias"].values);
  EXPECT_EQ(weights.load("expert.norm_style.weight").data,
            checkpoint[kExpert + "norm.dense.weight"].values);
  EXPECT_EQ(weights.load("time_in.weight").data, checkpoint["time_mlp_in.weight"].values);

  std::vector<float> embedding;
  for (const float value : checkpoint["paligemma.lm_head.weight"].values) {
    embedding.push_back(static_cast<float>(value * std::sqrt(6.0)));
  }
  EXPECT_EQ(weights.load("language.embed").data, embedding);

  const HostTensor patch = weights.load("vision.patch.weight");
  EXPECT_EQ(patch.shape, (Shape{12, 3 * 14 * 14}));
  EXPECT_EQ(
      patch.data,
      checkpoint["paligemma.model.vision_tower.vision_model.embeddings.patch_embedding.weight"]
          .values);
}

TEST(Weights, FoldsAndSplitsPi0) {
  TinyCheckpoint checkpoint(tiny_pi0());
  checkpoint.write();
  const Weights weights = open(checkpoint);
  const std::string layer = kExpert + "layers.1.";
  EXPECT_EQ(weights.load("expert.1.gate_up.weight").data,
            folded(checkpoint, {layer + "mlp.gate_proj.weight", layer + "mlp.up_proj.weight"},
                   layer + "post_attention_layernorm.weight"));
  std::vector<float> norm;
  for (const float value : checkpoint[kExpert + "norm.weight"].values) norm.push_back(1.0f + value);
  EXPECT_EQ(weights.load("expert.norm.weight").data, norm);

  const std::vector<float>& both = checkpoint["action_time_mlp_in.weight"].values;  // [8, 16]
  const HostTensor action = weights.load("action_time_in.action.weight");
  const HostTensor time = weights.load("action_time_in.time.weight");
  ASSERT_EQ(action.shape, (Shape{8, 8}));
  ASSERT_EQ(time.shape, (Shape{8, 8}));
  for (size_t row = 0; row < 8; ++row) {
    for (size_t column = 0; column < 8; ++column) {
      EXPECT_EQ(action.data[row * 8 + column], both[row * 16 + column]);
      EXPECT_EQ(time.data[row * 8 + column], both[row * 16 + 8 + column]);
    }
  }
  EXPECT_EQ(weights.load("action_time_in.time.bias").data,
            checkpoint["action_time_mlp_in.bias"].values);
  EXPECT_EQ(weights.load("state_in.weight").data, checkpoint["state_proj.weight"].values);
}

TEST(Weights, HaveTheShapesOfTheTable) {
  TinyCheckpoint checkpoint(tiny_pi05());
  checkpoint.write();
  const Weights weights = open(checkpoint);
  for (const PlanWeight& weight : plan_weights(checkpoint.config())) {
    const HostTensor tensor = weights.load(weight.name);
    EXPECT_EQ(tensor.shape, weight.shape) << weight.name;
    EXPECT_EQ(tensor.data.size(), static_cast<size_t>(tensor.shape.elements())) << weight.name;
  }
}

TEST(Weights, AreCheckedAndLoadedByAsManyThreadsAsTold) {
  TinyCheckpoint checkpoint(tiny_pi05());
  checkpoint.write();
  const auto running = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  };
  const auto before = running();
  for (const int threads : {1, 3}) {
    const Weights weights = Weights::open(checkpoint.path(), checkpoint.config(), threads);
    EXPECT_EQ(running() - before, threads - 1) << "the caller works too";
  }
}

TEST(Weights, HalfTypesGiveTheFloatsTheyHold) {
  TinyCheckpoint checkpoint(tiny_pi05());
  checkpoint.write();
  const Weights exact = open(checkpoint);
  for (const std::string dtype : {"BF16", "F16"}) {
    for (auto& [unused, tensor] : checkpoint.tensors()) tensor.dtype = dtype;
    checkpoint.write();
    const Weights half = open(checkpoint);
    for (const std::string& name : names(checkpoint.config()))
      EXPECT_EQ(half.load(name).data, exact.load(name).data) << dtype << name;
    EXPECT_NE(half.digest(), exact.digest()) << "other bytes";
  }
}

// ---- names

struct Layout {
  std::string name;
  std::string (*rename)(std::string);
};

const Layout kLayouts[] = {
    {"lerobot", [](std::string name) { return "model." + name; }},
    {"newest_transformers", [](std::string name) { return replaced(name, "vision_model.", ""); }},
    {"early_lerobot",
     [](std::string name) {
       for (const char* part : {"vision_tower.", "multi_modal_projector."}) {
         name = replaced(name, std::string("paligemma.model.") + part,
                         std::string("paligemma.") + part);
       }
       name = replaced(name, "paligemma.lm_head.", "paligemma.language_model.lm_head.");
       return "model." +
              replaced(name, "paligemma.model.language_model.", "paligemma.language_model.model.");
     }},
    {"embed_tokens", [](std::string name) {
       return replaced(name, "paligemma.lm_head.", "paligemma.model.language_model.embed_tokens.");
     }}};

class WeightNames : public testing::TestWithParam<Layout> {};

TEST_P(WeightNames, GiveTheSameWeightsAndDigest) {
  for (const ModelConfig& config : {tiny_pi05(), tiny_pi0()}) {
    TinyCheckpoint checkpoint(config);
    checkpoint.write();
    const Weights before = open(checkpoint);
    checkpoint.rename(GetParam().rename);
    checkpoint.write();
    const Weights after = open(checkpoint);
    EXPECT_EQ(after.digest(), before.digest());
    for (const std::string& name : names(config))
      EXPECT_EQ(after.load(name).data, before.load(name).data) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, WeightNames, testing::ValuesIn(kLayouts),
                         [](const auto& layout) { return layout.param.name; });

TEST(Weights, EmbedTokensIsPreferredToTheOutputHead) {
  TinyCheckpoint checkpoint(tiny_pi05());
  const WrittenTensor head = checkpoint["paligemma.lm_head.weight"];
  WrittenTensor table = head;
  for (float& value : table.values) value += 1.0f;
  checkpoint.tensors()[TinyCheckpoint::kRoot + kLanguage + "embed_tokens.weight"] = table;
  checkpoint.write();
  EXPECT_EQ(open(checkpoint).load("language.embed").data[3], 4.0f * (head.values[3] + 1.0f));
}

TEST(Weights, IgnoresWhatInferenceDoesNotReadEvenIfItIsDamaged) {
  TinyCheckpoint checkpoint(tiny_pi05());
  checkpoint.write();
  const std::string digest = open(checkpoint).digest();
  const std::string root = TinyCheckpoint::kRoot;
  checkpoint.add(root + kLanguage + "layers.0.self_attn.rotary_emb.inv_freq", {4});
  checkpoint.add(root + "paligemma.model.vision_tower.vision_model.embeddings.position_ids",
                 {1, 4});
  checkpoint.add("model.proprio_history_proj.weight", {2, 2});
  checkpoint["gemma_expert.lm_head.weight"].values[0] = std::nanf("");
  checkpoint[kLanguage + "norm.weight"].values[0] = std::nanf("");
  checkpoint[kLanguage + "layers.1.mlp.down_proj.weight"].values[0] = std::nanf("");
  checkpoint.write();
  EXPECT_EQ(open(checkpoint).digest(), digest);
}

TEST(Weights, RefusesTheSameWeightUnderTwoNames) {
  TinyCheckpoint checkpoint(tiny_pi05());
  checkpoint.tensors()["model.action_in_proj.bias"] = checkpoint["action_in_proj.bias"];
  const std::string text = refusal(checkpoint);
  EXPECT_CONTAINS(text, "tensor model.action_in_proj.bias");
  EXPECT_CONTAINS(text, "is the same weight as tensor action_in_proj.bias");
}

// ---- refusals

TEST(Weights, NamesMissingTensors) {
  TinyCheckpoint checkpoint(tiny_pi05());
  checkpoint.tensors().erase("action_out_proj.bias");
  EXPECT_CONTAINS(refusal(checkpoint), "read as pi05: missing tensors: action_out_proj.bias");
}

TEST(Weights, NamesUnknownTensors) {
  TinyCheckpoint checkpoint(tiny_pi05());
  checkpoint.add("model.extra_head.weight", {2});
  EXPECT_CONTAINS(refusal(checkpoint), "unknown tensors: model.extra_head.weight");
}

TEST(Weights, RefusesATimeMlpUnderTheNamesOfPi0) {
  TinyCheckpoint checkpoint(tiny_pi05());
  checkpoint.rename(
      [](const std::string& name) { return replaced(name, "time_mlp_", "action_time_mlp_"); });
  const std::string text = refusal(checkpoint);
  EXPECT_CONTAINS(text, "missing tensors: time_mlp_in.bias");
  EXPECT_CONTAINS(text, "unknown tensors: action_time_mlp_in.bias");
}

TEST(Weights, RefusesLoraAdapters) {
  TinyCheckpoint checkpoint(tiny_pi05());
  checkpoint.add("base.q_proj.lora_A.weight", {2, 2});
  EXPECT_CONTAINS(refusal(checkpoint), "base.q_proj.lora_A.weight");
  EXPECT_CONTAINS(refusal(checkpoint), "merge the adapters");
}

TEST(Weights, RefusesTensorsOfAnotherFamily) {
  TinyCheckpoint checkpoint(tiny_pi0());
  checkpoint.write();
  EXPECT_CONTAINS(error_text([&] { Weights::open(checkpoint.path(), tiny_pi05(), 2); }),
                  "config.json says pi05, its tensors are those of pi0");
  checkpoint.add("time_mlp_in.weight", {8, 8});
  EXPECT_CONTAINS(refusal(checkpoint),
                  "has tensors of pi05 (time_mlp_in.weight) and of pi0 (state_proj.weight)");
}

TEST(Weights, RefusesOtherSizesByTensorName) {
  TinyCheckpoint checkpoint(tiny_pi05());
  checkpoint.write();
  ModelConfig config = checkpoint.config();
  config.expert.mlp_width += 1;
  const std::string text = error_text([&] { Weights::open(checkpoint.path(), config, 2); });
  EXPECT_CONTAINS(text, "layers.0.mlp.gate_proj.weight in");
  EXPECT_CONTAINS(text, "model.safetensors is [12, 8], config.json makes it [13, 8]");
}

TEST(Weights, RefusesIntegerWeights) {
  TinyCheckpoint checkpoint(tiny_pi05());
  checkpoint["action_in_proj.bias"].dtype = "I32";
  EXPECT_CONTAINS(refusal(checkpoint), "has dtype I32, expected F32, BF16 or F16");
}

TEST(Weights, NamesTheElementThatIsNotFinite) {
  for (const std::string dtype : {"F32", "BF16", "F16"}) {
    for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity()}) {
      TinyCheckpoint checkpoint(tiny_pi05());
      WrittenTensor& tensor = checkpoint["paligemma.lm_head.weight"];
      tensor.dtype = dtype;
      tensor.values[77] = bad;
      tensor.values[78] = bad;
      const std::string text = refusal(checkpoint);
      EXPECT_CONTAINS(text, "tensor paligemma_with_expert.paligemma.lm_head.weight [32, 16]");
      EXPECT_CONTAINS(text, "is not finite at element 77");
    }
  }
}

TEST(Weights, FindsOneBadElementBehindTheFirstPieces) {
  ModelConfig config = tiny_pi05();
  config.vocab_size = 100'000;  // 6.4 MB: two pieces
  TinyCheckpoint checkpoint(config);
  checkpoint["paligemma.lm_head.weight"].values[1'500'001] = std::nanf("");
  EXPECT_CONTAINS(refusal(checkpoint), "is not finite at element 1500001");
}

TEST(Weights, DigestChangesWithOneBit) {
  TinyCheckpoint checkpoint(tiny_pi05());
  checkpoint.write();
  const std::string before = open(checkpoint).digest();
  EXPECT_EQ(before.size(), 16u);
  EXPECT_EQ(open(checkpoint).digest(), before);
  checkpoint["action_out_proj.bias"].values[1] =
      std::nextafter(checkpoint["action_out_proj.bias"].values[1], 9.0f);
  checkpoint.write();
  EXPECT_NE(open(checkpoint).digest(), before);
}

// ---- shards

class Shards : public testing::Test {
 protected:
  Shards() : checkpoint_(tiny_pi05()) {
    bool first = true;
    for (const auto& [name, tensor] : checkpoint_.tensors()) {
      const std::string shard = first ? "one.safetensors" : "two.safetensors";
      files_[shard][name] = tensor;
      index_["weight_map"][name] = shard;
      first = !first;
    }
  }

  void write() const {
    for (const auto& [name, tensors] : files_)
      checkpoint_.folder().write(name, safetensors_file(tensors));
    checkpoint_.folder().write("model.safetensors.index.json", index_.dump());
  }

  std::string refusal() const {
    write();
    return error_text([&] { open(checkpoint_); });
  }

  TinyCheckpoint checkpoint_;
  std::map<std::string, std::map<std::string, WrittenTensor>> files_;
  nlohmann::json index_;
};

TEST_F(Shards, AreTheSameCheckpoint) {
  write();
  const Weights sharded = open(checkpoint_);
  TinyCheckpoint single(tiny_pi05());
  single.write();
  const Weights whole = open(single);
  EXPECT_EQ(sharded.digest(), whole.digest());
  for (const std::string& name : names(tiny_pi05()))
    EXPECT_EQ(sharded.load(name).data, whole.load(name).data);
}

TEST_F(Shards, StayInsideTheFolder) {
  for (const std::string path :
       {"../one.safetensors", "/etc/passwd", "sub/one.safetensors", "..", ""}) {
    index_["weight_map"]["action_in_proj.bias"] = path;
    const std::string text = refusal();
    EXPECT_CONTAINS(text, "tensor action_in_proj.bias is said to be in \"" + path + "\"");
    EXPECT_CONTAINS(text, "expected the name of a file in the same folder");
  }
}

TEST_F(Shards, AreLimitedBeforeOneIsOpened) {
  for (int i = 0; i < 1000; ++i)
    index_["weight_map"][text("w", i)] = text("shard_", i, ".safetensors");
  EXPECT_CONTAINS(refusal(), "1002 shards, expected at most 1000");
}

TEST_F(Shards, AreRefusedWhereTheIndexIsWrong) {
  index_["weight_map"]["nowhere"] = "one.safetensors";
  EXPECT_CONTAINS(refusal(), "tensor nowhere is said to be in one.safetensors, where it is not");
}

TEST_F(Shards, AreRefusedWithATensorTwice) {
  const auto copy = *files_["one.safetensors"].begin();
  files_["two.safetensors"].insert(copy);
  EXPECT_CONTAINS(refusal(), "tensor " + copy.first + " is in one.safetensors and again in");
}

TEST_F(Shards, AreRefusedWithAnUnlistedTensor) {
  index_["weight_map"].erase("action_in_proj.bias");
  EXPECT_CONTAINS(refusal(), "tensor action_in_proj.bias in");
}

TEST_F(Shards, AreRefusedBesideAWholeFile) {
  checkpoint_.write();
  EXPECT_CONTAINS(refusal(), "has both model.safetensors and model.safetensors.index.json");
}

TEST_F(Shards, NameTheOneThatIsMissing) {
  write();
  std::filesystem::remove(checkpoint_.path() / "two.safetensors");
  EXPECT_CONTAINS(error_text([&] { open(checkpoint_); }), "two.safetensors: No such file");
}

TEST(WeightFiles, AreCountedFromTheirHeaders) {
  TinyCheckpoint checkpoint(tiny_pi05());
  checkpoint.write();
  const WeightFiles found = check_weight_files(checkpoint.path(), checkpoint.config());
  ASSERT_EQ(found.files.size(), 1u);
  EXPECT_GT(found.tensors, 50);
  EXPECT_EQ(found.bytes, 4 * found.elements);
  EXPECT_LE(static_cast<uintmax_t>(found.bytes), std::filesystem::file_size(found.files.front()));
}

TEST(WeightFiles, AreRefusedAsWeightsAreButForTheirNumbers) {
  TinyCheckpoint checkpoint(tiny_pi05());
  const auto check = [&] { check_weight_files(checkpoint.path(), checkpoint.config()); };
  checkpoint["action_in_proj.bias"].values[1] = std::numeric_limits<float>::infinity();
  EXPECT_CONTAINS(refusal(checkpoint), "action_in_proj.bias");
  EXPECT_NO_THROW(check());
  checkpoint.tensors().erase("action_in_proj.bias");
  EXPECT_CONTAINS(refusal(checkpoint), "missing tensors: action_in_proj.bias");
  EXPECT_EQ(error_text(check), refusal(checkpoint));
}

TEST(Weights, NamesAFolderWithoutWeights) {
  const TemporaryFolder folder;
  EXPECT_CONTAINS(error_text([&] { Weights::open(folder.path(), tiny_pi05(), 2); }),
                  "has neither model.safetensors nor");
}

}  // namespace
}  // namespace flashrt
