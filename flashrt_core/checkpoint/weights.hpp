// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Weights: a checkpoint as the plan names it. Checked whole when opened, folded and packed when
// loaded.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor.hpp"
#include "checkpoint/model_config.hpp"

namespace flashrt {

// A float32 tensor in host memory, row-major.
struct HostTensor {
  Shape shape;
  std::vector<float> data;
};

class Weights {
 public:
  // Maps the files and checks all of them before anything is copied: every tensor the model needs
  // is there once, with its shape and type, inside its file, and finite.
  // threads: how many check and load; 0: one per core.
  static Weights open(const std::filesystem::path& checkpoint, const ModelConfig& config,
                      int threads);

  Weights(Weights&&) noexcept;
  Weights& operator=(Weights&&) noexcept;
  ~Weights();

  // One plan weight, folded and packed: "language.3.qkv.weight" is q, k and v stacked, with (1 + w)
  // of the norm before it multiplied into its columns. Unknown names: Error.
  HostTensor load(std::string_view name) const;
  // Over all bytes of all tensors used, as hex.
  const std::string& digest() const;

 private:
  struct Impl;
  explicit Weights(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace flashrt
