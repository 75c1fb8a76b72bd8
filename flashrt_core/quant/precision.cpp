// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "quant/precision.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/nearest.hpp"

namespace flashrt {
namespace {

// One operand of one call, and what that call wants it to be.
struct Demand {
  int call = 0;
  Value value;
  Precision wanted;
  bool can_cast = false;  // x of a linear: takes the type it wants, if need be from a quantize call
};

class PrecisionPass {
 public:
  PrecisionPass(Plan plan, const Recipe& recipe) : plan_(std::move(plan)), recipe_(recipe) {}

  Plan run() && {
    check_rules();
    plan_.recipe = recipe_.name;
    for (int call = 0; call < static_cast<int>(plan_.calls.size()); ++call) visit(call);
    const auto values = static_cast<int>(plan_.values.size());
    for (int id = 0; id < values; ++id) assign_type(Value{id});
    for (const Demand& demand : demands_) {
      if (demand.can_cast && demand.wanted != wanted_[plan_.storage_of(demand.value).id])
        cast(demand);
    }
    insert_casts();
    for (ValueInfo& info : plan_.values) {
      if (info.kind != Kind::kView) continue;
      info.type = plan_[info.storage].type;
      info.site = plan_[info.storage].site;
      info.format = plan_[info.storage].format;
      info.holds_format = plan_[info.storage].holds_format;
    }
    return std::move(plan_);
  }

 private:
  void check_rules() const {
    if (!recipe_.must_match) return;
    std::vector<std::string> linears;
    for (const Call& call : plan_.calls) {
      if (std::holds_alternative<Linear>(call.op)) linears.push_back(call.name);
    }
    for (size_t index = 0; index < recipe_.rules.size(); ++index) {
      const RecipeRule& rule = recipe_.rules[index];
      FLASHRT_CHECK(
          rule.is_optional ||
              std::any_of(linears.begin(), linears.end(),
                          [&](const std::string& name) { return matches(rule.match, name); }),
          "recipe ", recipe_.name, ": rule ", index, ": '", rule.match, "' matches no linear of ",
          plan_.model, "; nearest: ", nearest(rule.match, linears),
          ". \"optional\": true is for rules about other models");
    }
  }

  // ---- what every call reads, writes and weighs with

  void visit(int index) {
    Call& call = plan_.calls[index];
    struct Visitor {
      PrecisionPass& pass;
      int call;
      void read(std::string_view operand, Value value) const {
        if (value) pass.demands_.push_back(pass.demand(call, operand, value));
      }
      void write(std::string_view, Value value) const {
        if (value) pass.writers_[pass.plan_.storage_of(value).id].push_back(call);
      }
    };
    std::visit([&](auto& op) { op.operands(Visitor{*this, index}); }, call.op);
    std::visit([&](const auto& op) { type_weights(call.name, op); }, call.op);
  }

  Demand demand(int index, std::string_view operand, Value value) const {
    // Whole streams, as opposed to vectors that scale them and to what the sampler integrates.
    static const std::set<std::string_view> kStreams{"residual", "delta", "qkv",     "q",
                                                     "k",        "v",     "gate_up", "positions"};
    const Call& call = plan_.calls[index];
    if (std::holds_alternative<Linear>(call.op) && operand == "x") {
      const RecipeRule* rule = recipe_.rule_for(call.name);
      return {index, value, rule ? rule->activation : Precision(recipe_.values), true};
    }
    return {index, value, kStreams.contains(operand) ? recipe_.values : DType::kF32, false};
  }

  template <class Operation>
  void type_weights(const std::string&, const Operation&) {}

  void type_weights(const std::string& call, const Linear& op) {
    const RecipeRule* rule = recipe_.rule_for(call);
    set_weight(call, op.weight, rule ? *rule : RecipeRule{});
  }

  void type_weights(const std::string& call, const PatchEmbed& op) {
    set_weight(call, op.weight, {.weight = recipe_.values});
    if (!op.position.empty()) set_weight(call, op.position, {.weight = recipe_.values});
  }

  void type_weights(const std::string& call, const TokenEmbed& op) {
    set_weight(call, op.table, {.weight = recipe_.values});
  }

  void set_weight(const std::string& call, const std::string& name, const RecipeRule& rule) {
    const auto info = std::find_if(plan_.weights.begin(), plan_.weights.end(),
                                   [&](const WeightInfo& weight) { return weight.name == name; });
    FLASHRT_CHECK(info != plan_.weights.end(), "call ", call, " reads weight '", name,
                  "', which the plan does not list");
    const auto [first_user, is_first] = weight_users_.emplace(name, call);
    WeightInfo wanted = *info;
    wanted.type = rule.weight.type;
    wanted.format = rule.weight.format;
    wanted.scale = rule.weight_scale;
    wanted.range = rule.weight_range;
    FLASHRT_CHECK(is_first || *info == wanted, "recipe ", recipe_.name, ": weight ", name,
                  " would be ", type_name(*info), " for ", first_user->second, " and ",
                  type_name(wanted), " for ", call, ", expected one type and scale for both");
    *info = wanted;
  }

  // ---- the type of every value

  // What is stored for what is wanted: calibration measures quantised activations before they are
  // quantised.
  DType stored(Precision wanted) const {
    return wanted.format != NumberFormat::kNone && recipe_.float_activations ? recipe_.values
                                                                             : wanted.type;
  }

  void quantise(ValueInfo& info, NumberFormat format, const std::string& site) {
    info.format = format;
    if (!has_scale(format)) return;
    info.site = site;
    const auto [other, is_first] = format_of_site_.emplace(site, format);
    FLASHRT_CHECK(is_first || other->second == format, "recipe ", recipe_.name,
                  ": calibration site ", site, " would be ", other->second, " for one linear and ",
                  format, " for another, expected one number format for both");
  }

  void assign_type(Value value) {
    ValueInfo& info = plan_[value];
    const bool is_integer = info.type == DType::kU8 || info.type == DType::kI32;
    const Precision wanted = info.kind == Kind::kLocal && !is_integer ? local_type(value)
                             : info.kind == Kind::kState && is_written_by_qkv_rope(value)
                                 ? recipe_.values
                                 : info.type;
    wanted_[value.id] = wanted;
    info.type = stored(wanted);
    if (wanted.format != NumberFormat::kNone) quantise(info, wanted.format, info.name);
  }

  DType local_type(Value value) const {
    std::set<DType> types;
    bool is_emulated = false;  // for some of its readers, who have it quantised
    for (const Demand& demand : demands_) {
      if (plan_.storage_of(demand.value) != value) continue;
      is_emulated |= demand.wanted.is_emulated();
      if (!demand.wanted.is_emulated()) types.insert(demand.wanted.type);
    }
    if (types.empty() && is_emulated) return DType::kF32;
    if (types.size() == 1) return *types.begin();
    return types.contains(DType::kF32) ? DType::kF32 : recipe_.values;
  }

  bool is_written_by_qkv_rope(Value state) const {
    const auto calls = writers_.find(state.id);
    return calls != writers_.end() &&
           std::any_of(calls->second.begin(), calls->second.end(), [&](int call) {
             return std::holds_alternative<QkvRope>(plan_.calls[call].op);
           });
  }

  // ---- casts

  // Where a cast belongs: after the call that made the value; for what no call of this run made,
  // and for rows that move with the step, before the call that reads it.
  struct Place {
    int call = 0;
    bool after = false;
    auto operator<=>(const Place&) const = default;
  };

  Place place_of(const Demand& demand) const {
    const Value storage = plan_.storage_of(demand.value);
    const bool moves =
        plan_[demand.value].kind == Kind::kView && plan_[demand.value].step_stride != 0;
    if (plan_[storage].kind == Kind::kLocal && !moves) {
      const std::vector<int>& writers = writers_.at(storage.id);
      const auto next = std::lower_bound(writers.begin(), writers.end(), demand.call);
      if (next != writers.begin()) return {.call = *std::prev(next), .after = true};
    }
    return {.call = demand.call, .after = false};
  }

  void cast(const Demand& demand) {
    const Place place = place_of(demand);
    const auto key = std::tuple(place, demand.value.id, demand.wanted);
    auto found = cast_.find(key);
    if (found == cast_.end()) {
      const ValueInfo from = plan_[demand.value];
      ValueInfo to{.name = unused_name(from.name + ".quantize"),
                   .type = stored(demand.wanted),
                   .shape = from.shape,
                   .rows = from.rows,
                   .holds_format = demand.wanted.is_emulated() && !recipe_.float_activations};
      if (demand.wanted.format != NumberFormat::kNone)
        quantise(to, demand.wanted.format, site_of(from.name));
      plan_.values.push_back(std::move(to));
      const Value y{static_cast<int>(plan_.values.size()) - 1};
      found = cast_.emplace(key, y).first;
      casts_at_[place].push_back({plan_[y].name, Quantize{.x = demand.value, .y = y}});
    }
    std::get<Linear>(plan_.calls[demand.call].op).x = found->second;
  }

  // A site is named after its value without the step.
  static std::string site_of(std::string name) {
    constexpr std::string_view kStep = "[step]";
    if (const size_t at = name.find(kStep); at != std::string::npos) name.erase(at, kStep.size());
    return name;
  }

  std::string unused_name(const std::string& name) const {
    const auto is_used = [&](const std::string& candidate) {
      return std::any_of(plan_.values.begin(), plan_.values.end(),
                         [&](const ValueInfo& info) { return info.name == candidate; });
    };
    std::string candidate = name;
    for (int count = 2; is_used(candidate); ++count) candidate = text(name, ".", count);
    return candidate;
  }

  void insert_casts() {
    std::vector<Call> calls;
    const auto insert = [&](const Place& place) {
      const auto found = casts_at_.find(place);
      if (found == casts_at_.end()) return;
      calls.insert(calls.end(), found->second.begin(), found->second.end());
    };
    for (Stage& stage : plan_.stages) {
      const int first = static_cast<int>(calls.size());
      for (int call = stage.first; call < stage.last; ++call) {
        insert({.call = call, .after = false});
        calls.push_back(std::move(plan_.calls[call]));
        insert({.call = call, .after = true});
      }
      stage.first = first;
      stage.last = static_cast<int>(calls.size());
    }
    plan_.calls = std::move(calls);
  }

  Plan plan_;
  const Recipe& recipe_;
  std::vector<Demand> demands_;                      // in call order
  std::map<int, std::vector<int>> writers_;          // storage -> calls, ascending
  std::map<std::string, std::string> weight_users_;  // weight -> the first call that reads it
  std::map<int, Precision> wanted_;
  std::map<std::string, NumberFormat> format_of_site_;
  std::map<std::tuple<Place, int, Precision>, Value> cast_;  // of a value there -> the cast value
  std::map<Place, std::vector<Call>> casts_at_;
};

}  // namespace

Plan assign_precision(Plan plan, const Recipe& recipe) {
  return PrecisionPass(std::move(plan), recipe).run();
}

}  // namespace flashrt
