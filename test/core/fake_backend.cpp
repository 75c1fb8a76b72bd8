// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// A library that poses as a backend, for test_backends.cpp. It is built several times: FAKE_VERSION
// is the version that it claims; without it the library exports nothing.
#include <string>

#include "backends/module.hpp"
#include "base/check.hpp"

namespace flashrt {
namespace {

class FakeBackend : public Backend {
 public:
  explicit FakeBackend(const BackendOptions& options) : options_(options) {}

  DeviceReport device() const override { return {.name = "fake"}; }

  size_t weight_bytes(const Plan&) const override { return 0; }
  std::shared_ptr<const DeviceWeights> upload(const Plan&, const Weights&) override {
    return nullptr;
  }
  size_t workspace_bytes(const Plan&, const Call&) const override {
    return static_cast<size_t>(options_.device);
  }
  std::unique_ptr<Program> compile(Plan plan, std::shared_ptr<const DeviceWeights>,
                                   const Calibration&, const CompileOptions&) override {
    throw ModelNotSupportedError("model " + plan.model);
  }

 private:
  BackendOptions options_;
};

[[maybe_unused]] Backend* make(const BackendOptions& options) {
  FLASHRT_CHECK(options.device < 8, "device ", options.device, " does not exist");
  return new FakeBackend(options);
}

}  // namespace
}  // namespace flashrt

#ifdef FAKE_VERSION
extern "C" __attribute__((visibility("default"))) const flashrt::BackendModule*
flashrt_backend_module() {
  static const flashrt::BackendModule module{.version = FAKE_VERSION, .make = flashrt::make};
  return &module;
}
#endif
