// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Matrix products in float32: one on the calling thread, and one whose output is cut into tiles for
// a pool.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "base/parallel.hpp"

namespace flashrt::cpu {

// BLAS must not start threads of its own beside the pool. Process-wide.
void use_single_threaded_blas();
// Its name, version and options.
std::string blas_version();

// c [rows, columns] = a [rows, depth] b^T + keep * c, with b [columns, depth] if transposed, else
// [depth, columns].
struct MatrixProduct {
  int64_t rows = 0, columns = 0, depth = 0;
  const float* a = nullptr;
  int64_t a_stride = 0;
  const float* b = nullptr;
  int64_t b_stride = 0;
  bool b_transposed = true;
};
void multiply(const MatrixProduct& product, float* c, int64_t c_stride, float keep = 0);

// A part of the output, finished but for the epilogue.
struct Tile {
  int64_t row = 0, rows = 0;
  int64_t column = 0, columns = 0;
  float* values = nullptr;  // [rows, columns]

  float* at(int64_t r) const { return values + r * columns; }
};

// Tile sizes depend on the shape alone, never on the number of threads: the same bits on any number
// of them.
struct Tiling {
  int64_t rows = 0, columns = 0;  // of one tile
};
Tiling tiling(int64_t rows, int64_t columns);
inline constexpr int64_t kTileRows = 384, kTileColumns = 512;  // of the largest tile
inline constexpr int64_t kTileFloats = kTileRows * kTileColumns;

// One tile, packed; scratch is the kTileFloats it lies in.
void multiply_tile(const MatrixProduct& part, float* scratch);

// Computes a b^T tile by tile in scratch [threads * kTileFloats] and hands each to epilogue(tile,
// worker).
template <class Epilogue>
void multiply_tiles(ThreadPool& pool, const MatrixProduct& product, float* scratch,
                    Epilogue&& epilogue) {
  if (product.rows == 0) return;
  const Tiling size = tiling(product.rows, product.columns);
  const int64_t across = (product.columns + size.columns - 1) / size.columns;
  const int64_t down = (product.rows + size.rows - 1) / size.rows;
  pool.parallel_for(across * down, 1, [&](int64_t index, int64_t, int worker) {
    Tile tile;
    tile.row = index % down * size.rows;  // neighbours share columns of b
    tile.column = index / down * size.columns;
    tile.rows = std::min(size.rows, product.rows - tile.row);
    tile.columns = std::min(size.columns, product.columns - tile.column);
    tile.values = scratch + worker * kTileFloats;
    MatrixProduct part = product;
    part.rows = tile.rows;
    part.columns = tile.columns;
    part.a += tile.row * product.a_stride;
    part.b += tile.column * product.b_stride;
    multiply_tile(part, tile.values);
    epilogue(std::as_const(tile), worker);
  });
}

}  // namespace flashrt::cpu
