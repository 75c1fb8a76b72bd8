// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// attention of many rows in heads of 256 on sm_90: tiles of folded rows against chunks of keys.
//
// Layout    q, k, v: bf16 with 16-byte rows; heads of 256; keys in one range, no mask. y: any float
//           type.
// Work      a block takes 64 folded rows of a kv head. Its two warp groups hold all of them and
//           take alternate chunks of 80 keys, each at its own pace, and merge at the end. With few
//           tiles, two blocks of a cluster share the chunks of one and merge through distributed
//           memory.
// Traffic   k and v once per block, by the copy engine: 300 KB for 522 keys that two blocks share,
//           which is what limits it. The next chunk of k is copied once this one is multiplied.
// Numerics  products and sums in float32; softmax in float32 with a running maximum; weights
//           rounded to bf16 for the second product.
// Reference backends/cpu/attention.cpp

#include "kernels/attention_merge.cuh"
#include "kernels/attention_parts.cuh"
#include "kernels/sm90.cuh"
#include "kernels/tensor_map.hpp"

#if !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#pragma nv_diag_suppress 177  // for other architectures the kernel is empty, and its parts are
                              // unused
#endif

namespace flashrt::cuda {
namespace {

constexpr int kHeadDim = 256;
constexpr int kRows = 64;  // of q in a matrix instruction
constexpr int kGroups = 2;
constexpr int kThreads = kGroups * sm90::kWarpGroup;
constexpr int kWarps = kThreads / kWarp;
constexpr int kGroupWarps = kWarps / kGroups;
constexpr int kChunkKeys = 80;
constexpr int kChunkSteps = kChunkKeys / 16;

// Operands lie in boxes of rows of 128 bytes, swizzled.
constexpr int kBoxes = kHeadDim * 2 / sm90::kSwizzleBytes;
constexpr int kBoxColumns = kHeadDim / kBoxes;
constexpr int kQueryBox = kRows * sm90::kSwizzleBytes;
constexpr int kKeyBox = kChunkKeys * sm90::kSwizzleBytes;
constexpr int kQueryBytes = kBoxes * kQueryBox;
constexpr int kChunkBytes = kBoxes * kKeyBox;
constexpr int kKeysAt = kQueryBytes;
constexpr int kValuesAt = kKeysAt + kGroups * kChunkBytes;
constexpr int kBarriersAt = kValuesAt + kGroups * kChunkBytes;

struct Barriers {
  uint64_t keys[kGroups], values[kGroups];  // they have landed
  uint64_t received;
};
constexpr int kSharedBytes = kBarriersAt + sizeof(Barriers);

// What warps give each other takes the place of v; what the other block sends, that of q and the
// first chunk of k.
constexpr int kColumnTiles = kHeadDim / 8;
constexpr int kSlot = kSlotOf<kColumnTiles>;
constexpr int kHalfSlot = kSlotOf<kHalfOf<kColumnTiles>>;
constexpr int kReceivedBytes = kWarps * kHalfSlot * sizeof(float4);
static_assert(kWarps * kSlot * sizeof(float4) <= kGroups * kChunkBytes);
static_assert(kReceivedBytes <= kValuesAt);

__host__ __device__ inline int tiles_of(int rows) { return (rows + kRows - 1) / kRows; }

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

__device__ __forceinline__ void group_sync(int group) {
  if (group == 0) {
    sync_threads(1, sm90::kWarpGroup);
  } else {
    sync_threads(2, sm90::kWarpGroup);
  }
}

#endif  // __CUDA_ARCH_FEAT_SM90_ALL

template <int kSplits>
__global__ void __launch_bounds__(kThreads, 1)
    attention_long_kernel(const __grid_constant__ CUtensorMap k_map,
                          const __grid_constant__ CUtensorMap v_map,
                          const __grid_constant__ AttentionArgs args) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(sm90::kTileAlignment) std::byte memory[];
  Barriers& barriers = *reinterpret_cast<Barriers*>(memory + kBarriersAt);
  const int lane = threadIdx.x % kWarp;
  const int warp = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / kWarp, 0);
  const int group = warp / kGroupWarps, group_warp = warp % kGroupWarps;
  const int split = static_cast<int>(blockIdx.x) % kSplits;
  const int first_row = static_cast<int>(blockIdx.x) / kSplits * kRows;
  const int kv_head = static_cast<int>(blockIdx.y), heads_per_kv = args.heads / args.kv_heads;
  const uint32_t k_chunk = shared_address(memory + kKeysAt + group * kChunkBytes);
  const uint32_t v_chunk = shared_address(memory + kValuesAt + group * kChunkBytes);
  const uint32_t k_landed = shared_address(&barriers.keys[group]);
  const uint32_t v_landed = shared_address(&barriers.values[group]);

  if (threadIdx.x == 0) {
    sm90::prefetch_map(k_map);
    sm90::prefetch_map(v_map);
    for (int g = 0; g < kGroups; ++g) {
      init_barrier(shared_address(&barriers.keys[g]), 1);
      init_barrier(shared_address(&barriers.values[g]), 1);
    }
    if constexpr (kSplits > 1) init_barrier(shared_address(&barriers.received), 1);
    publish_barriers();
    if constexpr (kSplits > 1) {
      arrive_expecting(shared_address(&barriers.received), kReceivedBytes);
    }
  }
  __syncthreads();  // the barriers are there
  wait_for_previous();
  const int rows = static_cast<int>(min(valid_rows(args.q), args.q.rows)) * heads_per_kv;
  if (first_row >= rows) return;  // all blocks of a cluster
  const auto keys = visible_keys<1>(args, 0, INT32_MAX);
  const int first_chunk = group * kSplits + split;
  const auto is_there = [&](int chunk) { return chunk * kChunkKeys < keys.total; };

  // One thread of a group brings its chunks; instructions of the whole warp follow.
  const bool copies = group_warp == 0 && sm90::is_elected();
  const auto copy_chunk = [&](const CUtensorMap& map, int chunk, uint32_t to, uint32_t landed) {
    if (copies) {
      arrive_expecting(landed, kChunkBytes);
#pragma unroll
      for (int b = 0; b < kBoxes; ++b) {
        sm90::copy_box(map, kv_head * kHeadDim + b * kBoxColumns,
                       keys.begin[0] + chunk * kChunkKeys, to + b * kKeyBox, landed);
      }
    }
    __syncwarp();
  };
  if (is_there(first_chunk)) {
    copy_chunk(k_map, first_chunk, k_chunk, k_landed);
    copy_chunk(v_map, first_chunk, v_chunk, v_landed);
  }
#pragma unroll
  for (int i = 0; i < kRows; i += kWarps) {
    const int own = i + warp, row = first_row + own;
    const int64_t from = row / heads_per_kv * args.q.stride +
                         (kv_head * heads_per_kv + row % heads_per_kv) * kHeadDim;
    std::byte* to = memory + lane / 8 * kQueryBox + own * sm90::kSwizzleBytes;
    copy_async(to + (lane % 8 ^ own % 8) * 16, bytes_at(args.q, from + lane * 8), row < rows);
  }
  end_copy_group();
  wait_copy_groups<0>();
  sm90::fence_shared();
  __syncthreads();  // q has landed

  const uint32_t q_at = shared_address(memory);
  const float scale = args.scale * kLog2E;
  float maximum[2] = {kNoKey, kNoKey}, total[2] = {0, 0};
  float sums[kHeadDim / 2] = {};
  uint32_t parity = 0;
  for (int chunk = first_chunk; is_there(chunk); chunk += kGroups * kSplits, parity ^= 1) {
    const int count = keys.total - chunk * kChunkKeys, next = chunk + kGroups * kSplits;
    float scores[kChunkKeys / 2];
    wait_barrier(k_landed, parity);
    sm90::begin_products();
#pragma unroll
    for (int d = 0; d < kHeadDim / 16; ++d) {
      sm90::Product<bf16, kChunkKeys>::add(
          scores, sm90::tile_descriptor(q_at + d / 4 * kQueryBox + d % 4 * 32),
          sm90::tile_descriptor(k_chunk + d / 4 * kKeyBox + d % 4 * 32),
          static_cast<uint32_t>(d > 0));
    }
    sm90::commit_products();
    sm90::wait_for_products<0>();
    sm90::settle(scores);
    group_sync(group);  // k has been read
    if (is_there(next)) copy_chunk(k_map, next, k_chunk, k_landed);

    if (count < kChunkKeys) hide_keys(scores, count - lane % 4 * 2);
    float largest[2] = {maximum[0], maximum[1]}, offset[2], factor[2];
    add_maxima(scores, largest);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      largest[h] = row_max(largest[h]);
      offset[h] = offset_of(largest[h]) * scale;
      factor[h] = exp2_approximate(maximum[h] * scale - offset[h]);
      maximum[h] = largest[h];
      total[h] *= factor[h];
    }
    uint32_t weights[kChunkKeys / 4];
    weigh(scores, scale, offset, total, weights);
    if (__any_sync(kAllLanes, factor[0] != 1.0f || factor[1] != 1.0f)) {
#pragma unroll
      for (int i = 0; i < kHeadDim / 2; ++i) sums[i] *= factor[i / 2 % 2];
    }

    wait_barrier(v_landed, parity);
    if (count < kChunkKeys) {  // zero weights times what lies behind the keys may not be zero
      const int missing = kChunkKeys - count;
      for (int i = threadIdx.x % sm90::kWarpGroup; i < missing * kBoxes * 8;
           i += sm90::kWarpGroup) {
        const int row = count + i / (kBoxes * 8), piece = i % (kBoxes * 8);
        sm90::store_shared(
            v_chunk + piece / 8 * kKeyBox + row * sm90::kSwizzleBytes + piece % 8 * 16, float4{});
      }
      sm90::fence_shared();
      group_sync(group);
    }
    sm90::begin_products();
#pragma unroll
    for (int s = 0; s < kChunkSteps; ++s) {
      const uint32_t a[4] = {weights[4 * s], weights[4 * s + 1], weights[4 * s + 2],
                             weights[4 * s + 3]};
      sm90::add_product_of_rows(
          sums, a, sm90::rows_descriptor(v_chunk + s * 16 * sm90::kSwizzleBytes, kKeyBox), 1);
    }
    sm90::commit_products();
    sm90::wait_for_products<0>();
    sm90::settle(sums);
    sm90::settle(weights);
    if (is_there(next)) {
      group_sync(group);  // v has been read
      copy_chunk(v_map, next, v_chunk, v_landed);
    }
  }

  Partial<kColumnTiles> partial{.maximum = {maximum[0], maximum[1]},
                                .weight = {row_sum(total[0]), row_sum(total[1])}};
#pragma unroll
  for (int i = 0; i < kHeadDim / 2; ++i) partial.sums[i / 4][i % 4] = sums[i];
  __syncthreads();                               // all operands of this block have been read
  if constexpr (kSplits > 1) cluster_started();  // so it can receive
  auto* slots = reinterpret_cast<float4*>(memory + kValuesAt);
  float4* own_slot = slots + warp * kSlot;
  give(partial, 1 - group, [&](int i, const float4& x) { own_slot[i] = x; });
  __syncthreads();  // what the other group gave is there
  const int other_warp = (1 - group) * kGroupWarps + group_warp;
  const auto half = merge(partial, group, slots + other_warp * kSlot, scale);
  const int half_column = group * kHalfOf<kColumnTiles> * 8;
  const WarpRows warp_rows{.first = first_row + group_warp * (kRows / kGroupWarps),
                           .end = rows,
                           .kv_head = kv_head,
                           .group = heads_per_kv};
  if constexpr (kSplits > 1) {
    float4* slot = reinterpret_cast<float4*>(memory) + warp * kHalfSlot;
    cluster_wait();  // the other block can receive
    give(half, 1 - split,
         [&](int i, const float4& x) { send(slot + i, x, &barriers.received, 1 - split); });
    wait_for_bytes(&barriers.received);
    const auto quarter = merge(half, split, slot, scale);
    store_partial(args.y, quarter, warp_rows, kHeadDim,
                  half_column + split * kHalfOf<kHalfOf<kColumnTiles>> * 8);
  } else {
    store_partial(args.y, half, warp_rows, kHeadDim, half_column);
  }
#endif
}

int tiles(const AttentionArgs& args) {
  return tiles_of(static_cast<int>(args.q.rows) * (args.heads / args.kv_heads));
}

}  // namespace

bool attention_long_accepts(const AttentionArgs& args, const DeviceInfo& device) {
  return device.compute_capability() == 90 && device.is_specialised && args.head_dim == kHeadDim &&
         args.block == 0 && !args.is_causal && args.range_count == 1 &&
         attention_fits_matrix_units(args) &&
         static_cast<size_t>(kSharedBytes) <= device.shared_bytes_per_block;
}

const char* attention_long(const AttentionArgs& args, const Launch& launch) {
  constexpr const char* kName = "attention_long";
  const auto map_of = [](const Matrix& m) {
    return swizzled_tensor_map(m.data, m.type, m.rows, m.width, m.stride, kChunkKeys);
  };
  // Two blocks a tile pay until the tiles alone keep most multiprocessors busy.
  const bool is_split = 4 * tiles(args) * args.kv_heads <= 3 * launch.device->multiprocessors;
  const int splits = is_split ? 2 : 1;
  const dim3 grid(static_cast<unsigned>(tiles(args) * splits),
                  static_cast<unsigned>(args.kv_heads));
  launch_kernel(kName, is_split ? attention_long_kernel<2> : attention_long_kernel<1>, grid,
                kThreads, kSharedBytes, launch, splits, map_of(args.k), map_of(args.v), args);
  return kName;
}

}  // namespace flashrt::cuda
