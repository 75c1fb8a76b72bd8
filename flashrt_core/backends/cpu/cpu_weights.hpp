// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// CpuWeights: the weights of a plan in float32, rounded to their types.
#pragma once

#include <functional>
#include <map>
#include <memory>
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

  // Loads, checks and rounds every weight the plan reads; shares those that `like`, of the same
  // source, holds in the same form.
  CpuWeights(const Plan& plan, const Load& load, ThreadPool& pool, const Packed& packed = {},
             const CpuWeights* like = nullptr);

  size_t bytes() const override { return bytes_; }
  // Of the weights of this plan, those that are held here in the same form.
  size_t shared_bytes(const Plan& plan) const;
  // Error unless it is held in this type and with these scales.
  const Weight& get(const WeightInfo& info) const;

 private:
  struct Held {
    WeightInfo info;
    Weight weight;
    size_t bytes() const { return (weight.values.size() + weight.scales.size()) * sizeof(float); }
  };
  // Null where it is not held in this form.
  std::shared_ptr<const Held> find(const WeightInfo& info) const;

  std::map<std::string, std::shared_ptr<const Held>, std::less<>> held_;
  size_t bytes_ = 0;
};

}  // namespace flashrt::cpu
