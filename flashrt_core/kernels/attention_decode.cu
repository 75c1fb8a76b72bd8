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
//           them. Keys that are settled lie in registers, as the products take them, before the
//           wait. Behind it little runs, and once a launch; where blocks are resident long before,
//           that has run before.
// Traffic   k and v once per cluster.
// Numerics  products, softmax and sums in float32, in a fixed order; weights rounded to bf16 for
//           the second product, and for their total.
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

// Tiles in registers: enough for 768 and 640 keys; the others follow one at a time.
constexpr int kHeldKeys = 3;    // of a warp
constexpr int kHeldValues = 5;  // of all
static_assert(kWarpTiles == kHeldKeys + 1);

template <int kRowTiles>
struct Shared {
  static constexpr int kRows = kTileRows * kRowTiles;
  static constexpr int kScorePitch = kMaxShare + 4;   // a warp's scores lie in different banks
  static constexpr int kWeightPitch = kMaxShare + 8;  // an odd number of 16-byte pieces

  // What the blocks of the cluster send, of their keys: the sums, and {largest score, total
  // weight}. In pieces of 16 bytes: smaller ones take longer.
  float4 sums[kSplits][kRows][kQuads];
  float2 ends[kSplits][kRows];
  float scores[kParts][kRows][kScorePitch];  // of a part of the head
  bf16 weights[kRows][kWeightPitch];
  int rows[kMaxShare];  // of the cache, by key
  float maxima[kRows];
  uint64_t received;

  // What a block receives in `sums` and `ends`.
  static constexpr int kReceivedBytes = sizeof(sums) + sizeof(ends);
};

// From 16 bytes each of keys g and g + 8, for every chunk, to what two products take. Negated,
// which the sums of the scores undo: mere moves the compiler would make where the words are used,
// behind the wait.
using KeyTile = uint32_t[8 * kChunks];
__device__ __forceinline__ void arrange_keys(KeyTile& k) {
  constexpr uint32_t kSigns = 0x80008000u;
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    uint32_t words[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) words[i] = k[c * 8 + i] ^ kSigns;
#pragma unroll
    for (int i = 0; i < 8; ++i) k[c * 8 + i] = words[i % 2 * 4 + i / 2];
  }
}
// From four columns each of four keys to what two products take: a column of two keys in a word.
using ValueTile = uint32_t[8];
__device__ __forceinline__ void arrange_values(ValueTile& v) {
  uint32_t pairs[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) pairs[i] = v[i];
#pragma unroll
  for (int m = 0; m < 2; ++m) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      v[m * 4 + h * 2] = __byte_perm(pairs[h * 4 + m], pairs[h * 4 + 2 + m], 0x5410);
      v[m * 4 + h * 2 + 1] = __byte_perm(pairs[h * 4 + m], pairs[h * 4 + 2 + m], 0x7632);
    }
  }
}

// Without a branch, so that many loads are on their way at once.
__device__ __forceinline__ void load_if(bool is_there, const std::byte* p, uint32_t* words) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.u32 p, %5, 0;\n"
      "@p ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];\n"
      "}\n"
      : "+r"(words[0]), "+r"(words[1]), "+r"(words[2]), "+r"(words[3])
      : "l"(p), "r"(static_cast<uint32_t>(is_there)));
}
__device__ __forceinline__ void load_if(bool is_there, const std::byte* p, uint32_t& first,
                                        uint32_t& second) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.u32 p, %3, 0;\n"
      "@p ld.global.L1::no_allocate.v2.u32 {%0, %1}, [%2];\n"
      "}\n"
      : "+r"(first), "+r"(second)
      : "l"(p), "r"(static_cast<uint32_t>(is_there)));
}

__device__ __forceinline__ void store_if(bool is_there, const Matrix& m, int64_t at, float y,
                                         const Divisor& scale) {
  const auto store_as = [&](auto value) {
    if (is_there) static_cast<decltype(value)*>(m.data)[at] = value;
  };
  switch (m.type) {
    case DType::kF32:
      return store_as(y);
    case DType::kBF16:
      return store_as(from_float<bf16>(y));
    case DType::kF16:
      return store_as(from_float<f16>(y));
    case DType::kE4M3:
      return store_as(from_float<e4m3>(quotient(y, scale)));
    case DType::kI32:
    case DType::kU8:
      return;  // refused by attention()
  }
}

// With few registers there is room beside a block for the launches before and after it.
template <int kRowTiles>
__global__ void __launch_bounds__(kThreads, kRowTiles == 1 ? 2 : 1)
    attention_decode_kernel(const __grid_constant__ AttentionArgs args, Divisor y_scale) {
  using Memory = Shared<kRowTiles>;
  constexpr int kRows = Memory::kRows;
  // With more registers a block starts late: a pass before the wait would delay the others.
  constexpr bool kRunsTwice = kRowTiles == 1;
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

  // The keys of this block, and its tiles. The first tiles are `late`: a key in them may not be
  // read before the wait.
  int key_count = 0, tiles = 0, late = 0;
  const auto find_keys = [&] {
    const auto keys = visible_keys(args, 0, INT32_MAX);
    const int share = (keys.total + kSplits - 1) / kSplits, first_key = split * share;
    key_count = max(0, min(share, keys.total - first_key));
    const int unsettled = args.settled_begin < 0
                              ? key_count
                              : min(keys.count_below(args.settled_begin) - first_key, key_count);
    late = (max(0, unsettled) + kTileKeys - 1) / kTileKeys;
    tiles = (key_count + kTileKeys - 1) / kTileKeys;
    if (threadIdx.x < kMaxShare) {
      shared.rows[threadIdx.x] =
          threadIdx.x < key_count ? keys.row(first_key + static_cast<int>(threadIdx.x)) : 0;
    }
    __syncthreads();  // the rows of the keys are there
  };

  // Lane 4 g + t has 16 bytes of keys g and g + 8 of a tile, in every chunk of its part of the
  // head.
  const std::byte* k_part = bytes_at(args.k, kv_head * kHeadDim + part * kPartDims + lane_part * 8);
  const int k_stride = static_cast<int>(args.k.stride * sizeof(bf16));
  KeyTile k[kHeldKeys] = {};
  const auto load_keys = [&](int tile, KeyTile& to) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int key = tile * kTileKeys + h * 8 + lane_row;
      const std::byte* row = k_part + int64_t{shared.rows[key]} * k_stride;
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        load_if(key < key_count, row + c * kChunkDims * sizeof(bf16), to + c * 8 + h * 4);
      }
    }
  };
  // And four columns of keys 2t, 2t + 1, 2t + 8 and 2t + 9; zeros where there is no key: its weight
  // is zero, and zero times NaN is not.
  const std::byte* v_column = bytes_at(args.v, kv_head * kHeadDim + column);
  const int v_stride = static_cast<int>(args.v.stride * sizeof(bf16));
  ValueTile v[kHeldValues] = {};
  const auto load_values = [&](int tile, ValueTile& to) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int key = tile * kTileKeys + i / 2 * 8 + lane_part * 2 + i % 2;
      load_if(key < key_count, v_column + int64_t{shared.rows[key]} * v_stride, to[i * 2],
              to[i * 2 + 1]);
    }
  };

  // Rows past the valid ones are read within the capacity, and not stored; there the last row is.
  const int capacity = static_cast<int>(args.q.rows) * group;
  const std::byte* queries =
      bytes_at(args.q, kv_head * group * kHeadDim + part * kPartDims + lane_part * 8);
  const std::byte* q_rows[kRowTiles];
#pragma unroll
  for (int n = 0; n < kRowTiles; ++n) {
    const int row = min(first_row + n * kTileRows + lane_row, capacity - 1);
    q_rows[n] = queries + (row / group * args.q.stride + row % group * kHeadDim) *
                              static_cast<int64_t>(sizeof(bf16));
  }

  // The first pass takes the keys that are settled, the last one q and the other keys. The first
  // also runs all that follows, but sends and stores nothing: instructions come from the
  // second-level cache when they run for the first time.
  int rows = 0;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    const bool is_last = pass > 0;
    if (is_last) {
      cluster_wait();  // every block has started
      wait_for_previous();
    }
    uint32_t q[kRowTiles][kChunks][4] = {};
#pragma unroll
    for (int n = 0; n < kRowTiles; ++n) {
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        load_if(is_last, q_rows[n] + c * kChunkDims * sizeof(bf16), q[n][c]);
      }
    }
    if (is_last) {
      rows = static_cast<int>(min(valid_rows(args.q), args.q.rows)) * group;
      if (first_row >= rows) return;  // all blocks of the cluster
    }
    if ((args.settled_begin < 0) == is_last) find_keys();
    const auto is_due = [&](int tile) { return tile < tiles && (tile < late) == is_last; };
#pragma unroll
    for (int i = 0; i < kHeldKeys; ++i) {
      const int tile = i * kKeyWarps + key_warp;
      if (is_due(tile)) load_keys(tile, k[i]);
    }
#pragma unroll
    for (int i = 0; i < kHeldValues; ++i) {
      if (is_due(i)) load_values(i, v[i]);
    }
#pragma unroll
    for (int i = 0; i < kHeldKeys; ++i) {
      if (is_due(i * kKeyWarps + key_warp)) arrange_keys(k[i]);
    }

    if (!kRunsTwice && !is_last) continue;

    // Scores over a part of the head. Lane 4 g + t has keys g, then g + 8, of rows 2t and 2t + 1.
    const auto multiply_keys = [&](const KeyTile& a, int n, float(&sums)[4]) {
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
#pragma unroll
        for (int step = 0; step < 2; ++step) {
          const uint32_t* words = a + c * 8 + step * 4;
          const uint32_t operand[4] = {words[0], words[1], words[2], words[3]};
          multiply_add(sums, operand, q[n][c][step * 2], q[n][c][step * 2 + 1]);
        }
      }
    };
    const auto keep_scores = [&](const float(&sums)[4], int n, int tile) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        shared.scores[part][n * kTileRows + lane_part * 2 + j % 2]
                     [tile * kTileKeys + j / 2 * 8 + lane_row] = sums[j];
      }
    };
#pragma unroll
    for (int n = 0; n < kRowTiles; ++n) {
      float sums[kHeldKeys][4] = {};
#pragma unroll
      for (int i = 0; i < kHeldKeys; ++i) multiply_keys(k[i], n, sums[i]);
#pragma unroll
      for (int i = 0; i < kHeldKeys; ++i) keep_scores(sums[i], n, i * kKeyWarps + key_warp);
    }
    if (const int tile = kHeldKeys * kKeyWarps + key_warp; is_last && tile < tiles) {
      KeyTile later = {};
      load_keys(tile, later);
      arrange_keys(later);
#pragma unroll
      for (int n = 0; n < kRowTiles; ++n) {
        float sums[4] = {};
        multiply_keys(later, n, sums);
        keep_scores(sums, n, tile);
      }
    }
    ValueTile later_v = {};
    if (is_last && tiles > kHeldValues) load_values(kHeldValues, later_v);
    __syncthreads();  // the scores of all parts are there

    // Weights of a row at a time; a lane has four neighbouring keys.
    const float scale = args.scale * kLog2E;
#pragma unroll 1
    for (int n = 0; n < kRowTiles; ++n) {
      const int row = n * kTileRows + warp;
      float parts[kParts][4], scores[4];
#pragma unroll
      for (int p = 0; p < kParts; ++p) load_floats(&shared.scores[p][row][lane * 4], parts[p]);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float sum = (-parts[0][j] - parts[1][j]) + (-parts[2][j] - parts[3][j]);
        scores[j] = lane * 4 + j < key_count ? sum : kNoKey;
      }
      static_assert(kParts == 4);
      const float maximum =
          ordered_warp_max(fmaxf(fmaxf(scores[0], scores[1]), fmaxf(scores[2], scores[3])));
      if (lane == 0) shared.maxima[row] = maximum;
      const float offset = offset_of(maximum) * scale;
#pragma unroll
      for (int j = 0; j < 4; ++j) scores[j] = exp2_approximate(scores[j] * scale - offset);
      *reinterpret_cast<uint2*>(&shared.weights[row][lane * 4]) = {
          packed_bf16(scores[0], scores[1]), packed_bf16(scores[2], scores[3])};
    }
    __syncthreads();  // the weights are there

    // Sums of the warp's columns. Tile m of two has columns 2m and 2m + 1 of the lane's four in
    // rows g and g + 8.
    float sums[kRowTiles][2][4] = {};
    float totals[kRowTiles][4] = {};  // of rows 2t and 2t + 1
    const uint32_t weights_at = shared_address(&shared.weights[lane % 8][lane / 8 % 2 * 8]);
    const auto multiply_values = [&](const ValueTile& a, int tile) {
      constexpr uint32_t kOnes = 0x3f803f80u;  // two of bf16
      const uint32_t ones[4] = {kOnes, kOnes, kOnes, kOnes};
#pragma unroll
      for (int n = 0; n < kRowTiles; ++n) {
        uint32_t weights[2];
        load_matrices(weights,
                      weights_at + (n * kTileRows * Memory::kWeightPitch + tile * kTileKeys) *
                                       static_cast<int>(sizeof(bf16)));
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          const uint32_t columns[4] = {a[m * 4], a[m * 4 + 1], a[m * 4 + 2], a[m * 4 + 3]};
          multiply_add(sums[n][m], columns, weights[0], weights[1]);
        }
        multiply_add(totals[n], ones, weights[0], weights[1]);
      }
    };
#pragma unroll
    for (int i = 0; i < kHeldValues; ++i) {
      if (!kRunsTwice || is_due(i)) arrange_values(v[i]);
    }
#pragma unroll
    for (int i = 0; i < kHeldValues; ++i) multiply_values(v[i], i);
#pragma unroll 1
    for (int tile = kHeldValues; is_last && tile < tiles; ++tile) {
      if (tile > kHeldValues) {
#pragma unroll
        for (uint32_t& word : later_v) word = 0;
        load_values(tile, later_v);
      }
      arrange_values(later_v);
      multiply_values(later_v, tile);
    }

#pragma unroll
    for (int n = 0; n < kRowTiles; ++n) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float(&s)[2][4] = sums[n];
        send_if(is_last, &shared.sums[split][n * kTileRows + lane_part * 2 + j][lane_row],
                float4{s[0][j], s[0][2 + j], s[1][j], s[1][2 + j]}, &shared.received, warp);
      }
    }
    {  // lane 4 n + t sends the ends of rows 2t and 2t + 1 of row tile n
      const int tile_row = lane_row % kRowTiles * kTileRows + lane_part * 2;
      const auto largest = *reinterpret_cast<const float2*>(&shared.maxima[tile_row]);
      float2 total = {totals[0][0], totals[0][1]};
#pragma unroll
      for (int n = 1; n < kRowTiles; ++n) {
        if (lane_row == n) total = {totals[n][0], totals[n][1]};
      }
      send_if(is_last && lane_row < kRowTiles,
              reinterpret_cast<float4*>(&shared.ends[split][tile_row]),
              float4{largest.x, total.x, largest.y, total.y}, &shared.received, warp);
    }

    // A column a thread, of those that this block adds up.
#pragma unroll 1
    for (int n = 0; n < kRowTiles; ++n) {
      const int own = n * kTileRows + warp, row = first_row + own;
      const int head = kv_head * group + row % group;
      const int64_t at = row / group * args.y.stride + head * kHeadDim + split * kColumns + lane;
      if (is_last) wait_for_bytes(&shared.received);  // nobody sends to this block any more
      float2 ends[kSplits];
      float maximum = kNoKey;
#pragma unroll
      for (int i = 0; i < kSplits; ++i) {
        ends[i] = shared.ends[i][own];
        maximum = fmaxf(maximum, ends[i].x);
      }
      const float offset = offset_of(maximum) * scale;
      float total = 0, y = 0;
#pragma unroll
      for (int i = 0; i < kSplits; ++i) {
        const float factor = exp2_approximate(ends[i].x * scale - offset);
        total += ends[i].y * factor;
        y += reinterpret_cast<const float*>(shared.sums[i][own])[lane] * factor;
      }
      store_if(row < rows, args.y, at, total == 0.0f ? 0.0f : __fdividef(y, total), y_scale);
    }
  }
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

}  // namespace

bool attention_decode_accepts(const AttentionArgs& args, const DeviceInfo& device) {
  return device.major >= 9 && device.is_specialised && args.head_dim == kHeadDim &&
         args.block == 0 && !args.is_causal && folded_rows(args) <= kMaxFoldedRows &&
         most_keys(args) <= kSplits * kMaxShare && attention_fits_matrix_units(args) &&
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
