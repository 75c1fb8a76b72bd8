// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// attention: y = softmax(q k^T * scale + mask) v over the keys in the ranges; the choice of a
// kernel, and the one that takes everything.
//
// Layout    any types, strides and head dimensions.
// Work      a block takes one query row of one head; its keys in tiles: a warp a key for the
//           scores, a thread a column for the sums.
// Traffic   k and v once per query row and head, from the caches; meant for checking.
// Numerics  products and sums in float32 in a fixed order; softmax with a running maximum. A row
//           that sees no key gives zeros.
// Reference backends/cpu/attention.cpp

#include "kernels/attention_parts.cuh"

namespace flashrt::cuda {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarp;
constexpr int kTileKeys = kThreads;

__global__ void __launch_bounds__(kThreads)
    attention_generic_kernel(const __grid_constant__ AttentionArgs args) {
  extern __shared__ float memory[];
  float* q = memory;                // [head_dim], scaled
  float* sums = q + args.head_dim;  // [head_dim]
  __shared__ float scores[kTileKeys], weights[kTileKeys];
  __shared__ int rows[kTileKeys];  // of the keys of a tile

  wait_for_previous();

  const int row = blockIdx.x, head = blockIdx.y;
  if (row >= valid_rows(args.q)) return;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int query_column = head * args.head_dim;
  const int key_column = head / (args.heads / args.kv_heads) * args.head_dim;

  int first = 0, last = INT32_MAX;
  if (args.is_causal) last = row + args.causal_offset + 1;
  if (args.block > 0) {
    first = row / args.block * args.block;
    last = first + args.block;
  }
  const auto keys = visible_keys<AttentionArgs::kMaxRanges>(args, first, last);

  for (int i = threadIdx.x; i < args.head_dim; i += kThreads) {
    q[i] = load(args.q, row, query_column + i) * args.scale;
    sums[i] = 0;
  }
  float maximum = kNoKey, total = 0;
  for (int begin = 0; begin < keys.total; begin += kTileKeys) {
    const int count = min(kTileKeys, keys.total - begin);
    __syncthreads();  // the weights and rows of the tile before have been read
    if (threadIdx.x < count) rows[threadIdx.x] = keys.row(begin + threadIdx.x);
    __syncthreads();  // q and the rows are there
    for (int j = warp; j < count; j += kWarps) {
      const int key = rows[j];
      float dot = 0;
      for (int i = lane; i < args.head_dim; i += kWarp) {
        dot += q[i] * load(args.k, key, key_column + i);
      }
      dot = warp_sum(dot);
      if (lane == 0) scores[j] = dot;
    }
    __syncthreads();  // the scores are there
    float largest = maximum;
    for (int j = lane; j < count; j += kWarp) largest = fmaxf(largest, scores[j]);
    largest = warp_max(largest);
    const float shrink = expf(maximum - largest);
    maximum = largest;
    const int own = threadIdx.x;
    weights[own] = own < count ? expf(scores[own] - maximum) : 0.0f;
    __syncthreads();  // the weights are there
    float weight = 0;
    for (int j = lane; j < kTileKeys; j += kWarp) weight += weights[j];
    total = total * shrink + warp_sum(weight);
    for (int i = threadIdx.x; i < args.head_dim; i += kThreads) {
      float sum = sums[i] * shrink;
      for (int j = 0; j < count; ++j) {
        sum += weights[j] * load(args.v, rows[j], key_column + i);
      }
      sums[i] = sum;
    }
  }
  const float inverse = total == 0.0f ? 0.0f : 1.0f / total;
  for (int i = threadIdx.x; i < args.head_dim; i += kThreads) {  // what this thread summed
    store(args.y, row, query_column + i, sums[i] * inverse);
  }
}

const char* attention_generic(const AttentionArgs& args, const Launch& launch) {
  constexpr const char* kName = "attention_generic";
  const dim3 grid(static_cast<unsigned>(args.q.rows), static_cast<unsigned>(args.heads));
  launch_kernel(kName, attention_generic_kernel, grid, kThreads, 2 * args.head_dim * sizeof(float),
                launch, 1, args);
  return kName;
}

void check_args(const AttentionArgs& args) {
  FLASHRT_CHECK(
      args.head_dim > 0 && args.kv_heads > 0 && args.heads > 0 && args.heads % args.kv_heads == 0,
      "attention: ", args.heads, " query heads of ", args.head_dim, " on ", args.kv_heads,
      " kv heads, expected a positive multiple of the kv heads");
  const int64_t width = int64_t{args.heads} * args.head_dim;
  const int64_t key_width = int64_t{args.kv_heads} * args.head_dim;
  check_operand("attention", "q", args.q, args.q.rows, width);
  check_operand("attention", "k", args.k, args.k.rows, key_width);
  check_operand("attention", "v", args.v, args.k.rows, key_width);
  check_operand("attention", "y", args.y, args.q.rows, width);
  FLASHRT_CHECK(
      args.q.rows > 0 && args.q.rows * args.heads <= INT32_MAX && args.k.rows <= INT32_MAX,
      "attention: ", args.q.rows, " query rows of ", args.heads, " heads and ", args.k.rows,
      " key rows, expected fewer than 2^31 and at least one");
  FLASHRT_CHECK(args.block >= 0 && !(args.is_causal && args.block > 0),
                "attention: a mask of blocks of ", args.block, " rows, causal ", args.is_causal,
                ", expected one mask at most");
  FLASHRT_CHECK(0 < args.range_count && args.range_count <= AttentionArgs::kMaxRanges,
                "attention: ", args.range_count, " key ranges, expected 1 to ",
                AttentionArgs::kMaxRanges);
  for (int r = 0; r < args.range_count; ++r) {
    const AttentionRange& range = args.ranges[r];
    FLASHRT_CHECK(
        range.begin >= 0 && range.count >= 0 && int64_t{range.begin} + range.count <= args.k.rows,
        "attention: key range [", range.begin, ", ", range.begin, " + ", range.count, ") of ",
        args.k.rows, " keys");
  }
}

}  // namespace

const char* attention(const AttentionArgs& args, const Launch& launch) {
  check_args(args);
  if (attention_decode_accepts(args, *launch.device)) return attention_decode(args, launch);
  if (attention_small_accepts(args)) return attention_small(args, launch);
  if (attention_wgmma_accepts(args, *launch.device)) return attention_wgmma(args, launch);
  if (attention_long_accepts(args, *launch.device)) return attention_long(args, launch);
  if (attention_causal_accepts(args, *launch.device)) return attention_causal(args, launch);
  if (attention_tile_accepts(args, *launch.device)) return attention_tile(args, launch);
  return attention_generic(args, launch);
}

}  // namespace flashrt::cuda
