// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Weights: the tensors of a model as the plan names them, folded and packed when loaded. They come
// from a checkpoint, which is checked whole when opened, from a file where they were packed before,
// or from a seed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor.hpp"
#include "checkpoint/model_config.hpp"
#include "checkpoint/packed_file.hpp"
#include "checkpoint/plan_weights.hpp"
#include "checkpoint/random_weights.hpp"

namespace flashrt {

class Weights {
 public:
  // What weights are read from.
  class Source {
   public:
    virtual ~Source() = default;
    virtual HostTensor load(std::string_view name) const = 0;
    virtual std::optional<RandomTensor> random_tensor(std::string_view) const { return {}; }
    virtual std::optional<PackedTensor> packed_tensor(std::string_view) const { return {}; }
    virtual const std::string& digest() const = 0;
    virtual std::vector<std::filesystem::path> files() const { return {}; }
  };

  // Maps the files and checks all of them before anything is copied: every tensor the model needs
  // is there once, with its shape and type, inside its file, and finite.
  // threads: how many check and load; 0: one per core.
  static Weights open(const std::filesystem::path& checkpoint, const ModelConfig& config,
                      int threads);
  // Random numbers that follow from configuration, seed and outliers alone (random_tensors()).
  static Weights random(const ModelConfig& config, uint64_t seed, int threads, double outliers = 1);
  // As they were packed.
  static Weights packed(PackedFile file);
  explicit Weights(std::unique_ptr<const Source> source) : source_(std::move(source)) {}

  // One plan weight, folded and packed: "language.3.qkv.weight" is q, k and v stacked, with (1 + w)
  // of the norm before it multiplied into its columns. Unknown names: Error.
  HostTensor load(std::string_view name) const { return source_->load(name); }
  // The same as a description, if it is random: load(name) has exactly these numbers.
  std::optional<RandomTensor> random_tensor(std::string_view name) const {
    return source_->random_tensor(name);
  }
  // The same in the type that the plan reads, if the weights are packed.
  std::optional<PackedTensor> packed_tensor(std::string_view name) const {
    return source_->packed_tensor(name);
  }
  // Over all bytes of all tensors used, as hex; of random weights also what they follow from.
  // Packed weights have that of their source.
  const std::string& digest() const { return source_->digest(); }
  // That the weights of a checkpoint lie in.
  std::vector<std::filesystem::path> files() const { return source_->files(); }

 private:
  std::shared_ptr<const Source> source_;  // copies read from the same
};

// Ends the digest of weights of this embodiment.
std::string slot_suffix(const Embodiment& embodiment);

// What a checkpoint holds of its model, as its headers say.
struct WeightFiles {
  std::vector<std::filesystem::path> files;
  int64_t tensors = 0, elements = 0, bytes = 0;  // of those that the model uses
};

// All that Weights::open() checks without reading the numbers: in a second, however large the
// files.
WeightFiles check_weight_files(const std::filesystem::path& checkpoint, const ModelConfig& config);

}  // namespace flashrt
