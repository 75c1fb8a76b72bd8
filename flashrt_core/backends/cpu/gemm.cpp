// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "backends/cpu/gemm.hpp"

#include <cblas.h>

#include "backends/cpu/few_rows.hpp"

// The PyPI build of OpenBLAS puts a prefix before every symbol (BLAS_SYMBOL_PREFIX=scipy_ in its
// pkg-config flags).
#ifdef BLAS_SYMBOL_PREFIX
#define FLASHRT_JOIN_(prefix, name) prefix##name
#define FLASHRT_JOIN(prefix, name) FLASHRT_JOIN_(prefix, name)
#define FLASHRT_BLAS(name) FLASHRT_JOIN(BLAS_SYMBOL_PREFIX, name)
#else
#define FLASHRT_BLAS(name) name
#endif

namespace flashrt::cpu {

void use_single_threaded_blas() { FLASHRT_BLAS(openblas_set_num_threads)(1); }

std::string blas_version() { return FLASHRT_BLAS(openblas_get_config)(); }

void multiply(const MatrixProduct& p, float* c, int64_t c_stride, float keep) {
  FLASHRT_BLAS(cblas_sgemm)
  (CblasRowMajor, CblasNoTrans, p.b_transposed ? CblasTrans : CblasNoTrans,
   static_cast<int>(p.rows), static_cast<int>(p.columns), static_cast<int>(p.depth), 1.0f, p.a,
   static_cast<int>(p.a_stride), p.b, static_cast<int>(p.b_stride), keep, c,
   static_cast<int>(c_stride));
}

Tiling tiling(int64_t rows, int64_t columns) {
  constexpr int64_t kFewRowsColumns = 128;
  if (rows <= kFewRows) return {rows, std::min(columns, kFewRowsColumns)};
  const int64_t down = (rows + kTileRows - 1) / kTileRows;
  return {(rows + down - 1) / down, std::min(columns, kTileColumns)};
}

void multiply_tile(const MatrixProduct& part, float* scratch) {
  static_assert(kFewRows * (kTileColumns + kFewRowsDepth) <= kTileFloats);
  if (part.rows <= kFewRows) {
    multiply_few_rows(part, scratch, part.columns, scratch + part.rows * part.columns);
  } else {
    multiply(part, scratch, part.columns);
  }
}

}  // namespace flashrt::cpu
