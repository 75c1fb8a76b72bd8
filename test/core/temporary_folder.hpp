// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// A folder that lives as long as a test.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace flashrt {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "flashrt_test_XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("cannot make a temporary folder");
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }

  const std::filesystem::path& path() const { return path_; }

  // A new file, also where one of that name is still mapped.
  std::filesystem::path write(const std::string& name, const std::string& content) const {
    std::filesystem::remove(path_ / name);
    std::ofstream file(path_ / name, std::ios::binary);
    file << content;
    if (!file.flush()) throw std::runtime_error("cannot write " + name);
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace flashrt
