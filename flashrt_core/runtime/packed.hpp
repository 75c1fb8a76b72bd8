// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Packed weights of an engine: making the file, and opening it only for what it was made from.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/engine.hpp"

namespace flashrt {

// Those of the seed that the options name, or of the checkpoint.
Weights unpacked_weights(const EngineOptions& options, const ModelConfig& config);

// Writes what an engine with these options would upload: of the options, checkpoint, random seed
// and outliers, recipe and threads count. Returns the digest of the source.
std::string pack(const EngineOptions& options, const std::filesystem::path& output);

// The packed weights that the options name. Error unless they are of this plan and of the source
// that the options name: of its files as they were then, or, where a file was touched since, of
// contents with the same digest. Of a source whose files are not there only the file itself speaks.
Weights open_packed(const EngineOptions& options, const ModelConfig& config,
                    const std::string& plan_digest);

}  // namespace flashrt
