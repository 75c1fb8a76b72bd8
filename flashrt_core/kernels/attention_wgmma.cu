// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// attention of a vision tower on sm_90: all keys of a head at once in shared memory.
//
// Layout    q, k, v: bf16 with 16-byte rows; heads of 72, each with its own keys; up to 336 keys,
//           all of a range or the rows of a block of the mask, none of it decided on the device.
//           y: any float type, rows of 16-byte pieces (8-byte ones of e4m3).
// Work      a block takes 64 rows of a head, or 128 where that would need more blocks than the
//           device has multiprocessors, or where the keys are many. It has two warp groups: of 64
//           rows each, or with the same rows and half of the keys each, which merge at the end.
//           They take turns at weighing, so that one multiplies meanwhile.
// Traffic   q, k and v once per block, all on their way at once: 128 bytes of each row by the copy
//           engine, which takes as long for a short row as for a long one, and the last 16 by
//           threads. Products begin with the first part of the keys. y in whole rows of a head.
// Numerics  products and sums in float32; softmax in float32 with a running maximum; weights
//           rounded to bf16 for the second product.
// Reference backends/cpu/attention.cpp

#include <algorithm>
#include <type_traits>

#include "kernels/attention_parts.cuh"
#include "kernels/copy_async.cuh"
#include "kernels/sm90.cuh"
#include "kernels/tensor_map.hpp"

#if !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#pragma nv_diag_suppress 177  // for other architectures the kernel is empty, and its parts are
                              // unused
#endif

namespace flashrt::cuda {
namespace {

constexpr int kHeadDim = 72;
constexpr int kGroupRows = 64;  // of q in a matrix instruction
constexpr int kGroupWarps = sm90::kWarpGroup / kWarp;
constexpr int kColumnTiles = kHeadDim / 8;

// The first columns of a head come in boxes, in rows of 128 bytes. The last ones would take as long
// again: threads copy them, a piece of each row.
constexpr int kFirstColumns = sm90::kSwizzleBytes / 2;
constexpr int kFirstSteps = kFirstColumns / 16;
constexpr int kPiece = 16;
static_assert(kHeadDim * 2 == sm90::kSwizzleBytes + kPiece);

struct Rows {
  const std::byte* data;
  int64_t stride;  // bytes
};
struct Maps {
  CUtensorMap q, k, v;
};
struct Problem {
  Rows q, k, v;
  Matrix y;
  Divisor y_scale;
  float scale;           // turns scores into powers of two
  int block_rows, keys;  // of a block of the mask; without a mask all rows are one block
};

constexpr int kGroups = 2;
constexpr int kWarps = kGroups * kGroupWarps;
constexpr int kThreads = kWarps * kWarp;

// kParts parts of kPart keys for a warp group.
template <int kRowGroups, int kParts, int kPart>
struct Tile {
  static constexpr int kKeyGroups = kGroups / kRowGroups;  // with the same rows
  static constexpr int kRows = kRowGroups * kGroupRows;
  static constexpr int kAllParts = kKeyGroups * kParts;
  static constexpr int kKeys = kAllParts * kPart;

  // Shared memory
  static constexpr int kQueryBytes = kGroupRows * sm90::kSwizzleBytes;
  static constexpr int kQueryLastBytes = kGroupRows * kPiece;  // and as many zeros
  static constexpr int kPartBytes = kPart * sm90::kSwizzleBytes;
  static constexpr int kPartLastBytes = kPart * kPiece;
  static constexpr int kKeysAt = kRowGroups * kQueryBytes;
  static constexpr int kValuesAt = kKeysAt + kAllParts * kPartBytes;
  static constexpr int kQueryLastAt = kValuesAt + kAllParts * 2 * kPartBytes;
  static constexpr int kKeysLastAt = kQueryLastAt + kRowGroups * 2 * kQueryLastBytes;
  static constexpr int kStageRows = 16 / kKeyGroups;  // that a warp stores
  static constexpr int kStageBytes = kStageRows * kHeadDim * sizeof(float);
  static constexpr int kStageAt = kKeysLastAt + kAllParts * kPartLastBytes;
  static constexpr int kBarriersAt = kStageAt + kWarps * kStageBytes;
  static constexpr int kBarriers = 1 + 2 * kAllParts;  // q, parts of k, parts of v
  static constexpr int kScaleAt = kBarriersAt + kBarriers * sizeof(uint64_t);
  static constexpr int kSharedBytes = kScaleAt + sizeof(float);

  // What the two warps with the same rows give each other takes the place of their keys.
  static constexpr int kSlot = (kColumnTiles + 1) * kWarp;  // of float2
  static_assert(kGroupWarps * kSlot * sizeof(float2) <= kParts * kPartBytes);
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// ---- copying: the last columns of a row

struct Piece {
  std::byte* to;  // null: nothing to copy
  const std::byte* from;
  bool is_valid;
};
template <int N>
__device__ __forceinline__ void copy_pieces(const Piece (&pieces)[N]) {
#pragma unroll
  for (const Piece& piece : pieces) {
    if (piece.to != nullptr) copy_async(piece.to, piece.from, piece.is_valid);
  }
}

// ---- products

// Of the last columns of q or k, and as many behind them, so many bytes further: zeros of q, and
// any numbers for k.
__device__ __forceinline__ uint64_t last_descriptor(uint32_t address, int behind) {
  constexpr uint64_t kUnit = 16, kEightRows = 8 * kPiece / kUnit;
  return kEightRows << 32 | static_cast<uint64_t>(behind / kUnit) << 16 |
         (address / kUnit & 0x3fff);
}

// Scores of 64 rows and a part of the keys.
template <int kPart>
__device__ __forceinline__ void multiply_keys(float (&scores)[kPart / 2], uint64_t q,
                                              uint64_t q_last, uint64_t k, uint64_t k_last) {
#pragma unroll
  for (int d = 0; d < kFirstSteps; ++d) {
    const uint64_t step = d * sm90::descriptor_step(32);
    sm90::Product<bf16, kPart>::add(scores, q + step, k + step, static_cast<uint32_t>(d > 0));
  }
  sm90::Product<bf16, kPart>::add(scores, q_last, k_last, 1);
}

// Adds weights [64, kPart] times values.
template <int kPart>
__device__ __forceinline__ void multiply_values(float (&sums)[kHeadDim / 2],
                                                const uint32_t (&weights)[kPart / 4], uint64_t v) {
#pragma unroll
  for (int s = 0; s < kPart / 16; ++s) {
    const uint32_t a[4] = {weights[4 * s], weights[4 * s + 1], weights[4 * s + 2],
                           weights[4 * s + 3]};
    sm90::add_product_of_rows(sums, a, v + s * sm90::descriptor_step(16 * sm90::kSwizzleBytes), 1);
  }
}

// All but so many keys. Where the keys of the model end, a few of the last ones are missing.
template <int N>
__device__ __forceinline__ void hide_keys_from(float (&scores)[N], int keys) {
  constexpr int kPart = 2 * N, kFew = 16;
  if (keys >= kPart) return;
  const int lane_keys = keys - static_cast<int>(threadIdx.x) % 4 * 2;
  if (keys >= kPart - kFew) {
#pragma unroll
    for (int j = N - kFew / 2; j < N; ++j) {
      if (j / 4 * 8 + j % 2 >= lane_keys) scores[j] = kNoKey;
    }
  } else {
    hide_keys(scores, lane_keys);
  }
}

// ---- storing: eight or 16 rows of a head from a warp, through shared memory. Lane 4 g + t has of
// every eight columns 2t and 2t + 1 of row g, and of row g + 8.

struct StoredRows {
  int first, end, head;
};
template <class T>
__device__ __forceinline__ void stage_pair(T* p, const float2& x, const Divisor& scale) {
  if constexpr (std::is_same_v<T, float>) {
    *reinterpret_cast<float2*>(p) = x;
  } else if constexpr (std::is_same_v<T, bf16>) {
    *reinterpret_cast<uint32_t*>(p) = packed_bf16(x.x, x.y);
  } else if constexpr (std::is_same_v<T, f16>) {
    *reinterpret_cast<uint32_t*>(p) = packed_f16(x.x, x.y);
  } else {
    *reinterpret_cast<uint16_t*>(p) =
        static_cast<uint16_t>(packed_e4m3(quotient(x.x, scale), quotient(x.y, scale)));
  }
}
template <class T, int kEights>
__device__ __forceinline__ void store_rows_as(const Matrix& y, const Divisor& scale,
                                              const float2 (&x)[kEights][kColumnTiles],
                                              const StoredRows& rows, std::byte* stage) {
  using Word = std::conditional_t<sizeof(T) == 1, uint2, uint4>;
  constexpr int kWords = kHeadDim * sizeof(T) / sizeof(Word);  // of a row
  constexpr int kAllWords = 8 * kEights * kWords;
  const int lane = threadIdx.x % kWarp;
  T* const own = reinterpret_cast<T*>(stage) + lane / 4 * kHeadDim + lane % 4 * 2;
#pragma unroll
  for (int h = 0; h < kEights; ++h) {
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) {
      stage_pair(own + 8 * h * kHeadDim + 8 * n, x[h][n], scale);
    }
  }
  __syncwarp();
  T* const to = static_cast<T*>(y.data) + rows.first * y.stride + rows.head * kHeadDim;
  const auto stride = static_cast<int>(y.stride);
  const int valid_words = min(8 * kEights, rows.end - rows.first) * kWords;
#pragma unroll
  for (int i = 0; i < kAllWords; i += kWarp) {
    const int word = i + lane, row = word / kWords;
    if (word < valid_words) {
      reinterpret_cast<Word*>(to + row * stride)[word - row * kWords] =
          reinterpret_cast<const Word*>(stage)[word];
    }
  }
}
template <int kEights>
__device__ __forceinline__ void store_rows(const Matrix& y, const Divisor& scale,
                                           const float2 (&x)[kEights][kColumnTiles],
                                           const StoredRows& rows, std::byte* stage) {
  switch (y.type) {
    case DType::kF32:
      return store_rows_as<float>(y, scale, x, rows, stage);
    case DType::kBF16:
      return store_rows_as<bf16>(y, scale, x, rows, stage);
    case DType::kF16:
      return store_rows_as<f16>(y, scale, x, rows, stage);
    case DType::kE4M3:
      return store_rows_as<e4m3>(y, scale, x, rows, stage);
    case DType::kI32:
    case DType::kU8:
      return;  // refused by attention()
  }
}
// Of a sum of weights: 0 for a row without keys.
__device__ __forceinline__ float inverse_of(float total) {
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(total));
  return total == 0.0f ? 0.0f : inverse;
}

#endif  // __CUDA_ARCH_FEAT_SM90_ALL

template <int kRowGroups, int kParts, int kPart>
__global__ void __launch_bounds__(kThreads, 1)
    attention_wgmma_kernel(const __grid_constant__ Maps maps, const __grid_constant__ Problem p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using T = Tile<kRowGroups, kParts, kPart>;
  extern __shared__ __align__(sm90::kTileAlignment) std::byte memory[];
  const int lane = threadIdx.x % kWarp;
  const int warp = __shfl_sync(kAllLanes, static_cast<int>(threadIdx.x) / kWarp, 0);
  const int first_row = static_cast<int>(blockIdx.x) * T::kRows;  // in its block of the mask
  const int head = static_cast<int>(blockIdx.y), block = static_cast<int>(blockIdx.z);
  const uint32_t shared = shared_address(memory);
  const uint32_t query_landed = shared + T::kBarriersAt;
  const auto keys_landed = [&](int part) {
    return query_landed + (1 + part) * static_cast<int>(sizeof(uint64_t));
  };
  const auto values_landed = [&](int part) { return keys_landed(T::kAllParts + part); };

  if (threadIdx.x == 0) {
    for (int i = 0; i < T::kBarriers; ++i) {
      init_barrier(query_landed + i * static_cast<int>(sizeof(uint64_t)), 1);
    }
    publish_barriers();
    *reinterpret_cast<float*>(memory + T::kScaleAt) = p.scale;
    sm90::prefetch_map(maps.q);
    sm90::prefetch_map(maps.k);
    sm90::prefetch_map(maps.v);
  }
  if (threadIdx.x < T::kRows) {
    const int row = static_cast<int>(threadIdx.x);
    *reinterpret_cast<uint4*>(memory + T::kQueryLastAt + T::kQueryLastBytes +
                              row / kGroupRows * 2 * T::kQueryLastBytes +
                              row % kGroupRows * kPiece) = {};
  }
  // Where the last columns come from and go to, before the wait.
  const auto piece_of = [&](const Rows& all, int row, int end, std::byte* to) {
    const int64_t from = int64_t{block} * p.block_rows + row;
    Piece piece{to, all.data + from * all.stride + head * kHeadDim * 2 + sm90::kSwizzleBytes,
                row < end};
    asm volatile("" : "+l"(piece.to), "+l"(piece.from));
    return piece;
  };
  constexpr int kEach = (T::kKeys + kThreads - 1) / kThreads;
  const int thread = static_cast<int>(threadIdx.x);
  const Piece q_pieces[1] = {piece_of(
      p.q, first_row + thread, p.block_rows,
      thread < T::kRows ? memory + T::kQueryLastAt + thread / kGroupRows * 2 * T::kQueryLastBytes +
                              thread % kGroupRows * kPiece
                        : nullptr)};
  Piece k_pieces[kEach], v_pieces[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int key = thread + i * kThreads;
    const bool is_there = key < T::kKeys;
    k_pieces[i] =
        piece_of(p.k, key, p.keys, is_there ? memory + T::kKeysLastAt + key * kPiece : nullptr);
    v_pieces[i] = piece_of(
        p.v, key, p.keys,
        is_there ? memory + T::kValuesAt + (key / kPart * 2 + 1) * T::kPartBytes +
                       key % kPart * sm90::kSwizzleBytes + key % sm90::kSwizzleRows * kPiece
                 : nullptr);
  }
  __syncthreads();  // the barriers are there
  wait_for_previous();

  copy_pieces(q_pieces);
  copy_pieces(k_pieces);
  end_copy_group();
  copy_pieces(v_pieces);
  end_copy_group();
  if (warp == 0 && sm90::is_elected()) {
    arrive_expecting(query_landed, kRowGroups * T::kQueryBytes);
#pragma unroll
    for (int g = 0; g < kRowGroups; ++g) {
      sm90::copy_head(maps.q, {0, head, first_row + g * kGroupRows, block},
                      shared + g * T::kQueryBytes, query_landed);
    }
    const auto copy_keys = [&](int part) {
      arrive_expecting(keys_landed(part), T::kPartBytes);
      sm90::copy_head(maps.k, {0, head, part * kPart, block},
                      shared + T::kKeysAt + part * T::kPartBytes, keys_landed(part));
    };
    const auto copy_values = [&](int part) {
      arrive_expecting(values_landed(part), T::kPartBytes);
      sm90::copy_head(maps.v, {0, head, part * kPart, block},
                      shared + T::kValuesAt + part * 2 * T::kPartBytes, values_landed(part));
    };
#pragma unroll
    for (int i = 0; i <= kParts; ++i) {  // in the order in which they are multiplied
#pragma unroll
      for (int g = 0; g < T::kKeyGroups; ++g) {
        if (i < kParts) copy_keys(g * kParts + i);
      }
#pragma unroll
      for (int g = 0; g < T::kKeyGroups; ++g) {
        if (i > 0) copy_values(g * kParts + i - 1);
      }
    }
  }
  __syncwarp();

  const int group_warp = warp % kGroupWarps, group = warp / kGroupWarps;
  const int key_group = group % T::kKeyGroups, row_group = group / T::kKeyGroups;
  const int first_part = key_group * kParts;
  const uint64_t q_at = sm90::tile_descriptor(shared + row_group * T::kQueryBytes);
  const uint64_t q_last_at = last_descriptor(
      shared + T::kQueryLastAt + row_group * 2 * T::kQueryLastBytes, T::kQueryLastBytes);
  const uint64_t k_at = sm90::tile_descriptor(shared + T::kKeysAt + first_part * T::kPartBytes);
  const uint64_t k_last_at =
      last_descriptor(shared + T::kKeysLastAt + first_part * T::kPartLastBytes, 0);
  const uint64_t v_at = sm90::rows_descriptor(
      shared + T::kValuesAt + first_part * 2 * T::kPartBytes, kPart * sm90::kSwizzleBytes);

  // The warp groups take turns. The scale is read again in each, as nothing that needs it can then
  // be done before.
  const auto wait_for_turn = [&] {
    sync_threads(1 + group, kThreads);
    float scale;
    asm volatile("ld.volatile.shared.f32 %0, [%1];"
                 : "=f"(scale)
                 : "r"(shared + T::kScaleAt)
                 : "memory");
    return scale;
  };
  const auto pass_turn = [&] { arrive_threads(2 - group, kThreads); };
  if (group == 1) pass_turn();

  const int keys = p.keys - first_part * kPart;  // of this warp group
  float maximum[2] = {kNoKey, kNoKey}, weight[2] = {0, 0};
  float scores[kPart / 2], sums[kHeadDim / 2] = {};
  uint32_t weights[kPart / 4] = {};
  wait_copy_groups<1>();
  sm90::fence_shared();
  __syncthreads();  // the last columns of q and k have landed
  wait_barrier(query_landed, 0);
#pragma unroll 1
  for (int i = 0; i < kParts; ++i) {
    wait_barrier(keys_landed(first_part + i), 0);
    sm90::begin_products();
    multiply_keys<kPart>(scores, q_at, q_last_at, k_at + i * sm90::descriptor_step(T::kPartBytes),
                         k_last_at + i * sm90::descriptor_step(T::kPartLastBytes));
    sm90::commit_products();
    sm90::wait_for_products<0>();
    sm90::settle(scores);
    sm90::settle(weights);
    sm90::settle(sums);
    hide_keys_from(scores, keys - i * kPart);
    float largest[2] = {maximum[0], maximum[1]}, offset[2];
    add_maxima(scores, largest);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      largest[h] = row_max(largest[h]);
      const float factor = exp2_approximate((maximum[h] - offset_of(largest[h])) * p.scale);
      weight[h] *= factor;
#pragma unroll
      for (int n = 0; n < kColumnTiles; ++n) {
        sums[4 * n + 2 * h] *= factor;
        sums[4 * n + 2 * h + 1] *= factor;
      }
      maximum[h] = largest[h];
    }
    if (i == 0) {
      wait_copy_groups<0>();
      sm90::fence_shared();
      __syncthreads();  // the last columns of v have landed
    }
    const float scale = wait_for_turn();
#pragma unroll
    for (int h = 0; h < 2; ++h) offset[h] = offset_of(largest[h]) * scale;
    weigh(scores, scale, offset, weight, weights);
    if (i + 1 < kParts || group == 0) pass_turn();
    wait_barrier(values_landed(first_part + i), 0);
    sm90::begin_products();
    multiply_values<kPart>(sums, weights, v_at + i * sm90::descriptor_step(2 * T::kPartBytes));
    sm90::commit_products();
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) weight[h] = row_sum(weight[h]);
  sm90::wait_for_products<0>();
  sm90::settle(weights);
  sm90::settle(sums);

  std::byte* const stage = memory + T::kStageAt + warp * T::kStageBytes;
  const int block_row = block * p.block_rows;
  StoredRows rows{.first = block_row + first_row + row_group * kGroupRows + group_warp * 16,
                  .end = block_row + p.block_rows,
                  .head = head};
  if constexpr (T::kKeyGroups == 1) {
    float2 x[2][kColumnTiles];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float inverse = inverse_of(weight[h]);
#pragma unroll
      for (int n = 0; n < kColumnTiles; ++n) {
        x[h][n] = {sums[4 * n + 2 * h] * inverse, sums[4 * n + 2 * h + 1] * inverse};
      }
    }
    store_rows(p.y, p.y_scale, x, rows, stage);
  } else {
    // Each of the two warps with the same rows keeps eight of them and gives the others away.
    const auto slot_of = [&](int of) {
      return reinterpret_cast<float2*>(memory + T::kKeysAt + of * kParts * T::kPartBytes) +
             group_warp * T::kSlot + lane;
    };
    const bool keeps_last = key_group == 1;
    const auto sums_of = [&](bool last, int n) {
      return last ? float2{sums[4 * n + 2], sums[4 * n + 3]} : float2{sums[4 * n], sums[4 * n + 1]};
    };
    const auto end_of = [&](bool last) {
      return last ? float2{maximum[1], weight[1]} : float2{maximum[0], weight[0]};
    };
    float2* const own_slot = slot_of(key_group);
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) own_slot[n * kWarp] = sums_of(!keeps_last, n);
    own_slot[kColumnTiles * kWarp] = end_of(!keeps_last);
    __syncthreads();  // what the other warp gave is there
    const float2* const slot = slot_of(1 - key_group);
    const float2 own = end_of(keeps_last), other = slot[kColumnTiles * kWarp];
    const float top = offset_of(fmaxf(own.x, other.x));
    float own_factor = exp2_approximate((own.x - top) * p.scale);
    float other_factor = exp2_approximate((other.x - top) * p.scale);
    const float inverse = inverse_of(own.y * own_factor + other.y * other_factor);
    own_factor *= inverse;
    other_factor *= inverse;
    float2 x[1][kColumnTiles];
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) {
      const float2 kept = sums_of(keeps_last, n), given = slot[n * kWarp];
      x[0][n] = {kept.x * own_factor + given.x * other_factor,
                 kept.y * own_factor + given.y * other_factor};
    }
    rows.first += 8 * key_group;
    store_rows(p.y, p.y_scale, x, rows, stage);
  }
#endif
}

// ---- choosing

using Kernel = void (*)(Maps, Problem);
struct Variant {
  Kernel kernel;
  int rows, keys, part;  // of a block; keys of a box
  int shared_bytes;
};
template <int kRowGroups, int kParts, int kPart>
constexpr Variant variant_of() {
  using T = Tile<kRowGroups, kParts, kPart>;
  return {attention_wgmma_kernel<kRowGroups, kParts, kPart>, T::kRows, T::kKeys, kPart,
          T::kSharedBytes};
}

// Without a mask all rows of q are one block, and those of the range their keys.
int block_rows(const AttentionArgs& args) {
  return args.block > 0 ? args.block : static_cast<int>(args.q.rows);
}
int keys_of_block(const AttentionArgs& args) {
  return args.block > 0 ? args.block : args.ranges[0].count;
}
int blocks(const AttentionArgs& args) { return static_cast<int>(args.q.rows) / block_rows(args); }
int tiles_of_block(const AttentionArgs& args, int tile_rows) {
  return (block_rows(args) + tile_rows - 1) / tile_rows;
}

Variant choose(const AttentionArgs& args, const DeviceInfo& device) {
  static const Variant kLow = variant_of<1, 2, 64>(), kHigh = variant_of<2, 2, 128>(),
                       kLong = variant_of<2, 3, 112>();
  if (keys_of_block(args) > kLow.keys) return kLong;
  const int low_tiles = blocks(args) * tiles_of_block(args, kLow.rows);
  return low_tiles * args.heads > device.multiprocessors ? kHigh : kLow;
}

// All blocks of the mask are whole, and all their keys are in the range.
bool has_whole_blocks(const AttentionArgs& args) {
  if (args.q.rows == 0) return false;
  if (args.block <= 0) return true;
  const AttentionRange& range = args.ranges[0];
  return range.begin == 0 && range.count == args.q.rows && args.q.rows % args.block == 0;
}

}  // namespace

bool attention_wgmma_accepts(const AttentionArgs& args, const DeviceInfo& device) {
  if (device.compute_capability() != 90 || !device.is_specialised) return false;
  if (args.head_dim != kHeadDim || args.heads != args.kv_heads || args.is_causal) return false;
  if (args.range_count != 1 || args.ranges[0].length || args.q.length) return false;
  if (!attention_fits_matrix_units(args) || !has_whole_blocks(args)) return false;
  if (!is_aligned(args.y, args.y.type == DType::kE4M3 ? 8 : 16)) return false;
  const Variant v = choose(args, device);
  return args.ranges[0].count > 0 && keys_of_block(args) <= v.keys &&
         static_cast<size_t>(v.shared_bytes) <= device.shared_bytes_per_block;
}

const char* attention_wgmma(const AttentionArgs& args, const Launch& launch) {
  constexpr const char* kName = "attention_wgmma";
  const Variant variant = choose(args, *launch.device);
  const int block_count = blocks(args);
  const int rows = block_rows(args), keys = keys_of_block(args), begin = args.ranges[0].begin;
  const auto rows_of = [](const Matrix& m, int first) {
    const int64_t stride = m.stride * static_cast<int64_t>(sizeof(bf16));
    return Rows{static_cast<const std::byte*>(m.data) + first * stride, stride};
  };
  const Rows q = rows_of(args.q, 0), k = rows_of(args.k, begin), v = rows_of(args.v, begin);
  const auto map = [&](const Matrix& m, const Rows& from, int block_rows, int box_rows) {
    return heads_tensor_map(from.data, m.type, {kHeadDim, args.heads, block_rows, block_count},
                            m.stride, box_rows);
  };
  const Maps maps{.q = map(args.q, q, rows, kGroupRows),
                  .k = map(args.k, k, keys, variant.part),
                  .v = map(args.v, v, keys, variant.part)};
  const int tiles = tiles_of_block(args, variant.rows);
  const Problem problem{.q = q,
                        .k = k,
                        .v = v,
                        .y = args.y,
                        .y_scale = divisor_of(args.y),
                        .scale = args.scale * kLog2E,
                        .block_rows = rows,
                        .keys = keys};
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(args.heads),
                  static_cast<unsigned>(block_count));
  launch_kernel(kName, variant.kernel, grid, kThreads, variant.shared_bytes, launch, 1, maps,
                problem);
  return kName;
}

}  // namespace flashrt::cuda
