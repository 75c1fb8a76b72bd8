// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// attention of few rows in small heads on matrix units: the keys are split over the warps of a
// block.
//
// Layout    q, k, v: bf16 with 16-byte rows; heads of 48, each with its own keys; no mask. y: any
//           float type. Nothing that is read passes shared memory: the products take the dimensions
//           of a head, and the columns of v, in the order in which neighbouring bytes of a row feed
//           several matrix instructions.
// Work      a block takes 16 rows of a head, each of its warps every sixth tile of 16 keys; they
//           add up what they have at the end.
// Traffic   k and v once per block, all of 192 keys on their way at once; those that are settled
//           before the wait.
// Numerics  products and sums in float32; softmax in float32 with a running maximum; weights
//           rounded to bf16 for the second product.
// Reference backends/cpu/attention.cpp

#include "kernels/attention_parts.cuh"

namespace flashrt::cuda {
namespace {

constexpr int kHeadDim = 48;
constexpr int kWideDims = 32;  // four lanes share their 64 bytes of a row, then the other 32
constexpr int kTileRows = 16, kTileKeys = 16;
constexpr int kHeldTiles = 2;  // of a warp, in registers

// A lane has of its two rows three times four neighbouring columns; a warp adds up one of them.
constexpr int kQuads = 3;
constexpr int kWarps = 2 * kQuads;
constexpr int kThreads = kWarps * kWarp;
constexpr int kColumnTiles = kHeadDim / 8;

struct Shared {
  float4 sums[kWarps][2 * kQuads][kWarp];
  float2 ends[kWarps][kTileRows];  // {maximum, total weight}
};

// Of 16 keys: lane 4 g + t has eight and four dimensions of keys g and g + 8, and four and two
// columns of keys 2t, 2t + 1, 2t + 8 and 2t + 9.
struct KeyTile {
  uint4 k[2];
  uint2 k_rest[2];
  uint2 v[4];
  uint32_t v_rest[4];
};

// Column g of a matrix [16 keys, 8 columns], from the words of the lane's four keys.
__device__ __forceinline__ void value_operand(const uint32_t (&words)[4], int half,
                                              uint32_t (&b)[2]) {
  const uint32_t bytes = half == 0 ? 0x5410 : 0x7632;
  b[0] = __byte_perm(words[0], words[1], bytes);
  b[1] = __byte_perm(words[2], words[3], bytes);
}

// `is_fixed`: no length of a range lies on the device.
__global__ void __launch_bounds__(kThreads)
    attention_small_kernel(const __grid_constant__ AttentionArgs args, Divisor y_scale,
                           bool is_fixed) {
  __shared__ __align__(16) Shared shared;
  const bool is_settled = args.settled_begin == 0;
  if (!is_settled && !is_fixed) wait_for_previous();

  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int lane_row = lane / 4, lane_part = lane % 4;
  const int first_row = static_cast<int>(blockIdx.x) * kTileRows;
  const int head = static_cast<int>(blockIdx.y);
  const auto keys = visible_keys(args, 0, INT32_MAX);
  const int tiles = (keys.total + kTileKeys - 1) / kTileKeys;

  // Past the last key the last one is read again: it gets no weight.
  uint32_t k_rows[kHeldTiles][2], v_rows[kHeldTiles][4];
  const auto find_rows = [&](int first_tile) {
#pragma unroll
    for (int n = 0; n < kHeldTiles; ++n) {
      const int first_key = (first_tile + n * kWarps) * kTileKeys;
      if (first_key >= keys.total) break;
      const auto row_of = [&](int key) {
        return static_cast<uint32_t>(keys.row(min(first_key + key, keys.total - 1)));
      };
#pragma unroll
      for (int i = 0; i < 2; ++i) k_rows[n][i] = row_of(i * 8 + lane_row);
#pragma unroll
      for (int i = 0; i < 4; ++i) v_rows[n][i] = row_of(i / 2 * 8 + lane_part * 2 + i % 2);
    }
  };
  const auto k_stride = static_cast<uint32_t>(args.k.stride * sizeof(bf16));
  const auto v_stride = static_cast<uint32_t>(args.v.stride * sizeof(bf16));
  const std::byte* k_wide = bytes_at(args.k, head * kHeadDim + lane_part * 8);
  const std::byte* k_rest = bytes_at(args.k, head * kHeadDim + kWideDims + lane_part * 4);
  const std::byte* v_wide = bytes_at(args.v, head * kHeadDim + lane_row * 4);
  const std::byte* v_rest = bytes_at(args.v, head * kHeadDim + kWideDims + lane_row * 2);
  KeyTile held[kHeldTiles];
  const auto load_tiles = [&](int first_tile) {
#pragma unroll
    for (int n = 0; n < kHeldTiles; ++n) {
      if ((first_tile + n * kWarps) * kTileKeys >= keys.total) break;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        load_ahead(k_wide + uint64_t{k_rows[n][i]} * k_stride, held[n].k[i]);
        load_ahead(k_rest + uint64_t{k_rows[n][i]} * k_stride, held[n].k_rest[i]);
      }
    }
#pragma unroll
    for (int n = 0; n < kHeldTiles; ++n) {
      if ((first_tile + n * kWarps) * kTileKeys >= keys.total) break;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        load_ahead(v_wide + uint64_t{v_rows[n][i]} * v_stride, held[n].v[i]);
        load_ahead(v_rest + uint64_t{v_rows[n][i]} * v_stride, held[n].v_rest[i]);
      }
    }
  };
  find_rows(warp);
  if (is_settled) load_tiles(warp);
  wait_for_previous();
  if (!is_settled) load_tiles(warp);
  // Last of the loads, because the compiler puts moves behind them, which wait. Rows past the last
  // one are not stored.
  const std::byte* q_head = bytes_at(args.q, head * kHeadDim);
  const auto q_stride = static_cast<uint32_t>(args.q.stride * sizeof(bf16));
  uint4 q[2];
  uint2 q_rest[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = min(first_row + lane_row + 8 * h, static_cast<int>(args.q.rows) - 1);
    const std::byte* from = q_head + uint64_t{static_cast<uint32_t>(row)} * q_stride;
    load_ahead(from + lane_part * sizeof(uint4), q[h]);
    load_ahead(from + kWideDims * sizeof(bf16) + lane_part * sizeof(uint2), q_rest[h]);
  }
  const auto rows = static_cast<int>(min(valid_rows(args.q), args.q.rows));
  if (first_row >= rows) return;
  const uint32_t a[3][4] = {{q[0].x, q[1].x, q[0].y, q[1].y},
                            {q[0].z, q[1].z, q[0].w, q[1].w},
                            {q_rest[0].x, q_rest[1].x, q_rest[0].y, q_rest[1].y}};

  const float scale = args.scale * kLog2E;
  float maximum[2] = {kNoKey, kNoKey}, total[2] = {};
  float sums[kColumnTiles][4] = {};
  for (int tile = warp; tile < tiles; tile += kHeldTiles * kWarps) {
    if (tile != warp) {
      find_rows(tile);
      load_tiles(tile);
    }
    const int count = keys.total - tile * kTileKeys;  // of keys from the first held one on
    float scores[kHeldTiles][2][4];
#pragma unroll
    for (int n = 0; n < kHeldTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float(&s)[4] = scores[n][i];
        s[0] = s[1] = s[2] = s[3] = 0;
        const int first_key = n * kWarps * kTileKeys + i * 8;
        if (first_key < count) {
          const uint4& k = held[n].k[i];
          const uint2& rest = held[n].k_rest[i];
          multiply_add(s, a[0], k.x, k.y);
          multiply_add(s, a[1], k.z, k.w);
          multiply_add(s, a[2], rest.x, rest.y);
        }
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          if (first_key + lane_part * 2 + j % 2 >= count) s[j] = kNoKey;
        }
      }
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float largest = kNoKey;
#pragma unroll
      for (int n = 0; n < 2 * kHeldTiles; ++n) {
        const float(&s)[4] = scores[n / 2][n % 2];
        largest = fmaxf(largest, fmaxf(s[2 * h], s[2 * h + 1]));
      }
      largest = fmaxf(maximum[h], row_max(largest));
      const float offset = offset_of(largest) * scale;
      const float factor = exp2_approximate(maximum[h] * scale - offset);
      maximum[h] = largest;
      float weight = 0;
#pragma unroll
      for (int n = 0; n < 2 * kHeldTiles; ++n) {
        float(&s)[4] = scores[n / 2][n % 2];
#pragma unroll
        for (int j = 2 * h; j < 2 * h + 2; ++j) {
          s[j] = exp2_approximate(s[j] * scale - offset);
          weight += s[j];
        }
      }
      total[h] = total[h] * factor + weight;  // of this lane's keys
      if (tile != warp) {
#pragma unroll
        for (float(&s)[4] : sums) {
          s[2 * h] *= factor;
          s[2 * h + 1] *= factor;
        }
      }
    }
#pragma unroll
    for (int n = 0; n < kHeldTiles; ++n) {
      if (n * kWarps * kTileKeys >= count) break;
      const float(&s)[2][4] = scores[n];
      const uint32_t weights[4] = {packed_bf16(s[0][0], s[0][1]), packed_bf16(s[0][2], s[0][3]),
                                   packed_bf16(s[1][0], s[1][1]), packed_bf16(s[1][2], s[1][3])};
#pragma unroll
      for (int c = 0; c < kColumnTiles; ++c) {
        uint32_t words[4], b[2];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          words[i] = c < 2 ? held[n].v[i].x : c < 4 ? held[n].v[i].y : held[n].v_rest[i];
        }
        value_operand(words, c % 2, b);
        multiply_add(sums[c], weights, b[0], b[1]);
      }
    }
  }

  // Column tiles 0 to 3 have columns 4c to 4c + 3 at their column c, the others 32 + 2c and one
  // more: with columns 2t and 2t + 1 of all of them a lane has eight neighbours and four.
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float weight = row_sum(total[h]);
    if (lane_part == 0) shared.ends[warp][h * 8 + lane_row] = {maximum[h], weight};
    const int i = 2 * h;
    float4(&out)[2 * kQuads][kWarp] = shared.sums[warp];
    out[h * kQuads][lane] = {sums[0][i], sums[1][i], sums[2][i], sums[3][i]};
    out[h * kQuads + 1][lane] = {sums[0][i + 1], sums[1][i + 1], sums[2][i + 1], sums[3][i + 1]};
    out[h * kQuads + 2][lane] = {sums[4][i], sums[5][i], sums[4][i + 1], sums[5][i + 1]};
  }
  __syncthreads();  // what all warps have is there

  const int half = warp / kQuads, quad = warp % kQuads;
  const int own = half * 8 + lane_row, row = first_row + own;
  if (row >= rows) return;
  float y[4];
  merge_parts<kWarps>(
      scale, [&](int w) { return shared.ends[w][own]; },
      [&](int w) { return shared.sums[w][warp][lane]; }, y);
  const int column = quad < 2 ? lane_part * 8 + quad * 4 : kWideDims + lane_part * 4;
  const int64_t at = row * args.y.stride + head * kHeadDim + column;
  store_merged(args.y, at, y, y_scale);
}

}  // namespace

bool attention_small_accepts(const AttentionArgs& args) {
  return args.head_dim == kHeadDim && args.heads == args.kv_heads && args.block == 0 &&
         !args.is_causal && attention_fits_matrix_units(args) &&
         is_aligned(args.y, 4 * static_cast<int>(size_of(args.y.type)));
}

const char* attention_small(const AttentionArgs& args, const Launch& launch) {
  constexpr const char* kName = "attention_small";
  const dim3 grid(static_cast<unsigned>((args.q.rows + kTileRows - 1) / kTileRows),
                  static_cast<unsigned>(args.heads));
  const bool is_fixed = std::none_of(args.ranges, args.ranges + args.range_count,
                                     [](const AttentionRange& r) { return r.length; });
  launch_kernel(kName, attention_small_kernel, grid, kThreads, 0, launch, 1, args,
                divisor_of(args.y), is_fixed);
  return kName;
}

}  // namespace flashrt::cuda
