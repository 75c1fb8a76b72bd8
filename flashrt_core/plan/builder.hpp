// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// PlanBuilder: the vocabulary a model is written in. It records calls, infers shapes and checks
// them.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "plan/plan.hpp"

namespace flashrt {

// A residual with a branch output that is not yet added to it: the next add_norm does that.
struct Stream {
  Value residual;
  Value delta;
  Value gate;            // multiplies delta, optional
  Value committed_gate;  // the same for committed rows
};

// The result of add_norm: the updated residual and its norm.
struct Normed {
  Value residual;
  Value y;
};

// The adaptive operands of one norm, [1, D] each. The gate belongs to the branch that the norm
// feeds.
struct Style {
  Value scale, shift, gate;
};

struct NormOptions {
  Norm norm = Norm::kRms;
  float eps = 1e-6f;
  std::string weight, bias;
  Style style;            // adaptive norm, optional
  Style committed_style;  // of the rows below committed_rows, optional
  Value committed_rows;
};

struct PatchOptions {
  int group = 1;
  Value positions;
};

struct LinearOptions {
  bool bias = false;
  Value shift;
  Activation activation = Activation::kNone;
  Value residual;
};

struct AttentionOptions {
  int heads = 0, kv_heads = 0, head_dim = 0;
  Mask mask = Mask::kNone;
  int mask_argument = 0;
  std::vector<KeyRange> ranges;
};

struct QkvOptions {
  int heads = 0, kv_heads = 0, head_dim = 0;
  double rope_base = 0;
  int position_start = 0;
  Value position;
  std::string q_norm, k_norm;
  float eps = 1e-6f;
};

class PlanBuilder {
 public:
  explicit PlanBuilder(std::string model);

  Value input(std::string name, Shape shape, DType type);
  // A first extent of base + *length valid rows out of capacity.
  Value input(std::string name, Rows rows, std::vector<int64_t> row_shape, DType type);
  Value state(std::string name, Shape shape, DType type = DType::kF32);

  const Shape& shape(Value value) const { return plan_[value].shape; }

  // Calls inside body belong to the stage. repeat > 1: the body runs that often, at_step moves
  // along.
  void stage(std::string name, When when, int repeat, const std::function<void()>& body);

  // Parts of a value. They cost nothing at run time.
  Value rows(Value value, int64_t begin, int64_t count);
  Value rows(Value value, int64_t begin, Rows rows);  // dynamic count
  Value columns(Value value, int64_t begin, int64_t count);
  // [T, D] as [T / count, count * D]: count rows side by side.
  Value merge_rows(Value value, int64_t count);
  // Row k of value in iteration k of the repeated stage.
  Value at_step(Value value);

  // One value whose row ranges are the given values, in order. Launches nothing: the parts are
  // written in place. Refused: parts that are inputs, states, views, or already placed elsewhere.
  // Only the last part may be dynamic.
  Value concat(std::string name, const std::vector<Value>& parts);

  // Operations, named "<stage>.<name>". Shapes are inferred and checked; an Error names the call
  // and both shapes.
  // Images [N, size, size, 3] of this type, u8 or f32.
  Value resize(std::string name, Value frames, Value descriptors, int size, DType type);
  // Positions are a weight [T, D], or a value [N*T, D] if one is given.
  Value patch_embed(std::string name, Value images, std::string weight, int width, int patch,
                    const PatchOptions& options = {});
  Value token_embed(std::string name, Value tokens, std::string table, int vocabulary, int width);
  Normed add_norm(std::string name, Stream stream, const NormOptions& options);
  Value linear(std::string name, Value x, std::string weight, int64_t width,
               const LinearOptions& options = {});
  // Writes k and v into rows of the cache; returns q, unset if heads is 0.
  Value qkv_rope(std::string name, Value qkv, Value k, Value v, const QkvOptions& options);
  Value attention(std::string name, Value q, Value k, Value v, const AttentionOptions& options);
  Value glu(std::string name, Value gate_up, Activation activation);
  Value time_embed(std::string name, Value times, int64_t width, double min_period,
                   double max_period);
  void euler_step(std::string name, EulerStep operands);

  // Checks that every local value is written before it is read, and returns the plan.
  Plan finish() &&;

 private:
  Value add_value(ValueInfo info);
  Value add_local(std::string name, Rows rows, std::vector<int64_t> row_shape);
  Value add_view(Value of, std::string name, Shape shape, Rows rows, int64_t offset,
                 int64_t row_stride, int64_t step_stride);
  void add_call(std::string name, Op op);
  void use_weight(const std::string& name, Shape shape);
  std::string scoped(const std::string& name) const;

  Plan plan_;
  std::unordered_map<std::string, Value> by_name_;
  bool in_stage_ = false;
};

}  // namespace flashrt
