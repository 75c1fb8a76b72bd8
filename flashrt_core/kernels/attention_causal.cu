// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// attention of many rows in heads of 128 on sm_90, as a language model has it.
//
// Layout    q, k, v: bf16 with 16-byte rows; heads of 128, a power of two of them for each kv head;
//           keys in one or two ranges, causal or not. y: any float type.
// Work      a block takes 64 folded rows of a kv head and half of the columns of v. Its two warp
//           groups hold all of the rows, take alternate chunks of up to 112 keys, and add up what
//           they have at the end. Both blocks of a tile compute its scores: handing sums from
//           block to block would cost more. What a row does not see starts its score, so masks
//           are done while keys are under way. A block leaves no room for a second one, which
//           would share its multiprocessor while others stand idle.
// Traffic   q, k and half of v once per block, all of 224 keys on their way at once. Of longer rows
//           the next chunk of k is copied once this one is multiplied.
// Numerics  products and sums in float32; softmax in float32 with a running maximum; weights
//           rounded to bf16 for the second product, which adds them up as well.
// Reference backends/cpu/attention.cpp

#include <bit>

#include "kernels/attention_parts.cuh"
#include "kernels/sm90.cuh"

#if !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#pragma nv_diag_suppress 177  // for other architectures the kernel is empty, and its parts are
                              // unused
#endif

namespace flashrt::cuda {
namespace {

constexpr int kHeadDim = 128;
constexpr int kRows = 64;  // of q in a matrix instruction
constexpr int kGroups = 2;
constexpr int kThreads = kGroups * sm90::kWarpGroup;
constexpr int kWarps = kThreads / kWarp;
constexpr int kGroupWarps = kWarps / kGroups;
constexpr int kChunkKeys = 112, kRoundKeys = kGroups * kChunkKeys;
constexpr int kRanges = 2;
constexpr int kColumns = 64;  // of v, that a block takes
constexpr int kColumnBlocks = kHeadDim / kColumns;

// Operands lie in boxes of rows of 128 bytes, whose pieces are swizzled.
constexpr int kPiece = 16;
constexpr int kRowPieces = kHeadDim * 2 / kPiece, kBoxPieces = sm90::kSwizzleBytes / kPiece;
constexpr int kBoxes = kRowPieces / kBoxPieces;
static_assert(kColumns / 8 == kBoxPieces, "v is one box");
constexpr int kQueryBox = kRows * sm90::kSwizzleBytes;
constexpr int kKeyBox = kChunkKeys * sm90::kSwizzleBytes;
constexpr int kKeysAt = kBoxes * kQueryBox;
constexpr int kValuesAt = kKeysAt + kGroups * kBoxes * kKeyBox;
constexpr int kOnesAt = kValuesAt + kGroups * kKeyBox;  // columns of v that add up weights
constexpr int kSharedBytes = kOnesAt + kKeyBox;
constexpr int kSums = kColumns + 8;

// Sums as they are handed on: rows that lie in different banks, and what threads take of one.
constexpr int kPitch = kColumns + 8;
constexpr int kRowThreads = kThreads / kRows, kThreadColumns = kColumns / kRowThreads;
static_assert(kRows * kPitch * sizeof(float) <= kBoxes * kKeyBox);

// Rows that are copied at a time: of q and k by all threads, of v by those of a group.
constexpr int kCopyRows = kThreads / kRowPieces;
constexpr int kValueRows = sm90::kWarpGroup / kBoxPieces;
constexpr int kMostFold = 4;
static_assert(kCopyRows % (1 << kMostFold) == 0, "rows copied in turn are of the same head");
static_assert(kCopyRows % sm90::kSwizzleRows == 0 && kValueRows % sm90::kSwizzleRows == 0);
static_assert(kRows % kCopyRows == 0 && kChunkKeys % kCopyRows == 0 &&
              kChunkKeys % kValueRows == 0);

__host__ __device__ inline int tiles_of(int rows) { return (rows + kRows - 1) / kRows; }

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Of the keys of a lane, two of every eight, those before this one.
__device__ __forceinline__ uint32_t bits_below(int key) {
  const int end = min(max(key, 0), kChunkKeys);
  return (1u << (end / 8 * 2 + min(end % 8, 2))) - 1;
}

// Where a piece lies in a row of its box.
__device__ __forceinline__ int swizzled_at(uint32_t row, uint32_t piece) {
  return static_cast<int>((piece ^ row) % kBoxPieces) * kPiece;
}

// What has landed may be multiplied after the barrier that follows.
template <int kUnderWay>
__device__ __forceinline__ void wait_for_copies() {
  wait_copy_groups<kUnderWay>();
  sm90::fence_shared();
}

// Keeps the compiler from computing an address where it is used, behind the wait.
template <class T>
__device__ __forceinline__ T* computed(T* address) {
  asm volatile("" : "+l"(address));
  return address;
}

__device__ __forceinline__ void group_sync(int group) {
  if (group == 0) {
    sync_threads(1, sm90::kWarpGroup);
  } else {
    sync_threads(2, sm90::kWarpGroup);
  }
}

// Neighbours, already divided by the scale of y.
template <int N>
__device__ __forceinline__ void store_scaled(e4m3* to, const float (&y)[N]) {
  Vector<uint32_t, N / 4> words;
#pragma unroll
  for (int i = 0; i < N; i += 4) {
    words.at[i / 4] = packed_e4m3(y[i], y[i + 1]) | packed_e4m3(y[i + 2], y[i + 3]) << 16;
  }
  store_vector(reinterpret_cast<uint32_t*>(to), words);
}
template <class Y, int N>
__device__ __forceinline__ void store_scaled(Y* to, const float (&y)[N]) {
  store_floats(to, y, Divisor{});
}

#endif  // __CUDA_ARCH_FEAT_SM90_ALL

template <class Y>
__global__ void __launch_bounds__(kThreads, 1)
    attention_causal_kernel(const __grid_constant__ AttentionArgs args, int fold,
                            float inverse_y_scale) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(sm90::kTileAlignment) std::byte memory[];
  __shared__ float2 ends[kGroups * kRows];  // {largest score, sum of weights}
  const int thread = static_cast<int>(threadIdx.x), lane = static_cast<int>(threadIdx.x % kWarp);
  const int warp = __shfl_sync(kAllLanes, thread / kWarp, 0);
  const int group = warp / kGroupWarps, group_warp = warp % kGroupWarps;
  const int column = static_cast<int>(blockIdx.x) % kColumnBlocks * kColumns;
  const int first_row = static_cast<int>(blockIdx.x) / kColumnBlocks * kRows;
  const int kv_head = static_cast<int>(blockIdx.y);

  // All that is not data is done ahead of the wait.
  if (!args.lengths_are_settled) wait_for_previous();
  const int rows = static_cast<int>(min(valid_rows(args.q), args.q.rows)) << fold;
  const int last_row = min(first_row + kRows, rows) - 1;
  const auto keys = visible_keys<kRanges>(
      args, 0, args.is_causal ? (last_row >> fold) + args.causal_offset + 1 : INT32_MAX);
  const int rounds = max(1, (keys.total + kRoundKeys - 1) / kRoundKeys);
  const int chunk_keys = ((keys.total + kGroups * rounds - 1) / (kGroups * rounds) + 7) / 8 * 8;
  const auto count_of = [&](int chunk) {
    return max(0, min(chunk_keys, keys.total - chunk * chunk_keys));
  };

  // Copies. All threads share those of q and of k, so that the first chunk comes first; a group has
  // its own of v. Past the last row or key zeros.
  const int k_row = thread / kRowPieces, k_piece = static_cast<int>(threadIdx.x % kRowPieces);
  const int v_row = static_cast<int>(threadIdx.x % sm90::kWarpGroup) / kBoxPieces;
  const int v_piece = static_cast<int>(threadIdx.x % kBoxPieces);
  std::byte* const q_to = memory + k_piece / kBoxPieces * kQueryBox + k_row * sm90::kSwizzleBytes +
                          swizzled_at(k_row, k_piece);
  const int q_row = first_row + k_row, q_head = kv_head << fold | (q_row & ((1 << fold) - 1));
  const std::byte* const q_from = computed(
      bytes_at(args.q, int64_t{q_row >> fold} * args.q.stride + q_head * kHeadDim + k_piece * 8));
  const int64_t q_step = (kCopyRows >> fold) * args.q.stride * static_cast<int64_t>(sizeof(bf16));
  std::byte* const k_to = memory + kKeysAt + k_piece / kBoxPieces * kKeyBox +
                          k_row * sm90::kSwizzleBytes + swizzled_at(k_row, k_piece);
  std::byte* const v_to = memory + kValuesAt + group * kKeyBox + v_row * sm90::kSwizzleBytes +
                          swizzled_at(v_row, v_piece);
  const std::byte* const k_from = computed(bytes_at(args.k, kv_head * kHeadDim + k_piece * 8));
  const std::byte* const v_from =
      computed(bytes_at(args.v, kv_head * kHeadDim + column + v_piece * 8));
  const auto k_stride = static_cast<uint32_t>(args.k.stride * sizeof(bf16));
  const auto v_stride = static_cast<uint32_t>(args.v.stride * sizeof(bf16));
  uint32_t k_rows[kGroups][kChunkKeys / kCopyRows];
  uint32_t v_rows[kChunkKeys / kValueRows];
  const auto find_rows = [&](int round) {
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      const int first = (round * kGroups + g) * chunk_keys + k_row;
#pragma unroll
      for (int i = 0; i < kChunkKeys / kCopyRows; ++i)
        k_rows[g][i] = static_cast<uint32_t>(keys.row(first + i * kCopyRows));
    }
    const int first = (round * kGroups + group) * chunk_keys + v_row;
#pragma unroll
    for (int i = 0; i < kChunkKeys / kValueRows; ++i)
      v_rows[i] = static_cast<uint32_t>(keys.row(first + i * kValueRows));
  };
  const auto copy_keys = [&](int round) {
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      const int count = count_of(round * kGroups + g);
#pragma unroll
      for (int i = 0; i < kChunkKeys; i += kCopyRows) {
        copy_async(k_to + g * kBoxes * kKeyBox + i * sm90::kSwizzleBytes,
                   k_from + uint64_t{k_rows[g][i / kCopyRows]} * k_stride, k_row + i < count);
      }
      end_copy_group();
    }
  };
  const auto copy_values = [&](int round) {
    const int count = count_of(round * kGroups + group);
#pragma unroll
    for (int i = 0; i < kChunkKeys; i += kValueRows) {
      copy_async(v_to + i * sm90::kSwizzleBytes,
                 v_from + uint64_t{v_rows[i / kValueRows]} * v_stride, v_row + i < count);
    }
    end_copy_group();
  };

  // A bit for each key of a lane that a row does not see.
  uint32_t hidden[2];
  const auto hide = [&](int round) {
    const int chunk = round * kGroups + group, lane_key = lane % 4 * 2;
    hidden[0] = hidden[1] = ~bits_below(count_of(chunk) - lane_key);
    if (!args.is_causal) return;
    const int first = chunk * chunk_keys + lane_key;
    const uint32_t ranged = bits_below(keys.count[0] - first);
#pragma unroll
    for (int h = 0; h < 2; ++h) {  // keys of the first range from here on are later tokens
      const int token = (first_row + group_warp * (kRows / kGroupWarps) + lane / 4 + 8 * h) >> fold;
      hidden[h] |= ranged & ~bits_below(token + args.causal_offset + 1 - keys.begin[0] - first);
    }
  };
  hide(0);

  // A thread stores some columns of a row.
  const int y_row = thread / kRowThreads, y_folded = first_row + y_row;
  const int y_head = kv_head << fold | (y_folded & ((1 << fold) - 1));
  Y* const y_at =
      computed(static_cast<Y*>(args.y.data) + int64_t{y_folded >> fold} * args.y.stride +
               y_head * kHeadDim + column + thread % kRowThreads * kThreadColumns);

  if (thread < kChunkKeys) {
    constexpr uint32_t kTwoOnes = 0x3f803f80;
    *reinterpret_cast<uint4*>(memory + kOnesAt + thread * sm90::kSwizzleBytes +
                              swizzled_at(thread, 0)) = {kTwoOnes, kTwoOnes, kTwoOnes, kTwoOnes};
  }
  find_rows(0);
  sm90::settle(k_rows[0]);
  sm90::settle(k_rows[1]);
  sm90::settle(v_rows);
  wait_for_previous();
  if (first_row >= rows) return;
#pragma unroll
  for (int i = 0; i < kRows; i += kCopyRows) {
    copy_async(q_to + i * sm90::kSwizzleBytes, q_from + i / kCopyRows * q_step, q_row + i < rows);
  }
  copy_keys(0);
  copy_values(0);

  const uint32_t q_at = shared_address(memory);
  const uint32_t k_at = q_at + kKeysAt + group * kBoxes * kKeyBox;
  const uint32_t v_at = q_at + kValuesAt + group * kKeyBox;
  const int to_ones = kOnesAt - kValuesAt - group * kKeyBox;
  const float scale = args.scale * kLog2E;
  float maximum[2] = {kNoKey, kNoKey};
  float sums[kSums / 2] = {};  // the last ones of the weights
  for (int round = 0; round < rounds; ++round) {
    const bool is_last = round + 1 == rounds;
    // The sums that become scores begin at what hides a key.
    float scores[kChunkKeys / 2];
#pragma unroll
    for (float& score : scores) score = 0;
    constexpr int kBits = kChunkKeys / 4, kLastBits = 2;  // of the last eight keys
    const bool is_last_only = ((hidden[0] | hidden[1]) & ((1u << (kBits - kLastBits)) - 1)) == 0;
    const auto hide_from = [&](int first_bit) {
#pragma unroll
      for (int j = 0; j < kChunkKeys / 2; ++j) {
        const int bit = j / 4 * 2 + j % 2;
        if (bit >= first_bit && hidden[j / 2 % 2] & 1u << bit) scores[j] = kNoKey;
      }
    };
    if (__all_sync(kAllLanes, is_last_only)) {
      hide_from(kBits - kLastBits);
    } else {
      hide_from(0);
    }
    sm90::settle(scores);  // while k is under way
    // Three groups of copies are under way: the chunks of k, then v.
    wait_for_copies<2>();
    __syncthreads();  // q and the first chunk have landed
    if (group == 1) {
      wait_for_copies<1>();
      sync_threads(3, kThreads);  // the second chunk has landed
    }
    sm90::begin_products();
#pragma unroll
    for (int d = 0; d < kHeadDim / 16; ++d) {
      sm90::Product<bf16, kChunkKeys>::add(
          scores, sm90::tile_descriptor(q_at + d / 4 * kQueryBox + d % 4 * 32),
          sm90::tile_descriptor(k_at + d / 4 * kKeyBox + d % 4 * 32), 1);
    }
    sm90::commit_products();
    if (group == 0) {
      wait_for_copies<1>();
      arrive_threads(3, kThreads);
    }
    sm90::wait_for_products<0>();
    sm90::settle(scores);
    if (!is_last) {
      __syncthreads();  // k has been read
      find_rows(round + 1);
      copy_keys(round + 1);
    } else {  // so that counts stay the same
      end_copy_group();
      end_copy_group();
    }

    float largest[2] = {maximum[0], maximum[1]}, offset[2];
    add_maxima(scores, largest);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      largest[h] = row_max(largest[h]);
      offset[h] = offset_of(largest[h]) * scale;
      if (round > 0) {
        const float factor = exp2_approximate(maximum[h] * scale - offset[h]);
#pragma unroll
        for (int i = 2 * h; i < kSums / 2; i += 4) {
          sums[i] *= factor;
          sums[i + 1] *= factor;
        }
      }
      maximum[h] = largest[h];
    }
    uint32_t weights[kChunkKeys / 4];
    float total[2] = {};  // not used: a product with ones adds up the weights
    weigh(scores, scale, offset, total, weights);

    wait_for_copies<2>();
    group_sync(group);  // v has landed
    sm90::begin_products();
#pragma unroll
    for (int s = 0; s < kChunkKeys / 16; ++s) {
      const uint32_t a[4] = {weights[4 * s], weights[4 * s + 1], weights[4 * s + 2],
                             weights[4 * s + 3]};
      sm90::add_product_of_rows(
          sums, a, sm90::rows_descriptor(v_at + s * 16 * sm90::kSwizzleBytes, to_ones), 1);
    }
    sm90::commit_products();
    if (!is_last) hide(round + 1);
    sm90::wait_for_products<0>();
    sm90::settle(sums);
    sm90::settle(weights);
    if (!is_last) {
      group_sync(group);  // v has been read
      copy_values(round + 1);
    }
  }

  // The sums of a group take the place of its keys. Then a thread has a part of a row.
  float* const own_sums = reinterpret_cast<float*>(memory + kKeysAt + group * kBoxes * kKeyBox);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int own = group_warp * (kRows / kGroupWarps) + lane / 4 + 8 * h;
#pragma unroll
    for (int n = 0; n < kColumns / 8; ++n) {
      store_vector(own_sums + own * kPitch + n * 8 + lane % 4 * 2,
                   Vector<float, 2>{sums[4 * n + 2 * h], sums[4 * n + 2 * h + 1]});
    }
    if (lane % 4 == 0) ends[group * kRows + own] = {maximum[h], sums[kColumns / 2 + 2 * h]};
  }
  __syncthreads();  // the sums of both groups are there
  const float2 first = ends[y_row], second = ends[kRows + y_row];
  const float largest = offset_of(fmaxf(first.x, second.x));
  const float factors[kGroups] = {exp2_approximate((first.x - largest) * scale),
                                  exp2_approximate((second.x - largest) * scale)};
  const float weight = first.y * factors[0] + second.y * factors[1];
  const float inverse = weight == 0.0f ? 0.0f : __fdividef(inverse_y_scale, weight);
  const float* of_row = reinterpret_cast<const float*>(memory + kKeysAt) + y_row * kPitch +
                        thread % kRowThreads * kThreadColumns;
  float y[kThreadColumns];
#pragma unroll
  for (int i = 0; i < kThreadColumns; i += 4) {
    const float4 a = *reinterpret_cast<const float4*>(of_row + i);
    const float4 b = *reinterpret_cast<const float4*>(of_row + kBoxes * kKeyBox / 4 + i);
    const float a_factor = factors[0] * inverse, b_factor = factors[1] * inverse;
    y[i] = a.x * a_factor + b.x * b_factor;
    y[i + 1] = a.y * a_factor + b.y * b_factor;
    y[i + 2] = a.z * a_factor + b.z * b_factor;
    y[i + 3] = a.w * a_factor + b.w * b_factor;
  }
  if (first_row + y_row < rows) store_scaled(y_at, y);
#endif
}

// Query heads of a kv head, as a power of two.
int fold_of(const AttentionArgs& args) {
  return std::countr_zero(static_cast<unsigned>(args.heads / args.kv_heads));
}

}  // namespace

bool attention_causal_accepts(const AttentionArgs& args, const DeviceInfo& device) {
  return device.compute_capability() == 90 && device.is_specialised && args.head_dim == kHeadDim &&
         args.block == 0 && args.range_count <= kRanges &&
         (args.kv_heads << fold_of(args)) == args.heads && fold_of(args) <= kMostFold &&
         attention_fits_matrix_units(args) && is_aligned(args.y, 16) &&
         static_cast<size_t>(kSharedBytes) <= device.shared_bytes_per_block;
}

const char* attention_causal(const AttentionArgs& args, const Launch& launch) {
  constexpr const char* kName = "attention_causal";
  const int rows = static_cast<int>(args.q.rows) * (args.heads / args.kv_heads);
  const dim3 grid(static_cast<unsigned>(tiles_of(rows) * kColumnBlocks),
                  static_cast<unsigned>(args.kv_heads));
  const auto kernel = [&] {
    switch (args.y.type) {
      case DType::kF32:
        return attention_causal_kernel<float>;
      case DType::kBF16:
        return attention_causal_kernel<bf16>;
      case DType::kF16:
        return attention_causal_kernel<f16>;
      default:
        return attention_causal_kernel<e4m3>;
    }
  }();
  launch_kernel(kName, kernel, grid, kThreads, kSharedBytes, launch, 1, args, fold_of(args),
                1.0f / args.y.scale);
  return kName;
}

}  // namespace flashrt::cuda
