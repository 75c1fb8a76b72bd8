// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// PackedFile: weights as a plan reads them, folded, packed and rounded to their types, in one
// safetensors file. Nothing has to be computed to use them.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/parallel.hpp"
#include "checkpoint/safetensors.hpp"

namespace flashrt {

// A weight in memory that belongs to somebody else. real = code * scale.
struct PackedTensor {
  Shape shape;
  DType type = DType::kF32;
  std::span<const std::byte> data;  // row-major
  std::span<const float> scales;    // of e4m3: one, or one per row
};

// A file of the source as it was when the weights were packed.
struct SourceFile {
  std::string name;
  uint64_t bytes = 0;
  int64_t modified = 0;  // nanoseconds on the clock of the file system

  static SourceFile of(const std::filesystem::path& path);
  bool operator==(const SourceFile&) const = default;
};

// What the weights were packed from and for.
struct PackedHeader {
  std::string weights_digest;  // of the source
  std::string plan_digest;
  std::string recipe;
  std::vector<SourceFile> files;  // of the source; none of random weights
};

// The metadata of the file; digest is that of its tensors (checkpoint/tensor_digest.hpp).
std::string packed_metadata(const PackedHeader& header, const std::string& digest);

class PackedFile {
 public:
  // Error unless the file has this format and the digest of its tensors is the one it names.
  PackedFile(const std::filesystem::path& path, ThreadPool& threads);

  const std::filesystem::path& path() const { return file_->path(); }
  const PackedHeader& header() const { return header_; }
  // Unknown names: Error.
  PackedTensor tensor(std::string_view weight) const;

  static constexpr std::string_view kMetadataKey = "flashrt";
  static constexpr std::string_view kScales = ".scales";  // ends the name of a weight's scales

 private:
  std::unique_ptr<SafetensorsFile> file_;
  PackedHeader header_;
  std::map<std::string, const StoredTensor*, std::less<>> tensors_;
};

// As the file spells it.
std::string_view safetensors_name(DType type);

}  // namespace flashrt
