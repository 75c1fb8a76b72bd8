// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// One number in any type of tensor, to and from float32: for debugging, checks and tests, not for
// loops that count.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/fp8.hpp"
#include "base/half.hpp"
#include "base/tensor.hpp"

namespace flashrt {

// Element `index` of data; an e4m3 code without its scale.
inline float float_of(DType type, const std::byte* data, size_t index) {
  switch (type) {
    case DType::kF32:
      return reinterpret_cast<const float*>(data)[index];
    case DType::kBF16:
      return bf16_to_float(reinterpret_cast<const uint16_t*>(data)[index]);
    case DType::kF16:
      return f16_to_float(reinterpret_cast<const uint16_t*>(data)[index]);
    case DType::kE4M3:
      return e4m3_to_float(reinterpret_cast<const uint8_t*>(data)[index]);
    case DType::kI32:
      return static_cast<float>(reinterpret_cast<const int32_t*>(data)[index]);
    case DType::kU8:
      return static_cast<float>(reinterpret_cast<const uint8_t*>(data)[index]);
  }
  return 0;
}

// The inverse. Error for integers, which are inputs and are not made from floats.
inline void put_float(DType type, float value, std::byte* data, size_t index) {
  switch (type) {
    case DType::kF32:
      reinterpret_cast<float*>(data)[index] = value;
      break;
    case DType::kBF16:
      reinterpret_cast<uint16_t*>(data)[index] = float_to_bf16(value);
      break;
    case DType::kF16:
      reinterpret_cast<uint16_t*>(data)[index] = float_to_f16(value);
      break;
    case DType::kE4M3:
      reinterpret_cast<uint8_t*>(data)[index] = float_to_e4m3(value);
      break;
    case DType::kI32:
    case DType::kU8:
      throw Error(text("a float cannot be stored as ", type));
  }
}

}  // namespace flashrt
