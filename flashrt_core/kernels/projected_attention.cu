// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// projected_attention for up to 64 rows on sm_90: q = x Wq^T + bias, and attention of q over keys
// and values in memory; or q|k|v = x W^T + bias, and attention of the rows among themselves.
//
// Layout    x: [T <= 64, D], W: [H*E or 3*H*E, D], e4m3, rows of whole blocks of 128
//           bytes. Heads of 32 or 48, each with keys of its own, in bf16: up to 256 in memory; no
//           mask. y: bf16 or e4m3.
// Work      a block has a head and 32 rows. One warp asks for all of W before the kernel ahead has
//           ended, and for x right after. Four warps bring the keys and values (before the wait,
//           where they are settled), multiply as linear_stream does, and go on with q in the
//           registers in which the products left it: the scores of all keys, the softmax, and the
//           products with v, by instructions of the warp group as well. Each warp has 8 rows of its
//           own of the 16 that it multiplies: powers take longer than products. Where k and v are
//           projected, a cluster of three blocks has all rows of a head, and two of them send
//           theirs to the first. What follows x is rehearsed while there is time (linear_stream
//           says why).
// Traffic   W from device memory once per head. x and the keys of a head once per block into shared
//           memory.
// Numerics  q, k and v have the bits of linear_stream without splits. Scores, softmax and sums in
//           float32, relative to the largest score of the row; weights rounded to bf16 for the
//           products, and for the sum of weights. A fixed order, so results repeat bit for bit.
// Reference backends/cpu/linear.cpp, backends/cpu/attention.cpp

#include <algorithm>

#include "kernels/attention_parts.cuh"
#include "kernels/linear_epilogue.cuh"
#include "kernels/projected_attention.cuh"
#include "kernels/sm90.cuh"
#include "kernels/tensor_map.hpp"

#if !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#pragma nv_diag_suppress 177  // for other architectures the kernel is empty, and its parts are
                              // unused
#endif

namespace flashrt::cuda {
namespace {

constexpr const char* kName = "projected_attention";

constexpr int kMaxRows = 64;        // the m of an instruction
constexpr int kGroupRows = 8;       // x arrives in groups of so many
constexpr int kMaxChunks = 16;      // of x
constexpr int kMaxBoxBlocks = 256;  // what a tensor map allows
constexpr int kStepBytes = 32;      // of a row, per instruction
constexpr int kStepKeys = 16;       // of the products with v
constexpr int kPieceBytes = 16;
constexpr int kPieceColumns = kPieceBytes / sizeof(bf16);
constexpr int kChains = 4;  // of maxima, so that none waits for the one before

// Four warps multiply, and one copies.
constexpr int kThreads = sm90::kWarpGroup + kWarp;
constexpr int kCopyingWarp = sm90::kWarpGroup / kWarp;
constexpr int kStarted = 1, kKeysThere = 2;  // numbers of barriers

// The blocks of a cluster that has the keys of a head from x.
constexpr int kProjections = 3;

// Rows of a warp: all that it multiplies, or half of them.
__host__ __device__ constexpr int warp_rows(bool has_keys) { return has_keys ? 16 : 8; }
__host__ __device__ constexpr int block_rows(bool has_keys) { return 4 * warp_rows(has_keys); }

struct ProjectedArgs {
  CUtensorMap weight, x;
  LinearEpilogue epilogue;  // of the projection
  AttentionArgs attention;
  Divisor divisor;       // of y
  int x_rows = 0;        // in shared memory
  int k_blocks = 0;      // of 128 bytes of a row
  int chunk_blocks = 0;  // of those, in one copy of x
};

struct Barriers {
  uint64_t weight_arrived, keys_received, x_arrived[kMaxChunks];
};

// The shared memory of a block: k and v in rows of 128 bytes, x and W in blocks of such rows, and
// barriers. Behind the columns of v come some of ones: their sum of products is that of the
// weights.
struct Layout {
  int head_dim, keys, x_rows, k_blocks;

  __host__ __device__ int keys_bytes() const { return keys * sm90::kSwizzleBytes; }
  __host__ __device__ int x_offset() const { return 2 * keys_bytes(); }
  __host__ __device__ int x_block_bytes() const { return x_rows * sm90::kSwizzleBytes; }
  __host__ __device__ int weight_block_bytes() const { return head_dim * sm90::kSwizzleBytes; }
  __host__ __device__ int weight_offset() const { return x_offset() + k_blocks * x_block_bytes(); }
  // Instructions read 64 rows of x: past its end they find what lies behind.
  __host__ __device__ int barriers_offset() const {
    const int used = weight_offset() + k_blocks * weight_block_bytes();
    const int read = x_offset() + (k_blocks - 1) * x_block_bytes() + kMaxRows * sm90::kSwizzleBytes;
    return used > read ? used : read;
  }
  __host__ __device__ int bytes() const {
    return barriers_offset() + static_cast<int>(sizeof(Barriers));
  }
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Where 16 bytes of a row of k or v lie: swizzled as by the copy engine.
__device__ __forceinline__ uint32_t piece_offset(int row, int piece) {
  return row * sm90::kSwizzleBytes + (piece ^ row % sm90::kSwizzleRows) * kPieceBytes;
}

// 16 rows of x for each warp. Where it has 8 of its own, the other 8 begin in the middle of them,
// and nobody reads what becomes of those.
template <int kWarpRows>
__device__ __forceinline__ uint64_t rows_of_x(uint32_t address) {
  constexpr uint64_t kUnit = kPieceBytes;  // of the distance from eight rows to the next eight
  constexpr uint64_t kUsual = sm90::kTileAlignment / kUnit;
  constexpr uint64_t kHere = kWarpRows / 2 * sm90::kSwizzleBytes / kUnit;
  return sm90::tile_descriptor(address) - ((kUsual - kHere) << 32);
}

// Of the weights of a row; 0 where there are none.
__device__ __forceinline__ float inverse_of_sum(float sum) {
  float inverse;  // relative error 2^-23
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(sum));
  return sum == 0.0f ? 0.0f : inverse;
}

// Two columns as they are stored.
__device__ __forceinline__ uint32_t packed(bf16, float first, float second, const Divisor&) {
  return packed_bf16(first, second);
}
__device__ __forceinline__ uint16_t packed(e4m3, float first, float second,
                                           const Divisor& divisor) {
  return static_cast<uint16_t>(packed_e4m3(quotient(first, divisor), quotient(second, divisor)));
}

// Without a branch, so that it is fetched where nothing is stored.
__device__ __forceinline__ void store_if(bool is_stored, std::byte* to, uint32_t x) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %2, 0;\n"
      "@p st.global.u32 [%0], %1;\n"
      "}\n" ::"l"(to),
      "r"(x), "r"(static_cast<int>(is_stored))
      : "memory");
}
__device__ __forceinline__ void store_if(bool is_stored, std::byte* to, uint16_t x) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %2, 0;\n"
      "@p st.global.u16 [%0], %1;\n"
      "}\n" ::"l"(to),
      "h"(x), "r"(static_cast<int>(is_stored))
      : "memory");
}

#endif  // __CUDA_ARCH_FEAT_SM90_ALL

// kKeys: of those that a row sees, at most.
template <int kHeadDim, int kKeys, bool kHasKeys>
__global__ void __launch_bounds__(kThreads)
    projected_attention_kernel(const __grid_constant__ ProjectedArgs args) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Product = sm90::Product<e4m3, kHeadDim>;
  constexpr int kWarpRows = warp_rows(kHasKeys);
  constexpr int kHalves = kWarpRows / 8;  // rows of a thread, eight apart
  constexpr int kTiles = kHeadDim / 8, kPieces = kHeadDim / kPieceColumns;
  extern __shared__ __align__(sm90::kTileAlignment) uint8_t memory[];

  const Layout layout{kHeadDim, kKeys, args.x_rows, args.k_blocks};
  const uint32_t k = shared_address(memory), v = k + layout.keys_bytes();
  const uint32_t x = k + layout.x_offset(), weight = k + layout.weight_offset();
  auto* const barriers = reinterpret_cast<Barriers*>(memory + layout.barriers_offset());
  uint64_t* const x_arrived = barriers->x_arrived;
  const int chunks = args.k_blocks / args.chunk_blocks;
  const int chunk_bytes = args.chunk_blocks * layout.x_block_bytes();
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const AttentionArgs& a = args.attention;
  const int head = blockIdx.y, heads = gridDim.y;
  const int projection = kHasKeys ? blockIdx.x : 0;
  const int first_row = kHasKeys ? 0 : blockIdx.x * block_rows(kHasKeys);
  // Rows of k and v that are sent: all those of a warp that has one that there may be.
  const int sent_rows = (static_cast<int>(a.q.rows) + kWarpRows - 1) / kWarpRows * kWarpRows;

  if (warp == kCopyingWarp) {
    if (lane == 0) {
      init_barrier(shared_address(&barriers->weight_arrived), 1);
      for (int c = 0; c < chunks; ++c) init_barrier(shared_address(x_arrived + c), 1);
      // Shows the barriers above as well.
      expect_bytes(&barriers->keys_received,
                   kHasKeys && projection == 0 ? 2 * sent_rows * kPieces * kPieceBytes : 0);
      arrive_expecting(shared_address(&barriers->weight_arrived),
                       args.k_blocks * layout.weight_block_bytes());
      for (int c = 0; c < chunks; ++c) arrive_expecting(shared_address(x_arrived + c), chunk_bytes);
    }
    __syncwarp();
    if constexpr (kHasKeys) cluster_started();
      // Weights and x go through the same instructions, so that they are there for x.
#pragma unroll 1
    for (bool is_x = args.k_blocks == 0;; is_x = true) {  // the compiler cannot know
      if (is_x) wait_for_previous();
      if (lane == 0) {
        const CUtensorMap* const map = is_x ? &args.x : &args.weight;
        sm90::BlockedAt at{is_x ? first_row : 0, is_x ? 0 : projection * heads + head, 0};
        uint32_t to = is_x ? x : weight;
        uint32_t barrier = shared_address(is_x ? x_arrived : &barriers->weight_arrived);
        const int copies = is_x ? chunks : 1;
#pragma unroll 1
        for (int c = 0; c < copies; ++c) {
          sm90::copy_blocks(*map, at, to, barrier);
          at.block += args.chunk_blocks, to += chunk_bytes, barrier += sizeof(uint64_t);
        }
      }
      __syncwarp();
      if (is_x) break;
      arrive_threads(kStarted, kThreads);
    }
    return;
  }

  // ---- constants. A pair of columns of the projection is sum * factor + offset.
  if constexpr (kHasKeys) cluster_started();
  const int lane_row = lane / 4, lane_column = lane % 4 * 2;
  float factor[kTiles][2], offset[kTiles][2];
#pragma unroll
  for (int c = 0; c < kTiles; ++c) {
    const ChannelTerms<2> terms = channel_terms<2>(
        args.epilogue, (projection * heads + head) * kHeadDim + c * 8 + lane_column);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      factor[c][i] =
          __fmul_rn(terms.scale[i], __fmul_rn(terms.weight_scale, args.epilogue.x_scale));
      offset[c][i] = terms.bias[i];
    }
  }

  // ---- keys. Past the last one k is that of the last one once more, and v is zeros: as keys they
  // change neither the largest score nor a sum.
  int keys = kKeys;
  const bool is_settled = a.settled_begin == 0;
  constexpr uint32_t kOnes = 0x3f803f80;  // two in bf16
  const auto load_keys = [&] {
    const auto visible = visible_keys(a, 0, INT32_MAX);
    keys = visible.total;
    const std::byte* const k_head = bytes_at(a.k, head * kHeadDim);
    const std::byte* const v_head = bytes_at(a.v, head * kHeadDim);
    const auto k_stride = static_cast<uint32_t>(a.k.stride * sizeof(bf16));
    const auto v_stride = static_cast<uint32_t>(a.v.stride * sizeof(bf16));
#pragma unroll 1
    for (int i = threadIdx.x; i < kKeys * kPieces; i += sm90::kWarpGroup) {
      const int key = i / kPieces, piece = i - key * kPieces;
      const auto row = static_cast<uint32_t>(visible.row(min(key, max(keys - 1, 0))));
      const uint32_t at = piece_offset(key, piece);
      copy_async(memory + at, k_head + uint64_t{row} * k_stride + piece * kPieceBytes, keys > 0);
      copy_async(memory + layout.keys_bytes() + at,
                 v_head + uint64_t{row} * v_stride + piece * kPieceBytes, key < keys);
    }
    end_copy_group();
#pragma unroll 1
    for (int key = threadIdx.x; key < kKeys; key += sm90::kWarpGroup) {
      const float ones = key < keys ? __uint_as_float(kOnes) : 0.0f;
      sm90::store_shared(v + piece_offset(key, kPieces), {ones, ones, ones, ones});
    }
    wait_copy_groups<0>();
    sm90::fence_shared();  // before the matrix instructions read them
    sync_threads(kKeysThere, sm90::kWarpGroup);
  };
  if constexpr (kHasKeys) {
    // Rows that nobody sends are zeros, and all of v have ones.
    const float ones = __uint_as_float(kOnes);
#pragma unroll 1
    for (int row = threadIdx.x; row < kKeys; row += sm90::kWarpGroup) {
      sm90::store_shared(v + piece_offset(row, kPieces), {ones, ones, ones, ones});
      if (row < sent_rows) continue;
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece)
        sm90::store_shared(v + piece_offset(row, piece), float4{});
    }
    sync_threads(kKeysThere, sm90::kWarpGroup);  // before the fence behind the wait for the others
  } else if (is_settled) {
    load_keys();
  }
  sync_threads(kStarted, kThreads);  // the barriers are initialised, before one is waited for

  // What follows x runs twice: first with nothing to store, while there is time, so that its
  // instructions and parameters are in the caches when they are waited for.
  const int row = first_row + warp * kWarpRows + lane_row;
  // Of y. Worked out here, and not where they are needed.
  const auto y_bytes = static_cast<int64_t>(a.y.type == DType::kE4M3 ? sizeof(e4m3) : sizeof(bf16));
  std::byte* y_at[kHalves];
#pragma unroll
  for (int h = 0; h < kHalves; ++h) {
    const int64_t element = (row + 8 * h) * a.y.stride + head * kHeadDim + lane_column;
    y_at[h] = static_cast<std::byte*>(a.y.data) + element * y_bytes;
    asm volatile("" : "+l"(y_at[h]));
  }
  int valid = 0;
  float projected_sums[kHeadDim / 2] = {};
#pragma unroll 1
  for (bool is_rehearsal = args.k_blocks > 0;; is_rehearsal = false) {  // the compiler cannot know
    if (!is_rehearsal) {
      wait_for_previous();
      valid = static_cast<int>(min(valid_rows(a.q), a.q.rows));
      if constexpr (kHasKeys) {
        keys = visible_keys<1>(a, 0, static_cast<int>(a.q.rows)).total;
      } else {
        if (!is_settled) load_keys();
      }

      // ---- products
      uint32_t is_sum = 0;
      uint64_t x_at = rows_of_x<kWarpRows>(x), weight_at = sm90::tile_descriptor(weight);
      wait_barrier(shared_address(&barriers->weight_arrived), 0);
      sm90::begin_products();
      for (int c = 0; c < chunks; ++c) {
        wait_barrier(shared_address(x_arrived + c), 0);
        for (int block = 0; block < args.chunk_blocks; ++block) {
#pragma unroll
          for (int step = 0; step < sm90::kSwizzleBytes / kStepBytes; ++step) {
            const uint64_t along = sm90::descriptor_step(step * kStepBytes);
            Product::add(projected_sums, x_at + along, weight_at + along, is_sum);
            is_sum = 1;
          }
          x_at += sm90::descriptor_step(layout.x_block_bytes());
          weight_at += sm90::descriptor_step(layout.weight_block_bytes());
        }
      }
      sm90::commit_products();
      sm90::wait_for_products<0>();
      sm90::settle(projected_sums);
    }

    // ---- the projection: pairs of columns of row g, then of row g + 8
    uint32_t projected[kTiles][2];
#pragma unroll
    for (int c = 0; c < kTiles; ++c) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float* s = projected_sums + 4 * c + 2 * h;
        projected[c][h] = packed_bf16(__fmaf_rn(s[0], factor[c][0], offset[c][0]),
                                      __fmaf_rn(s[1], factor[c][1], offset[c][1]));
      }
    }
    if constexpr (kHasKeys) {
      if (!is_rehearsal) cluster_wait();  // the first block has its barrier, before it is sent to
      if (projection > 0) {
        // Through the rows of k of this block: a warp reads what it wrote.
#pragma unroll
        for (int c = 0; c < kTiles; c += 2) {
          const uint32_t words[4] = {projected[c][0], projected[c][1], projected[c + 1][0],
                                     projected[c + 1][1]};
          sm90::store_matrices(k + piece_offset(warp * kWarpRows + lane % 16, c + lane / 16),
                               words);
        }
        __syncwarp();
        const bool is_sent = !is_rehearsal && warp * kWarpRows < sent_rows;
#pragma unroll
        for (int i = 0; i < kWarpRows * kPieces / kWarp; ++i) {
          const int index = i * kWarp + lane;
          const int key = warp * kWarpRows + index / kPieces;
          const uint32_t at = piece_offset(key, index % kPieces);
          uint4 words = sm90::load_shared(k + at);
          if (key >= keys) words = {};  // whatever they are, their weight is 0
          send_if(is_sent,
                  reinterpret_cast<float4*>(memory + (projection - 1) * layout.keys_bytes() + at),
                  {__uint_as_float(words.x), __uint_as_float(words.y), __uint_as_float(words.z),
                   __uint_as_float(words.w)},
                  &barriers->keys_received, 0);
        }
        if (!is_rehearsal) break;
        continue;
      }
      if (!is_rehearsal) wait_for_bytes(&barriers->keys_received);
      sm90::fence_shared();  // before the matrix instructions read what was received
    }

    // ---- scores
    float scores[kKeys / 2];
    sm90::begin_products();
#pragma unroll
    for (int c = 0; c < kTiles; c += 2) {
      const uint32_t words[4] = {projected[c][0], projected[c][1], projected[c + 1][0],
                                 projected[c + 1][1]};
      sm90::add_product_of_columns(
          scores, words, sm90::tile_descriptor(k) + sm90::descriptor_step(c / 2 * kStepBytes),
          c > 0);
    }
    sm90::commit_products();
    sm90::wait_for_products<0>();
    sm90::settle(scores);

    // ---- softmax. The products with v begin when half of the weights are there.
    if constexpr (kHasKeys) hide_keys(scores, keys - lane_column);
    const float scale = a.scale * kLog2E;
    float shift[kHalves];
#pragma unroll
    for (int h = 0; h < kHalves; ++h) {
      float largest[kChains];
#pragma unroll
      for (float& chain : largest) chain = kNoKey;
#pragma unroll
      for (int j = 2 * h; j < kKeys / 2; j += 4) {
        float& chain = largest[j / 4 % kChains];
        chain = fmaxf(chain, fmaxf(scores[j], scores[j + 1]));
      }
      const float all = fmaxf(fmaxf(largest[0], largest[1]), fmaxf(largest[2], largest[3]));
      shift[h] = offset_of(row_max(all)) * scale;
    }
    float sums[kHeadDim / 2 + 4];
    constexpr int kSteps = kKeys / kStepKeys, kFirstSteps = (kSteps + 1) / 2;
#pragma unroll
    for (int begin = 0; begin < kSteps; begin += kFirstSteps) {
      uint32_t weights[kFirstSteps][4] = {};
#pragma unroll
      for (int s = begin; s < kSteps && s < begin + kFirstSteps; ++s) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int h = i % 2;
          if (h >= kHalves) continue;
          const float* score = scores + 8 * s + 2 * i;
          weights[s - begin][i] = packed_bf16(exp2_approximate(score[0] * scale - shift[h]),
                                              exp2_approximate(score[1] * scale - shift[h]));
        }
      }
      sm90::begin_products();
#pragma unroll
      for (int s = begin; s < kSteps && s < begin + kFirstSteps; ++s) {
        sm90::add_product_of_rows(
            sums, weights[s - begin],
            sm90::rows_descriptor(v + s * kStepKeys * sm90::kSwizzleBytes, kPieceBytes), s > 0);
      }
      sm90::commit_products();
    }
    sm90::wait_for_products<0>();
    sm90::settle(sums);

    // ---- the end
    float inverse[kHalves];
#pragma unroll
    for (int h = 0; h < kHalves; ++h) inverse[h] = inverse_of_sum(sums[kHeadDim / 2 + 2 * h]);
    const auto store_as = [&](auto type) {
#pragma unroll
      for (int h = 0; h < kHalves; ++h) {
#pragma unroll
        for (int c = 0; c < kTiles; ++c) {
          const float* s = sums + 4 * c + 2 * h;
          store_if(row + 8 * h < valid, y_at[h] + c * 8 * sizeof(type),
                   packed(type, s[0] * inverse[h], s[1] * inverse[h], args.divisor));
        }
      }
    };
    if (a.y.type == DType::kE4M3)
      store_as(e4m3());
    else
      store_as(bf16());
    if (!is_rehearsal) break;
  }
#endif
}

// ---- the choice of a kernel

using Kernel = void (*)(ProjectedArgs);

struct Choice {
  Kernel kernel = nullptr;  // null: there is none
  int keys = 0;
};

template <int kHeadDim>
Choice choice_for(const ProjectedAttentionArgs& args) {
  if (args.has_keys) return {projected_attention_kernel<kHeadDim, kMaxRows, true>, kMaxRows};
  const int64_t keys = most_keys(args.attention);
  if (keys <= 64) return {projected_attention_kernel<kHeadDim, 64, false>, 64};
  if (keys <= 176) return {projected_attention_kernel<kHeadDim, 176, false>, 176};
  if (keys <= 256) return {projected_attention_kernel<kHeadDim, 256, false>, 256};
  return {};
}
Choice choice_for(const ProjectedAttentionArgs& args) {
  switch (args.attention.head_dim) {
    case 32:
      return choice_for<32>(args);
    case 48:
      return choice_for<48>(args);
    default:
      return {};
  }
}

// The largest of a few sizes of which there is a whole number: few copies, but the first of them is
// there early.
int chunk_blocks_for(int k_blocks) { return k_blocks % 3 == 0 ? 3 : k_blocks % 2 == 0 ? 2 : 1; }

// All but the tensor maps.
ProjectedArgs kernel_args(const ProjectedAttentionArgs& args) {
  const Matrix& x = args.projection.x;
  ProjectedArgs kernel;
  kernel.epilogue = epilogue_of(args.projection);
  kernel.attention = args.attention;
  kernel.divisor = divisor_of(args.attention.y);
  const auto rows = static_cast<int>((x.rows + kGroupRows - 1) / kGroupRows * kGroupRows);
  kernel.x_rows = std::min(rows, block_rows(args.has_keys));
  kernel.k_blocks = static_cast<int>(x.width / sm90::kSwizzleBytes);
  kernel.chunk_blocks = chunk_blocks_for(kernel.k_blocks);
  return kernel;
}
Layout layout_of(const ProjectedAttentionArgs& args, const ProjectedArgs& kernel, int keys) {
  return {args.attention.head_dim, keys, kernel.x_rows, kernel.k_blocks};
}

bool accepts_projection(const LinearArgs& args) {
  const Matrix& x = args.x;
  if (x.type != DType::kE4M3 || args.weight.type != DType::kE4M3 || args.y.type != DType::kBF16)
    return false;
  if (args.shift || args.residual || args.activation != Activation::kNone || args.glu ||
      args.rope || args.euler)
    return false;
  return 0 < x.rows && x.rows <= kMaxRows && x.width > 0 && x.width % sm90::kSwizzleBytes == 0 &&
         is_aligned(x, kPieceBytes) && is_aligned(args.weight, kPieceBytes) &&
         epilogue_is_aligned(epilogue_of(args), 2);
}

bool accepts_attention(const AttentionArgs& args, bool has_keys) {
  constexpr int kPair = 2;
  const auto is_operand = [](const Matrix& m) {
    return m && is_aligned(m, kPieceBytes) && m.stride * 2 <= INT32_MAX;
  };
  const auto is_bf16 = [](const Matrix& m) { return m.type == DType::kBF16; };
  if (args.heads != args.kv_heads || args.block > 0 || args.is_causal || !(args.scale > 0))
    return false;
  if (!is_bf16(args.q) || !is_bf16(args.k) || !is_bf16(args.v) || !is_packed(args.y) ||
      !is_aligned(args.y, kPair * static_cast<int>(size_of(args.y.type))))
    return false;
  if (has_keys) return args.range_count == 1 && args.ranges[0].begin == 0;
  return is_operand(args.k) && is_operand(args.v) && 0 < args.range_count &&
         args.range_count <= kFastRanges;
}

void check_shapes(const ProjectedAttentionArgs& args) {
  const LinearArgs& p = args.projection;
  const AttentionArgs& a = args.attention;
  const int64_t width = int64_t{a.heads} * a.head_dim;
  const int64_t channels = args.has_keys ? kProjections * width : width;
  FLASHRT_CHECK(p.weight.rows == channels && p.weight.width == p.x.width && p.y.width == channels,
                kName, ": x is [", p.x.rows, ", ", p.x.width, "], the weight [", p.weight.rows,
                ", ", p.weight.width, "] and ", a.heads, " heads of ", a.head_dim,
                " are projected, expected [T, D] and [", channels, ", D]");
  FLASHRT_CHECK(
      p.weight.scale_count == 0 || p.weight.scale_count == 1 || p.weight.scale_count == channels,
      kName, ": the weight has ", p.weight.scale_count, " scales, expected 0, 1 or ", channels);
  check_operand(kName, "y", a.y, p.x.rows, width);
  const int64_t key_rows = args.has_keys ? p.x.rows : a.k.rows;
  FLASHRT_CHECK(a.q.rows == p.x.rows && a.k.rows == key_rows, kName, ": ", a.q.rows,
                " query rows and ", a.k.rows, " key rows of ", p.x.rows, " rows of x");
  if (!args.has_keys) {
    check_operand(kName, "k", a.k, key_rows, width);
    check_operand(kName, "v", a.v, key_rows, width);
  }
  for (int r = 0; r < a.range_count; ++r) {
    const AttentionRange& range = a.ranges[r];
    FLASHRT_CHECK(
        range.begin >= 0 && range.count >= 0 && int64_t{range.begin} + range.count <= key_rows,
        kName, ": key range [", range.begin, ", ", range.begin, " + ", range.count, ") of ",
        key_rows, " keys");
  }
}

}  // namespace

bool projected_attention_accepts(const ProjectedAttentionArgs& args, const DeviceInfo& device) {
  if (device.compute_capability() != 90 || !device.is_specialised) return false;
  if (!accepts_projection(args.projection) || !accepts_attention(args.attention, args.has_keys))
    return false;
  const Choice choice = choice_for(args);
  const ProjectedArgs kernel = kernel_args(args);
  return choice.kernel && kernel.k_blocks <= kMaxBoxBlocks &&
         kernel.k_blocks / kernel.chunk_blocks <= kMaxChunks &&
         static_cast<size_t>(layout_of(args, kernel, choice.keys).bytes()) <=
             device.shared_bytes_per_block;
}

const char* projected_attention(const ProjectedAttentionArgs& args, const Launch& launch) {
  check_shapes(args);
  FLASHRT_CHECK(projected_attention_accepts(args, *launch.device), kName,
                ": does not take these operands; projected_attention_accepts() says what it does");
  const Choice choice = choice_for(args);
  const Matrix& x = args.projection.x;
  const WeightView& w = args.projection.weight;
  const int head_dim = args.attention.head_dim;
  ProjectedArgs kernel = kernel_args(args);
  kernel.weight = blocked_tensor_map(w.data, w.type, head_dim, w.rows / head_dim, w.width, w.stride,
                                     {.rows = head_dim, .groups = 1, .blocks = kernel.k_blocks});
  kernel.x =
      blocked_tensor_map(x.data, x.type, x.rows, 1, x.width, x.stride,
                         {.rows = kernel.x_rows, .groups = 1, .blocks = kernel.chunk_blocks});
  const int64_t rows = block_rows(args.has_keys);
  const auto parts =
      static_cast<unsigned>(args.has_keys ? kProjections : (x.rows + rows - 1) / rows);
  launch_kernel(kName, choice.kernel, dim3(parts, static_cast<unsigned>(args.attention.heads)),
                dim3(kThreads), layout_of(args, kernel, choice.keys).bytes(), launch,
                args.has_keys ? kProjections : 1, kernel);
  return kName;
}

}  // namespace flashrt::cuda
