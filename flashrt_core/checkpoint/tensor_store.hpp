// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// TensorStore: all tensors of a checkpoint folder, in one file or in shards.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/safetensors.hpp"

namespace flashrt {

// A tensor and the file it is in, for error texts.
struct LocatedTensor {
  const StoredTensor* tensor = nullptr;
  const SafetensorsFile* file = nullptr;
};

class TensorStore {
 public:
  // Opens model.safetensors, or the shards that model.safetensors.index.json names. Each tensor
  // occurs once.
  explicit TensorStore(const std::filesystem::path& folder);

  const std::filesystem::path& folder() const { return folder_; }
  const std::map<std::string, LocatedTensor>& tensors() const { return tensors_; }
  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> paths;
    for (const auto& file : files_) paths.push_back(file->path());
    return paths;
  }

 private:
  void add_file(const std::filesystem::path& path);
  void open_shards(const std::filesystem::path& index);

  std::filesystem::path folder_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;  // stable addresses
  std::map<std::string, LocatedTensor> tensors_;
};

}  // namespace flashrt
