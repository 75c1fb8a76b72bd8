// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Error, the one exception type of the core, and FLASHRT_CHECK, which throws it with the values
// that disagree.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace flashrt {

// Every failure of the core. The text names what failed, the values, and what was expected.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The checkpoint is sound but belongs to a model family this version does not build.
class ModelNotSupportedError : public Error {
 public:
  using Error::Error;
};

// Concatenates anything that can be streamed.
template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

}  // namespace flashrt

// FLASHRT_CHECK(rows > 0, "linear ", name, ": ", rows, " rows");
#define FLASHRT_CHECK(condition, ...)                                       \
  do {                                                                      \
    if (!(condition)) throw ::flashrt::Error(::flashrt::text(__VA_ARGS__)); \
  } while (false)
