// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// attention of few rows on matrix units: the keys are split over the blocks of a cluster.
//
// Layout    q, k, v: bf16 with 16-byte rows; heads of 256; up to 512 folded rows and 1024 keys. y:
//           any float type. k and v pass no shared memory: the products take the dimensions of a
//           head, and the columns of v, in the order in which neighbouring bytes of a row feed
//           several matrix instructions.
// Work      a cluster takes 8 or 32 folded rows of a kv head, each of its blocks a share of the
//           keys. For the scores the warps of a block split head and keys, for the sums its
//           columns; every block sends its sums of some columns to the one that adds and stores
//           them.
// Traffic   k and v once per cluster; keys that are settled are on their way before the wait.
// Numerics  products, softmax and sums in float32, in a fixed order; weights rounded to bf16 for
//           the second product.
// Reference backends/cpu/attention.cpp

#include "kernels/attention_parts.cuh"

namespace flashrt::cuda {
namespace {

constexpr int kHeadDim = 256;
constexpr int kSplits = 8;  // blocks of a cluster: the most that every device takes
constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarp;
constexpr int kTileRows = 8;    // of q in a matrix instruction
constexpr int kTileKeys = 16;   // of k and v in one
constexpr int kMaxShare = 128;  // keys of a block
constexpr int kMaxTiles = kMaxShare / kTileKeys;
constexpr int kMaxFoldedRows = 512;

// For the scores a warp takes a quarter of the head and every other tile of keys.
constexpr int kParts = 4;
constexpr int kPartDims = kHeadDim / kParts;
constexpr int kChunkDims = 32;  // four lanes share the 64 bytes of a row
constexpr int kChunks = kPartDims / kChunkDims;
constexpr int kKeyWarps = kWarps / kParts;
constexpr int kWarpTiles = kMaxTiles / kKeyWarps;
// For the sums it takes all keys and these columns, of which a lane has four neighbours. They are
// what one block of the cluster adds up.
constexpr int kColumns = kHeadDim / kWarps;
static_assert(kWarps == kSplits && kColumns == 32);
constexpr int kQuads = kColumns / 4;

// Tiles in registers at a time: enough for 640 keys; the others follow when there is room.
constexpr int kHeldKeys = 3;    // of a warp
constexpr int kHeldValues = 5;  // of all

template <int kRowTiles>
struct Shared {
  static constexpr int kRows = kTileRows * kRowTiles;
  static constexpr int kScorePitch = kMaxShare + 4;   // a warp's scores lie in different banks
  static constexpr int kWeightPitch = kMaxShare + 8;  // an odd number of 16-byte pieces

  // What the blocks of the cluster send: of their keys the sums, and {maximum, total weight}.
  float4 sums[kSplits][kRows][kQuads];
  float2 ends[kRows][kSplits];
  float scores[kParts][kRows][kScorePitch];  // of a part of the head
  bf16 weights[kRows][kWeightPitch];
  int rows[kMaxShare];  // of the cache, by key
  uint64_t received;

  // What a block receives in `sums` and `ends`.
  static constexpr int kReceivedBytes = sizeof(sums) + sizeof(ends);
};

// From the pieces that a lane has of keys g and g + 8, what one of their two products takes.
__device__ __forceinline__ void key_operand(const uint4& low, const uint4& high, int step,
                                            uint32_t (&a)[4]) {
  a[0] = step == 0 ? low.x : low.z;
  a[1] = step == 0 ? high.x : high.z;
  a[2] = step == 0 ? low.y : low.w;
  a[3] = step == 0 ? high.y : high.w;
}

// The same 16 bits of two keys.
__device__ __forceinline__ uint32_t low_halves(uint32_t first, uint32_t second) {
  return __byte_perm(first, second, 0x5410);
}
__device__ __forceinline__ uint32_t high_halves(uint32_t first, uint32_t second) {
  return __byte_perm(first, second, 0x7632);
}

// With few registers there is room beside a block for the launches before and after it.
template <int kRowTiles>
__global__ void __launch_bounds__(kThreads, kRowTiles == 1 ? 2 : 1)
    attention_decode_kernel(const __grid_constant__ AttentionArgs args, Divisor y_scale) {
  using Memory = Shared<kRowTiles>;
  constexpr int kRows = Memory::kRows;
  extern __shared__ __align__(128) unsigned char memory[];
  Memory& shared = *reinterpret_cast<Memory*>(memory);
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int lane_row = lane / 4, lane_part = lane % 4;
  const int split = blockIdx.x % kSplits, first_row = blockIdx.x / kSplits * kRows;
  const int kv_head = blockIdx.y, group = args.heads / args.kv_heads;
  const int part = warp % kParts, key_warp = warp / kParts;
  const int column = warp * kColumns + lane_row * 4;

  if (threadIdx.x == 0) expect_bytes(&shared.received, Memory::kReceivedBytes);
  __syncwarp();
  cluster_started();  // this block is there to receive

  // The keys of this block; those from `settled` on may be read before the wait.
  int key_count = 0, settled = 0;
  const auto find_keys = [&] {
    const auto keys = visible_keys(args, 0, INT32_MAX);
    const int share = (keys.total + kSplits - 1) / kSplits, first_key = split * share;
    key_count = max(0, min(share, keys.total - first_key));
    settled = args.settled_begin < 0
                  ? key_count
                  : max(0, min(keys.count_below(args.settled_begin) - first_key, key_count));
    if (threadIdx.x < key_count) shared.rows[threadIdx.x] = keys.row(first_key + threadIdx.x);
    __syncthreads();  // the rows of the keys are there
  };

  // Lane 4 g + t has 16 bytes of keys g and g + 8 of a tile, in every chunk of its part of the
  // head.
  const std::byte* k_part = bytes_at(args.k, kv_head * kHeadDim + part * kPartDims + lane_part * 8);
  const int k_stride = static_cast<int>(args.k.stride * sizeof(bf16));
  uint4 k[kHeldKeys][2][kChunks] = {};
  const auto load_keys = [&](int i, int begin, int end) {  // tile i of the warp
    const int tile = i * kKeyWarps + key_warp;
    if (tile * kTileKeys >= end) return;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int key = tile * kTileKeys + h * 8 + lane_row;
      if (key < begin || key >= end) continue;
      const std::byte* row = k_part + int64_t{shared.rows[key]} * k_stride;
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        load_ahead(row + c * kChunkDims * sizeof(bf16), k[i % kHeldKeys][h][c]);
      }
    }
  };
  // And four columns of keys 2t, 2t + 1, 2t + 8 and 2t + 9; zeros where there is no key: its weight
  // is zero, and zero times NaN is not.
  const std::byte* v_column = bytes_at(args.v, kv_head * kHeadDim + column);
  const int v_stride = static_cast<int>(args.v.stride * sizeof(bf16));
  uint2 v[kHeldValues][4] = {};
  const auto load_values = [&](int tile, int begin, int end) {
    if (tile * kTileKeys >= end) return;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int key = tile * kTileKeys + i / 2 * 8 + lane_part * 2 + i % 2;
      if (key < begin || key >= end) continue;
      load_ahead(v_column + int64_t{shared.rows[key]} * v_stride, v[tile % kHeldValues][i]);
    }
  };
  const auto load_first = [&](int begin, int end) {
#pragma unroll
    for (int i = 0; i < kHeldKeys; ++i) load_keys(i, begin, end);
#pragma unroll
    for (int i = 0; i < kHeldValues; ++i) load_values(i, begin, end);
  };

  // Rows past the valid ones are read within the capacity, and not stored.
  const int capacity = static_cast<int>(args.q.rows) * group;
  const std::byte* queries =
      bytes_at(args.q, kv_head * group * kHeadDim + part * kPartDims + lane_part * 8);
  const std::byte* q_rows[kRowTiles];
  uint4 q[kRowTiles][kChunks] = {};
#pragma unroll
  for (int n = 0; n < kRowTiles; ++n) {
    const int row = first_row + n * kTileRows + lane_row;
    q_rows[n] = row < capacity ? queries + (row / group * args.q.stride + row % group * kHeadDim) *
                                               static_cast<int64_t>(sizeof(bf16))
                               : nullptr;
  }

  if (args.settled_begin >= 0) {
    find_keys();
    load_first(settled, key_count);
  }
  wait_for_previous();

#pragma unroll
  for (int n = 0; n < kRowTiles; ++n) {
    if (!q_rows[n]) continue;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      load_ahead(q_rows[n] + c * kChunkDims * sizeof(bf16), q[n][c]);
    }
  }
  if (args.settled_begin < 0) find_keys();
  if (settled > 0) load_first(0, settled);
  const int rows = static_cast<int>(min(valid_rows(args.q), args.q.rows)) * group;
  if (first_row >= rows) {  // all blocks of the cluster
    cluster_wait();
    return;
  }
  const int tiles = (key_count + kTileKeys - 1) / kTileKeys;

  // Scores over a part of the head. Lane 4 g + t has keys g, then g + 8, of rows 2t and 2t + 1.
#pragma unroll
  for (int i = 0; i < kWarpTiles; ++i) {
    const int tile = i * kKeyWarps + key_warp;
    if (tile >= tiles) break;
    float sums[kRowTiles][4] = {};
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        uint32_t a[4];
        key_operand(k[i % kHeldKeys][0][c], k[i % kHeldKeys][1][c], step, a);
#pragma unroll
        for (int n = 0; n < kRowTiles; ++n) {
          multiply_add(sums[n], a, step == 0 ? q[n][c].x : q[n][c].z,
                       step == 0 ? q[n][c].y : q[n][c].w);
        }
      }
    }
    if (i + kHeldKeys < kWarpTiles) load_keys(i + kHeldKeys, 0, key_count);
#pragma unroll
    for (int n = 0; n < kRowTiles; ++n) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        shared.scores[part][n * kTileRows + lane_part * 2 + j % 2]
                     [tile * kTileKeys + j / 2 * 8 + lane_row] = sums[n][j];
      }
    }
  }
  __syncthreads();  // the scores of all parts are there

  // Weights of a row at a time; a lane has four neighbouring keys.
  const float scale = args.scale * kLog2E;
  float maxima[kRowTiles], totals[kRowTiles];
#pragma unroll
  for (int n = 0; n < kRowTiles; ++n) {
    const int row = n * kTileRows + warp;
    float scores[4] = {kNoKey, kNoKey, kNoKey, kNoKey};
    if (lane * 4 < key_count) {
      float parts[kParts][4];
#pragma unroll
      for (int p = 0; p < kParts; ++p) load_floats(&shared.scores[p][row][lane * 4], parts[p]);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float sum = (parts[0][j] + parts[1][j]) + (parts[2][j] + parts[3][j]);
        scores[j] = lane * 4 + j < key_count ? sum : kNoKey;
      }
    }
    static_assert(kParts == 4);
    maxima[n] = ordered_warp_max(fmaxf(fmaxf(scores[0], scores[1]), fmaxf(scores[2], scores[3])));
    const float offset = offset_of(maxima[n]) * scale;
#pragma unroll
    for (int j = 0; j < 4; ++j) scores[j] = exp2_approximate(scores[j] * scale - offset);
    totals[n] = (scores[0] + scores[1]) + (scores[2] + scores[3]);  // of this lane's keys
    *reinterpret_cast<uint2*>(&shared.weights[row][lane * 4]) = {packed_bf16(scores[0], scores[1]),
                                                                 packed_bf16(scores[2], scores[3])};
  }
  __syncthreads();  // the weights are there

  // Sums of the warp's columns. Tile m of two has columns 2m and 2m + 1 of the lane's four in rows
  // g and g + 8.
  float sums[kRowTiles][2][4] = {};
  uint32_t weights[kRowTiles][4];  // of two tiles of keys
  const uint32_t weights_at = shared_address(&shared.weights[lane % 8][lane / 8 * 8]);
#pragma unroll
  for (int tile = 0; tile < kMaxTiles; ++tile) {
    if (tile >= tiles) break;
    if (tile % 2 == 0) {
#pragma unroll
      for (int n = 0; n < kRowTiles; ++n) {
        load_matrices(weights[n],
                      weights_at + (n * kTileRows * Memory::kWeightPitch + tile * kTileKeys) *
                                       static_cast<int>(sizeof(bf16)));
      }
    }
    const uint2(&held)[4] = v[tile % kHeldValues];
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      uint32_t pairs[4];  // of the four keys
#pragma unroll
      for (int i = 0; i < 4; ++i) pairs[i] = m == 0 ? held[i].x : held[i].y;
      const uint32_t a[4] = {low_halves(pairs[0], pairs[1]), high_halves(pairs[0], pairs[1]),
                             low_halves(pairs[2], pairs[3]), high_halves(pairs[2], pairs[3])};
#pragma unroll
      for (int n = 0; n < kRowTiles; ++n) {
        multiply_add(sums[n][m], a, weights[n][tile % 2 * 2], weights[n][tile % 2 * 2 + 1]);
      }
    }
    if (tile + kHeldValues < kMaxTiles) {
#pragma unroll
      for (int i = 0; i < 4; ++i) v[tile % kHeldValues][i] = {};
      load_values(tile + kHeldValues, 0, key_count);
    }
  }

  cluster_wait();  // every block has started
#pragma unroll
  for (int n = 0; n < kRowTiles; ++n) {
    const int row = n * kTileRows + warp;
    const float total = warp_sum(totals[n]);
    if (lane < kSplits) {
      send(&shared.ends[row][split], float2{maxima[n], total}, &shared.received, lane);
    }
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const float(&s)[2][4] = sums[n];
      send(&shared.sums[split][n * kTileRows + lane_part * 2 + j][lane_row],
           float4{s[0][j], s[0][2 + j], s[1][j], s[1][2 + j]}, &shared.received, warp);
    }
  }

  // Four columns a thread, of those that this block adds up.
  const int own = threadIdx.x / kQuads, quad = threadIdx.x % kQuads, row = first_row + own;
  if (own >= kRows) return;
  wait_for_bytes(&shared.received);  // nobody sends to this block any more
  if (row >= rows) return;
  float y[4];
  merge_parts<kSplits>(
      scale, [&](int s) { return shared.ends[own][s]; },
      [&](int s) { return shared.sums[s][own][quad]; }, y);
  const int head = kv_head * group + row % group;
  const int64_t at = row / group * args.y.stride + head * kHeadDim + split * kColumns + quad * 4;
  store_merged(args.y, at, y, y_scale);
}

// ---- choosing

// How a call is launched, if it can be.
struct Choice {
  void (*kernel)(AttentionArgs, Divisor y_scale);
  int rows;  // folded, of a cluster
  size_t shared_bytes;
};
template <int kRowTiles>
constexpr Choice choice() {
  using Memory = Shared<kRowTiles>;
  return {attention_decode_kernel<kRowTiles>, Memory::kRows, sizeof(Memory)};
}

int64_t folded_rows(const AttentionArgs& args) {
  return args.q.rows * (args.heads / args.kv_heads);
}

// Few rows a cluster while there are multiprocessors for all of them.
Choice choose(const AttentionArgs& args, const DeviceInfo& device) {
  const int64_t clusters = (folded_rows(args) + kTileRows - 1) / kTileRows * args.kv_heads;
  return clusters * kSplits <= device.multiprocessors ? choice<1>() : choice<4>();
}

int64_t most_keys(const AttentionArgs& args) {
  int64_t keys = 0;
  for (int r = 0; r < args.range_count; ++r) {
    const AttentionRange& range = args.ranges[r];
    keys += range.length ? args.k.rows - range.begin : range.count;
  }
  return keys;
}

}  // namespace

bool attention_decode_accepts(const AttentionArgs& args, const DeviceInfo& device) {
  return device.major >= 9 && device.is_specialised && args.head_dim == kHeadDim &&
         args.block == 0 && !args.is_causal && folded_rows(args) <= kMaxFoldedRows &&
         most_keys(args) <= kSplits * kMaxShare && attention_fits_matrix_units(args) &&
         is_aligned(args.y, 4 * static_cast<int>(size_of(args.y.type))) &&
         choose(args, device).shared_bytes <= device.shared_bytes_per_block;
}

const char* attention_decode(const AttentionArgs& args, const Launch& launch) {
  constexpr const char* kName = "attention_decode";
  const Choice c = choose(args, *launch.device);
  const dim3 grid(static_cast<unsigned>((folded_rows(args) + c.rows - 1) / c.rows * kSplits),
                  static_cast<unsigned>(args.kv_heads));
  launch_kernel(kName, c.kernel, grid, kThreads, c.shared_bytes, launch, kSplits, args,
                divisor_of(args.y));
  return kName;
}

}  // namespace flashrt::cuda
