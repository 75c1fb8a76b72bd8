// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Tensor maps: what the copy engine is told about a matrix in device memory.
#pragma once

#include <cuda.h>

#include "kernels/matrix.hpp"

namespace flashrt::cuda {

// Boxes of box_rows rows of 128 bytes of a row-major matrix, which arrive swizzled by 128 bytes.
// The rows start on multiples of 16 bytes. Columns past `width` and rows past `rows` arrive as
// zeros.
CUtensorMap swizzled_tensor_map(const void* data, DType type, int64_t rows, int64_t width,
                                int64_t stride, int box_rows);

// A row-major matrix whose rows form groups, cut into blocks of 128 bytes of its rows, which it has
// a whole number of. Boxes of some blocks of the same rows of some groups: block by block, rows of
// 128 bytes, swizzled. Rows past those of a group arrive as zeros. The strides of the map do not
// grow from one dimension to the next: blocks lie inside rows.
struct BlockedBox {
  int rows, groups, blocks;
};
CUtensorMap blocked_tensor_map(const void* data, DType type, int64_t group_rows, int64_t groups,
                               int64_t width, int64_t stride, const BlockedBox& box);

// Rows of heads side by side, in blocks of so many rows. Boxes of 128 bytes of some rows of a head
// and a block, swizzled. Rows past those of the block arrive as zeros.
struct HeadRows {
  int64_t head_dim, heads, block_rows, blocks;
};
CUtensorMap heads_tensor_map(const void* data, DType type, const HeadRows& all, int64_t stride,
                             int box_rows);

}  // namespace flashrt::cuda
