// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Operand: where an operand of a call lies in the arena, resolved once. View: the same in one
// iteration, with its valid rows. Spans of a view are read and written as float32, whatever it
// holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "backends/cpu/vector_math.hpp"
#include "base/number_format.hpp"
#include "base/tensor.hpp"

namespace flashrt::cpu {

struct View {
  std::byte* data = nullptr;  // null: the operand is absent
  DType type = DType::kF32;
  int64_t rows = 0;                           // valid ones
  int64_t width = 0;                          // elements of a row
  int64_t stride = 0;                         // elements from row to row
  float scale = 1;                            // of e4m3: real = quantised * scale
  NumberFormat format = NumberFormat::kNone;  // whose numbers it holds in float32 ...
  float format_scale = 1;                     // ... and the scale of that

  explicit operator bool() const { return data != nullptr; }
  std::byte* at(int64_t row, int64_t column = 0) const {
    return data + (row * stride + column) * static_cast<int64_t>(size_of(type));
  }
  float* floats(int64_t row, int64_t column = 0) const {
    return reinterpret_cast<float*>(at(row, column));
  }
  int32_t integer() const { return *reinterpret_cast<const int32_t*>(data); }
};

// n real values from (row, column): in place if the view holds float32, else decoded into the
// buffer.
inline const float* load(const View& view, int64_t row, int64_t column, int64_t n, float* buffer) {
  if (view.type == DType::kF32) return view.floats(row, column);
  decode(view.type, view.at(row, column), view.scale, buffer, n);
  return buffer;
}

// Where to compute n values of (row, column) before store(): in place if the view holds float32,
// else the buffer.
inline float* target(const View& view, int64_t row, int64_t column, float* buffer) {
  return view.type == DType::kF32 ? view.floats(row, column) : buffer;
}
inline void store(const View& view, int64_t row, int64_t column, int64_t n, const float* values) {
  if (view.type == DType::kF32 && values == view.floats(row, column)) return;
  encode(view.type, values, view.scale, view.at(row, column), n);
}

// A whole row, rounded to the number format that the view holds.
inline void store_row(const View& view, int64_t row, const float* values) {
  store(view, row, 0, view.width, values);
  if (view.format == NumberFormat::kNone) return;
  round_to(view.format, view.format_scale, {view.floats(row), static_cast<size_t>(view.width)});
}

struct Operand {
  std::string_view name;
  std::byte* data = nullptr;  // null: absent
  DType type = DType::kF32;
  int64_t capacity = 0;  // rows
  int64_t width = 0;
  int64_t stride = 0;
  std::ptrdiff_t step_bytes = 0;    // from iteration to iteration
  const int32_t* length = nullptr;  // valid rows = base + *length; null: all
  int64_t base = 0;
  NumberFormat format = NumberFormat::kNone;  // emulated in float32
  std::span<const float> scales;              // of a quantised value: one, or one per iteration

  explicit operator bool() const { return data != nullptr; }
  int64_t valid_rows() const {
    const int64_t rows = length ? base + *length : capacity;
    FLASHRT_CHECK(0 <= rows && rows <= capacity, name, ": ", rows, " valid rows (", base,
                  " + its length input), expected 0 to ", capacity);
    return rows;
  }
  View at(int iteration) const {
    if (!data) return {};
    const float scale = scales.empty() ? 1.0f : scales.size() == 1 ? scales[0] : scales[iteration];
    const bool is_code = type == DType::kE4M3;
    return {.data = data + iteration * step_bytes,
            .type = type,
            .rows = valid_rows(),
            .width = width,
            .stride = stride,
            .scale = is_code ? scale : 1.0f,
            .format = format,
            .format_scale = is_code ? 1.0f : scale};
  }
};

}  // namespace flashrt::cpu
