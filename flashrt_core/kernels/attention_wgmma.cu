// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// attention of a vision tower on sm_90: all keys of a row at once.
//
// Layout    q, k, v: bf16 with 16-byte rows; heads of 72, each with its own keys; up to 352 keys in
//           one range or in blocks of the mask, none of it decided on the device. y: any float
//           type.
// Work      a block takes 64 rows of a head, or 128 where that would need more blocks than the
//           device has multiprocessors. Warp groups hold 64 rows and half of the keys, of which
//           they have all scores in registers; the two with the same rows merge at the end.
// Traffic   q, k and v once per block, all on their way at once; products begin with the first
//           part of the keys.
// Numerics  products and sums in float32; softmax in float32 around the largest score of a half;
//           weights rounded to bf16 for the second product.
// Reference backends/cpu/attention.cpp

#include "kernels/attention_merge.cuh"
#include "kernels/attention_parts.cuh"
#include "kernels/sm90.cuh"

#if !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#pragma nv_diag_suppress 177  // for other architectures the kernel is empty, and its parts are
                              // unused
#endif

namespace flashrt::cuda {
namespace {

constexpr int kHeadDim = 72;
constexpr int kKeyGroups = 2;   // warp groups with the same rows
constexpr int kGroupRows = 64;  // of q in a matrix instruction
constexpr int kGroupWarps = sm90::kWarpGroup / kWarp;
constexpr int kPiece = 16;  // bytes that are copied at a time
constexpr int kPieces = kHeadDim * 2 / kPiece;
constexpr int kDepthSteps = (kHeadDim + 15) / 16;
static_assert(kPieces == 2 * kDepthSteps - 1, "the last piece of q and k is zeros");

struct Problem {
  const std::byte *q, *k, *v;
  int q_stride, k_stride, v_stride;  // bytes
  Matrix y;
  float scale;  // turns scores into powers of two
  int rows;
  int range_begin, range_end;      // of the keys
  int block_rows, tiles_of_block;  // without a mask all rows are one block
};

// Shared memory. q and k lie in columns of 32 bytes, in which every other four rows have their two
// pieces swapped, as the matrix instructions want it; v in columns of 16 bytes.
template <int kRowGroups, int kKeys>  // kKeys: of a warp group
struct Tile {
  static_assert(kKeys == 128 || kKeys == 176);
  static constexpr int kFirstKeys = kKeys == 128 ? 64 : 96;  // products begin with these
  static constexpr int kLastKeys = kKeys - kFirstKeys;
  static constexpr int kRows = kRowGroups * kGroupRows;
  static constexpr int kThreads = kRowGroups * kKeyGroups * sm90::kWarpGroup;

  // What warps give each other takes the place of the keys that they have multiplied.
  static constexpr int kColumnTiles = kHeadDim / 8;
  static constexpr int kSlot = kSlotOf<kColumnTiles>;
  static constexpr int kSlotBytes = kRowGroups * kGroupWarps * kSlot * sizeof(float4);

  static constexpr int kQueryBytes = kGroupRows * kDepthSteps * 2 * kPiece;  // of a row group
  static constexpr int kKeyBytes =                                           // of a key group
      std::max(kKeys * kDepthSteps * 2 * kPiece, kSlotBytes);
  static constexpr int kValueBytes = kKeys * kPieces * kPiece;
  static constexpr int kKeysAt = kRowGroups * kQueryBytes;
  static constexpr int kValuesAt = kKeysAt + kKeyGroups * kKeyBytes;
  static constexpr int kSharedBytes = kValuesAt + kKeyGroups * kValueBytes;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// ---- copying: lanes take the first eight pieces of four rows, later the last piece of 32 rows

struct Lane {
  int lane = static_cast<int>(threadIdx.x % kWarp);
  int row = lane / 2 % 4;
  int piece = lane / 8 * 2 + lane % 2;
};

// Where a piece of a row lies in a tile of so many rows.
template <int kRows>
__device__ __forceinline__ int swapped_at(int row, int piece) {
  return piece / 2 * kRows * 2 * kPiece + row * 2 * kPiece + ((piece ^ row >> 2) & 1) * kPiece;
}
template <int kRows>
__device__ __forceinline__ int column_at(int row, int piece) {
  return (piece * kRows + row) * kPiece;
}

// Rows [kFirst, kFirst + kCount) of a tile, by so many warps; those from `valid` on become zeros.
template <int kFirst, int kCount, int kWarps, class Place>
__device__ __forceinline__ void copy_rows(std::byte* tile, const std::byte* from, int stride,
                                          int valid, int warp, Place place) {
  const Lane lane;
#pragma unroll
  for (int i = 0; i < kCount; i += 4 * kWarps) {
    const int row = i + 4 * warp + lane.row;
    if (kCount % (4 * kWarps) != 0 && row >= kCount) break;
    copy_async(tile + place(kFirst + row, lane.piece),
               from + int64_t{kFirst + row} * stride + lane.piece * kPiece, kFirst + row < valid);
  }
#pragma unroll
  for (int i = 0; i < kCount; i += kWarp * kWarps) {
    const int row = i + kWarp * warp + lane.lane;
    if (kCount % (kWarp * kWarps) != 0 && row >= kCount) break;
    copy_async(tile + place(kFirst + row, kPieces - 1),
               from + int64_t{kFirst + row} * stride + (kPieces - 1) * kPiece,
               kFirst + row < valid);
  }
}

// What has landed, and what was stored, may be multiplied after the barrier that follows.
template <int kGroups>
__device__ __forceinline__ void wait_for_copies() {
  wait_copy_groups<kGroups>();
  sm90::fence_shared();
}

// ---- products

// Of a column of rows of 32 bytes; steps along the depth lie one column apart.
__device__ __forceinline__ uint64_t swapped_descriptor(uint32_t address) {
  constexpr uint64_t kSwizzle32 = uint64_t{3} << 62;
  constexpr uint64_t kEightRows = 8 * 2 * kPiece / 16;
  return kSwizzle32 | kEightRows << 32 | uint64_t{1} << 16 | (address / 16 & 0x3fff);
}
// Of 16 keys of columns of 16 bytes.
template <int kKeys>
__device__ __forceinline__ uint64_t values_descriptor(uint32_t address) {
  constexpr uint64_t kColumn = kKeys * kPiece / 16, kEightKeys = 8 * kPiece / 16;
  return kColumn << 32 | kEightKeys << 16 | (address / 16 & 0x3fff);
}

// Scores of 64 rows and kCount of kKeys keys.
template <int kKeys, int kCount>
__device__ __forceinline__ void multiply_keys(float (&scores)[kCount / 2], uint64_t q, uint64_t k) {
#pragma unroll
  for (int d = 0; d < kDepthSteps; ++d) {
    sm90::Product<bf16, kCount>::add(scores, q + d * sm90::descriptor_step(kGroupRows * 2 * kPiece),
                                     k + d * sm90::descriptor_step(kKeys * 2 * kPiece),
                                     static_cast<uint32_t>(d > 0));
  }
}

// Sums of weights [64, 16 * kSteps] times values.
template <int kSteps>
__device__ __forceinline__ void multiply_values(float (&sums)[kHeadDim / 2],
                                                const uint32_t (&weights)[4 * kSteps], uint64_t v,
                                                bool is_sum) {
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
    const uint32_t a[4] = {weights[4 * s], weights[4 * s + 1], weights[4 * s + 2],
                           weights[4 * s + 3]};
    sm90::add_product_of_rows(sums, a, v + s * sm90::descriptor_step(16 * kPiece),
                              static_cast<uint32_t>(is_sum || s > 0));
  }
}

#endif  // __CUDA_ARCH_FEAT_SM90_ALL

template <int kRowGroups, int kKeys>
__global__ void __launch_bounds__(Tile<kRowGroups, kKeys>::kThreads, 1)
    attention_wgmma_kernel(const __grid_constant__ Problem p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using T = Tile<kRowGroups, kKeys>;
  constexpr int kFirst = T::kFirstKeys, kLast = T::kLastKeys;
  extern __shared__ __align__(256) std::byte memory[];
  const int lane = threadIdx.x % kWarp;
  const int warp = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / kWarp, 0);
  const int group_warp = warp % kGroupWarps;
  const int key_group = warp / kGroupWarps % kKeyGroups;
  const int row_group = warp / (kGroupWarps * kKeyGroups);
  const int head = static_cast<int>(blockIdx.y), tile = static_cast<int>(blockIdx.x);

  std::byte* const q_tile = memory + row_group * T::kQueryBytes;
  std::byte* const k_tile = memory + T::kKeysAt + key_group * T::kKeyBytes;
  std::byte* const v_tile = memory + T::kValuesAt + key_group * T::kValueBytes;

  const int block = tile / p.tiles_of_block, begin_row = block * p.block_rows;
  const int first_row = begin_row + (tile - block * p.tiles_of_block) * T::kRows;
  const int end_row = min(p.rows, begin_row + p.block_rows);
  const int begin_key = max(p.range_begin, begin_row);
  const int all_keys = max(0, min(p.range_end, begin_row + p.block_rows) - begin_key);
  const int share = (all_keys + kKeyGroups - 1) / kKeyGroups;
  const int first_key = begin_key + key_group * share;
  const int keys = max(0, min(share, all_keys - key_group * share));  // of this warp group

  const std::byte* q = p.q + head * kHeadDim * 2 + int64_t{first_row} * p.q_stride;
  const std::byte* k = p.k + head * kHeadDim * 2 + int64_t{first_key} * p.k_stride;
  const std::byte* v = p.v + head * kHeadDim * 2 + int64_t{first_key} * p.v_stride;

  constexpr int kPaddedRows = T::kRows + kKeyGroups * kKeys;
#pragma unroll
  for (int i = 0; i < kPaddedRows; i += T::kThreads) {
    const int row = i + static_cast<int>(threadIdx.x);
    if (row >= kPaddedRows) break;
    const bool is_query = row < T::kRows;
    const int group = is_query ? row / kGroupRows : (row - T::kRows) / kKeys;
    const int own = is_query ? row % kGroupRows : (row - T::kRows) % kKeys;
    std::byte* of_group =
        memory + (is_query ? group * T::kQueryBytes : T::kKeysAt + group * T::kKeyBytes);
    const int at =
        is_query ? swapped_at<kGroupRows>(own, kPieces) : swapped_at<kKeys>(own, kPieces);
    *reinterpret_cast<uint4*>(of_group + at) = {};
  }
  wait_for_previous();

  // The warp groups with the same rows share the copies of q, those with the same keys the others.
  constexpr int kQueryWarps = kKeyGroups * kGroupWarps, kKeyWarps = kRowGroups * kGroupWarps;
  const int query_warp = key_group * kGroupWarps + group_warp;
  const int key_warp = row_group * kGroupWarps + group_warp;
  copy_rows<0, kGroupRows, kQueryWarps>(q_tile, q + int64_t{row_group * kGroupRows} * p.q_stride,
                                        p.q_stride, end_row - first_row - row_group * kGroupRows,
                                        query_warp, swapped_at<kGroupRows>);
  copy_rows<0, kFirst, kKeyWarps>(k_tile, k, p.k_stride, keys, key_warp, swapped_at<kKeys>);
  end_copy_group();
  copy_rows<kFirst, kLast, kKeyWarps>(k_tile, k, p.k_stride, keys, key_warp, swapped_at<kKeys>);
  end_copy_group();
  copy_rows<0, kKeys, kKeyWarps>(v_tile, v, p.v_stride, keys, key_warp, column_at<kKeys>);
  end_copy_group();

  const auto key_group_sync = [&] {
    if (key_group == 0) {
      sync_threads(1, kKeyWarps * kWarp);
    } else {
      sync_threads(2, kKeyWarps * kWarp);
    }
  };
  const uint64_t q_at = swapped_descriptor(shared_address(q_tile));
  const uint64_t k_at = swapped_descriptor(shared_address(k_tile));
  const uint64_t v_at = values_descriptor<kKeys>(shared_address(v_tile));
  float first[kFirst / 2], last[kLast / 2];
  wait_for_copies<2>();
  __syncthreads();  // q and the first keys have landed
  sm90::begin_products();
  multiply_keys<kKeys, kFirst>(first, q_at, k_at);
  sm90::commit_products();
  wait_for_copies<1>();
  key_group_sync();  // the last keys have landed
  sm90::begin_products();
  multiply_keys<kKeys, kLast>(last, q_at, k_at + sm90::descriptor_step(kFirst * 2 * kPiece));
  sm90::commit_products();

  Partial<T::kColumnTiles> partial{.maximum = {kNoKey, kNoKey}, .weight = {0, 0}};
  const int lane_keys = keys - lane % 4 * 2;
  sm90::wait_for_products<1>();
  sm90::settle(first);
  if (keys < kFirst) hide_keys(first, lane_keys);
  add_maxima(first, partial.maximum);
  sm90::wait_for_products<0>();
  sm90::settle(last);
  if (keys < kKeys) hide_keys(last, lane_keys - kFirst);
  add_maxima(last, partial.maximum);
  float offset[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    partial.maximum[h] = row_max(partial.maximum[h]);
    offset[h] = offset_of(partial.maximum[h]) * p.scale;
  }

  uint32_t first_weights[kFirst / 4], last_weights[kLast / 4];
  float sums[kHeadDim / 2];
  weigh(first, p.scale, offset, partial.weight, first_weights);
  wait_for_copies<0>();
  key_group_sync();  // v has landed; all have multiplied their keys
  sm90::begin_products();
  multiply_values<kFirst / 16>(sums, first_weights, v_at, false);
  sm90::commit_products();
  weigh(last, p.scale, offset, partial.weight, last_weights);
  sm90::begin_products();
  multiply_values<kLast / 16>(sums, last_weights, v_at + sm90::descriptor_step(kFirst * kPiece),
                              true);
  sm90::commit_products();
#pragma unroll
  for (int h = 0; h < 2; ++h) partial.weight[h] = row_sum(partial.weight[h]);
  sm90::wait_for_products<0>();
  sm90::settle(sums);
  sm90::settle(first_weights);
  sm90::settle(last_weights);
#pragma unroll
  for (int i = 0; i < kHeadDim / 2; ++i) partial.sums[i / 4][i % 4] = sums[i];

  const auto slot_of = [&](int group) {
    return reinterpret_cast<float4*>(memory + T::kKeysAt + group * T::kKeyBytes) +
           key_warp * T::kSlot;
  };
  float4* own_slot = slot_of(key_group);
  give(partial, 1 - key_group, [&](int i, const float4& x) { own_slot[i] = x; });
  __syncthreads();  // what the other warp group gave is there
  const auto half = merge(partial, key_group, slot_of(1 - key_group), p.scale);
  const WarpRows rows{
      .first = first_row + row_group * kGroupRows + group_warp * (kGroupRows / kGroupWarps),
      .end = end_row,
      .kv_head = head,
      .group = 1};
  store_partial(p.y, half, rows, kHeadDim, key_group * kHalfOf<T::kColumnTiles> * 8);
#endif
}

// ---- choosing

struct Variant {
  void (*kernel)(Problem);
  int rows, keys;  // of a block
  int threads, shared_bytes;
};
template <int kRowGroups, int kKeys>
constexpr Variant variant() {
  using T = Tile<kRowGroups, kKeys>;
  return {attention_wgmma_kernel<kRowGroups, kKeys>, T::kRows, kKeyGroups * kKeys, T::kThreads,
          T::kSharedBytes};
}

int most_keys(const AttentionArgs& args) {
  const int count = args.ranges[0].count;
  return args.block > 0 ? std::min(args.block, count) : count;
}

// Without a mask all rows are one block, and it holds all keys.
int block_rows(const AttentionArgs& args) {
  return args.block > 0 ? args.block : static_cast<int>(std::max(args.q.rows, args.k.rows));
}
int tiles_of_block(const AttentionArgs& args, int tile_rows) {
  const int rows = std::min(block_rows(args), static_cast<int>(args.q.rows));
  return (rows + tile_rows - 1) / tile_rows;
}
int tiles(const AttentionArgs& args, int tile_rows) {
  const int rows = static_cast<int>(args.q.rows), block = block_rows(args);
  return (rows + block - 1) / block * tiles_of_block(args, tile_rows);
}

Variant choose(const AttentionArgs& args, const DeviceInfo& device) {
  static const Variant kVariants[2][2] = {{variant<1, 128>(), variant<1, 176>()},
                                          {variant<2, 128>(), variant<2, 176>()}};
  const bool is_long = most_keys(args) > kVariants[0][0].keys;
  const bool is_high = tiles(args, kVariants[0][0].rows) * args.heads > device.multiprocessors;
  return kVariants[is_high][is_long];
}

}  // namespace

bool attention_wgmma_accepts(const AttentionArgs& args, const DeviceInfo& device) {
  if (device.compute_capability() != 90 || !device.is_specialised) return false;
  if (args.head_dim != kHeadDim || args.heads != args.kv_heads || args.is_causal) return false;
  if (args.range_count != 1 || args.ranges[0].length || args.q.length) return false;
  if (!attention_fits_matrix_units(args)) return false;
  const Variant v = choose(args, device);
  return most_keys(args) <= v.keys &&
         static_cast<size_t>(v.shared_bytes) <= device.shared_bytes_per_block;
}

const char* attention_wgmma(const AttentionArgs& args, const Launch& launch) {
  constexpr const char* kName = "attention_wgmma";
  const Variant v = choose(args, *launch.device);
  const auto row_bytes = [](const Matrix& m) {
    return static_cast<int>(m.stride * static_cast<int64_t>(sizeof(bf16)));
  };
  const AttentionRange& range = args.ranges[0];
  const Problem problem{.q = static_cast<const std::byte*>(args.q.data),
                        .k = static_cast<const std::byte*>(args.k.data),
                        .v = static_cast<const std::byte*>(args.v.data),
                        .q_stride = row_bytes(args.q),
                        .k_stride = row_bytes(args.k),
                        .v_stride = row_bytes(args.v),
                        .y = args.y,
                        .scale = args.scale * kLog2E,
                        .rows = static_cast<int>(args.q.rows),
                        .range_begin = range.begin,
                        .range_end = range.begin + range.count,
                        .block_rows = block_rows(args),
                        .tiles_of_block = tiles_of_block(args, v.rows)};
  const dim3 grid(static_cast<unsigned>(tiles(args, v.rows)), static_cast<unsigned>(args.heads));
  launch_kernel(kName, v.kernel, grid, static_cast<unsigned>(v.threads), v.shared_bytes, launch, 1,
                problem);
  return kName;
}

}  // namespace flashrt::cuda
