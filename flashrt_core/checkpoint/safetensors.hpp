// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// SafetensorsFile: the tensors of one mapped file. Nothing of the file is trusted: every size is
// checked before it is used, and every tensor lies inside the mapping and overlaps no other.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.hpp"
#include "base/tensor.hpp"

namespace flashrt {

struct StoredTensor {
  std::string name;
  std::string dtype;  // as the file spells it: "F32", "BF16", ...
  Shape shape;
  std::span<const std::byte> bytes;
};

class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  void read_ahead() const { file_.read_ahead(); }
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  // Texts that whoever wrote the file put beside the tensors.
  const std::map<std::string, std::string, std::less<>>& metadata() const { return metadata_; }

 private:
  std::filesystem::path path_;
  MappedFile file_;
  std::vector<StoredTensor> tensors_;  // in the order of their bytes
  std::map<std::string, std::string, std::less<>> metadata_;
};

// Throws an Error that says what the file is, if its first bytes are those of a Git LFS pointer.
void refuse_lfs_pointer(const std::filesystem::path& path, std::string_view content);

}  // namespace flashrt
