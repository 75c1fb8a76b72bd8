// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Compiles a plan for the CPU with weights from memory instead of a checkpoint.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "backends/cpu/cpu_weights.hpp"
#include "quant/calibration.hpp"

namespace flashrt {

using HostWeights = std::map<std::string, HostTensor>;
using Scales = std::map<std::string, std::vector<float>>;

inline std::shared_ptr<const DeviceWeights> cpu_weights(const Plan& plan,
                                                        const HostWeights& weights) {
  ThreadPool pool(1);
  return std::make_shared<cpu::CpuWeights>(
      plan, [&](std::string_view name) { return weights.at(std::string(name)); }, pool);
}

inline std::unique_ptr<Program> compile_cpu(const Plan& plan, const HostWeights& weights,
                                            const Scales& scales, int threads = 2,
                                            const CompileOptions& options = {.poison = true}) {
  Calibration calibration;
  for (const auto& [site, values] : scales) calibration.set_scales(site, values);
  return make_cpu_backend(threads)->compile(plan, cpu_weights(plan, weights), calibration, options);
}

}  // namespace flashrt
