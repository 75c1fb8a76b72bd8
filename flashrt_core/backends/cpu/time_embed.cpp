// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// time_embed: y[s] = concat(sin(u), cos(u)), u[i] = 2 pi times[s] / period[i], in double and
// rounded once.

#include <cmath>
#include <numbers>

#include "backends/cpu/kernel.hpp"

namespace flashrt::cpu {

size_t workspace_bytes(const TimeEmbed& op, const Plan& plan, int) {
  Carver carver;
  carver.floats(plan[op.y].shape.width());
  return carver.bytes();
}

Kernel bind(const TimeEmbed& op, const Binding& b) {
  const Operand times = b.operand(op.times), y = b.operand(op.y);
  FLASHRT_CHECK(times.type == DType::kF32, "time_embed ", b.call.name, ": times are ", times.type,
                ", expected f32");
  const double min_period = op.min_period, ratio = op.max_period / op.min_period;
  float* buffer = Carver(b.workspace).floats(0);
  return [=](int k) {
    const View in = times.at(k), out = y.at(k);
    const int64_t half = out.width / 2;
    for (int64_t row = 0; row < out.rows; ++row) {
      const double time = *in.floats(row);
      for (int64_t i = 0; i < half; ++i) {
        const double period =
            min_period * std::pow(ratio, static_cast<double>(i) / static_cast<double>(half - 1));
        const double u = 2 * std::numbers::pi * time / period;
        buffer[i] = static_cast<float>(std::sin(u));
        buffer[half + i] = static_cast<float>(std::cos(u));
      }
      store(out, row, 0, out.width, buffer);
    }
  };
}

}  // namespace flashrt::cpu
