// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "quant/plan_digest.hpp"

#include <iomanip>
#include <set>
#include <span>
#include <sstream>

#include "base/xxh64.hpp"

namespace flashrt {
namespace {

struct Writer {
  const Plan& plan;
  const Call& call;
  std::ostringstream& out;

  void weight(const std::string& name) const {
    if (!name.empty()) out << ' ' << name << ' ' << plan.weight(name).shape;
  }
  std::ostringstream& begin() const {
    out << '\n' << call.name << ' ' << name_of(call.op);
    return out;
  }

  // Pictures, prompts, times and the sampler come in many ways; their values keep their meaning.
  template <class Operation>
  void operator()(const Operation&) const {}

  void operator()(const Linear& op) const {
    begin() << ' ' << name_of(op.activation);
    weight(op.weight);
    weight(op.bias);
  }
  void operator()(const AddNorm& op) const {
    begin() << (op.norm == Norm::kRms ? " rms " : " layer ") << op.eps;
    weight(op.weight);
    weight(op.bias);
  }
  void operator()(const QkvRope& op) const {
    begin() << ' ' << op.heads << ' ' << op.kv_heads << ' ' << op.head_dim << ' ' << op.rope_base;
    weight(op.q_norm);
    weight(op.k_norm);
  }
  void operator()(const Attention& op) const {
    begin() << ' ' << op.heads << ' ' << op.kv_heads << ' ' << op.head_dim << ' ' << op.scale << ' '
            << static_cast<int>(op.mask);
  }
  void operator()(const Glu& op) const { begin() << ' ' << name_of(op.activation); }
};

}  // namespace

std::string plan_digest(const Plan& plan) {
  std::ostringstream layers;
  layers << plan.model;
  for (const Stage& stage : plan.stages) {
    std::set<std::string> linears;
    for (int index = stage.first; index < stage.last; ++index) {
      const Call& call = plan.calls[index];
      // The same layer on other rows, of which there may be any number.
      const auto* linear = std::get_if<Linear>(&call.op);
      if (linear && !linears.insert(linear->weight).second) continue;
      std::visit(Writer{plan, call, layers}, call.op);
    }
  }
  std::ostringstream digest;
  digest << std::hex << std::setw(16) << std::setfill('0')
         << xxh64(std::as_bytes(std::span(layers.view())));
  return digest.str();
}

}  // namespace flashrt
