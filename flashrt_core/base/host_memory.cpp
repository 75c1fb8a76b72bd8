// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "base/host_memory.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <string>

#include "base/check.hpp"

namespace flashrt {
namespace {

// Of a line such as "MemTotal:       24689532 kB".
size_t field(std::string_view meminfo, std::string_view name) {
  constexpr size_t kKibi = 1024;
  const size_t at = meminfo.find(name);
  size_t value = 0;
  if (at != std::string_view::npos) {
    std::string_view rest = meminfo.substr(at + name.size());
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    if (std::from_chars(rest.data(), rest.data() + rest.size(), value).ec == std::errc{})
      return value * kKibi;
  }
  throw Error(text("/proc/meminfo has no number after ", name));
}

}  // namespace

HostMemory host_memory() {
  std::ifstream file("/proc/meminfo");
  return parse_meminfo(std::string(std::istreambuf_iterator<char>(file), {}));
}

HostMemory parse_meminfo(std::string_view meminfo) {
  return {.total_bytes = field(meminfo, "MemTotal:"),
          .available_bytes = field(meminfo, "MemAvailable:")};
}

}  // namespace flashrt
