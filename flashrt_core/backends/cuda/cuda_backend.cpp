// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "backends/cuda/cuda_backend.hpp"

#include <algorithm>

#include "backends/cuda/cuda_program.hpp"
#include "backends/module.hpp"
#include "base/host_memory.hpp"
#include "plan/checks.hpp"

namespace flashrt::cuda {
namespace {

size_t aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

class CudaBackend : public Backend {
 public:
  explicit CudaBackend(const BackendOptions& options) : context_(std::make_shared<Context>()) {
    context_->options = options;
    context_->device = query_device(options.device);
    context_->device.is_specialised = options.specialised_kernels;
    context_->tuner = std::make_unique<LinearTuner>(context_->device, options);
  }

  DeviceReport device() const override {
    use_device();
    DeviceReport report{.name = context_->device.name,
                        .versions = text("driver ", driver_version(), ", CUDA runtime ",
                                         CUDART_VERSION, ", ", context_->tuner->library_version())};
    check(cudaMemGetInfo(&report.free_bytes, &report.total_bytes), "cudaMemGetInfo");
    // Where the memory is that of the host, CUDA does not count what the system would give up.
    if (context_->device.is_integrated)
      report.free_bytes = std::max(report.free_bytes, host_memory().available_bytes);
    return report;
  }

  void check_plan(const Plan& plan) const override {
    check_not_emulated(plan, "the CUDA backend does not run it, the CPU backend emulates it");
  }

  size_t weight_bytes(const Plan& plan) const override { return CudaWeights::bytes_for(plan); }

  std::shared_ptr<const DeviceWeights> upload(const Plan& plan, const Weights& weights) override {
    check_plan(plan);
    use_device();
    return std::make_shared<CudaWeights>(
        plan, [&](std::string_view name) { return weights.load(name); },
        [&](std::string_view name) { return weights.random_tensor(name); }, context_->device,
        [&](std::string_view name) { return weights.packed_tensor(name); });
  }

  // An estimate for describing a plan: a product in float32 that is finished by another kernel.
  // Which kernel runs, and what the library asks for beside it, is decided when a program is
  // compiled; programs have one workspace for all calls, outside the arena.
  size_t workspace_bytes(const Plan& plan, const Call& call) const override {
    const auto product = [&](Value y) { return plan[y].shape.elements() * sizeof(float); };
    if (const auto* op = std::get_if<Linear>(&call.op)) return product(op->y);
    if (const auto* op = std::get_if<PatchEmbed>(&call.op)) {
      const WeightInfo& weight = plan.weight(op->weight);
      const int64_t width =
          aligned(weight.shape.width() * sizeof(float));  // at most, with its padding
      return product(op->y) + plan[op->y].shape.rows() * width;
    }
    return 0;
  }

  std::unique_ptr<Program> compile(Plan plan, std::shared_ptr<const DeviceWeights> weights,
                                   const Calibration& calibration,
                                   const CompileOptions& options) override {
    check_plan(plan);
    use_device();
    auto cuda_weights = std::dynamic_pointer_cast<const CudaWeights>(weights);
    FLASHRT_CHECK(cuda_weights, "compile: the weights were uploaded by another backend");
    return std::make_unique<CudaProgram>(std::move(plan), std::move(cuda_weights), calibration,
                                         context_, options);
  }

 private:
  void use_device() const { check(cudaSetDevice(context_->device.index), "cudaSetDevice"); }

  std::shared_ptr<Context> context_;
};

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(const BackendOptions& options) {
  return std::make_unique<CudaBackend>(options);
}

}  // namespace flashrt::cuda
