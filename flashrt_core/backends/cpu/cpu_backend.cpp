// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// The CPU backend: the reference, and what runs where there is no GPU.

#include <fstream>

#include "backends/backend.hpp"
#include "backends/cpu/cpu_program.hpp"
#include "backends/cpu/cpu_weights.hpp"
#include "backends/cpu/gemm.hpp"
#include "base/host_memory.hpp"
#include "checkpoint/weights.hpp"

namespace flashrt {
namespace {

// As the kernel of the system calls it, where it does.
std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (const size_t colon = line.find(": "); line.starts_with("model name") && colon != line.npos)
      return line.substr(colon + 2);
  }
  return "CPU";
}

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(int threads) : pool_(std::make_shared<ThreadPool>(threads)) {
    cpu::use_single_threaded_blas();
  }

  DeviceReport device() const override {
    const HostMemory memory = host_memory();
    return {.name = text(processor_name(), ", ", pool_->threads(), " threads"),
            .versions = cpu::blas_version(),
            .total_bytes = memory.total_bytes,
            .free_bytes = memory.available_bytes};
  }

  size_t weight_bytes(const Plan& plan) const override { return cpu::CpuWeights::bytes_for(plan); }

  std::shared_ptr<const DeviceWeights> upload(const Plan& plan, const Weights& weights) override {
    return loaded(plan, weights, nullptr);
  }

  std::shared_ptr<const DeviceWeights> upload_like(const Plan& plan, const Weights& weights,
                                                   const DeviceWeights& like) override {
    return loaded(plan, weights, &own(like));
  }

  size_t shared_bytes(const Plan& plan, const DeviceWeights& like) const override {
    return own(like).shared_bytes(plan);
  }

  size_t workspace_bytes(const Plan& plan, const Call& call) const override {
    return std::visit(
        [&](const auto& op) { return cpu::workspace_bytes(op, plan, pool_->threads()); }, call.op);
  }

  std::unique_ptr<Program> compile(Plan plan, std::shared_ptr<const DeviceWeights> weights,
                                   const Calibration& calibration,
                                   const CompileOptions& options) override {
    auto cpu_weights = std::dynamic_pointer_cast<const cpu::CpuWeights>(std::move(weights));
    FLASHRT_CHECK(cpu_weights, "plan ", plan.model,
                  ": the weights were uploaded by another backend");
    return std::make_unique<cpu::CpuProgram>(std::move(plan), std::move(cpu_weights), calibration,
                                             pool_, options);
  }

 private:
  static const cpu::CpuWeights& own(const DeviceWeights& weights) {
    const auto* own = dynamic_cast<const cpu::CpuWeights*>(&weights);
    FLASHRT_CHECK(own, "the weights to share were uploaded by another backend");
    return *own;
  }

  std::shared_ptr<const DeviceWeights> loaded(const Plan& plan, const Weights& weights,
                                              const cpu::CpuWeights* like) {
    return std::make_shared<cpu::CpuWeights>(
        plan, [&](std::string_view weight) { return weights.load(weight); }, *pool_,
        [&](std::string_view weight) { return weights.packed_tensor(weight); }, like);
  }

  std::shared_ptr<ThreadPool> pool_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(int threads) {
  return std::make_unique<CpuBackend>(threads);
}

}  // namespace flashrt
