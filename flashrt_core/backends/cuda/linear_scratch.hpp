// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// LinearScratch: operands like those of a linear, filled with random numbers in memory of their
// own, so that implementations can be run and judged before the program has data.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cuda/device.hpp"
#include "kernels/linear.cuh"

namespace flashrt::cuda {

class LinearScratch {
 public:
  // Same shapes, strides, types and alignments as args, all rows valid. Computes the reference:
  // linear_generic, and the following operation by its own kernel.
  LinearScratch(const LinearArgs& args, const DeviceInfo& device, const Stream& stream);

  // The weight exists so often that going through its copies brings each one from device memory
  // again; a weight so small that this takes more than kMaxCopies may stay in the cache.
  int copies() const { return copies_; }
  LinearArgs args(int copy) const;

  // Makes results NaN, and what is updated in place what it was.
  void reset() const;
  // Of args(0) after a reset and a run: the largest deviation from the reference, relative to the
  // magnitude of the value and of all values; infinity if a value is not finite.
  double error() const;
  // The bytes of the sampled results.
  std::vector<std::vector<std::byte>> results() const;

  static constexpr int kMaxCopies = 128;

 private:
  struct Result {
    Matrix matrix;
    std::vector<float> expected;  // of the rows that are compared
  };

  void* take(size_t bytes, const void* like);
  void fill(void* data, size_t bytes, DType type, float low, float high);
  Matrix random_matrix(const Matrix& like, float low, float high);
  Matrix empty_matrix(const Matrix& like);
  const int32_t* integer(int32_t value);
  void make_operands(const LinearArgs& like);
  void choose_rows();
  void compute_reference(const DeviceInfo& device);
  Matrix sampled(const Matrix& matrix) const;
  std::vector<std::byte> download(const Matrix& matrix) const;

  const Stream& stream_;
  std::vector<DeviceBuffer> buffers_;
  LinearArgs args_;
  int copies_ = 1;
  size_t copy_bytes_ = 0;
  int64_t row_step_ = 1;  // rows that are compared: the last one, and every so many before it
  std::vector<Result> results_;
  DeviceBuffer initial_actions_;  // euler_step updates them in place
};

// How large the error of a sound implementation may be.
double allowed_error(const LinearArgs& args);

}  // namespace flashrt::cuda
