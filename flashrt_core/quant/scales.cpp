// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "quant/scales.hpp"

#include <cmath>

namespace flashrt {

std::vector<std::vector<float>> resolve_scales(const Plan& plan, const Calibration& calibration) {
  std::vector<std::vector<float>> scales(plan.values.size());
  for (size_t id = 0; id < plan.values.size(); ++id) {
    const ValueInfo& info = plan.values[id];
    if (!has_scale(held_format(info)) || info.kind == Kind::kView) continue;
    FLASHRT_CHECK(!info.site.empty(), "value ", info.name, " is ", type_name(info),
                  " and has no calibration site");
    scales[id] = calibration.scales(info.site);
    const NumberFormat format = calibration.format(info.site);
    FLASHRT_CHECK(format == NumberFormat::kNone || format == held_format(info), "calibration site ",
                  info.site, " has scales for ", format, ", the recipe holds it in ",
                  held_format(info), "; calibrate with this recipe");
    FLASHRT_CHECK(!scales[id].empty(), "calibration site ", info.site, " has no scale");
    for (const float scale : scales[id]) {
      FLASHRT_CHECK(std::isfinite(scale) && scale > 0, "calibration site ", info.site, ": scale ",
                    scale, ", expected a positive number");
    }
  }
  for (const Stage& stage : plan.stages) {
    for (int index = stage.first; index < stage.last; ++index) {
      const auto touch = [&](Value value) {
        const size_t count = scales[plan.storage_of(value).id].size();
        FLASHRT_CHECK(count <= 1 || count == static_cast<size_t>(stage.repeat), "call ",
                      plan.calls[index].name, ": ", plan[value].name, " has ", count,
                      " scales, stage ", stage.name, " runs ", stage.repeat, " times");
      };
      for_each_read(plan.calls[index], touch);
      for_each_write(plan.calls[index], touch);
    }
  }
  return scales;
}

}  // namespace flashrt
