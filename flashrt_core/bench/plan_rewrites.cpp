// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "bench/plan_rewrites.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace flashrt {
namespace {

Value add_value(Plan& plan, ValueInfo info) {
  plan.values.push_back(std::move(info));
  return {static_cast<int>(plan.values.size()) - 1};
}

// Puts in the place of every call the ones that `expand` makes of it.
void replace_calls(Plan& plan, const std::function<std::vector<Call>(const Call&)>& expand) {
  std::vector<Call> calls;
  for (Stage& stage : plan.stages) {
    const auto first = static_cast<int>(calls.size());
    for (int index = stage.first; index < stage.last; ++index) {
      for (Call& call : expand(plan.calls[index])) calls.push_back(std::move(call));
    }
    stage.first = first;
    stage.last = static_cast<int>(calls.size());
  }
  plan.calls = std::move(calls);
}

bool has_parts(const Plan& plan, Value value) {
  return std::any_of(plan.values.begin(), plan.values.end(), [&](const ValueInfo& info) {
    return info.kind == Kind::kView && info.storage == value;
  });
}

// Makes the value the first columns of a new one, whose rows are longer by so many elements.
void place_in_wider(Plan& plan, Value value, int64_t columns) {
  ValueInfo whole = plan[value];
  FLASHRT_CHECK(whole.kind == Kind::kLocal && whole.shape.rank() == 2 && !has_parts(plan, value),
                "place_in_wider: ", whole.name, " ", whole.shape,
                " is an input, a state or a part, or has parts");
  const int64_t width = whole.shape.width() + columns;
  whole.name += ".wider";
  whole.shape = {whole.shape.rows(), width};
  const Value storage = add_value(plan, std::move(whole));
  ValueInfo& info = plan[value];
  info.kind = Kind::kView;
  info.storage = storage;
  info.row_stride = width;
}

}  // namespace

void quantize_apart(Plan& plan, DType type, const std::function<bool(const Op&)>& is_producer) {
  std::map<int, std::string> sites;  // by storage value
  for (const Call& call : plan.calls) {
    if (std::holds_alternative<Quantize>(call.op) || !is_producer(call.op)) continue;
    for_each_write(call, [&](Value value) {
      const Value storage = plan.storage_of(value);
      if (plan[storage].type == DType::kE4M3) sites.emplace(storage.id, plan[storage].site);
    });
  }
  for (size_t id = 0; id < plan.values.size(); ++id) {
    ValueInfo& info = plan.values[id];
    if (!sites.contains(plan.storage_of({static_cast<int>(id)}).id)) continue;
    info.type = type;
    info.site.clear();
  }
  replace_calls(plan, [&](Call call) -> std::vector<Call> {
    auto* linear = std::get_if<Linear>(&call.op);
    const auto site = linear ? sites.find(plan.storage_of(linear->x).id) : sites.end();
    if (site == sites.end()) return {std::move(call)};
    const ValueInfo x = plan[linear->x];
    const Quantize quantize{.x = linear->x,
                            .y = add_value(plan, {.name = call.name + ".quantized",
                                                  .type = DType::kE4M3,
                                                  .shape = x.shape,
                                                  .rows = x.rows,
                                                  .site = site->second})};
    linear->x = quantize.y;
    return {{call.name + ".quantize", quantize}, std::move(call)};
  });
}

void add_apart(Plan& plan) {
  replace_calls(plan, [&](const Call& call) -> std::vector<Call> {
    const auto* op = std::get_if<AddNorm>(&call.op);
    if (!op || !op->delta) return {call};
    AddNorm add = *op, norm = *op;
    ValueInfo unread = plan[op->residual_out];
    unread.name = call.name + ".unread";
    add.y = add_value(plan, std::move(unread));
    norm.residual = op->residual_out;
    norm.residual_out = norm.delta = norm.gate = norm.committed_gate = {};
    return {{call.name + ".add", add}, {call.name, norm}};
  });
}

namespace {

// The widths of what a linear computes at once, by the call that takes it apart; empty if none
// does.
std::vector<int64_t> merged_widths(const Plan& plan, Value y) {
  for (const Call& call : plan.calls) {
    if (const auto* op = std::get_if<Glu>(&call.op); op && op->gate_up == y) {
      const int64_t half = plan[y].shape.width() / 2;
      return {half, half};
    }
    if (const auto* op = std::get_if<QkvRope>(&call.op); op && op->qkv == y) {
      const int64_t q = int64_t{op->heads} * op->head_dim,
                    kv = int64_t{op->kv_heads} * op->head_dim;
      if (q == 0) return {kv, kv};
      return {q, kv, kv};
    }
    const auto* op = std::get_if<Attention>(&call.op);
    if (op && op->q != y && plan.storage_of(op->q) == y && plan.storage_of(op->k) == y) {
      const int64_t kv = plan[op->k].shape.width();
      return {plan[op->q].shape.width(), kv, kv};
    }
  }
  return {};
}

}  // namespace

void split_linears(Plan& plan, DerivedWeights& derived) {
  std::map<std::string, std::vector<std::string>> rows_of;  // whole weight -> its parts
  const auto part_of = [&](const std::string& whole, int64_t begin, int64_t rows) -> std::string {
    if (whole.empty()) return "";
    const std::string name = text(whole, "[", begin, ":", begin + rows, "]");
    derived.emplace(name, DerivedWeight{.whole = whole, .begin = begin, .rows = rows});
    rows_of[whole].push_back(name);
    return name;
  };
  replace_calls(plan, [&](const Call& call) -> std::vector<Call> {
    const auto* op = std::get_if<Linear>(&call.op);
    const std::vector<int64_t> widths = op ? merged_widths(plan, op->y) : std::vector<int64_t>{};
    if (widths.empty()) return {call};
    FLASHRT_CHECK(!op->shift && !op->residual && plan[op->y].kind == Kind::kLocal,
                  "split_linears: ", call.name,
                  " has a shift or a residual, or writes a part of a value");
    const ValueInfo whole = plan[op->y];
    std::vector<Call> parts;
    int64_t begin = 0;
    for (const int64_t width : widths) {
      const std::string suffix = text("[", begin, ":", begin + width, "]");
      Linear part = *op;
      part.weight = part_of(op->weight, begin, width);
      part.bias = part_of(op->bias, begin, width);
      ValueInfo columns = whole;
      columns.name = call.name + suffix;
      columns.kind = Kind::kView;
      columns.shape = {whole.shape.rows(), width};
      columns.storage = op->y;
      columns.offset = begin;
      columns.row_stride = whole.shape.width();
      part.y = add_value(plan, std::move(columns));
      parts.push_back({call.name + suffix, part});
      begin += width;
    }
    return parts;
  });
  std::vector<WeightInfo> weights;
  for (const WeightInfo& info : plan.weights) {
    const auto parts = rows_of.find(info.name);
    if (parts == rows_of.end()) {
      weights.push_back(info);
      continue;
    }
    for (const std::string& name : parts->second) {
      std::vector<int64_t> extents = info.shape.extents();
      extents[0] = derived.at(name).rows;
      weights.push_back({name, Shape(extents), info.type, info.scale});
    }
  }
  plan.weights = std::move(weights);
}

void styles_in_loop(Plan& plan) {
  const auto stage = [&](std::string_view name) {
    const auto found = std::ranges::find(plan.stages, name, &Stage::name);
    FLASHRT_CHECK(found != plan.stages.end(), "styles_in_loop: plan ", plan.model, " has no stage ",
                  name);
    return found;
  };
  const auto styles = stage("styles");
  const std::vector<Call> moved(plan.calls.begin() + styles->first,
                                plan.calls.begin() + styles->last);
  for (const Call& call : moved) {
    for_each_write(call, [&](Value value) {  // one row, of the time of this step
      ValueInfo& info = plan[value];
      info.shape = {1, info.shape.width()};
      info.rows = {.capacity = 1};
      for (ValueInfo& part : plan.values) {
        if (part.kind != Kind::kView || part.storage != value) continue;
        FLASHRT_CHECK(part.step_stride != 0, "styles_in_loop: ", part.name,
                      " does not belong to the time of the step");
        part.step_stride = 0;
      }
    });
  }

  std::vector<Call> calls;
  std::vector<Stage> stages;
  for (const Stage& old : plan.stages) {
    if (old.name == styles->name) continue;
    Stage& now = stages.emplace_back(old);
    now.first = static_cast<int>(calls.size());
    if (now.name == "denoise") {
      for (Call call : moved) {
        if (auto* op = std::get_if<TimeEmbed>(&call.op)) {
          const Value times = op->times;
          op->times = add_value(plan, {.name = plan[times].name + "[step]",
                                       .kind = Kind::kView,
                                       .type = plan[times].type,
                                       .shape = {1},
                                       .rows = {.capacity = 1},
                                       .storage = times,
                                       .row_stride = 1,
                                       .step_stride = 1});
        }
        calls.push_back(std::move(call));
      }
    }
    calls.insert(calls.end(), plan.calls.begin() + old.first, plan.calls.begin() + old.last);
    now.last = static_cast<int>(calls.size());
  }
  plan.stages = std::move(stages);
  plan.calls = std::move(calls);
}

void norms_apart(Plan& plan, DerivedWeights& derived) {
  for (Call& call : plan.calls) {
    auto* op = std::get_if<AddNorm>(&call.op);
    if (!op || op->norm != Norm::kRms || op->scale || !op->weight.empty()) continue;
    const int64_t width = plan[op->y].shape.width();
    op->weight = call.name + ".weight";
    plan.weights.push_back({.name = op->weight, .shape = {width}});
    derived.emplace(op->weight, DerivedWeight{.rows = width});
  }
}

void misalign_residuals(Plan& plan) {
  std::vector<Value> residuals;
  for (const Call& call : plan.calls) {
    if (const auto* op = std::get_if<AddNorm>(&call.op); op && op->residual_out)
      residuals.push_back(op->residual_out);
  }
  for (const Value value : residuals) place_in_wider(plan, value, 1);
}

void pairs_apart(Plan& plan) {
  std::vector<Value> passed_on;
  for (const Call& call : plan.calls) {
    if (const auto* op = std::get_if<Glu>(&call.op)) passed_on.push_back(op->gate_up);
    if (const auto* op = std::get_if<QkvRope>(&call.op)) passed_on.push_back(op->qkv);
    if (const auto* op = std::get_if<EulerStep>(&call.op)) passed_on.push_back(op->velocity);
  }
  for (const Value value : passed_on) {
    if (!has_parts(plan, value)) place_in_wider(plan, value, 0);
  }
}

// ---- weights

namespace {

class DerivedSource : public Weights::Source {
 public:
  DerivedSource(Weights weights, DerivedWeights derived)
      : weights_(std::move(weights)), derived_(std::move(derived)) {}

  HostTensor load(std::string_view name) const override {
    const DerivedWeight* weight = find(name);
    if (!weight) return weights_.load(name);
    if (weight->whole.empty()) {
      return {{weight->rows}, std::vector<float>(static_cast<size_t>(weight->rows), 1.0f)};
    }
    const HostTensor whole = weights_.load(weight->whole);
    const auto begin = whole.data.begin() + weight->begin * whole.shape.width();
    return {shape_of_rows(whole.shape, weight->rows),
            std::vector<float>(begin, begin + weight->rows * whole.shape.width())};
  }

  std::optional<RandomTensor> random_tensor(std::string_view name) const override {
    const DerivedWeight* weight = find(name);
    if (!weight) return weights_.random_tensor(name);
    if (weight->whole.empty()) return {};
    const auto whole = weights_.random_tensor(weight->whole);
    if (!whole) return {};
    RandomTensor result{std::string(name), shape_of_rows(whole->shape, weight->rows), {}};
    int64_t part_begin = 0;
    for (const RandomRows& part : whole->parts) {
      const int64_t first = std::max(weight->begin, part_begin);
      const int64_t last = std::min(weight->begin + weight->rows, part_begin + part.rows);
      if (first < last) {
        const auto skipped = static_cast<uint64_t>((first - part_begin) * whole->shape.width());
        result.parts.push_back({.rows = last - first, .numbers = part.numbers.from(skipped)});
      }
      part_begin += part.rows;
    }
    return result;
  }

  const std::string& digest() const override { return weights_.digest(); }

 private:
  const DerivedWeight* find(std::string_view name) const {
    const auto found = derived_.find(name);
    return found == derived_.end() ? nullptr : &found->second;
  }
  static Shape shape_of_rows(const Shape& whole, int64_t rows) {
    std::vector<int64_t> extents = whole.extents();
    extents[0] = rows;
    return Shape(extents);
  }

  const Weights weights_;
  const DerivedWeights derived_;
};

}  // namespace

Weights with_derived(Weights weights, DerivedWeights derived) {
  return Weights(std::make_unique<DerivedSource>(std::move(weights), std::move(derived)));
}

}  // namespace flashrt
