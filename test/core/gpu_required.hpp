// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Whether a test that finds no GPU fails: `make test-gpu` says so in the environment.
#pragma once

#include <cstdlib>
#include <string>

namespace flashrt::cuda {

inline bool is_gpu_required() {
  const char* required = std::getenv("FLASHRT_REQUIRE_GPU");
  return required && std::string(required) == "1";
}

}  // namespace flashrt::cuda
