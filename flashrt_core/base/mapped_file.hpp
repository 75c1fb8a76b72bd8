// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// MappedFile: a file's bytes, read-only, mapped rather than read.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace flashrt {

class MappedFile {
 public:
  // Throws Error if the file cannot be opened. An empty file maps to no bytes.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  // Has the system read all of it ahead, for those who are going to: pages that are read one after
  // the other on demand come at a fraction of what a disk gives.
  void read_ahead() const;

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace flashrt
