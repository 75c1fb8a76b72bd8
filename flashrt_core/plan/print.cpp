// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "plan/print.hpp"

#include <set>
#include <sstream>

namespace flashrt {
namespace {

// "[{10 + prompt_length of 210}, 64]" for a dynamic first extent.
std::string shape_text(const Plan& plan, const ValueInfo& info) {
  if (!info.rows.length) return text(info.shape);
  std::ostringstream out;
  out << "[{" << info.rows.base << " + " << plan[info.rows.length].name << " of "
      << info.rows.capacity << '}';
  for (size_t axis = 1; axis < info.shape.rank(); ++axis) out << ", " << info.shape[axis];
  out << ']';
  return out.str();
}

struct OperandPrinter {
  const Plan& plan;
  std::ostringstream& reads;
  std::ostringstream& writes;

  void read(std::string_view name, Value& value) const {
    if (value) reads << ' ' << name << '=' << plan[value].name;
  }
  void write(std::string_view name, Value& value) const {
    if (!value) return;
    const ValueInfo& info = plan[value];
    writes << ' ' << name << '=' << info.name << ' ' << shape_text(plan, info) << ' '
           << type_name(info);
  }
};

void print_weight(const Plan& plan, std::ostringstream& out, std::string_view role,
                  const std::string& name) {
  if (name.empty()) return;
  const WeightInfo& info = plan.weight(name);
  out << ' ' << role << '=' << name << ' ' << type_name(info);
  if (info.scale == WeightScale::kChannel) out << " per channel";
}

std::string activation_text(Activation activation) {
  return activation == Activation::kNone ? "" : text(' ', name_of(activation));
}

// What a call carries besides its operands.
struct AttributePrinter {
  const Plan& plan;
  std::ostringstream& out;

  void operator()(const Resize&) const {}
  void operator()(const PatchEmbed& op) const {
    out << " patch " << op.patch;
    if (op.group > 1) out << " in squares of " << op.group << 'x' << op.group;
    print_weight(plan, out, "weight", op.weight);
    print_weight(plan, out, "position", op.position);
  }
  void operator()(const TokenEmbed& op) const { print_weight(plan, out, "table", op.table); }
  void operator()(const AddNorm& op) const {
    out << (op.norm == Norm::kRms ? " rms" : " layer") << " eps " << op.eps;
    print_weight(plan, out, "weight", op.weight);
    print_weight(plan, out, "bias", op.bias);
  }
  void operator()(const Linear& op) const {
    out << activation_text(op.activation);
    print_weight(plan, out, "weight", op.weight);
    print_weight(plan, out, "bias", op.bias);
  }
  void operator()(const QkvRope& op) const {
    out << " heads " << op.heads << '/' << op.kv_heads << 'x' << op.head_dim << " rope "
        << op.rope_base << " from " << op.position_start;
    print_weight(plan, out, "q_norm", op.q_norm);
    print_weight(plan, out, "k_norm", op.k_norm);
  }
  void operator()(const Attention& op) const {
    out << " heads " << op.heads << '/' << op.kv_heads << 'x' << op.head_dim;
    if (op.mask == Mask::kCausal) out << " causal " << op.mask_argument;
    if (op.mask == Mask::kBlock) out << " block " << op.mask_argument;
    for (const KeyRange& range : op.ranges) {
      out << " keys [" << range.begin << ", +" << range.count;
      if (range.length) out << " + " << plan[range.length].name;
      out << ')';
    }
  }
  void operator()(const Glu& op) const { out << activation_text(op.activation); }
  void operator()(const TimeEmbed& op) const {
    out << " period " << op.min_period << " .. " << op.max_period;
  }
  void operator()(const EulerStep& op) const { out << " step " << op.step; }
  void operator()(const Quantize&) const {}
};

}  // namespace

std::string print(const Plan& plan) {
  std::ostringstream out;
  out << "plan " << plan.model << '\n';
  std::set<int> written;
  for (const Call& call : plan.calls) {
    for_each_write(call, [&](Value value) { written.insert(value.id); });
  }
  for (size_t id = 0; id < plan.values.size(); ++id) {
    const ValueInfo& info = plan.values[id];
    if (info.kind == Kind::kInput || info.kind == Kind::kState) {
      out << (info.kind == Kind::kInput ? "input " : "state ") << info.name << ' '
          << shape_text(plan, info) << ' ' << type_name(info) << '\n';
    } else if (info.kind == Kind::kView && plan[info.storage].kind == Kind::kLocal &&
               written.contains(id)) {
      out << "place " << info.name << " in " << plan[info.storage].name << " at row "
          << info.offset / info.row_stride << '\n';
    }
  }
  for (const Stage& stage : plan.stages) {
    out << "stage " << stage.name << " (" << name_of(stage.when);
    if (stage.repeat > 1) out << ", " << stage.repeat << " times";
    out << ")\n";
    for (int index = stage.first; index < stage.last; ++index) {
      Call call = plan.calls[index];
      std::ostringstream reads, writes;
      std::visit([&](auto& op) { op.operands(OperandPrinter{plan, reads, writes}); }, call.op);
      out << "  " << call.name << " = " << name_of(call.op) << reads.str();
      std::visit(AttributePrinter{plan, out}, call.op);
      out << " ->" << writes.str() << '\n';
    }
  }
  return out.str();
}

}  // namespace flashrt
