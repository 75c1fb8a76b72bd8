// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "backends/cpu/cpu_weights.hpp"

#include <algorithm>
#include <cmath>

#include "base/fp8.hpp"
#include "base/half.hpp"

namespace flashrt::cpu {
namespace {

std::string_view name_of(WeightScale scale) {
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

// Codes and their scale.
float quantise(float* values, int64_t n) {
  float amax = 0;
  for (int64_t i = 0; i < n; ++i) amax = std::max(amax, std::abs(values[i]));
  const float scale = e4m3_scale(amax);
  for (int64_t i = 0; i < n; ++i) values[i] = e4m3_to_float(float_to_e4m3(values[i] / scale));
  return scale;
}

Weight round_weight(const WeightInfo& info, HostTensor tensor, ThreadPool& pool) {
  Weight weight{.shape = std::move(tensor.shape), .values = std::move(tensor.data), .scales = {}};
  const int64_t rows = weight.shape.rows(), width = weight.shape.width();
  float* values = weight.values.data();
  const auto for_rows = [&](auto&& function) {
    pool.parallel_for(rows, 64, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) function(i, values + i * width);
    });
  };
  FLASHRT_CHECK((info.type == DType::kE4M3) == (info.scale != WeightScale::kNone), "weight ",
                info.name, ": ", info.type, " with ", name_of(info.scale),
                "; e4m3 weights have a scale, others have none");
  switch (info.type) {
    case DType::kF32:
      break;
    case DType::kBF16:
      for_rows([&](int64_t, float* row) {
        for (int64_t j = 0; j < width; ++j) row[j] = bf16_to_float(float_to_bf16(row[j]));
      });
      break;
    case DType::kF16:
      for_rows([&](int64_t, float* row) {
        for (int64_t j = 0; j < width; ++j) row[j] = f16_to_float(float_to_f16(row[j]));
      });
      break;
    case DType::kE4M3:
      if (info.scale == WeightScale::kTensor) {
        weight.scales = {quantise(values, rows * width)};
      } else {
        weight.scales.resize(rows);
        for_rows([&](int64_t i, float* row) { weight.scales[i] = quantise(row, width); });
      }
      break;
    case DType::kI32:
    case DType::kU8:
      throw Error(
          text("weight ", info.name, ": type ", info.type, ", expected f32, bf16, f16 or e4m3"));
  }
  return weight;
}

}  // namespace

CpuWeights::CpuWeights(const Plan& plan, const Load& load, ThreadPool& pool) {
  for (const WeightInfo& info : plan.weights) {
    HostTensor tensor = load(info.name);
    FLASHRT_CHECK(tensor.shape == info.shape, "weight ", info.name, " is ", tensor.shape,
                  ", the plan reads ", info.shape);
    Held held{round_weight(info, std::move(tensor), pool), info.type, info.scale};
    bytes_ += (held.weight.values.size() + held.weight.scales.size()) * sizeof(float);
    held_.emplace(info.name, std::move(held));
  }
}

const Weight& CpuWeights::get(const WeightInfo& info) const {
  const auto found = held_.find(info.name);
  FLASHRT_CHECK(found != held_.end(), "weight ", info.name,
                " was not uploaded: these weights are of another plan");
  const Held& held = found->second;
  FLASHRT_CHECK(held.type == info.type && held.scale == info.scale, "weight ", info.name,
                " is held as ", held.type, " with ", name_of(held.scale), ", the plan reads ",
                info.type, " with ", name_of(info.scale));
  return held.weight;
}

}  // namespace flashrt::cpu
