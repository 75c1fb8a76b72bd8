// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Which tensors of a checkpoint make each weight of a plan, and how. One table per family.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor.hpp"
#include "checkpoint/model_config.hpp"

namespace flashrt {

// A float32 tensor in host memory, row-major.
struct HostTensor {
  Shape shape;
  std::vector<float> data;
};

// A tensor as the checkpoint must hold it, by its canonical name. Names after the first are taken
// only where the first is absent.
struct SourceTensor {
  std::vector<std::string> names;
  Shape shape;
  int64_t slot = kWhole;  // index of the first extent that is read alone

  static constexpr int64_t kWhole = -1;
  Shape read_shape() const {
    const std::vector<int64_t>& all = shape.extents();
    return slot == kWhole ? shape : Shape(std::vector<int64_t>(all.begin() + 1, all.end()));
  }
};

// weight[r, c] = (stacked[r, first_column + c] + offset) * (norm_offset + norm[c]) * factor, in
// double, rounded once.
struct PlanWeight {
  std::string name;
  Shape shape;
  std::vector<SourceTensor> parts;  // stacked row on row
  std::vector<SourceTensor> norm;   // one RMSNorm weight or none
  double norm_offset = 1;
  int64_t first_column = 0;
  double offset = 0;
  double factor = 1;
  // Instead of the formula: the numbers of the weight from those of its parts.
  std::function<std::vector<float>(std::span<const HostTensor>)> compute;
};

std::vector<PlanWeight> plan_weights(const ModelConfig& config);

// Whether a tensor is known to be of no use at inference. Everything else that no plan weight reads
// is refused.
bool is_unused_tensor(std::string_view canonical, const ModelConfig& config);

}  // namespace flashrt
