// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Tests that need a GPU. Without one they are skipped and say why; with FLASHRT_REQUIRE_GPU=1 in
// the environment, as `make test-gpu` sets it, they fail instead.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "backends/cuda/device.hpp"
#include "base/check.hpp"
#include "gpu_required.hpp"

namespace flashrt::cuda {

// The device that the tests run on, or why there is none.
struct TestDevice {
  std::optional<DeviceInfo> info;
  std::string reason;
};

inline const TestDevice& test_device() {
  static const TestDevice device = [] {
    TestDevice result;
    try {
      result.info = query_device(0);
    } catch (const Error& error) {
      result.reason = error.what();
    }
    return result;
  }();
  return device;
}

// Set by `make test-gpu SANITIZE=racecheck`. That checker takes a hundred times as long, and the
// modules of cuBLASLt that it instruments do not fit into the memory of most hosts.
inline bool is_racechecked() { return std::getenv("FLASHRT_RACECHECK") != nullptr; }

// Base is testing::Test or testing::TestWithParam<...>.
template <class Base>
class NeedsDevice : public Base {
 protected:
  void SetUp() override {
    if (test_device().info) return;
    if (is_gpu_required()) FAIL() << "no GPU: " << test_device().reason;
    GTEST_SKIP() << "no GPU: " << test_device().reason;
  }

  const DeviceInfo& device() const { return *test_device().info; }
};

using CudaTest = NeedsDevice<testing::Test>;

}  // namespace flashrt::cuda
