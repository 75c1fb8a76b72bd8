// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// What a launcher is given: matrices and weights in device memory. Nothing here owns memory.
#pragma once

#include <cstdint>

#include "base/check.hpp"
#include "base/tensor.hpp"

namespace flashrt::cuda {

// A row-major matrix on the device. Rows past the valid ones may be computed and written; nothing
// that is valid depends on them.
struct Matrix {
  void* data = nullptr;  // null: the operand is absent
  DType type = DType::kF32;
  int64_t rows = 0;                 // the capacity
  int64_t width = 0;                // elements of a row
  int64_t stride = 0;               // elements from row to row
  float scale = 1;                  // real = quantised * scale; 1 unless e4m3
  const int32_t* length = nullptr;  // on the device; valid rows = base + *length. Null: all rows
  int32_t base = 0;

  explicit operator bool() const { return data != nullptr; }
};

// A weight [rows, width], packed: rows lie `stride` elements apart, which may exceed the width.
struct WeightView {
  const void* data = nullptr;
  DType type = DType::kF32;
  int64_t rows = 0;   // output channels of a linear
  int64_t width = 0;  // input channels
  int64_t stride = 0;
  const float* scales = nullptr;  // on the device, of e4m3: real = code * scale
  int64_t scale_count = 0;        // 0, 1 (tensor) or rows (channel)

  explicit operator bool() const { return data != nullptr; }
};

// True if every row starts on a multiple of `bytes` and holds a multiple of `bytes`.
inline bool is_aligned(const void* data, DType type, int64_t width, int64_t stride, int bytes) {
  const auto element = static_cast<int64_t>(size_of(type));
  return reinterpret_cast<uintptr_t>(data) % bytes == 0 && stride * element % bytes == 0 &&
         width * element % bytes == 0;
}
inline bool is_aligned(const Matrix& m, int bytes) {
  return is_aligned(m.data, m.type, m.width, m.stride, bytes);
}
inline bool is_aligned(const WeightView& w, int bytes) {
  return is_aligned(w.data, w.type, w.width, w.stride, bytes);
}

// What launchers ask of an operand that is read or written as numbers: present, of this shape, and
// of a type that store() and load() scale.
inline void check_operand(const char* operation, const char* name, const Matrix& m, int64_t rows,
                          int64_t width) {
  FLASHRT_CHECK(m, operation, ": ", name, " is absent");
  FLASHRT_CHECK(m.rows == rows && m.width == width, operation, ": ", name, " is [", m.rows, ", ",
                m.width, "], expected [", rows, ", ", width, "]");
  FLASHRT_CHECK(m.type != DType::kI32 && m.type != DType::kU8, operation, ": ", name, " is ",
                m.type, ", expected f32, bf16, f16 or e4m3");
  FLASHRT_CHECK(m.scale > 0, operation, ": ", name, " has scale ", m.scale,
                ", expected a positive one");
}

}  // namespace flashrt::cuda
