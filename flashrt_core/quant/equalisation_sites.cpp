// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "quant/equalisation_sites.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

namespace flashrt {
namespace {

// One operand of one call.
struct Use {
  int call = 0;
  std::string operand;
  Value value;
};

struct WeightsOf {
  std::vector<std::string> operator()(const Linear& op) const { return {op.weight, op.bias}; }
  std::vector<std::string> operator()(const AddNorm& op) const { return {op.weight, op.bias}; }
  std::vector<std::string> operator()(const QkvRope& op) const { return {op.q_norm, op.k_norm}; }
  std::vector<std::string> operator()(const TokenEmbed& op) const { return {op.table}; }
  std::vector<std::string> operator()(const PatchEmbed& op) const {
    return {op.weight, op.bias, op.position};
  }
  template <class Operation>
  std::vector<std::string> operator()(const Operation&) const {
    return {};
  }
};

// A norm that could have a site, were it alone.
struct Candidate {
  int norm = 0;
  std::vector<int> linears;
  std::optional<StyleRows> style;
  std::vector<int> partners;  // norms with the same style rows
};

class Search {
 public:
  explicit Search(const Plan& plan) : plan_(plan) {
    struct Visitor {
      Search& search;
      int call;
      void read(std::string_view operand, Value value) const {
        if (!value) return;
        search.reads_[search.plan_.storage_of(value).id].push_back(
            {call, std::string(operand), value});
      }
      void write(std::string_view, Value value) const {
        if (value) search.writers_[search.plan_.storage_of(value).id].insert(call);
      }
    };
    for (int call = 0; call < static_cast<int>(plan.calls.size()); ++call) {
      Op op = plan.calls[call].op;  // visitors get operands that they may change
      std::visit([&](auto& operation) { operation.operands(Visitor{*this, call}); }, op);
      for (const std::string& weight : std::visit(WeightsOf{}, op)) {
        if (!weight.empty()) users_[weight].insert(call);
      }
    }
  }

  EqualisationSites run() && {
    for (int call = 0; call < static_cast<int>(plan_.calls.size()); ++call) {
      if (!std::holds_alternative<AddNorm>(plan_.calls[call].op)) continue;
      Candidate candidate{.norm = call};
      if (const std::string why = examine(candidate); why.empty()) {
        candidates_.push_back(std::move(candidate));
      } else {
        found_.refused[plan_.calls[call].name] = why;
      }
    }
    join();
    collect();
    return std::move(found_);
  }

 private:
  const AddNorm& norm(int call) const { return std::get<AddNorm>(plan_.calls[call].op); }
  const Linear& linear(int call) const { return std::get<Linear>(plan_.calls[call].op); }
  const std::string& name(int call) const { return plan_.calls[call].name; }

  // ---- one norm by itself: why it cannot have a site; empty if it can

  std::string examine(Candidate& candidate) const {
    const AddNorm& op = norm(candidate.norm);
    if (std::string why = examine_result(op, candidate); !why.empty()) return why;
    return op.scale ? examine_style(op, candidate) : "";
  }

  std::string examine_result(const AddNorm& op, Candidate& candidate) const {
    const ValueInfo& y = plan_[op.y];
    if (y.kind != Kind::kLocal || writers_.at(op.y.id).size() > 1)
      return text(y.name, " is a part of another value, or written more than once");
    const auto reads = reads_.find(op.y.id);
    if (reads == reads_.end()) return text("nothing reads ", y.name);
    for (const Use& use : reads->second) {
      const ValueInfo& part = plan_[use.value];
      if (!std::holds_alternative<Linear>(plan_.calls[use.call].op) || use.operand != "x")
        return text(name(use.call), " reads ", part.name, " as ", use.operand,
                    ", which is not the x of a linear");
      const int64_t width = y.shape.width();
      if (part.shape.width() != width || part.offset % width != 0 || part.step_stride % width != 0)
        return text(name(use.call), " reads ", part.name, ", which is not whole rows of ", y.name);
      candidate.linears.push_back(use.call);
    }
    return "";
  }

  std::string examine_style(const AddNorm& op, Candidate& candidate) const {
    const Value storage = plan_.storage_of(op.scale);
    const std::string& styles = plan_[storage].name;
    const auto writers = writers_.find(storage.id);
    if (writers == writers_.end() || writers->second.size() != 1)
      return text(styles, " is not written by one call");
    const Call& writer = plan_.calls[*writers->second.begin()];
    const auto* make = std::get_if<Linear>(&writer.op);
    if (!make || make->y != storage || make->bias.empty() || make->shift || make->residual ||
        make->activation != Activation::kNone)
      return text(styles, " is made by ", writer.name, ", which is not a linear with a bias alone");
    for (const std::string& weight : {make->weight, make->bias}) {
      if (users_.at(weight).size() > 1)
        return text("the style weight ", weight, " is read by more than one call");
    }
    candidate.style = StyleRows{.weight = make->weight,
                                .bias = make->bias,
                                .scale = column_of(op.scale),
                                .shift = column_of(op.shift)};
    if (!op.bias.empty()) return "it has a bias beside scale and shift";
    const auto is_at = [&](Value value, int64_t column) {
      return !value || (plan_.storage_of(value) == storage && column_of(value) == column);
    };
    if (!is_at(op.shift, candidate.style->shift) ||
        !is_at(op.committed_scale, candidate.style->scale) ||
        !is_at(op.committed_shift, candidate.style->shift))
      return text("its scales and shifts are not columns of ", styles, " alone");
    const int64_t width = plan_[op.y].shape.width();
    for (const Use& use : reads_.at(storage.id)) {
      const ValueInfo& part = plan_[use.value];
      const int64_t column = column_of(use.value);
      const auto overlaps = [&](int64_t begin) {
        return column < begin + width && begin < column + part.shape.width();
      };
      const auto is_exactly = [&](int64_t begin, std::string_view operand) {
        return column == begin && part.shape.width() == width && use.operand.ends_with(operand);
      };
      const bool is_free = !overlaps(candidate.style->scale) && !overlaps(candidate.style->shift);
      if (is_free) continue;
      if (!std::holds_alternative<AddNorm>(plan_.calls[use.call].op) ||
          !(is_exactly(candidate.style->scale, "scale") ||
            is_exactly(candidate.style->shift, "shift")))
        return text(name(use.call), " reads ", part.name, " as ", use.operand,
                    ", columns of the scale or shift");
      candidate.partners.push_back(use.call);
    }
    return "";
  }

  // Where the part begins in each row of its storage.
  int64_t column_of(Value part) const {
    return plan_[part].offset % plan_[plan_.storage_of(part)].shape.width();
  }

  // ---- norms that share a weight, and what else does

  void join() {
    const auto count = static_cast<int>(candidates_.size());
    parent_.resize(count);
    std::iota(parent_.begin(), parent_.end(), 0);
    why_.resize(count);
    std::map<int, int> owner;  // norm or linear -> candidate
    for (int i = 0; i < count; ++i) {
      owner[candidates_[i].norm] = i;
      for (const int call : candidates_[i].linears) owner[call] = i;
    }
    for (int i = 0; i < count; ++i) {
      const auto need = [&](int call, bool is_right, const std::string& shared) {
        if (const auto other = owner.find(call); other != owner.end() && is_right) {
          parent_[root(other->second)] = root(i);
        } else if (why_[i].empty()) {
          why_[i] = text(shared, " is read by ", name(call), " too, which has no site");
        }
      };
      const Candidate& candidate = candidates_[i];
      for (const std::string& vector : std::visit(WeightsOf{}, plan_.calls[candidate.norm].op)) {
        if (vector.empty()) continue;
        for (const int call : users_.at(vector))
          need(call, std::holds_alternative<AddNorm>(plan_.calls[call].op), vector);
      }
      for (const int call : candidate.linears) {
        const std::string& weight = linear(call).weight;
        for (const int other : users_.at(weight)) need(other, true, weight);
      }
      for (const int call : candidate.partners)
        need(call, true, text("a style row of ", candidate.style->weight));
    }
  }

  int root(int candidate) const {
    while (parent_[candidate] != candidate) candidate = parent_[candidate];
    return candidate;
  }

  void collect() {
    std::map<int, std::string> why;  // by root
    for (int i = 0; i < static_cast<int>(candidates_.size()); ++i) {
      if (!why_[i].empty()) why.try_emplace(root(i), why_[i]);
    }
    std::map<int, size_t> place;  // by root
    for (int i = 0; i < static_cast<int>(candidates_.size()); ++i) {
      if (const auto reason = why.find(root(i)); reason != why.end()) {
        found_.refused[name(candidates_[i].norm)] = reason->second;
        continue;
      }
      const auto [at, is_new] = place.try_emplace(root(i), found_.sites.size());
      if (is_new) found_.sites.emplace_back();
      add(candidates_[i], found_.sites[at->second]);
    }
    for (EqualisationSite& site : found_.sites) {
      std::sort(site.linears.begin(), site.linears.end());
      site.name = linear(site.linears.front()).weight;
    }
  }

  void add(const Candidate& candidate, EqualisationSite& site) const {
    const auto once = [](auto& all, const auto& one) {
      if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(one);
    };
    const AddNorm& op = norm(candidate.norm);
    site.width = plan_[op.y].shape.width();
    site.norms.push_back(candidate.norm);
    for (const int call : candidate.linears) {
      once(site.linears, call);
      once(site.weights, linear(call).weight);
    }
    for (const std::string& vector : {op.weight, op.bias}) {
      if (!vector.empty()) once(site.norm_vectors, vector);
    }
    if (candidate.style) once(site.styles, *candidate.style);
  }

  const Plan& plan_;
  std::map<int, std::vector<Use>> reads_;       // storage -> operands
  std::map<int, std::set<int>> writers_;        // storage -> calls
  std::map<std::string, std::set<int>> users_;  // weight -> calls
  std::vector<Candidate> candidates_;
  std::vector<int> parent_;       // of a candidate: another one of its site
  std::vector<std::string> why_;  // of a candidate: why its site is refused
  EqualisationSites found_;
};

}  // namespace

EqualisationSites equalisation_sites(const Plan& plan) { return Search(plan).run(); }

std::map<std::string, std::string> quantised_norms(const Plan& plan, const Plan& typed) {
  std::set<std::string> quantised;  // linears whose x has a calibration site
  for (const Call& call : typed.calls) {
    const auto* linear = std::get_if<Linear>(&call.op);
    if (linear && !typed[linear->x].site.empty()) quantised.insert(call.name);
  }
  std::map<std::string, std::string> norms;
  for (const EqualisationSite& site : equalisation_sites(plan).sites) {
    const bool is_quantised = std::any_of(site.linears.begin(), site.linears.end(), [&](int call) {
      return quantised.contains(plan.calls[call].name);
    });
    if (!is_quantised) continue;
    for (const int call : site.norms) norms.emplace(plan.calls[call].name, site.name);
  }
  return norms;
}

}  // namespace flashrt
