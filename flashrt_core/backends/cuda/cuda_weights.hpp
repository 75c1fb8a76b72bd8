// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// CudaWeights: the weights of a plan on the device, in one block of memory.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "backends/backend.hpp"
#include "backends/cuda/device.hpp"
#include "checkpoint/weights.hpp"
#include "kernels/matrix.hpp"

namespace flashrt::cuda {

class CudaWeights : public DeviceWeights {
 public:
  // What bytes() will be for the weights of this plan.
  static size_t bytes_for(const Plan& plan);

  // Where weights come from: the host, or, if describe has an answer, a description of random
  // numbers.
  using Load = std::function<HostTensor(std::string_view name)>;
  using Describe = std::function<std::optional<RandomTensor>(std::string_view name)>;

  // Has an answer for weights that are rounded already.
  using Packed = std::function<std::optional<PackedTensor>(std::string_view name)>;

  // Loads, checks and rounds every weight the plan reads.
  CudaWeights(const Plan& plan, const Load& load, const Describe& describe,
              const DeviceInfo& device, const Packed& packed = {});

  size_t bytes() const override { return memory_.size(); }
  // Error unless it is held in this type and with these scales. Its rows may lie apart; those of a
  // patch embedding's weight are padded with zeros to a multiple of kPatchAlignment elements, and
  // so is its width.
  WeightView get(const WeightInfo& info) const;

  static constexpr int64_t kPatchAlignment = 64;

 private:
  struct Held {
    WeightView view;
    WeightScale scale;
  };
  std::map<std::string, Held, std::less<>> held_;
  DeviceBuffer memory_;
};

}  // namespace flashrt::cuda
