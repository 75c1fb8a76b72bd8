// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// attention of few rows on matrix units: the keys are split over the blocks of a cluster.
//
// Layout    q, k, v: bf16 with 16-byte rows; heads of 256; up to 512 folded rows. y: any float
// type. Work      a cluster takes 16 or 32 folded rows of a kv head, each of its blocks a share of
// the
//           keys. The warps of a block share its keys for the scores, then its columns for the
//           sums; every block sends its sums of some columns to the one that adds and stores them.
// Traffic   k and v once per cluster; keys that are settled are on their way before the wait.
// Numerics  products, softmax and sums in float32, in a fixed order; weights rounded to bf16 for
//           the second product.
// Reference backends/cpu/attention.cpp

#include "kernels/attention_parts.cuh"

namespace flashrt::cuda {
namespace {

constexpr int kHeadDim = 256;
constexpr int kWarps = 16;
constexpr int kThreads = kWarps * kWarp;
constexpr int kPitch = odd_pieces(kHeadDim);
constexpr int kPieces = kHeadDim / 8;  // of 16 bytes
static_assert(kPieces == kWarp, "a warp copies a row");
constexpr int kWarpColumns = 16;  // of the sums
static_assert(kWarps * kWarpColumns == kHeadDim);
constexpr int kRounds = 2;  // of 8 keys a warp
constexpr int kMaxShare = kRounds * kWarps * 8;
constexpr int kMaxFoldedRows = 512;

// Shared memory of a block whose share is at most so many keys, a multiple of 16.
template <int kRowTiles, int kSplits>
struct Shared {
  static constexpr int kRows = 16 * kRowTiles;
  static constexpr int kColumns = kHeadDim / kSplits;  // that a block stores
  static constexpr int kSumPitch = kColumns + 8;  // rows of a warp's pairs lie in different banks

  bf16 *k, *v, *q;
  bf16* weights;  // [kRows, weight_pitch]
  int weight_pitch;
  float (*maxima)[kWarps];  // [kRows]: of the scores of every warp
  float (*totals)[kWarps];  // [kRows]: of its weights
  // What the blocks of the cluster send: of their rows the sums of columns, maximum and weight.
  float (*sums)[kRows][kSumPitch];
  float2 (*ends)[kRows];

  __host__ __device__ static size_t bytes(int keys) {
    return sizeof(bf16) * ((2 * keys + kRows) * kPitch + kRows * (keys + 8)) +
           sizeof(float) * kRows * (2 * kWarps + kSplits * (kSumPitch + 2));
  }
  __device__ __forceinline__ Shared(unsigned char* memory, int keys) {
    k = reinterpret_cast<bf16*>(memory);
    v = k + keys * kPitch;
    q = v + keys * kPitch;
    weights = q + kRows * kPitch;
    weight_pitch = keys + 8;  // an odd number of pieces
    maxima = reinterpret_cast<float(*)[kWarps]>(weights + kRows * weight_pitch);
    totals = maxima + kRows;
    sums = reinterpret_cast<float(*)[kRows][kSumPitch]>(totals + kRows);
    ends = reinterpret_cast<float2(*)[kRows]>(sums + kSplits);
  }
};

// Reduces what the warps left for a row.
template <class Operation>
__device__ __forceinline__ float over_warps(const float (&row)[kWarps], Operation operation) {
  const auto* pieces = reinterpret_cast<const float4*>(row);
  float x[kWarps / 4];
#pragma unroll
  for (int i = 0; i < kWarps / 4; ++i) {
    const float4 p = pieces[i];
    x[i] = operation(operation(p.x, p.y), operation(p.z, p.w));
  }
  static_assert(kWarps == 16);
  return operation(operation(x[0], x[1]), operation(x[2], x[3]));
}

// With few registers there is room beside a block for the launches before and after it.
template <int kRowTiles, int kSplits>
__global__ void __launch_bounds__(kThreads, kRowTiles == 1 ? 2 : 1)
    attention_decode_kernel(const __grid_constant__ AttentionArgs args, int max_share) {
  using Memory = Shared<kRowTiles, kSplits>;
  constexpr int kRows = Memory::kRows, kColumns = Memory::kColumns;
  extern __shared__ __align__(128) unsigned char memory[];
  const Memory shared(memory, max_share);
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int split = blockIdx.x % kSplits, first_row = blockIdx.x / kSplits * kRows;
  const int kv_head = blockIdx.y, group = args.heads / args.kv_heads;

  // The keys of this block; those from `settled` on may be copied before the wait. They end at a
  // multiple of 16 with zeros: their weights are zero, and zero times NaN is not.
  VisibleKeys keys;
  int first_key = 0, key_count = 0, padded_count = 0, settled = 0;
  const auto find_keys = [&] {
    keys = visible_keys(args, 0, INT32_MAX);
    const int share = (keys.total + kSplits - 1) / kSplits;
    first_key = split * share;
    key_count = max(0, min(share, keys.total - first_key));
    padded_count = (key_count + 15) / 16 * 16;
    settled = args.settled_begin < 0
                  ? padded_count
                  : max(0, min(keys.count_below(args.settled_begin) - first_key, key_count));
  };
  const auto copy_keys = [&](const Matrix& from, bf16* to, int begin, int end) {
    const bf16* head = static_cast<const bf16*>(from.data) + kv_head * kHeadDim + lane * 8;
    const int stride = static_cast<int>(from.stride);
    for (int key = begin + warp; key < end; key += kWarps) {
      copy_async(to + key * kPitch + lane * 8, head + int64_t{keys.row(first_key + key)} * stride,
                 key < key_count);
    }
  };

  if (args.settled_begin >= 0) {
    find_keys();
    copy_keys(args.k, shared.k, settled, padded_count);
    copy_keys(args.v, shared.v, settled, padded_count);
  }
  wait_for_previous();
  allow_next();

  const int rows = static_cast<int>(min(valid_rows(args.q), args.q.rows)) * group;
  if (first_row >= rows) {  // all blocks of the cluster
    end_copy_group();
    wait_copy_groups<0>();
    return;
  }
  cluster_arrive();  // this block is there to receive

  const bf16* queries = static_cast<const bf16*>(args.q.data) + kv_head * group * kHeadDim;
  for (int i = warp; i < kRows; i += kWarps) {
    const int row = first_row + i;
    copy_async(shared.q + i * kPitch + lane * 8,
               queries + row / group * args.q.stride + row % group * kHeadDim + lane * 8,
               row < rows);
  }
  if (args.settled_begin < 0) find_keys();
  copy_keys(args.k, shared.k, 0, settled);
  end_copy_group();  // q, k, and all that was settled
  copy_keys(args.v, shared.v, 0, settled);
  end_copy_group();
  wait_copy_groups<1>();
  __syncthreads();  // q and k have landed

  // Scores of 8 keys a round. Lane 4 g + t has columns 2t and 2t + 1 of row g, then of row g + 8.
  const int key_tiles = padded_count / 8;
  const float scale = args.scale * kLog2E;
  float scores[kRounds][kRowTiles][4];
#pragma unroll
  for (int round = 0; round < kRounds; ++round) {
    const int tile = round * kWarps + warp;
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[round][m][i] = kNoKey;
    }
    if (tile * 8 >= key_count) continue;
    // Several sums side by side: one alone would wait for itself.
    constexpr int kChains = 4 / kRowTiles;
    float chains[kRowTiles][kChains][4] = {};
    const uint32_t k_at = shared_address(shared.k + (tile * 8 + lane % 8) * kPitch + lane / 8 * 8);
    const uint32_t q_at = shared_address(shared.q + lane % 16 * kPitch + lane / 16 * 8);
#pragma unroll
    for (int d = 0; d < kHeadDim / 32; ++d) {
      uint32_t k[4];
      load_matrices(k, k_at + d * 32 * sizeof(bf16));
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int m = 0; m < kRowTiles; ++m) {
          uint32_t q[4];
          load_matrices(q, q_at + (m * 16 * kPitch + d * 32 + half * 16) * sizeof(bf16));
          multiply_add(chains[m][(2 * d + half) % kChains], q, k[2 * half], k[2 * half + 1]);
        }
      }
    }
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float sum = chains[m][0][i];
#pragma unroll
        for (int c = 1; c < kChains; ++c) sum += chains[m][c][i];
        const int key = tile * 8 + lane % 4 * 2 + i % 2;
        scores[round][m][i] = key < key_count ? sum : kNoKey;
      }
    }
  }

  // The maximum of a row over the block.
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float largest = kNoKey;
#pragma unroll
      for (int round = 0; round < kRounds; ++round) {
        largest = fmaxf(largest, fmaxf(scores[round][m][2 * h], scores[round][m][2 * h + 1]));
      }
      largest = row_max(largest);
      if (lane % 4 == 0) shared.maxima[m * 16 + h * 8 + lane / 4][warp] = largest;
    }
  }
  __syncthreads();  // the maxima of all warps are there

  const auto larger = [](float a, float b) { return fmaxf(a, b); };
  const auto plus = [](float a, float b) { return a + b; };
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = m * 16 + h * 8 + lane / 4;
      const float offset = offset_of(over_warps(shared.maxima[row], larger)) * scale;
      float total = 0;
#pragma unroll
      for (int round = 0; round < kRounds; ++round) {
        const int tile = round * kWarps + warp;
        if (tile >= key_tiles) continue;
        const float low = exp2_approximate(scores[round][m][2 * h] * scale - offset);
        const float high = exp2_approximate(scores[round][m][2 * h + 1] * scale - offset);
        total += low + high;
        *reinterpret_cast<uint32_t*>(shared.weights + row * shared.weight_pitch + tile * 8 +
                                     lane % 4 * 2) = packed_bf16(low, high);
      }
      total = row_sum(total);
      if (lane % 4 == 0) shared.totals[row][warp] = total;
    }
  }
  wait_copy_groups<0>();
  __syncthreads();  // v has landed; the weights and their totals are there

  // Sums of 16 columns a warp.
  float sums[kRowTiles][2][4] = {};
  const uint32_t weights_at =
      shared_address(shared.weights + lane % 16 * shared.weight_pitch + lane / 16 * 8);
  const uint32_t v_at =
      shared_address(shared.v + lane % 16 * kPitch + warp * kWarpColumns + lane / 16 * 8);
#pragma unroll 4
  for (int step = 0; step < key_tiles / 2; ++step) {
    uint32_t v[4];
    load_transposed(v, v_at + step * 16 * kPitch * sizeof(bf16));
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
      uint32_t weights[4];
      load_matrices(weights,
                    weights_at + (m * 16 * shared.weight_pitch + step * 16) * sizeof(bf16));
      multiply_add(sums[m][0], weights, v[0], v[1]);
      multiply_add(sums[m][1], weights, v[2], v[3]);
    }
  }

  cluster_wait();  // every block has started
  if (threadIdx.x < kRows * kSplits) {
    const int row = threadIdx.x % kRows, to = threadIdx.x / kRows;
    in_block(shared.ends, to)[split][row] = {over_warps(shared.maxima[row], larger),
                                             over_warps(shared.totals[row], plus)};
  }
  auto* to_sums = in_block(shared.sums, warp * kWarpColumns / kColumns);
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const int column = warp * kWarpColumns % kColumns + n * 8 + lane % 4 * 2;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        *reinterpret_cast<float2*>(&to_sums[split][m * 16 + h * 8 + lane / 4][column]) = {
            sums[m][n][2 * h], sums[m][n][2 * h + 1]};
      }
    }
  }
  cluster_arrive();
  cluster_wait();  // what all blocks sent is there; nothing is sent any more

  // A row at a time. Lane i has the weight of block i % kSplits; the lanes of a column share the
  // blocks.
  constexpr int kSharers = kWarp / kColumns, kBlocksEach = kSplits / kSharers;
  const int column = lane % kColumns, sharer = lane / kColumns;
  for (int i = warp; i < kRows; i += kWarps) {
    const int row = first_row + i;
    if (row >= rows) continue;
    const float2 end = shared.ends[lane % kSplits][i];
    const float offset = offset_of(warp_max(end.x));
    const float factor = exp2_approximate((end.x - offset) * scale);
    float total = end.y * factor;
#pragma unroll
    for (int distance = 1; distance < kSplits; distance *= 2) {
      total += __shfl_xor_sync(kAllLanes, total, distance);
    }
    float sum = 0;
#pragma unroll
    for (int s = 0; s < kBlocksEach; ++s) {
      const int from = sharer * kBlocksEach + s;
      sum += shared.sums[from][i][column] * __shfl_sync(kAllLanes, factor, from);
    }
#pragma unroll
    for (int distance = kColumns; distance < kWarp; distance *= 2) {
      sum += __shfl_xor_sync(kAllLanes, sum, distance);
    }
    if (sharer != 0) continue;
    const int head = kv_head * group + row % group;
    store(args.y, row / group, head * kHeadDim + split * kColumns + column,
          total == 0.0f ? 0.0f : sum * (1.0f / total));
  }
}

// ---- choosing

using DecodeKernel = void (*)(AttentionArgs, int max_share);

// How a call is launched, if it can be.
struct Choice {
  DecodeKernel kernel = nullptr;
  int rows = 0;  // folded, of a cluster
  int splits = 0;
  int max_share = 0;  // keys of a block, up to a multiple of 16
  size_t shared_bytes = 0;
  int64_t clusters = 0;  // of a kv head
};

template <int kRowTiles, int kSplits>
Choice choice(int64_t folded_rows, int64_t keys) {
  using Memory = Shared<kRowTiles, kSplits>;
  const int64_t share = (keys + 16 * kSplits - 1) / (16 * kSplits) * 16;
  if (share > kMaxShare) return {};
  return {.kernel = attention_decode_kernel<kRowTiles, kSplits>,
          .rows = Memory::kRows,
          .splits = kSplits,
          .max_share = static_cast<int>(share),
          .shared_bytes = Memory::bytes(static_cast<int>(share)),
          .clusters = (folded_rows + Memory::kRows - 1) / Memory::kRows};
}

constexpr int kPortableCluster = 8;

Choice choose(const AttentionArgs& args, const DeviceInfo& device) {
  int64_t keys = 0;  // the most there may be
  for (int r = 0; r < args.range_count; ++r) {
    const AttentionRange& range = args.ranges[r];
    keys += range.length ? args.k.rows - range.begin : range.count;
  }
  const int64_t rows = args.q.rows * (args.heads / args.kv_heads);
  const int64_t tiles = (rows + 15) / 16 * args.kv_heads;
  if (tiles * kPortableCluster <= device.multiprocessors) {
    return choice<1, kPortableCluster>(rows, keys);
  }
  return choice<2, kPortableCluster>(rows, keys);
}

}  // namespace

bool attention_decode_accepts(const AttentionArgs& args, const DeviceInfo& device) {
  if (device.major < 9 || !device.is_specialised || args.head_dim != kHeadDim || args.block > 0 ||
      args.q.rows * (args.heads / args.kv_heads) > kMaxFoldedRows ||
      !attention_fits_matrix_units(args)) {
    return false;
  }
  const Choice c = choose(args, device);
  return c.kernel && c.shared_bytes <= device.shared_bytes_per_block;
}

const char* attention_decode(const AttentionArgs& args, const Launch& launch) {
  constexpr const char* kName = "attention_decode";
  const Choice c = choose(args, *launch.device);
  const dim3 grid(static_cast<unsigned>(c.clusters * c.splits),
                  static_cast<unsigned>(args.kv_heads));
  launch_kernel(kName, c.kernel, grid, kThreads, c.shared_bytes, launch, c.splits, args,
                c.max_share);
  return kName;
}

}  // namespace flashrt::cuda
