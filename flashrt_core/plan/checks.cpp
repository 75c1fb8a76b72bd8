// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "plan/checks.hpp"

#include "plan/residency.hpp"

namespace flashrt {

void check_write(const Plan& plan, Value value, size_t bytes) {
  const ValueInfo& info = plan[value];
  const size_t row = info.shape.width() * size_of(info.type);
  const bool whole_rows =
      info.rows.length && row > 0 && bytes % row == 0 && bytes <= bytes_of(info);
  FLASHRT_CHECK(bytes == bytes_of(info) || whole_rows, "write ", info.name, ": ", bytes,
                " bytes, expected ", info.rows.length ? "whole rows of " : "",
                info.rows.length ? text(row, " bytes, at most ") : "", bytes_of(info), " for ",
                info.shape, " ", info.type);
}

void check_run_call(const Plan& plan, int call, int iteration, bool keeps_values) {
  FLASHRT_CHECK(0 <= call && call < static_cast<int>(plan.calls.size()), "run_call: call ", call,
                " of ", plan.calls.size());
  const Stage& stage = plan.stage_of(call);
  FLASHRT_CHECK(keeps_values && 0 <= iteration && iteration < stage.repeat, "run_call: call ",
                plan.calls[call].name, " in iteration ", iteration, " of stage ", stage.name,
                ", which runs ", stage.repeat, " times; it also needs keep_values");
}

void check_run_until(const Plan& plan, int call, int iteration) {
  FLASHRT_CHECK(0 <= call && call < static_cast<int>(plan.calls.size()), "run_until: call ", call,
                " of ", plan.calls.size());
  const Stage& target = plan.stage_of(call);
  FLASHRT_CHECK(target.when == When::kInfer && 0 <= iteration && iteration < target.repeat,
                "run_until: call ", plan.calls[call].name, " in iteration ", iteration, ": stage ",
                target.name, " runs ", target.repeat, " times per ", name_of(target.when),
                ", expected a call of infer");
}

void check_not_emulated(const Plan& plan, std::string_view why) {
  for (const Call& call : plan.calls) {
    const auto* linear = std::get_if<Linear>(&call.op);
    if (!linear) continue;
    const ValueInfo& x = plan[linear->x];
    const WeightInfo& weight = plan.weight(linear->weight);
    FLASHRT_CHECK(!is_emulated(weight), "recipe ", plan.recipe, ": call ", call.name,
                  " reads its weight in ", type_name(weight), "; ", why);
    FLASHRT_CHECK(!is_emulated(x), "recipe ", plan.recipe, ": call ", call.name,
                  " reads its activation in ", type_name(x), "; ", why);
  }
}

}  // namespace flashrt
