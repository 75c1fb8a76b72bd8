// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Writes a file so that a reader sees the old content or the new one, never a part.
#pragma once

#include <filesystem>
#include <string_view>

namespace flashrt {

void write_file_atomically(const std::filesystem::path& path, std::string_view content);

}  // namespace flashrt
