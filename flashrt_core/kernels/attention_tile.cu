// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// attention of many rows on matrix units: tiles of folded rows against stages of keys.
//
// Layout    q, k, v: bf16 with 16-byte rows; heads of 72, 128 or 256. y: any float type. A causal
//           mask for heads of 128.
// Work      a block takes 64 folded rows of a kv head. Two groups of four warps, of 16 rows each,
//           take alternate chunks of the keys, each at its own pace, so that one multiplies while
//           the other is at its softmax, and merge at the end. With few tiles, two blocks of a
//           cluster share the keys of one and merge through distributed memory.
// Traffic   k and v once per block, in stages that are copied while others are multiplied.
// Numerics  products and sums in float32; softmax in float32 with a running maximum; weights
//           rounded to bf16 for the second product.
// Reference backends/cpu/attention.cpp

#include "kernels/attention_merge.cuh"
#include "kernels/attention_parts.cuh"

namespace flashrt::cuda {
namespace {

constexpr int kRowWarps = 4, kKeyWarps = 2;
constexpr int kWarps = kRowWarps * kKeyWarps;
constexpr int kThreads = kWarps * kWarp;
constexpr int kGroupThreads = kRowWarps * kWarp;  // with the same keys
constexpr int kWarpRows = 16;
constexpr int kRows = kRowWarps * kWarpRows;

// ---- the kernel

// A barrier of the warps with the same keys.
__device__ __forceinline__ void group_sync(int key_warp) {
  static_assert(kKeyWarps == 2);
  if (key_warp == 0) {
    sync_threads(1, kGroupThreads);
  } else {
    sync_threads(2, kGroupThreads);
  }
}

template <int kHeadDim, int kWarpKeys, int kStages, int kSplits>
struct Tile {
  static_assert(kHeadDim % 8 == 0 && (kWarpKeys == 16 || kWarpKeys == 32));
  static constexpr int kPitch = odd_pieces(kHeadDim);
  static constexpr int kRowLanes = kHeadDim <= 128 ? 16 : 32;  // threads that copy a row
  static_assert(kHeadDim <= 8 * kRowLanes);
  static constexpr int kColumnTiles = kHeadDim / 8;
  static constexpr int kDepthSteps = kHeadDim / 16;
  static constexpr bool kHasTail = kHeadDim % 16 != 0;
  static constexpr int kStageKeys = kKeyWarps * kWarpKeys;
  static constexpr int kGroupRows = kGroupThreads / kRowLanes;  // that a group copies at a time
  static_assert(kWarpKeys % kGroupRows == 0 && kRows % (kKeyWarps * kGroupRows) == 0);

  static constexpr int kQueryElements = kRows * kPitch;
  static constexpr int kStageElements = kStageKeys * kPitch;  // of k, or of v
  static constexpr int kOperandBytes =
      static_cast<int>(sizeof(bf16)) * (kQueryElements + 2 * kStages * kStageElements);
  // The exchange within the block takes the place of the operands. The one between blocks cannot:
  // the other block may be ahead.
  static constexpr int kSlot = kSlotOf<kColumnTiles>;
  static constexpr int kHalfSlot = kSlotOf<kHalfOf<kColumnTiles>>;
  static_assert(kWarps * kSlot * sizeof(float4) <= kOperandBytes);
  static constexpr int kReceivedBytes =
      kSplits == 1 ? 0 : static_cast<int>(sizeof(float4)) * kWarps * kHalfSlot;
  static constexpr int kBarrierBytes = kSplits == 1 ? 0 : sizeof(uint64_t);
  static constexpr int kSharedBytes = kOperandBytes + kReceivedBytes + kBarrierBytes;
};

// The folded rows of a tile. Tiles end where a block of the mask does.
__host__ __device__ inline int block_rows(const AttentionArgs& args) {
  return args.block * (args.heads / args.kv_heads);
}
__host__ __device__ inline int tiles_of(int rows) { return (rows + kRows - 1) / kRows; }

template <int kHeadDim>
constexpr bool kMasksCausally = kHeadDim == 128;

template <int kHeadDim, int kWarpKeys, int kStages, int kSplits, int kBlocksPerProcessor>
__global__ void __launch_bounds__(kThreads, kBlocksPerProcessor)
    attention_tile_kernel(const __grid_constant__ AttentionArgs args) {
  using T = Tile<kHeadDim, kWarpKeys, kStages, kSplits>;
  constexpr int kPitch = T::kPitch, kKeyTiles = kWarpKeys / 8;
  constexpr int kElement = sizeof(bf16);
  constexpr bool kKeepsQueries = kHeadDim <= 128;  // in registers, if they leave room
  constexpr bool kMayBeCausal = kMasksCausally<kHeadDim>;
  extern __shared__ __align__(128) unsigned char memory[];
  bf16* q_tile = reinterpret_cast<bf16*>(memory);
  bf16* k_stages = q_tile + T::kQueryElements;
  bf16* v_stages = k_stages + kStages * T::kStageElements;
  float4* slots = reinterpret_cast<float4*>(memory);
  float4* received = reinterpret_cast<float4*>(memory + T::kOperandBytes);
  auto* all_received = reinterpret_cast<uint64_t*>(memory + T::kOperandBytes + T::kReceivedBytes);

  wait_for_previous();

  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int row_warp = warp % kRowWarps, key_warp = warp / kRowWarps;
  const int split = blockIdx.x % kSplits, tile = blockIdx.x / kSplits;
  const int kv_head = blockIdx.y, group = args.heads / args.kv_heads;

  // Without a block mask all rows are one block.
  const int tiles_per_block = args.block > 0 ? tiles_of(block_rows(args)) : INT32_MAX;
  const int block = tile / tiles_per_block, begin_row = block * block_rows(args);
  const int first_row = begin_row + (tile - block * tiles_per_block) * kRows;
  const int mask_begin = block * args.block;
  const int capacity = static_cast<int>(args.q.rows) * group;
  const int last_row = min(first_row + kRows, capacity) - 1;
  const int mask_end = args.block > 0                   ? mask_begin + args.block
                       : kMayBeCausal && args.is_causal ? last_row / group + args.causal_offset + 1
                                                        : INT32_MAX;
  const auto keys = visible_keys(args, mask_begin, mask_end);
  const int share = (keys.total + kSplits - 1) / kSplits, first_key = split * share;
  const int key_count = max(0, min(share, keys.total - first_key));
  const int steps = (key_count + T::kStageKeys - 1) / T::kStageKeys;

  // What this thread copies of a row; several rows are copied at a time.
  const int copy_column = threadIdx.x % T::kRowLanes * 8;
  const bool copies = copy_column < kHeadDim;
  // The chunk of a group and a step, and with it a group of copies; past the last step the group is
  // empty, so that counts stay the same. Rows past the last key become zeros.
  const int group_row = threadIdx.x % kGroupThreads / T::kRowLanes;
  const auto copy_stage = [&](const Matrix& from, bf16* stages, int step) {
    const int done = step * T::kStageKeys + key_warp * kWarpKeys;
    const int count = min(kWarpKeys, key_count - done);
    if (count > 0 && copies) {
      bf16* to = stages + step % kStages * T::kStageElements +
                 (key_warp * kWarpKeys + group_row) * kPitch + copy_column;
      const std::byte* column = bytes_at(from, kv_head * kHeadDim + copy_column);
      const int row_bytes = static_cast<int>(from.stride) * kElement;
      const int begin = first_key + done, run = keys.row(begin);
      if (keys.row(begin + count - 1) - run == count - 1) {  // one range, nearly always
        const std::byte* source = column + int64_t{run + group_row} * row_bytes;
#pragma unroll
        for (int i = 0; i < kWarpKeys; i += T::kGroupRows) {
          copy_async(to + i * kPitch, source, group_row + i < count);
          source += int64_t{T::kGroupRows} * row_bytes;
        }
      } else {
#pragma unroll 1
        for (int i = 0; i < kWarpKeys; i += T::kGroupRows) {
          const int row = keys.row(begin + group_row + i);
          copy_async(to + i * kPitch, column + int64_t{row} * row_bytes, group_row + i < count);
        }
      }
    }
    end_copy_group();
  };

  // Group 2 i brings k of step i, and the first one q; group 2 i + 1 brings v. Of these,
  // 2 kStages - 1 are under way at the beginning of a step, and all but 2 kStages - 2 must have
  // ended.
  constexpr int kUnderWay = 2 * kStages - 2;
  const int end_row = args.block > 0 ? begin_row + block_rows(args) : INT32_MAX;
  const int rows = min(static_cast<int>(min(valid_rows(args.q), args.q.rows)) * group, end_row);
  if (first_row >= rows) return;  // all blocks of a cluster
  if constexpr (kSplits > 1) {
    if (threadIdx.x == 0) expect_bytes(all_received, T::kReceivedBytes);
    __syncwarp();
    cluster_started();  // this block is there to receive
  }
  if (copies) {
    for (int i = threadIdx.x / T::kRowLanes; i < kRows; i += kThreads / T::kRowLanes) {
      const int row = first_row + i, head = kv_head * group + row % group;
      copy_async(q_tile + i * kPitch + copy_column,
                 bytes_at(args.q, row / group * args.q.stride + head * kHeadDim + copy_column),
                 row < rows);
    }
  }
#pragma unroll 1
  for (int s = 0; s < kStages; ++s) {
    copy_stage(args.k, k_stages, s);
    if (s + 1 < kStages) copy_stage(args.v, v_stages, s);
  }
  wait_copy_groups<kUnderWay>();

  // Addresses as load_matrices wants them: q by rows of 16, k and v by keys of 16, or by the
  // lane's own key for the last 8 columns.
  const uint32_t q_at =
      shared_address(q_tile + (row_warp * kWarpRows + lane % 16) * kPitch + lane / 16 * 8);
  const int k_at = (key_warp * kWarpKeys + lane / 16 * 8 + lane % 8) * kPitch + lane / 8 % 2 * 8;
  const int v_at = (key_warp * kWarpKeys + lane % 16) * kPitch + lane / 16 * 8;
  const int tail_at = (key_warp * kWarpKeys + lane % kWarpKeys) * kPitch + T::kDepthSteps * 16;

  uint32_t q_kept[kKeepsQueries ? T::kDepthSteps : 1][4], q_tail[2];
  __syncthreads();  // q has landed
  if constexpr (kKeepsQueries) {
#pragma unroll
    for (int d = 0; d < T::kDepthSteps; ++d) load_matrices(q_kept[d], q_at + d * 16 * kElement);
    if constexpr (T::kHasTail) load_matrices(q_tail, q_at + T::kDepthSteps * 16 * kElement);
  }

  const float scale = args.scale * kLog2E;
  Partial<T::kColumnTiles> partial{.maximum = {kNoKey, kNoKey}, .weight = {0, 0}};
#pragma unroll
  for (int n = 0; n < T::kColumnTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) partial.sums[n][i] = 0;
  }

  for (int step = 0; step < steps; ++step) {
    const int count = key_count - step * T::kStageKeys - key_warp * kWarpKeys;  // of this warp
    const int stage = step % kStages * T::kStageElements;
    wait_copy_groups<kUnderWay>();
    group_sync(key_warp);  // k of this step has landed; v of the step before has been read
    copy_stage(args.v, v_stages, step + kStages - 1);

    float scores[kKeyTiles][4] = {};
    if (count > 0) {
      const bf16* k_stage = k_stages + stage;
      const uint32_t k_address = shared_address(k_stage + k_at);
#pragma unroll
      for (int d = 0; d < T::kDepthSteps; ++d) {
        uint32_t q[4];
        if constexpr (kKeepsQueries) {
#pragma unroll
          for (int i = 0; i < 4; ++i) q[i] = q_kept[d][i];
        } else {
          load_matrices(q, q_at + d * 16 * kElement);
        }
#pragma unroll
        for (int n = 0; n < kKeyTiles; n += 2) {
          uint32_t k[4];
          load_matrices(k, k_address + (n * 8 * kPitch + d * 16) * kElement);
          multiply_add(scores[n], q, k[0], k[1]);
          multiply_add(scores[n + 1], q, k[2], k[3]);
        }
      }
      if constexpr (T::kHasTail) {
        uint32_t k[kKeyTiles];
        load_matrices(k, shared_address(k_stage + tail_at));
#pragma unroll
        for (int n = 0; n < kKeyTiles; ++n) multiply_add(scores[n], q_tail, k[n]);
      }

      if (count < kWarpKeys) {  // the rest of the stage holds no keys
#pragma unroll
        for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            if (n * 8 + lane % 4 * 2 + i % 2 >= count) scores[n][i] = kNoKey;
          }
        }
      }
      if constexpr (kMayBeCausal) {  // keys of the first range from here on are later tokens
        if (args.is_causal) {
          const int first = first_key + step * T::kStageKeys + key_warp * kWarpKeys;
          const int end = keys.count[0] - first;
#pragma unroll
          for (int h = 0; h < 2; ++h) {
            const int row = first_row + row_warp * kWarpRows + lane / 4 + 8 * h;
            const int later = row / group + args.causal_offset + 1 - keys.begin[0] - first;
#pragma unroll
            for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
              for (int i = 0; i < 2; ++i) {
                const int key = n * 8 + lane % 4 * 2 + i;
                if (later <= key && key < end) scores[n][2 * h + i] = kNoKey;
              }
            }
          }
        }
      }
      float factor[2];
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float largest = kNoKey;
#pragma unroll
        for (int n = 0; n < kKeyTiles; ++n) {
          largest = fmaxf(largest, fmaxf(scores[n][2 * h], scores[n][2 * h + 1]));
        }
        const float maximum = fmaxf(partial.maximum[h], row_max(largest));
        const float offset = offset_of(maximum) * scale;
        factor[h] = exp2_approximate(partial.maximum[h] * scale - offset);
        partial.maximum[h] = maximum;
        float weight = 0;
#pragma unroll
        for (int n = 0; n < kKeyTiles; ++n) {
#pragma unroll
          for (int i = 2 * h; i < 2 * h + 2; ++i) {
            scores[n][i] = exp2_approximate(scores[n][i] * scale - offset);
            weight += scores[n][i];
          }
        }
        partial.weight[h] = partial.weight[h] * factor[h] + weight;  // of this lane's columns
      }
      if (__any_sync(kAllLanes, factor[0] != 1.0f || factor[1] != 1.0f)) {
#pragma unroll
        for (int n = 0; n < T::kColumnTiles; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) partial.sums[n][i] *= factor[i / 2];
        }
      }
    }

    wait_copy_groups<kUnderWay>();
    group_sync(key_warp);  // v of this step has landed; k of this step has been read
    copy_stage(args.k, k_stages, step + kStages);

    if (count > 0) {
      const bf16* v_stage = v_stages + stage;
      const uint32_t v_address = shared_address(v_stage + v_at);
      uint32_t v_tail[kKeyTiles];
      if constexpr (T::kHasTail) load_transposed(v_tail, shared_address(v_stage + tail_at));
#pragma unroll
      for (int n = 0; n < kKeyTiles; n += 2) {
        const uint32_t weights[4] = {packed_bf16(scores[n][0], scores[n][1]),
                                     packed_bf16(scores[n][2], scores[n][3]),
                                     packed_bf16(scores[n + 1][0], scores[n + 1][1]),
                                     packed_bf16(scores[n + 1][2], scores[n + 1][3])};
#pragma unroll
        for (int d = 0; d < T::kDepthSteps; ++d) {
          uint32_t v[4];
          load_transposed(v, v_address + (n * 8 * kPitch + d * 16) * kElement);
          multiply_add(partial.sums[2 * d], weights, v[0], v[1]);
          multiply_add(partial.sums[2 * d + 1], weights, v[2], v[3]);
        }
        if constexpr (T::kHasTail) {
          multiply_add(partial.sums[T::kColumnTiles - 1], weights, v_tail[n], v_tail[n + 1]);
        }
      }
    }
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) partial.weight[h] = row_sum(partial.weight[h]);

  wait_copy_groups<0>();
  __syncthreads();  // the operands have been read: the slots may take their place
  float4* own_slot = slots + warp * T::kSlot;
  give(partial, 1 - key_warp, [&](int i, const float4& x) { own_slot[i] = x; });
  __syncthreads();  // what the other warp of the pair gave is there
  const int other_warp = (1 - key_warp) * kRowWarps + row_warp;
  const auto half = merge(partial, key_warp, slots + other_warp * T::kSlot, scale);
  const int half_column = key_warp * kHalfOf<T::kColumnTiles> * 8;

  const WarpRows warp_rows{
      .first = first_row + row_warp * kWarpRows, .end = rows, .kv_head = kv_head, .group = group};
  if constexpr (kSplits > 1) {
    float4* slot = received + warp * T::kHalfSlot;
    cluster_wait();  // the other block has started
    give(half, 1 - split,
         [&](int i, const float4& x) { send(slot + i, x, all_received, 1 - split); });
    wait_for_bytes(all_received);
    const auto quarter = merge(half, split, slot, scale);
    store_partial(args.y, quarter, warp_rows, kHeadDim,
                  half_column + split * kHalfOf<kHalfOf<T::kColumnTiles>> * 8);
  } else {
    store_partial(args.y, half, warp_rows, kHeadDim, half_column);
  }
}

// ---- choosing

struct Variant {
  const char* name;
  void (*kernel)(AttentionArgs);
  int head_dim, splits, shared_bytes;
  bool masks_causally;
};
template <int kHeadDim, int kWarpKeys, int kStages, int kSplits, int kBlocksPerProcessor>
Variant variant(const char* name) {
  return {name,
          attention_tile_kernel<kHeadDim, kWarpKeys, kStages, kSplits, kBlocksPerProcessor>,
          kHeadDim,
          kSplits,
          Tile<kHeadDim, kWarpKeys, kStages, kSplits>::kSharedBytes,
          kMasksCausally<kHeadDim>};
}

int tiles(const AttentionArgs& args) {
  const int rows = static_cast<int>(args.q.rows) * (args.heads / args.kv_heads);
  if (args.block == 0) return tiles_of(rows);
  return (rows + block_rows(args) - 1) / block_rows(args) * tiles_of(block_rows(args));
}

// The first that the device and the shape allow.
const Variant* choose(const AttentionArgs& args, const DeviceInfo& device) {
  static const Variant kVariants[] = {
      // Two blocks of a multiprocessor hide each other's waits.
      variant<72, 32, 4, 1, 2>("attention_tile_72"),
      variant<128, 32, 2, 2, 1>("attention_tile_128_split"),
      variant<128, 32, 2, 1, 1>("attention_tile_128"),
      variant<256, 32, 2, 2, 1>("attention_tile_256_split"),
      variant<256, 32, 2, 1, 1>("attention_tile_256"),
      variant<256, 16, 2, 1, 1>("attention_tile_256_small"),  // in 99 KB of shared memory
  };
  // Two blocks a tile pay until the tiles alone keep most multiprocessors busy.
  const bool is_split = device.major >= 9 && device.is_specialised &&
                        4 * tiles(args) * args.kv_heads <= 3 * device.multiprocessors;
  for (const Variant& v : kVariants) {
    if (v.head_dim == args.head_dim && (v.splits == 1 || is_split) &&
        static_cast<size_t>(v.shared_bytes) <= device.shared_bytes_per_block) {
      return &v;
    }
  }
  return nullptr;
}

}  // namespace

bool attention_tile_accepts(const AttentionArgs& args, const DeviceInfo& device) {
  const Variant* variant = attention_fits_matrix_units(args) ? choose(args, device) : nullptr;
  return variant && (variant->masks_causally || !args.is_causal);
}

const char* attention_tile(const AttentionArgs& args, const Launch& launch) {
  const Variant& v = *choose(args, *launch.device);
  const dim3 grid(static_cast<unsigned>(tiles(args) * v.splits),
                  static_cast<unsigned>(args.kv_heads));
  launch_kernel(v.name, v.kernel, grid, kThreads, v.shared_bytes, launch, v.splits, args);
  return v.name;
}

}  // namespace flashrt::cuda
