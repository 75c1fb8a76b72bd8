// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "plan/cost.hpp"

#include <algorithm>
#include <string>
#include <type_traits>

namespace flashrt {
namespace {

constexpr double kBitsOfByte = 8;

double bytes_of_rows(const WeightInfo& info, int64_t rows) {
  int64_t scales = 0;
  if (has_scale(held_format(info))) scales = info.scale == WeightScale::kChannel ? rows : 1;
  return static_cast<double>(rows * info.shape.width()) * bits_of(info) / kBitsOfByte +
         static_cast<double>(scales) * static_cast<double>(sizeof(float));
}

class Counter {
 public:
  Counter(const Plan& plan, int64_t length) : plan_(plan), length_(length) {}

  Cost operator()(Call call) {  // a copy: operands() hands out references
    std::visit([&](auto& op) { count(op); }, call.op);
    return cost_;
  }

 private:
  // ---- operands

  int64_t rows(Value value) const {
    const ValueInfo& info = plan_[value];
    return info.rows.length ? info.rows.base + length_ : info.shape.rows();
  }
  double bytes(Value value, int64_t of_rows) const {
    const ValueInfo& info = plan_[value];
    return static_cast<double>(of_rows * info.shape.width()) * bits_of(info) / kBitsOfByte;
  }

  struct Operands {
    Counter& counter;
    void read(std::string_view, Value value) const {
      if (value) counter.cost_.read_bytes += counter.bytes(value, counter.rows(value));
    }
    void write(std::string_view, Value value) const {
      if (value) counter.cost_.written_bytes += counter.bytes(value, counter.rows(value));
    }
  };

  template <class Operation>
  void count_operands(Operation& op) {
    op.operands(Operands{*this});
  }

  // ---- weights

  void weight_rows(const std::string& name, int64_t of_rows) {
    if (name.empty()) return;
    cost_.weight_bytes += bytes_of_rows(plan_.weight(name), of_rows);
  }
  void weight(const std::string& name) {
    if (!name.empty()) weight_rows(name, plan_.weight(name).shape.rows());
  }

  // x W^T.
  void product(Value x, int64_t of_rows, const std::string& name) {
    const WeightInfo& info = plan_.weight(name);
    cost_.flops = 2.0 * static_cast<double>(of_rows) * static_cast<double>(info.shape.elements());
    const DType type = plan_[x].type == DType::kU8 ? info.type : plan_[x].type;
    cost_.product = size_of(type) < size_of(info.type) ? info.type : type;
    weight(name);
  }

  // ---- operations

  template <class Operation>
  void count(Operation& op) {
    count_operands(op);
  }

  void count(PatchEmbed& op) {
    count_operands(op);
    product(op.images, rows(op.y), op.weight);
    weight(op.bias);
    weight(op.position);
  }

  void count(TokenEmbed& op) {
    count_operands(op);
    weight_rows(op.table, rows(op.tokens));
  }

  void count(AddNorm& op) {
    count_operands(op);
    weight(op.weight);
    weight(op.bias);
  }

  void count(Linear& op) {
    count_operands(op);
    product(op.x, rows(op.x), op.weight);
    weight(op.bias);
  }

  void count(QkvRope& op) {
    count_operands(op);
    weight(op.q_norm);
    weight(op.k_norm);
  }

  void count(Attention& op) {
    int64_t keys = 0;
    for (const KeyRange& range : op.ranges) keys += range.count + (range.length ? length_ : 0);
    const Operands operands{*this};
    operands.read("q", op.q);
    operands.write("y", op.y);
    for (const Value cache : {op.k, op.v}) cost_.read_bytes += bytes(cache, keys);
    cost_.product = plan_[op.q].type;
    cost_.flops = 4.0 * static_cast<double>(seen_keys(op)) * op.heads * op.head_dim;
  }

  // Over all queries, the keys that each sees.
  int64_t seen_keys(const Attention& op) const {
    int64_t seen = 0;
    for (int64_t query = 0; query < rows(op.q); ++query) {
      const int64_t all = plan_[op.k].shape.rows();
      int64_t first = 0, last = all;
      if (op.mask == Mask::kCausal) last = query + op.mask_argument + 1;
      if (op.mask == Mask::kBlock) {
        first = query / op.mask_argument * op.mask_argument;
        last = first + op.mask_argument;
      }
      for (const KeyRange& range : op.ranges) {
        const int64_t end = range.begin + range.count + (range.length ? length_ : 0);
        seen += std::max<int64_t>(0, std::min(last, end) - std::max<int64_t>(first, range.begin));
        if (op.mask == Mask::kCausal) last = all;  // of the ranges after the first
      }
    }
    return seen;
  }

  const Plan& plan_;
  const int64_t length_;
  Cost cost_;
};

}  // namespace

double weight_bytes(const Plan& plan) {
  double bytes = 0;
  for (const WeightInfo& info : plan.weights) bytes += bytes_of_rows(info, info.shape.rows());
  return bytes;
}

Cost cost_of(const Plan& plan, const Call& call, int64_t length) {
  return Counter(plan, length)(call);
}

}  // namespace flashrt
