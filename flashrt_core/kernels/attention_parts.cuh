// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// What the kernels of attention share: the keys that rows see, and matrix instructions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/attention.cuh"
#include "kernels/cluster.cuh"
#include "kernels/common.cuh"
#include "kernels/copy_async.cuh"

namespace flashrt::cuda {

// ---- the kernels on matrix units; attention() chooses. `decode`, `tile`, `long` and `causal` fold
// the query heads of a kv head into the rows: row f of the folded rows is head f % group of token f
// / group.

bool attention_decode_accepts(const AttentionArgs& args, const DeviceInfo& device);
const char* attention_decode(const AttentionArgs& args, const Launch& launch);
bool attention_tile_accepts(const AttentionArgs& args, const DeviceInfo& device);
const char* attention_tile(const AttentionArgs& args, const Launch& launch);
bool attention_small_accepts(const AttentionArgs& args);
const char* attention_small(const AttentionArgs& args, const Launch& launch);
bool attention_long_accepts(const AttentionArgs& args, const DeviceInfo& device);
const char* attention_long(const AttentionArgs& args, const Launch& launch);
bool attention_causal_accepts(const AttentionArgs& args, const DeviceInfo& device);
const char* attention_causal(const AttentionArgs& args, const Launch& launch);
bool attention_wgmma_accepts(const AttentionArgs& args, const DeviceInfo& device);
const char* attention_wgmma(const AttentionArgs& args, const Launch& launch);

// What they need: 16-bit operands in rows of 16-byte pieces, results in pairs, few ranges.
inline constexpr int kFastRanges = 4;
inline bool attention_fits_matrix_units(const AttentionArgs& args) {
  constexpr int kPiece = 16;
  const auto is_operand = [&](const Matrix& m) {
    return m.type == DType::kBF16 && is_aligned(m, kPiece) && args.head_dim * 2 % kPiece == 0 &&
           m.stride * 2 <= INT32_MAX;
  };
  return is_operand(args.q) && is_operand(args.k) && is_operand(args.v) &&
         is_aligned(args.y, 2 * static_cast<int>(size_of(args.y.type))) &&
         is_divisor(args.y.scale) && args.scale > 0 && args.range_count <= kFastRanges;
}

// ---- keys

// The rows of the cache that a query sees, numbered through from 0.
template <int kRanges>
struct VisibleKeys {
  int begin[kRanges], count[kRanges];
  int total = 0;

  __device__ __forceinline__ int row(int key) const {
    int found = begin[0] + key;
#pragma unroll
    for (int r = 1; r < kRanges; ++r) {
      key -= count[r - 1];
      if (key >= 0) found = begin[r] + key;
    }
    return found;
  }
  // Keys in rows below this one.
  __device__ __forceinline__ int count_below(int end) const {
    int below = 0;
#pragma unroll
    for (int r = 0; r < kRanges; ++r) below += max(0, min(end - begin[r], count[r]));
    return below;
  }
};

// The ranges cut to the rows [first, last); a causal mask cuts the first range only.
template <int kRanges = kFastRanges>
__device__ __forceinline__ VisibleKeys<kRanges> visible_keys(const AttentionArgs& args, int first,
                                                             int last) {
  VisibleKeys<kRanges> keys;
#pragma unroll
  for (int r = 0; r < kRanges; ++r) {
    keys.begin[r] = keys.count[r] = 0;
    if (r >= args.range_count) continue;
    const AttentionRange& range = args.ranges[r];
    const int end = range.begin + range.count + (range.length ? *range.length : 0);
    const int cut = args.is_causal && r > 0 ? INT32_MAX : last;
    keys.begin[r] = max(range.begin, first);
    keys.count[r] = max(0, min(end, min(cut, static_cast<int>(args.k.rows))) - keys.begin[r]);
    keys.total += keys.count[r];
  }
  return keys;
}

// ---- loads

__device__ __forceinline__ const std::byte* bytes_at(const Matrix& m, int64_t element) {
  return reinterpret_cast<const std::byte*>(static_cast<const bf16*>(m.data) + element);
}

// They stay where they are written: ahead of wait_for_previous(), or of all that hides them.
__device__ __forceinline__ void load_ahead(const std::byte* p, uint4& words) {
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "l"(p));
}
__device__ __forceinline__ void load_ahead(const std::byte* p, uint2& words) {
  asm volatile("ld.global.L1::no_allocate.v2.u32 {%0, %1}, [%2];"
               : "=r"(words.x), "=r"(words.y)
               : "l"(p));
}
__device__ __forceinline__ void load_ahead(const std::byte* p, uint32_t& word) {
  asm volatile("ld.global.L1::no_allocate.u32 %0, [%1];" : "=r"(word) : "l"(p));
}

// ---- matrix instructions on bf16. Lane 4 g + t of a warp holds, of each 8 x 8 matrix that
// load_matrices brings, columns 2t and 2t + 1 of row g; transposed: rows 2t and 2t + 1 of column g.
// Lanes 8 i to 8 i + 7 give the addresses of the rows of matrix i.

__device__ __forceinline__ void load_matrices(uint32_t (&m)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void load_matrices(uint32_t (&m)[2], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(m[0]), "=r"(m[1])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void load_transposed(uint32_t (&m)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void load_transposed(uint32_t (&m)[2], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(m[0]), "=r"(m[1])
               : "r"(address)
               : "memory");
}

// c [16, 8] += a [16, 16] b [16, 8]. The lane holds of c columns 2t, 2t + 1 of row g, then of row
// g + 8; of a the four 8 x 8 matrices down the first columns, then the second; of b (transposed)
// those of k below 8 and from 8 on.
__device__ __forceinline__ void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                             uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
// The same with half the depth: a [16, 8], b [8, 8].
__device__ __forceinline__ void multiply_add(float (&c)[4], const uint32_t (&a)[2], uint32_t b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(b));
}

// Elements from row to row in shared memory: an odd number of 16-byte pieces, so that the eight
// rows of a matrix lie in different banks.
constexpr int odd_pieces(int width) { return width / 8 % 2 == 1 ? width : width + 8; }

// ---- softmax, in powers of two

inline constexpr float kLog2E = 1.44269504f;
inline constexpr float kNoKey = -std::numeric_limits<float>::infinity();

__device__ __forceinline__ float exp2_approximate(
    float x) {  // relative error 2^-22; 0 at -infinity
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// What is subtracted from the scores of a row; finite, so that a row without keys has weights of 0.
__device__ __forceinline__ float offset_of(float maximum) {
  return maximum == kNoKey ? 0.0f : maximum;
}
// Over the warp: on integers of the same order, in one instruction.
__device__ __forceinline__ float ordered_warp_max(float x) {
  const auto turned = [](int bits) { return bits ^ (bits >> 31 & INT32_MAX); };
  return __int_as_float(turned(__reduce_max_sync(kAllLanes, turned(__float_as_int(x)))));
}
// Over the four lanes that hold a row.
__device__ __forceinline__ float row_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, 1));
  return fmaxf(x, __shfl_xor_sync(kAllLanes, x, 2));
}
__device__ __forceinline__ float row_sum(float x) {
  x += __shfl_xor_sync(kAllLanes, x, 1);
  return x + __shfl_xor_sync(kAllLanes, x, 2);
}

// ---- softmax of what warp groups multiply: a lane has of every eight keys two of row g, then of
// row g + 8.

// `count`: keys that there are, counted from the first one of this lane.
template <int N>
__device__ __forceinline__ void hide_keys(float (&scores)[N], int count) {
#pragma unroll
  for (int j = 0; j < N; ++j) {
    if (j / 4 * 8 + j % 2 >= count) scores[j] = kNoKey;
  }
}
template <int N>
__device__ __forceinline__ void add_maxima(const float (&scores)[N], float (&maximum)[2]) {
#pragma unroll
  for (int j = 0; j < N; j += 2) {
    maximum[j / 2 % 2] = fmaxf(maximum[j / 2 % 2], fmaxf(scores[j], scores[j + 1]));
  }
}
template <int N>
__device__ __forceinline__ void weigh(const float (&scores)[N], float scale,
                                      const float (&offset)[2], float (&total)[2],
                                      uint32_t (&weights)[N / 2]) {
#pragma unroll
  for (int j = 0; j < N; j += 2) {
    const int h = j / 2 % 2;
    const float first = exp2_approximate(scores[j] * scale - offset[h]);
    const float second = exp2_approximate(scores[j + 1] * scale - offset[h]);
    total[h] += first + second;
    weights[j / 2] = packed_bf16(first, second);
  }
}

// ---- the end: four neighbouring columns of a row, whose keys were seen in parts

// end_of(i) is what part i has of the row: its largest score and the sum of its weights; sum_of(i)
// its weighted values. `scale` turns scores into powers of two.
template <int kParts, class End, class Sum>
__device__ __forceinline__ void merge_parts(float scale, End end_of, Sum sum_of, float (&y)[4]) {
  float2 ends[kParts];
  float maximum = kNoKey;
#pragma unroll
  for (int i = 0; i < kParts; ++i) {
    ends[i] = end_of(i);
    maximum = fmaxf(maximum, ends[i].x);
  }
  const float offset = offset_of(maximum);
  float total = 0;
#pragma unroll
  for (float& element : y) element = 0;
#pragma unroll
  for (int i = 0; i < kParts; ++i) {
    const float factor = exp2_approximate((ends[i].x - offset) * scale);
    const float4 sum = sum_of(i);
    total += ends[i].y * factor;
    y[0] += sum.x * factor;
    y[1] += sum.y * factor;
    y[2] += sum.z * factor;
    y[3] += sum.w * factor;
  }
  const float inverse = total == 0.0f ? 0.0f : 1.0f / total;
#pragma unroll
  for (float& element : y) element *= inverse;
}

__device__ __forceinline__ void store_merged(const Matrix& m, int64_t at, const float (&y)[4],
                                             const Divisor& scale) {
  switch (m.type) {
    case DType::kF32:
      return store_floats(static_cast<float*>(m.data) + at, y, scale);
    case DType::kBF16:
      return store_floats(static_cast<bf16*>(m.data) + at, y, scale);
    case DType::kF16:
      return store_floats(static_cast<f16*>(m.data) + at, y, scale);
    case DType::kE4M3:
      return store_floats(static_cast<e4m3*>(m.data) + at, y, scale);
    case DType::kI32:
    case DType::kU8:
      return;  // refused by attention()
  }
}

// The most keys that a row may see, as the host knows it.
inline int64_t most_keys(const AttentionArgs& args) {
  int64_t keys = 0;
  for (int r = 0; r < args.range_count; ++r) {
    const AttentionRange& range = args.ranges[r];
    keys += range.length ? args.k.rows - range.begin : range.count;
  }
  return keys;
}

}  // namespace flashrt::cuda
