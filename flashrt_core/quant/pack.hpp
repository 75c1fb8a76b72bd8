// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Rounding weights to the types of a plan, and storing them so.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/packed_file.hpp"
#include "checkpoint/weights.hpp"
#include "plan/plan.hpp"

namespace flashrt {

// A weight rounded to its type; in a number format that is emulated, float32 of that format.
struct RoundedWeight {
  Shape shape;
  DType type = DType::kF32;
  std::vector<std::byte> data;
  std::vector<float> scales;  // of e4m3: one, or one per row

  PackedTensor view() const { return {shape, type, data, scales}; }
};

// To nearest. The scale of a number format follows from the range of the tensor or of each row, as
// the weight says. This is what every backend computes with.
RoundedWeight round_weight(const WeightInfo& info, const HostTensor& tensor, ThreadPool& threads);

// Error unless the tensor is what the plan reads: its shape, its type, its scales.
void check_packed(const WeightInfo& info, const PackedTensor& tensor);

// All weights of the plan, rounded, in a file that PackedFile opens. Refuses formats that are
// emulated, before it reads any.
void write_packed(const std::filesystem::path& path, const Plan& plan, const Weights& weights,
                  const std::string& recipe, ThreadPool& threads);

}  // namespace flashrt
