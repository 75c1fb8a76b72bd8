// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "base/tensor.hpp"

namespace flashrt {

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  out << '[';
  for (size_t axis = 0; axis < shape.rank(); ++axis) out << (axis ? ", " : "") << shape[axis];
  return out << ']';
}

}  // namespace flashrt
