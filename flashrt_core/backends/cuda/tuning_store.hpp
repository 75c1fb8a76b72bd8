// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// TuningStore: which implementation of a call was found to be the fastest, kept in a file from one
// start to the next. It needs no CUDA.
#pragma once

#include <compare>
#include <filesystem>
#include <map>
#include <string>

namespace flashrt::cuda {

// What a choice depends on beside the call. Choices made in another environment are kept in the
// file, and not used.
struct TuningEnvironment {
  std::string device;          // "NVIDIA H200"
  int compute_capability = 0;  // 90
  int driver = 0;              // 13000
  int library = 0;             // cuBLASLt, 130100
  int kernels = 0;             // of our own, linear_choice.hpp

  auto operator<=>(const TuningEnvironment&) const = default;
};

struct TunedCall {
  std::string choice;       // whoever tunes knows how to read it
  double microseconds = 0;  // when it was chosen

  bool operator==(const TunedCall&) const = default;
};

// Calls are named by a text that says everything the choice depends on: shapes, types, epilogue.
class TuningStore {
 public:
  // Reads the file if there is one. Without a path nothing is read or saved, and the store lasts as
  // long as the object. A damaged file or one of another format version is an Error.
  TuningStore(std::filesystem::path path, TuningEnvironment environment);

  // Null: not tuned in this environment. Valid until the next put or save.
  const TunedCall* find(const std::string& call) const;
  void put(const std::string& call, TunedCall tuned);

  // Adds what was put since the last save to what the file holds by then, also from other
  // processes; of one call the last one to save wins. Then the store knows all of them.
  void save();

 private:
  using Calls = std::map<std::string, TunedCall>;
  using Content = std::map<TuningEnvironment, Calls>;
  static Content read(const std::filesystem::path& path);
  static std::string write(const Content& content);

  std::filesystem::path path_;
  TuningEnvironment environment_;
  Calls calls_;    // of this environment
  Calls unsaved_;  // of these, the ones that the file lacks
};

}  // namespace flashrt::cuda
