// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// RopeTable: cosines and sines of rotary positions, made when a program is compiled.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace flashrt {

class RopeTable {
 public:
  // The power is taken in double, everything after it in float32: the recipe the checkpoints were
  // trained with, which exact arithmetic does not reproduce (angles of long prompts differ by
  // 1e-4).
  RopeTable(double base, int head_dim, int64_t positions)
      : half_(head_dim / 2), positions_(positions) {
    for (int64_t j = 0; j < half_; ++j) {
      const double power = std::pow(base, 2.0 * static_cast<double>(j) / head_dim);
      inverse_frequencies_.push_back(1.0f / static_cast<float>(power));
    }
    table_.resize(positions * head_dim);
    for (int64_t position = 0; position < positions; ++position)
      fill(position, table_.data() + position * head_dim);
  }

  int64_t positions() const { return positions_; }
  // [positions, head_dim], and [head_dim / 2]: for a copy on a device.
  const std::vector<float>& table() const { return table_; }
  const std::vector<float>& inverse_frequencies() const { return inverse_frequencies_; }

  // Cosines of head_dim / 2 angles, then their sines. Positions beyond the table are computed into
  // the buffer [head_dim].
  const float* at(int64_t position, float* buffer) const {
    if (0 <= position && position < positions_) return table_.data() + position * 2 * half_;
    fill(position, buffer);
    return buffer;
  }

 private:
  void fill(int64_t position, float* out) const {
    for (int64_t j = 0; j < half_; ++j) {
      const float angle = static_cast<float>(position) * inverse_frequencies_[j];
      out[j] = static_cast<float>(std::cos(static_cast<double>(angle)));
      out[half_ + j] = static_cast<float>(std::sin(static_cast<double>(angle)));
    }
  }

  int64_t half_;
  int64_t positions_;
  std::vector<float> inverse_frequencies_;
  std::vector<float> table_;  // [positions, 2 * half]
};

}  // namespace flashrt
