// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Writes a file so that a reader sees the old content or the new one, never a part.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace flashrt {

// A file in the making, under a temporary name beside its own until it is committed. Destroyed
// before that, it leaves nothing.
class AtomicFile {
 public:
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Where it lies meanwhile.
  const std::string& temporary() const { return temporary_; }
  void write(size_t offset, std::span<const std::byte> data);
  // On the disk, under its name.
  void commit();

 private:
  [[noreturn]] void fail(int error) const;

  std::filesystem::path path_;
  std::string temporary_;
  int file_ = -1;
};

void write_file_atomically(const std::filesystem::path& path, std::string_view content);

}  // namespace flashrt
