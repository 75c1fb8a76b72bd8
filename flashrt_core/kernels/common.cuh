// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Device code that kernels share: type conversion, vector access, reductions, activations,
// dependent launch.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

#include "base/math.hpp"
#include "kernels/launch.hpp"
#include "kernels/matrix.hpp"

namespace flashrt::cuda {

using bf16 = __nv_bfloat16;
using f16 = __half;
using e4m3 = __nv_fp8_e4m3;

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;
inline constexpr float kE4M3Limit = 448.0f;  // the largest finite code

// ---- dependent launch (launch.hpp says how the two are used)

__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}
__device__ __forceinline__ void allow_next() {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

// ---- sizes

__device__ __forceinline__ int64_t valid_rows(const Matrix& m) {
  return m.length ? m.base + static_cast<int64_t>(*m.length) : m.rows;
}

// ---- conversion. Everything is computed in float and rounded once, to nearest even, at the store;
// e4m3 saturates, and NaN stays NaN.

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(bf16 x) { return __bfloat162float(x); }
__device__ __forceinline__ float to_float(f16 x) { return __half2float(x); }
__device__ __forceinline__ float to_float(e4m3 x) { return float(x); }

template <class T>
__device__ __forceinline__ T from_float(float x);
template <>
__device__ __forceinline__ float from_float<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ bf16 from_float<bf16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ __forceinline__ f16 from_float<f16>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ __forceinline__ e4m3 from_float<e4m3>(float x) {
  e4m3 code;
  code.__x = __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3);
  return code;
}

template <class T>
struct TypeOf;
template <>
struct TypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct TypeOf<bf16> {
  static constexpr DType value = DType::kBF16;
};
template <>
struct TypeOf<f16> {
  static constexpr DType value = DType::kF16;
};
template <>
struct TypeOf<e4m3> {
  static constexpr DType value = DType::kE4M3;
};

// One element of any type, for kernels that take every type and need not be fast. Stored values of
// e4m3 are divided by their scale, as on the CPU, so that both round the same number.
__device__ __forceinline__ float load_element(const void* data, DType type, int64_t index) {
  switch (type) {
    case DType::kF32:
      return static_cast<const float*>(data)[index];
    case DType::kBF16:
      return to_float(static_cast<const bf16*>(data)[index]);
    case DType::kF16:
      return to_float(static_cast<const f16*>(data)[index]);
    case DType::kE4M3:
      return to_float(static_cast<const e4m3*>(data)[index]);
    case DType::kI32:
      return static_cast<float>(static_cast<const int32_t*>(data)[index]);
    case DType::kU8:
      return static_cast<float>(static_cast<const uint8_t*>(data)[index]);
  }
  return 0;
}
__device__ __forceinline__ float load(const Matrix& m, int64_t row, int64_t column) {
  const float x = load_element(m.data, m.type, row * m.stride + column);
  return m.type == DType::kE4M3 ? x * m.scale : x;
}
__device__ __forceinline__ void store(const Matrix& m, int64_t row, int64_t column, float x) {
  const int64_t index = row * m.stride + column;
  switch (m.type) {
    case DType::kF32:
      static_cast<float*>(m.data)[index] = x;
      break;
    case DType::kBF16:
      static_cast<bf16*>(m.data)[index] = from_float<bf16>(x);
      break;
    case DType::kF16:
      static_cast<f16*>(m.data)[index] = from_float<f16>(x);
      break;
    case DType::kE4M3:
      static_cast<e4m3*>(m.data)[index] = from_float<e4m3>(x / m.scale);
      break;
    case DType::kI32:
    case DType::kU8:
      break;  // refused by the launchers
  }
}
// A value as it is after being stored in this type and read back.
__device__ __forceinline__ float rounded_to(DType type, float scale, float x) {
  switch (type) {
    case DType::kBF16:
      return to_float(from_float<bf16>(x));
    case DType::kF16:
      return to_float(from_float<f16>(x));
    case DType::kE4M3:
      return to_float(from_float<e4m3>(x / scale)) * scale;
    default:
      return x;
  }
}

// ---- vectors of N elements, loaded and stored in one access of N * sizeof(T) bytes (4, 8 or 16)

template <class T, int N>
struct alignas(sizeof(T) * N) Vector {
  T at[N];
};

template <class T, int N>
__device__ __forceinline__ Vector<T, N> load_vector(const T* p) {
  return *reinterpret_cast<const Vector<T, N>*>(p);
}
template <class T, int N>
__device__ __forceinline__ void store_vector(T* p, const Vector<T, N>& v) {
  *reinterpret_cast<Vector<T, N>*>(p) = v;
}

// ---- reductions, in a fixed order

__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(kAllLanes, x, offset);
  return x;
}
__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2)
    x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, offset));
  return x;
}

// ---- scalar formulas that several kernels share. A fused kernel gives the bits of the separate
// ones, so every operation is spelled out: nothing is left to the compiler's contraction.

// Activations, by the formulas of base/math.hpp.
__device__ __forceinline__ float sigmoid(float x) {
  return __fdividef(1.0f, __fadd_rn(1.0f, __expf(-x)));
}
__device__ __forceinline__ float activate(Activation activation, float x) {
  constexpr float kTwiceRoot = 1.59576912f;  // 2 sqrt(2 / pi)
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kGeluTanh: {
      const float cubic = __fmul_rn(__fmul_rn(__fmul_rn(0.044715f, x), x), x);
      return __fmul_rn(x, sigmoid(__fmul_rn(kTwiceRoot, __fadd_rn(x, cubic))));
    }
    case Activation::kGeluErf:
      return __fmul_rn(__fmul_rn(0.5f, x), __fadd_rn(1.0f, erff(__fmul_rn(x, 0.70710678f))));
    case Activation::kSilu:
      return __fmul_rn(x, sigmoid(x));
    case Activation::kRelu:
      return x < 0.0f ? 0.0f : x;  // NaN stays NaN
  }
  return x;
}

__device__ __forceinline__ float gated(Activation activation, float gate, float up) {
  return __fmul_rn(activate(activation, gate), up);
}

// A pair of columns j and j + E/2 of a head, turned by the angle of its position: {cosine, sine}.
__device__ __forceinline__ float2 rotated(float first, float second, float2 angle) {
  return {__fmaf_rn(first, angle.x, -__fmul_rn(second, angle.y)),
          __fmaf_rn(second, angle.x, __fmul_rn(first, angle.y))};
}

__device__ __forceinline__ float euler_advanced(float action, float step, float velocity) {
  return __fmaf_rn(step, velocity, action);
}

}  // namespace flashrt::cuda
