// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// DType and Shape: what a tensor holds and how large it is. Tensors are row-major; nothing here
// owns memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.hpp"

namespace flashrt {

enum class DType : uint8_t { kF32, kBF16, kF16, kE4M3, kI32, kU8 };

constexpr size_t size_of(DType type) {
  switch (type) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBF16:
    case DType::kF16:
      return 2;
    case DType::kE4M3:
    case DType::kU8:
      return 1;
  }
  return 0;
}

constexpr std::string_view name_of(DType type) {
  switch (type) {
    case DType::kF32:
      return "f32";
    case DType::kBF16:
      return "bf16";
    case DType::kF16:
      return "f16";
    case DType::kE4M3:
      return "e4m3";
    case DType::kI32:
      return "i32";
    case DType::kU8:
      return "u8";
  }
  return "?";
}

inline std::ostream& operator<<(std::ostream& out, DType type) { return out << name_of(type); }

// Extents of a tensor; the last one is contiguous in memory.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> extents) : extents_(extents) {}
  explicit Shape(std::vector<int64_t> extents) : extents_(std::move(extents)) {}

  size_t rank() const { return extents_.size(); }
  int64_t operator[](size_t axis) const { return extents_[axis]; }
  const std::vector<int64_t>& extents() const { return extents_; }

  // The first extent; 1 for a scalar.
  int64_t rows() const { return extents_.empty() ? 1 : extents_.front(); }
  // Elements of one row: the product of all extents but the first.
  int64_t width() const {
    int64_t product = 1;
    for (size_t axis = 1; axis < extents_.size(); ++axis) product *= extents_[axis];
    return product;
  }
  int64_t elements() const { return rows() * width(); }

  bool operator==(const Shape&) const = default;

 private:
  std::vector<int64_t> extents_;
};

std::ostream& operator<<(std::ostream& out, const Shape& shape);

}  // namespace flashrt
