// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// The table of Pi0 and Pi0.5: which tensors of a checkpoint make each weight of the plan, and how.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/tensor.hpp"
#include "checkpoint/model_config.hpp"

namespace flashrt {

// A tensor as the checkpoint must hold it, by its canonical name. Names after the first are taken
// only where the first is absent.
struct SourceTensor {
  std::vector<std::string> names;
  Shape shape;
};

// weight[r, c] = (stacked[r, first_column + c] + offset) * (1 + norm[c]) * factor, in double,
// rounded once.
struct PlanWeight {
  std::string name;
  Shape shape;
  std::vector<SourceTensor> parts;  // stacked row on row
  std::vector<SourceTensor> norm;   // one RMSNorm weight or none
  int64_t first_column = 0;
  double offset = 0;
  double factor = 1;
};

std::vector<PlanWeight> pi_weights(const ModelConfig& config);

// Whether a tensor is known to be of no use at inference. Everything else that no plan weight reads
// is refused.
bool is_unused_tensor(std::string_view canonical, const ModelConfig& config);

}  // namespace flashrt
