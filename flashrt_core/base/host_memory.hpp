// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// How much memory the host has, and how much of it a program can still get.
#pragma once

#include <cstddef>
#include <string_view>

namespace flashrt {

struct HostMemory {
  size_t total_bytes = 0;
  size_t available_bytes = 0;  // free, or held for files that can be read again
};

HostMemory host_memory();

// From the text of /proc/meminfo; Error where a line is missing.
HostMemory parse_meminfo(std::string_view meminfo);

}  // namespace flashrt
