// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// MeasuredProgram: runs a plan whose activations are quantised by calls of their own, and measures
// the scale of each in every run. Everything else is done by the dispatch of the backend. For the
// first row of bench_ladder: no plan of the product measures scales.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string_view>

#include "backends/backend.hpp"
#include "backends/cuda/cuda_weights.hpp"
#include "backends/cuda/dispatch.hpp"
#include "checkpoint/weights.hpp"
#include "plan/memory.hpp"

namespace flashrt::cuda {

class MeasuredProgram {
 public:
  // Every quantize call stands before the one linear that reads it, and nothing else writes e4m3.
  MeasuredProgram(Plan plan, const Weights& weights, const BackendOptions& options);

  // What bench_ladder asks of a Program, which says what they do.
  const Plan& plan() const { return plan_; }
  void write(std::string_view value, std::span<const std::byte> data);
  void read_float(std::string_view value, std::span<float> data) const;  // held in f32
  void run(When when) { run_observed(when, {}); }
  void run_observed(When when, const Observer& observer);
  double time_run(When when) const;  // of an inference: replays the graph
  ProgramCounters counters() const { return {.graph_nodes = graph_.node_count()}; }

 private:
  Matrix matrix_of(Value value, int iteration) const;
  void keep_scales(int quantize_call);

  const Plan plan_;
  const DeviceInfo device_;
  const Stream stream_;
  const CudaWeights weights_;  // its own: linears find measured scales times the weight's in there
  const MemoryPlan memory_;
  const DeviceBuffer arena_, amax_;
  LinearTuner tuner_;
  Dispatch dispatch_;
  std::map<int, DeviceBuffer> weight_scales_;  // per quantize call: of the linear behind it
  Graph graph_;
};

}  // namespace flashrt::cuda
