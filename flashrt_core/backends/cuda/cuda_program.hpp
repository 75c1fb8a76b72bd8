// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// CudaProgram: a plan bound to one arena in device memory. What runs once per prompt and once per
// observation is captured in one graph each when the program is compiled; running replays them.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "backends/backend.hpp"
#include "backends/cuda/cuda_weights.hpp"
#include "backends/cuda/device.hpp"
#include "backends/cuda/dispatch.hpp"
#include "plan/memory.hpp"
#include "plan/residency.hpp"

namespace flashrt::cuda {

// What the programs of one backend share.
struct Context {
  BackendOptions options;
  DeviceInfo device;
  std::unique_ptr<LinearTuner> tuner;
};

class CudaProgram : public Program {
 public:
  CudaProgram(Plan plan, std::shared_ptr<const CudaWeights> weights, const Calibration& calibration,
              std::shared_ptr<Context> context, const CompileOptions& options);

  const Plan& plan() const override { return plan_; }
  size_t arena_bytes() const override;

  // Copied to pinned memory at once, and from there to the device while the caller goes on.
  void write(std::string_view value, std::span<const std::byte> data) override;
  void write_part(std::string_view value, size_t offset, std::span<const std::byte> data) override;
  std::span<std::byte> input_buffer(std::string_view input) override;
  void read(std::string_view value, std::span<std::byte> data) const override;
  void read_float(std::string_view value, std::span<float> data) const override;

  void run(When when) override;
  void run_observed(When when, const Observer& observer) override;
  void run_until(int call, int iteration) override;

  void write_float(std::string_view value, int iteration, std::span<const float> data) override;
  void run_call(int call, int iteration) override;

  double time_run(When when) override;
  std::vector<double> time_stages(When when) override;
  std::vector<double> time_calls(When when) override;
  std::vector<std::string> kernels(int call) const override { return dispatch_->kernels(call); }
  ProgramCounters counters() const override;

 private:
  struct Staged {
    size_t offset = 0;  // in the pinned memory
    size_t bytes = 0;
    size_t pending_begin = 0, pending_end = 0;  // of which a copy may still be on its way
  };

  void place_inputs();
  void clear_arena();
  void warm_up();
  void fill_lengths();
  double try_inference();
  void decide_linears();
  void capture();
  Graph capture_run(When when);
  double median_time(const Graph& graph) const;
  Matrix matrix_of(Value value, int iteration) const;
  // Valid rows by the lengths as they were last written; Error if they exceed a capacity.
  int64_t valid_rows(const ValueInfo& info) const;
  void use_device() const;
  void synchronize() const;
  // Ready to run what runs at `when`: lengths are valid, memory is poisoned if it is to be.
  void prepare(When when);
  void after_run(When when);
  // Milliseconds on the device.
  double timed(const std::function<void()>& body) const;

  void poison(When when);
  // Calls body(call, iteration) for every launch of a run, until it returns false.
  void for_each_launch(When when, const std::function<bool(int call, int iteration)>& body) const;
  void launch(int call, int iteration, bool is_first);
  void launch_all(When when);
  void ran(int call, int iteration);

  const Plan plan_;
  const std::shared_ptr<const CudaWeights> weights_;
  const std::shared_ptr<Context> context_;
  const bool is_poisoned_;
  const bool keeps_values_;
  const std::vector<std::vector<float>> scales_;  // per storage value; empty unless e4m3
  const MemoryPlan memory_;
  Residency residency_;

  Stream stream_;
  DeviceBuffer arena_;
  PinnedBuffer staging_;
  mutable std::vector<Staged> staged_;  // per value: of inputs and states
  PinnedBuffer results_;                // what small reads pass through
  std::optional<Dispatch> dispatch_;
  std::vector<Graph> graphs_;        // per When; none for kLoad
  std::vector<Graph> stage_graphs_;  // per stage, made when they are timed
  int64_t captures_ = 0;
  double fastest_capture_ms_ = 0, slowest_capture_ms_ = 0;
};

}  // namespace flashrt::cuda
