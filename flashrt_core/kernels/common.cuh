// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Device code that kernels share: type conversion, vector access, reductions, activations,
// dependent launch.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>
#include <type_traits>

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

// ---- dependent launch (launch.hpp says how it is used)

// Lets the next kernel become resident, and waits until the one ahead has ended.
__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
  cudaGridDependencySynchronize();
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
// or in several of 16

template <class T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Vector {
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

template <class T, int N>
__device__ __forceinline__ void to_floats(const Vector<T, N>& v, float (&x)[N]) {
  if constexpr (std::is_same_v<T, bf16> && N % 2 == 0) {  // bf16 is the upper half of a float
    const auto* words = reinterpret_cast<const uint32_t*>(&v);
#pragma unroll
    for (int i = 0; i < N; i += 2) {
      x[i] = __uint_as_float(words[i / 2] << 16);
      x[i + 1] = __uint_as_float(words[i / 2] & 0xffff0000u);
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = to_float(v.at[i]);
  }
}
template <int N, class T>
__device__ __forceinline__ void load_floats(const T* p, float (&x)[N]) {
  to_floats(load_vector<T, N>(p), x);
}

// ---- the scale of e4m3 as a divisor of many numbers

struct Divisor {
  float value = 1;
  float reciprocal = 1;  // rounded to nearest
};
// Scales within which quotient() neither overflows nor loses bits; kernels that use it leave others
// to those that divide.
inline bool is_divisor(float scale) { return scale >= 0x1p-100f && scale <= 0x1p100f; }
inline Divisor divisor_of(const Matrix& m) { return {m.scale, 1.0f / m.scale}; }

// Rounds to the same e4m3 code as x / d.value, without a division: a product and one correction by
// its remainder (Markstein 1990). Tried with every mantissa of the divisor at every boundary
// between codes and two units around it: the quotient had the bits of the division.
__device__ __forceinline__ float quotient(float x, const Divisor& d) {
  constexpr float kBeyond = 0x1p20f;  // every code; an infinite product would have no remainder
  float q = __fmul_rn(x, d.reciprocal);
  asm("min.NaN.f32 %0, %0, %1;" : "+f"(q) : "f"(kBeyond));
  asm("max.NaN.f32 %0, %0, %1;" : "+f"(q) : "f"(-kBeyond));
  return __fmaf_rn(__fmaf_rn(-q, d.value, x), d.reciprocal, q);
}

// ---- N floats rounded to a type and stored, two at a time in each conversion

__device__ __forceinline__ uint32_t packed_bf16(float low, float high) {
  const __nv_bfloat162_raw pair = __floats2bfloat162_rn(low, high);
  return pair.x | static_cast<uint32_t>(pair.y) << 16;
}
__device__ __forceinline__ uint32_t packed_f16(float low, float high) {
  const __half2_raw pair = __floats2half2_rn(low, high);
  return pair.x | static_cast<uint32_t>(pair.y) << 16;
}
__device__ __forceinline__ uint32_t packed_e4m3(float low, float high) {
  return __nv_cvt_float2_to_fp8x2({low, high}, __NV_SATFINITE, __NV_E4M3);
}

template <class T, int N>
__device__ __forceinline__ void store_floats(T* p, const float (&x)[N], const Divisor& d) {
  constexpr int kPerWord = sizeof(uint32_t) / sizeof(T);
  static_assert(N % kPerWord == 0);
  Vector<uint32_t, N / kPerWord> words;
#pragma unroll
  for (int i = 0; i < N / kPerWord; ++i) {
    const float* in = x + i * kPerWord;
    if constexpr (std::is_same_v<T, float>) {
      words.at[i] = __float_as_uint(in[0]);
    } else if constexpr (std::is_same_v<T, bf16>) {
      words.at[i] = packed_bf16(in[0], in[1]);
    } else if constexpr (std::is_same_v<T, f16>) {
      words.at[i] = packed_f16(in[0], in[1]);
    } else {
      static_assert(std::is_same_v<T, e4m3>);
      words.at[i] = packed_e4m3(quotient(in[0], d), quotient(in[1], d)) |
                    packed_e4m3(quotient(in[2], d), quotient(in[3], d)) << 16;
    }
  }
  store_vector(reinterpret_cast<uint32_t*>(p), words);
}

// ---- barriers of some of the warps of a block, each with a number of its own; 0 is
// __syncthreads()

__device__ __forceinline__ void sync_threads(int number, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
// The part of those threads that need not wait.
__device__ __forceinline__ void arrive_threads(int number, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
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

// 1 / (1 + 2^x), in two approximations of the special function unit: within 1e-6 of the formula.
__device__ __forceinline__ float inverse_of_one_plus_exp2(float x) {
  float power, inverse;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(__fadd_rn(1.0f, power)));
  return inverse;
}

__device__ __forceinline__ float above_floor(float x) {
  asm("max.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(kActivationFloor));
  return x;
}

// Activations, by the formulas of base/math.hpp.
__device__ __forceinline__ float activate(Activation activation, float x) {
  constexpr double kLog2E = 1.4426950408889634;
  constexpr double kTwiceRoot = 1.5957691216057308;  // 2 sqrt(2 / pi)
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kGeluTanh: {
      x = above_floor(x);
      constexpr auto kFactor = static_cast<float>(-kTwiceRoot * kLog2E);
      const float sum = __fmaf_rn(__fmul_rn(__fmul_rn(0.044715f, x), x), x, x);
      return __fmul_rn(x, inverse_of_one_plus_exp2(__fmul_rn(kFactor, sum)));
    }
    case Activation::kGeluErf:
      x = above_floor(x);
      return __fmul_rn(__fmul_rn(0.5f, x), __fadd_rn(1.0f, erff(__fmul_rn(x, 0.70710678f))));
    case Activation::kSilu:
      x = above_floor(x);
      return __fmul_rn(x, inverse_of_one_plus_exp2(__fmul_rn(static_cast<float>(-kLog2E), x)));
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
