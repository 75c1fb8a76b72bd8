// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// The one symbol that flashrt_cuda.so exports.
#include "backends/module.hpp"

#include "backends/cuda/cuda_backend.hpp"

extern "C" __attribute__((visibility("default"))) const flashrt::BackendModule*
flashrt_backend_module() {
  static const flashrt::BackendModule module{
      .version = FLASHRT_VERSION, .make = [](const flashrt::BackendOptions& options) {
        return flashrt::cuda::make_cuda_backend(options).release();
      }};
  return &module;
}
