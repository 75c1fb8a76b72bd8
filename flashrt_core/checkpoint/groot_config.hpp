// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// The configuration of GR00T N1.6: config.json says the sizes of the action head, and of the
// backbone where it is not the published one.
#pragma once

#include <string_view>

#include "base/json.hpp"
#include "checkpoint/model_config.hpp"

namespace flashrt {

inline constexpr std::string_view kGrootN16Type = "Gr00tN1d6";  // model_type in config.json

// Error for everything that is missing, contradicts itself, or switches on what is not implemented.
ModelConfig groot_config(const JsonFields& root);

ModelConfig full_size_groot();

}  // namespace flashrt
