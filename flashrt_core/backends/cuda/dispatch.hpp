// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Dispatch: the one place where the operations of a plan meet kernels. It binds operands to memory,
// chooses the kernel of every linear, and launches calls one by one or, where a kernel does two
// calls at once, in pairs.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/constants.hpp"
#include "backends/cuda/cuda_weights.hpp"
#include "backends/cuda/linear_tuner.hpp"
#include "kernels/attention.cuh"
#include "kernels/linear.cuh"
#include "kernels/projected_attention.cuh"

namespace flashrt::cuda {

// Calls i for which call i + 1 may be done by the same kernel, judged by the plan alone: a linear
// and the glu, qkv_rope, attention or unguided euler_step that alone reads it.
std::vector<bool> joinable_calls(const Plan& plan);

class Dispatch {
 public:
  // Where an operand lies in an iteration of its stage.
  using MatrixOf = std::function<Matrix(Value value, int iteration)>;

  // keep_values: every call runs alone, a linear by the kernel that the pair would use, so that
  // results have the same bits. Only a linear and the attention that reads it have kernels of their
  // own then, which add up in another order.
  Dispatch(const Plan& plan, const CudaWeights& weights, const DeviceInfo& device,
           MatrixOf matrix_of, bool keep_values, LinearTuner& tuner, const Stream& stream);

  // Launches this call, and the next one if runs_with_next(call); in that order callers pass over
  // the second.
  void launch(int call, int iteration, const Launch& launch);
  bool runs_with_next(int call) const { return paired_[call] && !keep_values_; }
  // Whether the first call of a pair writes its result.
  bool keeps_result(int call) const;
  // Linears of the program whose implementation the tuner left open.
  struct OpenLinears {
    std::string key;  // the name that the tuner has for them
    std::vector<int> calls;
    double milliseconds = 0;  // they take about as long in an inference
  };
  std::vector<OpenLinears> open_linears() const;
  void use(const LinearChoice& choice, const std::vector<int>& calls);
  // The kernels that ran last for this call; none if those of the call before did its work.
  const std::vector<std::string>& kernels(int call) const { return kernels_[call]; }
  size_t workspace_bytes() const { return workspace_.size(); }
  size_t constant_bytes() const { return constants_.bytes(); }

 private:
  LinearArgs linear_args(int call, int iteration, bool with_next) const;
  ProjectedAttentionArgs projected_attention_args(int call, int iteration) const;
  LinearArgs patch_linear_args(const PatchEmbed& op, int iteration) const;
  QkvRopeArgs rope_args(const QkvRope& op, int iteration) const;
  AttentionArgs attention_args(int call, int iteration) const;
  const float* vector(const std::string& name) const;
  const int32_t* integer(Value value, int iteration) const;
  bool is_settled(Value number) const;
  const float* number(Value value, int iteration) const;
  int settled_begin(int call) const;
  WeightView next_weight(int call) const;
  bool is_projection(int call) const;  // of a pair with an attention
  size_t choose_linear(int call, const LinearArgs& args, const Stream& stream);
  void choose_linears(const Stream& stream);

  const char* run(const Resize& op, int call, int iteration, const Launch& launch) const;
  const char* run(const PatchEmbed& op, int call, int iteration, const Launch& launch) const;
  const char* run(const TokenEmbed& op, int call, int iteration, const Launch& launch) const;
  const char* run(const AddNorm& op, int call, int iteration, const Launch& launch) const;
  const char* run(const Linear& op, int call, int iteration, const Launch& launch) const;
  const char* run(const QkvRope& op, int call, int iteration, const Launch& launch) const;
  const char* run(const Attention& op, int call, int iteration, const Launch& launch) const;
  const char* run(const Glu& op, int call, int iteration, const Launch& launch) const;
  const char* run(const TimeEmbed& op, int call, int iteration, const Launch& launch) const;
  const char* run(const EulerStep& op, int call, int iteration, const Launch& launch) const;
  const char* run(const Quantize& op, int call, int iteration, const Launch& launch) const;

  const Plan& plan_;
  const CudaWeights& weights_;
  const DeviceInfo& device_;
  const MatrixOf matrix_of_;
  const Constants constants_;
  const bool keep_values_;
  std::vector<bool> paired_;  // per call: a kernel does it together with the next one
  std::vector<std::optional<LinearChoice>> choices_;  // per call: of linears and patch embeddings
  std::vector<std::string> keys_;                     // per call: of linears, in the tuner
  LinearTuner& tuner_;
  DeviceBuffer workspace_;
  std::vector<std::vector<std::string>> kernels_;  // per call
};

}  // namespace flashrt::cuda
