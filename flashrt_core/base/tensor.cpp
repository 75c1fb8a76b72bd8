// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "base/tensor.hpp"

namespace flashrt {

DType dtype_from(std::string_view name) {
  for (DType type :
       {DType::kF32, DType::kBF16, DType::kF16, DType::kE4M3, DType::kI32, DType::kU8}) {
    if (name == name_of(type)) return type;
  }
  throw Error(text("unknown type '", name, "'; known: f32, bf16, f16, e4m3, i32, u8"));
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  out << '[';
  for (size_t axis = 0; axis < shape.rank(); ++axis) out << (axis ? ", " : "") << shape[axis];
  return out << ']';
}

}  // namespace flashrt
