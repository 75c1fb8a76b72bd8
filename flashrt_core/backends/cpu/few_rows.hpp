// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Matrix products with few rows, as in a denoise step: the time is that of reading the weights
// once.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/gemm.hpp"

namespace flashrt::cpu {

// Up to this many rows; beyond, the packing of a BLAS pays.
inline constexpr int64_t kFewRows = 64;
inline constexpr int64_t kFewRowsDepth = 1024;

// c = a b^T; product.b_transposed must hold. Scratch: kFewRowsDepth floats per row. Each element is
// one dot product in a fixed order: its bits depend neither on the other rows nor on the tile it is
// computed in.
void multiply_few_rows(const MatrixProduct& product, float* c, int64_t c_stride, float* scratch);

// The same per instruction set, those this machine has, best first.
struct FewRowsVersion {
  const char* name;
  void (*multiply)(const MatrixProduct& product, float* c, int64_t c_stride, float* scratch);
};
const std::vector<FewRowsVersion>& few_rows_versions();

}  // namespace flashrt::cpu
