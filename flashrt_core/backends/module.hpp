// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// What the library of a backend that is loaded at run time exports. Both sides must come from one
// build: they share classes, not only this struct.
#pragma once

#include "backends/backend.hpp"

namespace flashrt {

struct BackendModule {
  const char* version;  // of the project; read before anything else is believed
  Backend* (*make)(const BackendOptions& options);  // owned by the caller; throws Error
};

// The name and the type of the one symbol of the library.
inline constexpr const char* kBackendModuleSymbol = "flashrt_backend_module";
using BackendModuleFunction = const BackendModule*();

}  // namespace flashrt
