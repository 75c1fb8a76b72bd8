// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// What attention kernels that split the keys of a row over warps share: merging what two of them
// have, and storing the result.
#pragma once

#include "kernels/attention_parts.cuh"

namespace flashrt::cuda {

// ---- merging. Of some keys, for the 16 rows of a warp and some of their columns: lane 4 g + t has
// of every column tile columns 2t and 2t + 1 of row g, then of row g + 8.

template <int kTiles>
inline constexpr int kHalfOf = (kTiles + 1) / 2;
template <int kTiles>
inline constexpr int kSlotOf = (kHalfOf<kTiles> + 1) * kWarp;  // of float4: what a warp gives away

template <int kTiles>
struct Partial {
  float sums[kTiles][4];  // of weight times v
  float maximum[2];       // of the scores of rows g and g + 8
  float weight[2];        // sum of weights

  // Column tile n of one of the two halves; past the last tile zeros.
  __device__ __forceinline__ float4 half_tile(int half, int n) const {
    const float* s = sums[n];
    if (half == 0) return {s[0], s[1], s[2], s[3]};
    if (kHalfOf<kTiles> + n >= kTiles) return {};
    const float* t = sums[(kHalfOf<kTiles> + n) % kTiles];
    return {t[0], t[1], t[2], t[3]};
  }
};

// Two warps with the same rows each keep a half of the columns, and give the other away: put(i, x)
// brings x to place i of a slot.
template <int kTiles, class Put>
__device__ __forceinline__ void give(const Partial<kTiles>& partial, int half, Put put) {
  constexpr int kHalf = kHalfOf<kTiles>;
  const int lane = threadIdx.x % kWarp;
#pragma unroll
  for (int n = 0; n < kHalf; ++n) put(n * kWarp + lane, partial.half_tile(half, n));
  put(kHalf * kWarp + lane,
      float4{partial.maximum[0], partial.maximum[1], partial.weight[0], partial.weight[1]});
}

// The half that was kept, with what the other warp gave. `scale` turns scores into powers of two.
template <int kTiles>
__device__ __forceinline__ auto merge(const Partial<kTiles>& partial, int half, const float4* slot,
                                      float scale) {
  constexpr int kHalf = kHalfOf<kTiles>;
  const int lane = threadIdx.x % kWarp;
  const float4 end = slot[kHalf * kWarp + lane];
  const float maximum[2] = {end.x, end.y}, weight[2] = {end.z, end.w};
  Partial<kHalf> merged;
  float own[2], other[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    merged.maximum[h] = fmaxf(partial.maximum[h], maximum[h]);
    const float offset = offset_of(merged.maximum[h]);
    own[h] = exp2_approximate((partial.maximum[h] - offset) * scale);
    other[h] = exp2_approximate((maximum[h] - offset) * scale);
    merged.weight[h] = partial.weight[h] * own[h] + weight[h] * other[h];
  }
#pragma unroll
  for (int n = 0; n < kHalf; ++n) {
    const float4 kept = partial.half_tile(half, n), given = slot[n * kWarp + lane];
    merged.sums[n][0] = kept.x * own[0] + given.x * other[0];
    merged.sums[n][1] = kept.y * own[0] + given.y * other[0];
    merged.sums[n][2] = kept.z * own[1] + given.z * other[1];
    merged.sums[n][3] = kept.w * own[1] + given.w * other[1];
  }
  return merged;
}

// ---- storing

__device__ __forceinline__ void store_pair(float* y, float a, float b, const Divisor&) {
  store_vector(y, Vector<float, 2>{a, b});
}
__device__ __forceinline__ void store_pair(bf16* y, float a, float b, const Divisor&) {
  *reinterpret_cast<uint32_t*>(y) = packed_bf16(a, b);
}
__device__ __forceinline__ void store_pair(f16* y, float a, float b, const Divisor&) {
  *reinterpret_cast<uint32_t*>(y) = packed_f16(a, b);
}
__device__ __forceinline__ void store_pair(e4m3* y, float a, float b, const Divisor& scale) {
  *reinterpret_cast<uint16_t*>(y) =
      static_cast<uint16_t>(packed_e4m3(quotient(a, scale), quotient(b, scale)));
}

struct WarpRows {
  int first, end;  // folded; `end` of all valid ones
  int kv_head, group;
};

template <class T, int kTiles>
__device__ __forceinline__ void store_as(const Matrix& y, const Partial<kTiles>& partial,
                                         const WarpRows& rows, int head_dim, int first_column) {
  const int lane = threadIdx.x % kWarp;
  const Divisor scale{y.scale, 1.0f / y.scale};
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = rows.first + lane / 4 + 8 * h;
    if (row >= rows.end) continue;
    const int head = rows.kv_head * rows.group + row % rows.group;
    T* out = static_cast<T*>(y.data) + row / rows.group * y.stride + head * head_dim;
    const float inverse = partial.weight[h] == 0.0f ? 0.0f : 1.0f / partial.weight[h];
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const int column = first_column + n * 8;
      if (column >= head_dim) continue;
      store_pair(out + column + lane % 4 * 2, partial.sums[n][2 * h] * inverse,
                 partial.sums[n][2 * h + 1] * inverse, scale);
    }
  }
}
template <int kTiles>
__device__ __forceinline__ void store_partial(const Matrix& y, const Partial<kTiles>& partial,
                                              const WarpRows& rows, int head_dim,
                                              int first_column) {
  switch (y.type) {
    case DType::kF32:
      return store_as<float>(y, partial, rows, head_dim, first_column);
    case DType::kBF16:
      return store_as<bf16>(y, partial, rows, head_dim, first_column);
    case DType::kF16:
      return store_as<f16>(y, partial, rows, head_dim, first_column);
    case DType::kE4M3:
      return store_as<e4m3>(y, partial, rows, head_dim, first_column);
    case DType::kI32:
    case DType::kU8:
      return;  // refused by attention()
  }
}

}  // namespace flashrt::cuda
