// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Runs something that must throw Error, and hands back its text.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/check.hpp"

namespace flashrt {

template <class Body>
std::string error_text(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no Error was thrown";
  return "";
}

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

}  // namespace flashrt
