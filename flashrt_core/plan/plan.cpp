// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "plan/plan.hpp"

#include <algorithm>

#include "base/nearest.hpp"

namespace flashrt {
namespace {

struct ReadVisitor {
  const std::function<void(Value&)>& visit;
  void read(std::string_view, Value& value) const {
    if (value) visit(value);
  }
  void write(std::string_view, Value&) const {}
};

struct WriteVisitor {
  const std::function<void(Value&)>& visit;
  void read(std::string_view, Value&) const {}
  void write(std::string_view, Value& value) const {
    if (value) visit(value);
  }
};

}  // namespace

std::string_view name_of(const Op& op) {
  static constexpr std::string_view kNames[] = {
      "resize",    "patch_embed", "token_embed", "add_norm",   "linear",  "qkv_rope",
      "attention", "glu",         "time_embed",  "euler_step", "quantize"};
  static_assert(std::size(kNames) == std::variant_size_v<Op>);
  return kNames[op.index()];
}

std::string_view name_of(Activation activation) {
  switch (activation) {
    case Activation::kNone:
      return "none";
    case Activation::kGeluTanh:
      return "gelu_tanh";
    case Activation::kGeluErf:
      return "gelu_erf";
    case Activation::kSilu:
      return "silu";
    case Activation::kRelu:
      return "relu";
  }
  return "?";
}

bool takes_weight_scale(NumberFormat format) { return has_scale(format) && block_of(format) == 1; }

std::string_view describe(WeightScale scale) {
  switch (scale) {
    case WeightScale::kNone:
      return "no scale";
    case WeightScale::kTensor:
      return "one scale";
    case WeightScale::kChannel:
      return "a scale per channel";
  }
  return "?";
}

namespace {

template <class Info>
std::string_view name_of_type(const Info& info) {
  return is_emulated(info) ? name_of(held_format(info)) : name_of(info.type);
}

template <class Info>
double bits(const Info& info) {
  constexpr double kByte = 8;
  return is_emulated(info) ? bits_of(held_format(info))
                           : kByte * static_cast<double>(size_of(info.type));
}

}  // namespace

NumberFormat held_format(const ValueInfo& info) {
  if (info.type == DType::kE4M3) return NumberFormat::kE4M3;
  return info.holds_format ? info.format : NumberFormat::kNone;
}

NumberFormat held_format(const WeightInfo& info) {
  return info.type == DType::kE4M3 ? NumberFormat::kE4M3 : info.format;
}

bool is_emulated(const ValueInfo& info) {
  return info.type != DType::kE4M3 && held_format(info) != NumberFormat::kNone;
}

bool is_emulated(const WeightInfo& info) {
  return info.type != DType::kE4M3 && held_format(info) != NumberFormat::kNone;
}

std::string_view type_name(const ValueInfo& info) { return name_of_type(info); }
std::string_view type_name(const WeightInfo& info) { return name_of_type(info); }

double bits_of(const ValueInfo& info) { return bits(info); }
double bits_of(const WeightInfo& info) { return bits(info); }

std::string_view name_of(When when) {
  switch (when) {
    case When::kLoad:
      return "load";
    case When::kPrompt:
      return "prompt";
    case When::kInfer:
      return "infer";
  }
  return "?";
}

Value Plan::storage_of(Value value) const {
  const ValueInfo& info = (*this)[value];
  return info.kind == Kind::kView ? info.storage : value;
}

Value Plan::find(std::string_view name) const {
  for (size_t id = 0; id < values.size(); ++id) {
    if (values[id].name == name) return Value{static_cast<int>(id)};
  }
  std::vector<std::string> known;
  for (const ValueInfo& info : values) known.push_back(info.name);
  throw Error(text("plan ", model, " has no value '", name, "'; nearest: ", nearest(name, known)));
}

const WeightInfo& Plan::weight(std::string_view name) const {
  for (const WeightInfo& info : weights) {
    if (info.name == name) return info;
  }
  throw Error(text("plan ", model, " reads no weight '", name, "'"));
}

const Stage& Plan::stage_of(int call) const {
  for (const Stage& stage : stages) {
    if (call >= stage.first && call < stage.last) return stage;
  }
  throw Error(text("plan ", model, ": call ", call, " is in no stage; the plan has ", calls.size(),
                   " calls"));
}

void for_each_read(Call& call, const std::function<void(Value&)>& visit) {
  std::visit([&](auto& op) { op.operands(ReadVisitor{visit}); }, call.op);
}

void for_each_write(Call& call, const std::function<void(Value&)>& visit) {
  std::visit([&](auto& op) { op.operands(WriteVisitor{visit}); }, call.op);
}

// The visitors below get copies of the handles, so the call stays as it is.
void for_each_read(const Call& call, const std::function<void(Value)>& visit) {
  for_each_read(const_cast<Call&>(call), [&](Value& value) { visit(value); });
}

void for_each_write(const Call& call, const std::function<void(Value)>& visit) {
  for_each_write(const_cast<Call&>(call), [&](Value& value) { visit(value); });
}

}  // namespace flashrt
