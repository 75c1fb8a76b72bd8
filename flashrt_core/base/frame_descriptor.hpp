// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// FrameDescriptor: what the operation `resize` is told of one camera's frame, as a row of int32
// words that the host writes and a kernel reads.
//
//   words [0, 16)            FrameGeometry
//   then  size words each    first source row of output row i, first source column of output column
//   i then  frame_taps(size) words each    vertical weights, horizontal weights
//
// Weight k of output i is word k * outputs + i. It is an integer over 2^22 where pictures are bytes
// (Pillow's arithmetic) and the bits of a float where they are floats.
#pragma once

#include <cstdint>

namespace flashrt {

inline constexpr int kMaxFrameSide = 4096;  // bounds the weights: a longer side has more of them
inline constexpr int kWeightBits = 22;      // of an integer weight; 1 is 2^22

// A picture is addressed as it lies after its turn: channel c of pixel (row, column) is byte
//   origin + row * row_stride + column * column_stride + channel[c]
// of its memory.
struct FrameGeometry {
  int32_t rows, columns;  // 0: there is no picture, the image is all bars
  int32_t origin, row_stride, column_stride;
  int32_t pixel_bytes;
  int32_t channel[3];     // red, green, blue
  int32_t height, width;  // of the scaled picture in the square
  int32_t top, left;
  int32_t vertical_taps, horizontal_taps;  // source pixels that one output reads along an axis
  float bars;                              // around the scaled picture; images of bytes have black
};
static_assert(sizeof(FrameGeometry) == 16 * sizeof(int32_t));

// Words for the weights of one axis: the support of Pillow's filter is below two source steps or
// three pixels, whichever is more.
constexpr int64_t frame_taps(int64_t size) { return 2 * int64_t{kMaxFrameSide} + 3 * size; }

// Where the parts of a descriptor begin, in words.
struct FrameDescriptorLayout {
  int64_t first_row, first_column, vertical_weights, horizontal_weights, words;
};
constexpr FrameDescriptorLayout frame_descriptor_layout(int64_t size) {
  constexpr int64_t kGeometry = sizeof(FrameGeometry) / sizeof(int32_t);
  return {.first_row = kGeometry,
          .first_column = kGeometry + size,
          .vertical_weights = kGeometry + 2 * size,
          .horizontal_weights = kGeometry + 2 * size + frame_taps(size),
          .words = kGeometry + 2 * size + 2 * frame_taps(size)};
}

}  // namespace flashrt
