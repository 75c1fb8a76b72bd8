// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// CpuProgram: a plan bound to one arena in host memory; running it walks the list.
#pragma once

#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "backends/cpu/cpu_weights.hpp"
#include "backends/cpu/kernel.hpp"
#include "plan/memory.hpp"
#include "plan/residency.hpp"

namespace flashrt::cpu {

class CpuProgram : public Program {
 public:
  CpuProgram(Plan plan, std::shared_ptr<const CpuWeights> weights, const Calibration& calibration,
             std::shared_ptr<ThreadPool> pool, const CompileOptions& options);

  const Plan& plan() const override { return plan_; }
  size_t arena_bytes() const override { return memory_.arena_bytes; }

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
  std::vector<std::string> kernels(int call) const override;
  ProgramCounters counters() const override { return {}; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };

  void bind_calls();
  Operand operand(Value value) const;
  std::shared_ptr<const RopeTable> rope_table(double base, int head_dim, int64_t positions);

  void poison(When when);
  void execute(int call, int iteration);
  // The view of a value whose memory still holds it; Error otherwise.
  View held(std::string_view name) const;

  const Plan plan_;
  const std::shared_ptr<const CpuWeights> weights_;
  const std::shared_ptr<ThreadPool> pool_;
  const MemoryPlan memory_;
  const bool is_poisoned_;
  const bool keeps_values_;
  std::unique_ptr<std::byte, Free> arena_;

  std::vector<std::vector<float>> scales_;  // per storage value; empty unless e4m3
  std::vector<std::pair<std::pair<double, int>, std::shared_ptr<const RopeTable>>>
      rope_tables_;              // by base, head
  std::vector<Kernel> kernels_;  // per call

  Residency residency_;
};

}  // namespace flashrt::cpu
