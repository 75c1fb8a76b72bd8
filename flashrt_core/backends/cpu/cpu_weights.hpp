// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// CpuWeights: the weights of a plan in float32, rounded to their types.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "backends/backend.hpp"
#include "backends/cpu/kernel.hpp"
#include "checkpoint/weights.hpp"

namespace flashrt::cpu {

class CpuWeights : public DeviceWeights {
 public:
  // What bytes() will be for the weights of this plan.
  static size_t bytes_for(const Plan& plan);

  using Load = std::function<HostTensor(std::string_view name)>;

  // Has an answer for weights that are rounded already.
  using Packed = std::function<std::optional<PackedTensor>(std::string_view name)>;

  // Loads, checks and rounds every weight the plan reads.
  CpuWeights(const Plan& plan, const Load& load, ThreadPool& pool, const Packed& packed = {});

  size_t bytes() const override { return bytes_; }
  // Error unless it is held in this type and with these scales.
  const Weight& get(const WeightInfo& info) const;

 private:
  struct Held {
    Weight weight;
    DType type;
    WeightScale scale;
  };

  std::map<std::string, Held, std::less<>> held_;
  size_t bytes_ = 0;
};

}  // namespace flashrt::cpu
