// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// linear for few rows: one pass over the weights, bound by latency.
//
// Layout    x [T <= 64, D] and the weight [width, D] row-major, as they are. Neither is packed or
//           passes shared memory: k may be added up in any order on which both operands agree, so
//           the 16 neighbouring bytes that a lane loads of a row feed several matrix instructions.
// Work      a block owns 8 to 64 channels; its warps, and in a cluster its blocks, split k. All
//           weights that fit in registers are on their way before the kernel waits for the one
//           ahead. The sums of the warps meet in shared memory, those of a cluster's blocks in the
//           block that finishes the row.
// Traffic   the weights once from device memory, x once per block from L2; the weight of the next
//           linear, a share per block, from device memory to L2, where that one finds it.
// Numerics  codes are multiplied as float16 or bfloat16, which hold them exactly; float32 sums in a
//           fixed order; the epilogue is linear_epilogue.cuh.
// Reference backends/cpu/linear.cpp

#include <array>
#include <bit>
#include <cstddef>
#include <type_traits>

#include "kernels/cluster.cuh"
#include "kernels/copy_async.cuh"
#include "kernels/linear_epilogue.cuh"

namespace flashrt::cuda {
namespace {

constexpr const char* kName = "linear_skinny";
constexpr int kTileRows = 8;                 // rows of x in a matrix instruction
constexpr int kGroupChannels = 8;            // half the channels in one
constexpr int kFewTiles = 2, kMaxTiles = 8;  // the numbers that kernels are made for
constexpr int kWarps = 8;
constexpr int kThreads = kWarps * kWarp;

struct SkinnyArgs {
  Matrix x;
  const void* weight = nullptr;
  int64_t weight_stride = 0;  // bytes
  int chunks = 0;             // of k, per warp
  int cluster_shift = 0;      // log2 of the blocks that split k
  // Channels form spans (heads, the two halves of gate|up, or just the channels of a block). A
  // block owns the same columns in both halves of a span, so that pairs meet in one thread.
  int span = 0;
  LinearEpilogue epilogue;
  Prefetch next_weight;
};

// What one lane holds of a chunk of k: 16 bytes of a weight row, and as many elements of a row of
// x.
template <class X, class W>
struct Chunk {
  static constexpr int kLaneElements = sizeof(uint4) / sizeof(W);
  static constexpr int kElements = 4 * kLaneElements;  // four lanes share a row
  static constexpr int kSteps = kElements / 16;        // matrix instructions
  static constexpr int kXWords = kLaneElements * sizeof(X) / sizeof(uint32_t);
};

// ---- fragments: two registers hold four neighbouring elements of k

__device__ __forceinline__ uint32_t to_f16x2(uint32_t codes) {
  uint32_t pair;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"(static_cast<uint16_t>(codes)));
  return pair;
}
__device__ __forceinline__ uint32_t to_bf16x2(uint32_t codes) {
  const uint32_t pair = to_f16x2(codes);
  const float2 values = __half22float2(*reinterpret_cast<const __half2*>(&pair));
  return packed_bf16(values.x, values.y);
}
template <class T, bool kIsBF16>
__device__ __forceinline__ void fragment(const uint32_t* words, int step, uint32_t& low,
                                         uint32_t& high) {
  if constexpr (std::is_same_v<T, e4m3> && kIsBF16) {
    low = to_bf16x2(words[step]);
    high = to_bf16x2(words[step] >> 16);
  } else if constexpr (std::is_same_v<T, e4m3>) {
    low = to_f16x2(words[step]);
    high = to_f16x2(words[step] >> 16);
  } else {
    low = words[2 * step];
    high = words[2 * step + 1];
  }
}

// sums += a b: a [16 channels, 16 k], b [16 k, 8 rows]. Rows of float16 or bfloat16 are loaded in
// pairs of registers, as b wants them; a takes registers from both groups of channels, and codes
// are converted into any.
template <bool kIsBF16>
__device__ __forceinline__ void multiply_add(float (&sums)[4], const uint32_t (&a)[4],
                                             const uint32_t (&b)[2]) {
  if constexpr (kIsBF16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
}

// Weights are read once: they pass the first-level cache by. Volatile, so that it stays ahead of
// wait_for_previous().
__device__ __forceinline__ void load_once(const std::byte* p, uint32_t (&words)[4]) {
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "l"(p));
}

// Words of a row that is not there stay what they are: nobody reads its sums.
template <int N>
__device__ __forceinline__ void load_words(const std::byte* p, bool is_there,
                                           uint32_t (&words)[N]) {
  if (!is_there) return;
#pragma unroll
  for (int i = 0; i < N; i += 4) {
    const uint4 v = *reinterpret_cast<const uint4*>(p + i * sizeof(uint32_t));
    words[i] = v.x;
    words[i + 1] = v.y;
    words[i + 2] = v.z;
    words[i + 3] = v.w;
  }
}

// ---- shared memory

template <int kTiles, int kChannels>
struct Shared {
  // The sums of a warp, [8 * tiles, channels]. What one thread finishes, two columns of either
  // half, is one vector, whose parts are exchanged in rows 4 to 7 of a tile; with the padding, the
  // four rows that one store of a fragment touches lie in different banks.
  static constexpr int kStride = kChannels + 8;
  static constexpr int kWarpFloats = kTileRows * kTiles * kStride;
  static constexpr size_t kPartials = sizeof(float) * kWarps * kWarpFloats;
  static constexpr size_t kTerms = sizeof(ChannelTerms<1>) * kChannels;
  // What the blocks of the cluster send to this one.
  static constexpr size_t kReceived = sizeof(float) * kTileRows * kTiles * kChannels;

  static constexpr size_t bytes(int cluster) {
    return kPartials + kTerms + (cluster > 1 ? kReceived : 0);
  }
};

// ---- the kernel

// What a thread holds at once. Blocks of few channels share a multiprocessor with others and with
// the next kernel, which loads its weights there; the registers are divided accordingly.
template <class X, class W, int kTiles, int kGroups, int kDepth>
struct Registers {
  static constexpr bool kIsWide = kTiles > kFewTiles || kGroups == 8;
  static constexpr int kPairs = (kGroups + 1) / 2;  // of groups, for a matrix instruction
  // A matrix instruction on the same sums waits for the one before. So there are four sets of sums
  // that take turns, counting those of several pairs and tiles.
  static constexpr int kChains = kPairs * kTiles >= 4 ? 1 : 4 / (kPairs * kTiles);
  static constexpr int kWeightsAndSums = 4 * (kGroups * kDepth + kPairs * kTiles * kChains);
  static constexpr int kXChunk = kTiles * Chunk<X, W>::kXWords;
  static constexpr bool fits(int chunks) { return kWeightsAndSums + chunks * kXChunk <= 96; }
  // Chunks of x on their way at a time.
  static constexpr int kXDepth = kTiles > kFewTiles        ? 1
                                 : kIsWide || fits(kDepth) ? kDepth
                                 : fits(kDepth / 2)        ? kDepth / 2
                                                           : 1;
  static constexpr int kHeld = kWeightsAndSums + kXDepth * kXChunk;
  static constexpr int kBlocks = kIsWide ? 1 : kHeld <= 52 ? 3 : 2;  // per multiprocessor
};

// kDepth: chunks of weights on their way at a time.
template <class X, class W, int kTiles, int kGroups, int kDepth,
          LinearEpilogue::Following kFollowing>
__global__ void __launch_bounds__(kThreads, Registers<X, W, kTiles, kGroups, kDepth>::kBlocks)
    linear_skinny_kernel(const __grid_constant__ SkinnyArgs args) {
  using Following = LinearEpilogue::Following;
  using C = Chunk<X, W>;
  constexpr int kChannels = kGroups * kGroupChannels;
  constexpr int kHalf = kChannels / 2;
  constexpr int kRowThreads = kChannels / 4;  // each finishes two columns of either half
  constexpr int kRowStep = kThreads / kRowThreads;
  constexpr int kRounds = (kTileRows * kTiles + kRowStep - 1) / kRowStep;
  constexpr bool kIsBF16 = std::is_same_v<X, bf16>;
  using Held = Registers<X, W, kTiles, kGroups, kDepth>;
  constexpr int kXDepth = Held::kXDepth, kChains = Held::kChains, kPairs = Held::kPairs;
  using Memory = Shared<kTiles, kChannels>;
  extern __shared__ float4 shared[];
  float* partials = reinterpret_cast<float*>(shared);
  float4* received = shared + (Memory::kPartials + Memory::kTerms) / sizeof(float4);
  auto* terms = reinterpret_cast<ChannelTerms<1>*>(shared + Memory::kPartials / sizeof(float4));

  const LinearEpilogue& e = args.epilogue;
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int lane_row = lane / 4, lane_part = lane % 4;
  const int cluster_size = 1 << args.cluster_shift;
  const int rank = blockIdx.x;                 // in the cluster
  const int span_column = blockIdx.y * kHalf;  // the block's first column in its span
  const int span = blockIdx.z;
  const int64_t first_column = static_cast<int64_t>(span) * args.span + span_column;
  const int64_t first_chunk = static_cast<int64_t>(rank * kWarps + warp) * args.chunks;

  // ---- weights and constants
  const std::byte* weight = static_cast<const std::byte*>(args.weight) +
                            (first_column + lane_row) * args.weight_stride +
                            (4 * first_chunk + lane_part) * sizeof(uint4);
  const int64_t group_stride = kGroupChannels * args.weight_stride;
  const int64_t to_upper_half = (args.span / 2 - kHalf) * args.weight_stride;
  uint32_t w[kDepth][kGroups][4];
  const auto load_weights = [&](int chunk, uint32_t(&to)[kGroups][4]) {
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
      const bool is_upper = kGroups > 1 && j >= kGroups / 2;
      load_once(weight + j * group_stride + (is_upper ? to_upper_half : 0) +
                    chunk * 4 * static_cast<int64_t>(sizeof(uint4)),
                to[j]);
    }
  };
#pragma unroll
  for (int c = 0; c < kDepth; ++c) load_weights(c, w[c]);
  ChannelTerms<1> own_terms;
  if (threadIdx.x < kChannels) {
    const int upper = threadIdx.x < kHalf ? 0 : args.span / 2 - kHalf;
    own_terms = channel_terms<1>(e, first_column + threadIdx.x + upper);
  }
  __shared__ uint64_t received_all;
  if (cluster_size > 1) {
    if (threadIdx.x == 0) {
      const int rows =
          static_cast<int>(args.x.rows + cluster_size - 1 - rank) >> args.cluster_shift;
      expect_bytes(&received_all, rows * kRowThreads * cluster_size * sizeof(float4));
    }
    __syncwarp();
    cluster_started();  // the barrier is set up: other blocks may send to this one
  }

  // ---- x
  const int rows = static_cast<int>(args.x.rows);
  const std::byte* x = static_cast<const std::byte*>(args.x.data) +
                       lane_row * args.x.stride * sizeof(X) +
                       (4 * first_chunk + lane_part) * C::kXWords * sizeof(uint32_t);
  const int64_t tile_stride = kTileRows * args.x.stride * sizeof(X);
  if (cluster_size > 1) cluster_wait();  // the barriers of all are set up, before any block sends
  const int own_row = threadIdx.x / kRowThreads * cluster_size + rank;
  wait_for_previous();
  // Asked for ahead of x, so that the angles are on their way when x comes.
  const int position = kFollowing == Following::kRope ? position_of(e, own_row) : 0;
  uint32_t xs[kXDepth][kTiles][C::kXWords];
  const auto load_x = [&](int chunk, uint32_t(&to)[kTiles][C::kXWords]) {
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      load_words(
          x + i * tile_stride + chunk * 4 * static_cast<int64_t>(C::kXWords * sizeof(uint32_t)),
          lane_row + i * kTileRows < rows, to[i]);
    }
  };
#pragma unroll
  for (int c = 0; c < kXDepth; ++c) load_x(c, xs[c]);
  const int valid = static_cast<int>(valid_rows(args.x));
  const int pair = threadIdx.x % kRowThreads;
  const int own_column = span_column + pair * 2;  // in the span
  // The angles of the first row that this thread finishes, if the table has them.
  Angles<2> angles{};
  int angles_row = -1;
  if constexpr (kFollowing == Following::kRope) {
    if (own_row < valid && 0 <= position && position < e.rope.positions) {
      angles = tabulated_angles<2>(e, position, own_column);
      angles_row = own_row;
    }
  }
  // All that this kernel reads is on its way, or nearly all: memory has little to do from here on
  // until the next linear.
  if (threadIdx.x == kThreads - 1) prefetch_share(args.next_weight);
  if (threadIdx.x < kChannels) terms[threadIdx.x] = own_terms;

  // ---- products
  float chains[kChains][kTiles][kPairs][4] = {};
  for (int first = 0; first < args.chunks; first += kDepth) {
#pragma unroll
    for (int c = 0; c < kDepth; ++c) {
#pragma unroll
      for (int step = 0; step < C::kSteps; ++step) {
        uint32_t a[kPairs][4] = {};
#pragma unroll
        for (int j = 0; j < kGroups; ++j)
          fragment<W, kIsBF16>(w[c][j], step, a[j / 2][j % 2], a[j / 2][j % 2 + 2]);
#pragma unroll
        for (int m = 0; m < kTiles; ++m) {
          if (kTiles > kFewTiles && m * kTileRows >= rows) break;
          uint32_t b[2];
          fragment<X, kIsBF16>(xs[c % kXDepth][m], step, b[0], b[1]);
          auto& turn = chains[(c * C::kSteps + step) % kChains];
#pragma unroll
          for (int j = 0; j < kPairs; ++j) multiply_add<kIsBF16>(turn[m][j], a[j], b);
        }
      }
      if (first + c + kXDepth < args.chunks) load_x(first + c + kXDepth, xs[c % kXDepth]);
      if (first + c + kDepth < args.chunks) load_weights(first + c + kDepth, w[c]);
    }
  }

  // ---- sums over the chains, then over the warps
  auto& sums = chains[0];
#pragma unroll
  for (int chain = 1; chain < kChains; ++chain) {
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
#pragma unroll
      for (int j = 0; j < kPairs; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[m][j][i] += chains[chain][m][j][i];
      }
    }
  }
#pragma unroll
  for (int m = 0; m < kTiles; ++m) {
#pragma unroll
    for (int j = 0; j < kGroups; ++j) {
      const int channel = j * kGroupChannels + lane_row;
      const int of_vector = channel / kHalf * 2 + channel % 2;
      float* to = partials + warp * Memory::kWarpFloats +
                  (m * kTileRows + lane_part * 2) * Memory::kStride + channel % kHalf / 2 * 4 +
                  (of_vector ^ (lane_part & 2));
      to[0] = sums[m][j / 2][j % 2 * 2];
      to[Memory::kStride] = sums[m][j / 2][j % 2 * 2 + 1];
    }
  }
  __syncthreads();  // sums and terms are written, before any thread reads those of another
  const auto sum_of_warps = [&](int row) {
    float4 total{};
#pragma unroll
    for (int i = 0; i < kWarps; ++i) {
      const float4 part = *reinterpret_cast<const float4*>(partials + i * Memory::kWarpFloats +
                                                           row * Memory::kStride + pair * 4);
      total.x += part.x;
      total.y += part.y;
      total.z += part.z;
      total.w += part.w;
    }
    if (row & 4) return float4{total.z, total.w, total.x, total.y};
    return total;
  };

  // ---- sums over the blocks of the cluster: row r is finished by block r mod cluster
  const int slots =
      (kTileRows * kTiles >> args.cluster_shift) * kRowThreads;  // per block that sends
  float4 totals[kRounds];
#pragma unroll
  for (int i = 0; i < kRounds; ++i) {
    const int row = threadIdx.x / kRowThreads + i * kRowStep;
    if (row >= rows) break;
    totals[i] = sum_of_warps(row);
    if (cluster_size > 1) {
      send(received + rank * slots + (row >> args.cluster_shift) * kRowThreads + pair, totals[i],
           &received_all, row & (cluster_size - 1));
    }
  }
  if (cluster_size > 1) wait_for_bytes(&received_all);
  const auto sum_of_blocks = [&](int row) {
    float4 total{};
#pragma unroll 1
    for (int i = 0; i < cluster_size; ++i) {
      const float4 part = received[i * slots + (row >> args.cluster_shift) * kRowThreads + pair];
      total.x += part.x;
      total.y += part.y;
      total.z += part.z;
      total.w += part.w;
    }
    return total;
  };

  // ---- epilogue
  const auto terms_of = [&](int channel) {
    const ChannelTerms<1>&a = terms[channel], &b = terms[channel + 1];
    return ChannelTerms<2>{a.weight_scale, {a.scale[0], b.scale[0]}, {a.bias[0], b.bias[0]}};
  };
  const int64_t column = first_column + pair * 2, upper_column = column + args.span / 2;
#pragma unroll
  for (int i = 0; i < kRounds; ++i) {
    const int row = own_row + i * kRowStep * cluster_size;
    if (row >= valid) break;
    const float4 total = cluster_size > 1 ? sum_of_blocks(row) : totals[i];
    float y[2] = {total.x, total.y}, upper_y[2] = {total.z, total.w};
    finish_sums(e, terms_of(pair * 2), row, column, y);
    finish_sums(e, terms_of(pair * 2 + kHalf), row, upper_column, upper_y);
    if constexpr (kFollowing == Following::kGlu) {
      store_gated(e, row, own_column, y, upper_y);
    } else if constexpr (kFollowing == Following::kRope) {
      if (row != angles_row) angles = angles_of<2>(e, row, own_column);
      store_heads(e, angles, row, span, own_column, y, upper_y);
    } else {
      store_y(e, row, column, y);
      store_y(e, row, upper_column, upper_y);
    }
  }
}

// ---- configurations

struct Configuration {
  const char* name;
  int channels = 0, depth = 0, cluster = 1;
};

// Named after channels of a block and chunks on their way.
constexpr std::array kConfigurations = {
    Configuration{"8x4", 8, 4, 1},
    Configuration{"16x2", 16, 2, 1},
    Configuration{"16x2 cluster 2", 16, 2, 2},
    Configuration{"16x3", 16, 3, 1},
    Configuration{"16x4", 16, 4, 1},
    Configuration{"16x4 cluster 2", 16, 4, 2},
    Configuration{"16x4 cluster 4", 16, 4, 4},
    Configuration{"32x2", 32, 2, 1},
    Configuration{"32x2 cluster 2", 32, 2, 2},
    Configuration{"32x2 cluster 4", 32, 2, 4},
    Configuration{"64x2", 64, 2, 1},
};

constexpr auto kNames = [] {
  std::array<const char*, kConfigurations.size()> names{};
  for (size_t i = 0; i < names.size(); ++i) names[i] = kConfigurations[i].name;
  return names;
}();

// A kernel that fits types, rows and configuration; without a kernel nothing does.
struct Choice {
  void (*kernel)(SkinnyArgs) = nullptr;
  size_t shared_bytes = 0;
  int chunk = 0;  // elements of k
};

template <class X, class W, int kTiles, int kChannels, int kDepth>
Choice choose_kernel(LinearEpilogue::Following following, int cluster) {
  using Following = LinearEpilogue::Following;
  constexpr int kGroups = kChannels / kGroupChannels;
  Choice choice{.shared_bytes = Shared<kTiles, kChannels>::bytes(cluster),
                .chunk = Chunk<X, W>::kElements};
  if (following == Following::kNone || following == Following::kEuler) {
    choice.kernel = linear_skinny_kernel<X, W, kTiles, kGroups, kDepth, Following::kNone>;
  } else if constexpr (kGroups > 1) {  // the halves of a span are whole groups
    choice.kernel = following == Following::kGlu
                        ? linear_skinny_kernel<X, W, kTiles, kGroups, kDepth, Following::kGlu>
                        : linear_skinny_kernel<X, W, kTiles, kGroups, kDepth, Following::kRope>;
  }
  return choice;
}

template <class X, class W>
Choice choose_shape(int64_t rows, const Configuration& c, LinearEpilogue::Following following) {
  const bool is_few = rows <= kFewTiles * kTileRows;
  if constexpr (std::is_same_v<X, bf16> && std::is_same_v<W, e4m3>) {  // a prompt: once in a while
    if (c.channels != 32) return {};
    return is_few ? choose_kernel<X, W, kFewTiles, 32, 2>(following, c.cluster)
                  : choose_kernel<X, W, kMaxTiles, 32, 2>(following, c.cluster);
  } else {
    switch (100 * c.channels + c.depth) {
      case 804:
        return is_few ? choose_kernel<X, W, kFewTiles, 8, 4>(following, c.cluster) : Choice{};
      case 1602:
        return is_few ? choose_kernel<X, W, kFewTiles, 16, 2>(following, c.cluster)
                      : choose_kernel<X, W, kMaxTiles, 16, 2>(following, c.cluster);
      case 1603:
        if constexpr (std::is_same_v<W, e4m3>) {  // k of an odd multiple of 512: else 16x2 takes it
          return is_few ? choose_kernel<X, W, kFewTiles, 16, 3>(following, c.cluster)
                        : choose_kernel<X, W, kMaxTiles, 16, 3>(following, c.cluster);
        }
        return {};
      case 1604:
        return is_few ? choose_kernel<X, W, kFewTiles, 16, 4>(following, c.cluster) : Choice{};
      case 3202:
        return is_few ? choose_kernel<X, W, kFewTiles, 32, 2>(following, c.cluster)
                      : choose_kernel<X, W, kMaxTiles, 32, 2>(following, c.cluster);
      case 6402:
        return is_few ? choose_kernel<X, W, kFewTiles, 64, 2>(following, c.cluster) : Choice{};
    }
    return {};
  }
}

Choice choose(const LinearArgs& args, const Configuration& c) {
  const auto following = epilogue_of(args).following;
  const DType x = args.x.type, w = args.weight.type;
  if (x == DType::kE4M3 && w == DType::kE4M3)
    return choose_shape<e4m3, e4m3>(args.x.rows, c, following);
  if (x == DType::kF16 && w == DType::kE4M3)
    return choose_shape<f16, e4m3>(args.x.rows, c, following);
  if (x == DType::kBF16 && w == DType::kE4M3)
    return choose_shape<bf16, e4m3>(args.x.rows, c, following);
  if (x == DType::kF16 && w == DType::kF16)
    return choose_shape<f16, f16>(args.x.rows, c, following);
  if (x == DType::kBF16 && w == DType::kBF16)
    return choose_shape<bf16, bf16>(args.x.rows, c, following);
  return {};
}

}  // namespace

std::span<const char* const> linear_skinny_configurations() { return kNames; }

bool linear_skinny_accepts(const LinearArgs& args, int configuration, const DeviceInfo& device) {
  const Configuration& c = kConfigurations.at(configuration);
  constexpr int kAlignment = sizeof(uint4);
  if (args.x.rows > kMaxTiles * kTileRows || !can_follow(args) || !is_aligned(args.x, kAlignment) ||
      !is_aligned(args.weight, kAlignment))
    return false;
  const Choice choice = choose(args, c);
  if (!choice.kernel || choice.shared_bytes > device.shared_bytes_per_block) return false;
  if (c.cluster > 1 && device.compute_capability() < 90) return false;
  const int64_t span = span_of(args, c.channels);
  const int64_t k_of_round = int64_t{choice.chunk} * c.depth * kWarps * c.cluster;
  return span % c.channels == 0 && args.y.width % span == 0 && args.x.width % k_of_round == 0 &&
         epilogue_is_aligned(epilogue_of(args), 2);
}

const char* linear_skinny(const LinearArgs& args, int configuration, const Launch& launch) {
  const Configuration& c = kConfigurations.at(configuration);
  check_linear(kName, args);
  check_accepted(linear_skinny_accepts(args, configuration, *launch.device), kName, c.name, args);
  const Choice choice = choose(args, c);
  const int64_t span = span_of(args, c.channels);
  const int64_t k_of_chunk = int64_t{choice.chunk} * kWarps * c.cluster;
  const dim3 grid(c.cluster, static_cast<unsigned>(span / c.channels),
                  static_cast<unsigned>(args.y.width / span));
  const int64_t blocks = int64_t{grid.x} * grid.y * grid.z;
  const SkinnyArgs skinny{
      .x = args.x,
      .weight = args.weight.data,
      .weight_stride = args.weight.stride * static_cast<int64_t>(size_of(args.weight.type)),
      .chunks = static_cast<int>(args.x.width / k_of_chunk),
      .cluster_shift = std::countr_zero(static_cast<unsigned>(c.cluster)),
      .span = static_cast<int>(span),
      .epilogue = epilogue_of(args),
      .next_weight = prefetch_of(args.next_weight, blocks, launch.device->l2_bytes)};
  launch_kernel(kName, choice.kernel, grid, kThreads, choice.shared_bytes, launch, c.cluster,
                skinny);
  return kName;
}

}  // namespace flashrt::cuda
