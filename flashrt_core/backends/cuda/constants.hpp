// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Constants: what the kernels of one program read beside weights and values, made when it is
// compiled: rotations, and position embeddings repeated for every image.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "backends/cuda/cuda_weights.hpp"
#include "backends/cuda/device.hpp"
#include "kernels/qkv_rope.cuh"
#include "plan/plan.hpp"

namespace flashrt::cuda {

class Constants {
 public:
  Constants(const Plan& plan, const CudaWeights& weights);

  // Of every rotation in the plan; absent for base 0.
  RopeTableView rope_table(double base, int head_dim) const;
  // [images * T, D], in the type of the weight.
  Matrix positions(const PatchEmbed& op) const;
  size_t bytes() const;

 private:
  struct Table {
    DeviceBuffer memory;  // the table, then the frequencies
    int positions = 0;
  };
  std::map<std::pair<double, int>, Table> rope_tables_;
  struct Repeated {
    DeviceBuffer memory;
    Matrix matrix;
  };
  std::map<std::string, Repeated> positions_;  // by weight
};

}  // namespace flashrt::cuda
