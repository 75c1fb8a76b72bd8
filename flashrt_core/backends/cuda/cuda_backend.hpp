// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// The CUDA backend: one kernel per operation, one graph per observation.
#pragma once

#include <memory>

#include "backends/backend.hpp"

namespace flashrt::cuda {

// Error if the device does not exist or cannot be used.
std::unique_ptr<Backend> make_cuda_backend(const BackendOptions& options);

}  // namespace flashrt::cuda
