// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Compiles a plan for CUDA with weights from memory instead of a checkpoint.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "backends/backend.hpp"
#include "backends/cuda/cuda_backend.hpp"
#include "backends/cuda/cuda_weights.hpp"
#include "compile_cpu.hpp"
#include "cuda_fixture.hpp"

namespace flashrt::cuda {

inline std::shared_ptr<const DeviceWeights> cuda_weights(const Plan& plan,
                                                         const HostWeights& weights) {
  return std::make_shared<CudaWeights>(
      plan, [&](std::string_view name) { return weights.at(std::string(name)); },
      [](std::string_view) { return std::nullopt; }, *test_device().info);
}

inline std::unique_ptr<Program> compile_cuda(Backend& backend, const Plan& plan,
                                             const HostWeights& weights, const Scales& scales,
                                             const CompileOptions& options = {.poison = true}) {
  Calibration calibration;
  for (const auto& [site, values] : scales) calibration.set_scales(site, values);
  return backend.compile(plan, cuda_weights(plan, weights), calibration, options);
}

}  // namespace flashrt::cuda
