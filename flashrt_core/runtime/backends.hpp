// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Backends by name. The CPU backend is part of the core; the CUDA backend is a library of its own,
// which is loaded when it is asked for, so that everything else runs without CUDA.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "backends/backend.hpp"

namespace flashrt {

// `name` is cpu or cuda.
std::unique_ptr<Backend> make_backend(const std::string& name, const BackendOptions& options);

// The backend in this library, which stays loaded. `name` is for the error texts.
std::unique_ptr<Backend> load_backend(const std::string& name, const std::filesystem::path& library,
                                      const BackendOptions& options);

}  // namespace flashrt
