// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// linear for up to 64 rows on sm_90, where the time between kernels decides, and then the bytes of
// the weights: y = activation(x W^T + bias + shift), the gated product of its halves, or heads.
//
// Layout    x: [T <= 64, D], W: [width, D], both e4m3 or both bf16, rows of whole blocks of 128
//           bytes. y: bf16 or e4m3; heads: any type. Of bf16 also float32 y, or the sum of y and a
//           residual in bf16.
// Work      a block multiplies all tokens (the m of the matrix instructions) by 32 to 64 channels
//           (their n). One warp asks at once for all of W, before the kernel ahead has ended, and
//           for x right after; both stay in shared memory. Four warps multiply; what else they read
//           comes beside x. Threads hold pairs of channels and finish them in
//           registers, for which they rehearse while they wait: instructions that run once come
//           from far away, and fetching them took longer than the products. Blocks are small, so
//           that those of the next kernel can load their weights beside them. The blocks of a
//           cluster split D, where it is long, and send each other their sums.
// Traffic   W once from device memory. x once per block into shared memory, which takes longest
//           once the weights are there: fewer, wider blocks save it.
// Numerics  e4m3: the fast accumulation of the instructions, exact products in float32 sums of
//           limited precision. A fixed order per configuration, so results repeat bit for bit.
//           Scales are folded into one factor, bias and shift into one offset, of one rounding.
// Reference backends/cpu/linear.cpp

#include <array>
#include <type_traits>

#include "kernels/cluster.cuh"
#include "kernels/linear_epilogue.cuh"
#include "kernels/sm90.cuh"
#include "kernels/tensor_map.hpp"

#if !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#pragma nv_diag_suppress 177  // for other architectures the kernel is empty, and its parts are
                              // unused
#endif

namespace flashrt::cuda {
namespace {

constexpr const char* kName = "linear_stream";

constexpr int kMaxRows = 64;    // the m of an instruction
constexpr int kGroupRows = 8;   // x arrives in groups of so many
constexpr int kTokenStep = 8;   // from one row to the other that a thread has sums of
constexpr int kMaxChunks = 16;  // of x

// Four warps multiply, and one copies.
constexpr int kThreads = sm90::kWarpGroup + kWarp;
constexpr int kCopyingWarp = sm90::kWarpGroup / kWarp;
constexpr int kStarted = 1;  // number of a barrier

// What a thread finishes at a time: two columns of both halves, of a slot of channels.
constexpr int kSlotChannels = 16;
constexpr int kSlotBytes = 2 * sm90::kWarpGroup * sizeof(float4);

struct StreamArgs {
  CUtensorMap weight, x;
  LinearEpilogue epilogue;
  Divisor divisor;       // of what is stored
  Matrix rows;           // x; says how many rows are valid
  int x_rows = 0;        // in shared memory
  int splits = 1;        // of D, among the blocks of a cluster
  int k_blocks = 0;      // of 128 bytes of a row, per split
  int chunk_blocks = 0;  // of those, in one copy of x
  // Channels form spans (heads, the two halves of gate|up, or just the channels of a block). A
  // block has the same columns in both halves of a span, so that pairs meet in one thread.
  int span = 0;
};

struct Barriers {
  uint64_t weight_arrived, sums_received, x_arrived[kMaxChunks];
};

// The shared memory of a block: its part of x, of W, the sums that it receives, and barriers.
struct Layout {
  int channels, x_rows, k_blocks, splits;

  __host__ __device__ int x_block_bytes() const { return x_rows * sm90::kSwizzleBytes; }
  __host__ __device__ int weight_block_bytes() const { return channels * sm90::kSwizzleBytes; }
  __host__ __device__ int weight_offset() const { return k_blocks * x_block_bytes(); }
  __host__ __device__ int sums_offset() const {
    return weight_offset() + k_blocks * weight_block_bytes();
  }
  // Those that this block of the cluster finishes.
  __host__ __device__ int slots_of(int split) const {
    return (channels / kSlotChannels + splits - 1 - split) / splits;
  }
  // Instructions read 64 rows of x: past its end they find what lies behind.
  __host__ __device__ int barriers_offset() const {
    const int sums = splits == 1 ? 0 : slots_of(0) * splits * kSlotBytes;
    const int used = sums_offset() + sums;
    const int read = (k_blocks - 1) * x_block_bytes() + kMaxRows * sm90::kSwizzleBytes;
    return used > read ? used : read;
  }
  __host__ __device__ int bytes() const {
    return barriers_offset() + static_cast<int>(sizeof(Barriers));
  }
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// y = sum * factor + offset, of two columns of both halves.
struct Terms {
  float factor[2][2], offset[2][2];

  // What depends on the weights alone: may be read before wait_for_previous().
  __device__ void load(const LinearEpilogue& e, int64_t column, int half_span) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const ChannelTerms<2> terms = channel_terms<2>(e, column + half * half_span);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        factor[half][i] = __fmul_rn(terms.scale[i], __fmul_rn(terms.weight_scale, e.x_scale));
        offset[half][i] = terms.bias[i];
      }
    }
  }
  __device__ void add_shift(const Matrix& shift, int64_t column, int half_span) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float values[2];
      load_floats(static_cast<const float*>(shift.data) + column + half * half_span, values);
#pragma unroll
      for (int i = 0; i < 2; ++i) offset[half][i] = __fadd_rn(offset[half][i], values[i]);
    }
  }
};

// What one thread finishes at a time: two tokens, eight rows apart, and two columns of both halves.
struct Finished {
  float at[2][2][2];  // token, half, column
};

template <class F>
__device__ __forceinline__ void for_each(Finished& y, const F& change) {
#pragma unroll
  for (int token = 0; token < 2; ++token) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < 2; ++i) y.at[token][half][i] = change(y.at[token][half][i], half, i);
    }
  }
}

// Calls it with the activation as a constant: one decision for all that a thread finishes.
template <bool kIsGeneral, class F>
__device__ __forceinline__ void with_activation(Activation activation, const F& body) {
  if constexpr (kIsGeneral) {
    if (activation == Activation::kRelu)
      return body(std::integral_constant<Activation, Activation::kRelu>());
  }
  switch (activation) {
    case Activation::kGeluTanh:
      return body(std::integral_constant<Activation, Activation::kGeluTanh>());
    case Activation::kSilu:
      return body(std::integral_constant<Activation, Activation::kSilu>());
    default:
      return body(std::integral_constant<Activation, Activation::kNone>());
  }
}

// Two columns as they are stored.
__device__ __forceinline__ float2 packed(float, const float (&y)[2], const Divisor&) {
  return {y[0], y[1]};
}
__device__ __forceinline__ uint32_t packed(bf16, const float (&y)[2], const Divisor&) {
  return packed_bf16(y[0], y[1]);
}
__device__ __forceinline__ uint16_t packed(e4m3, const float (&y)[2], const Divisor& divisor) {
  return static_cast<uint16_t>(packed_e4m3(quotient(y[0], divisor), quotient(y[1], divisor)));
}

// What is added to y, as it lies in memory: token, half.
struct Residual {
  uint32_t at[2][2];
};

// Where a thread stores: rows `row` and `row` + kTokenStep, where they are valid.
struct Place {
  int row, valid, span, half_span;
  int64_t first[2];  // the element of either row that its span begins with

  __device__ bool has(int token) const { return row + token * kTokenStep < valid; }
};

// The angles of a slot of a head, of either row.
struct Turn {
  Angles<2> of_token[2];
};

// Finishes the sums of a thread. `column_of` counts in the half of a span.
template <Activation kActivation, class Out, LinearEpilogue::Following kFollowing, bool kIsGeneral,
          int kOwn, class Column>
__device__ __forceinline__ void finish(const StreamArgs& args, const Terms (&terms)[kOwn],
                                       const Turn (&turns)[kOwn], const Residual (&residual)[kOwn],
                                       Finished (&y)[kOwn], int own, const Place& place,
                                       const Column& column_of) {
  using Following = LinearEpilogue::Following;
  constexpr bool kIsGated = kFollowing == Following::kGlu;
  const LinearEpilogue& e = args.epilogue;
#pragma unroll
  for (int slot = 0; slot < kOwn; ++slot) {
    for_each(y[slot], [&](float x, int half, int i) {
      return __fmaf_rn(x, terms[slot].factor[half][i], terms[slot].offset[half][i]);
    });
    if constexpr (kIsGated) {
      for_each(y[slot], [](float x, int, int) { return to_float(from_float<bf16>(x)); });
#pragma unroll
      for (auto& of_token : y[slot].at) {
#pragma unroll
        for (int i = 0; i < 2; ++i)
          of_token[0][i] = gated(kActivation, of_token[0][i], of_token[1][i]);
      }
    } else {
      for_each(y[slot], [](float x, int, int) { return activate(kActivation, x); });
    }
    if constexpr (kIsGeneral) {
#pragma unroll
      for (int token = 0; token < 2; ++token) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const uint32_t pair = residual[slot].at[token][half];
          auto& to = y[slot].at[token][half];
          to[0] = __fadd_rn(to[0], __uint_as_float(pair << 16));
          to[1] = __fadd_rn(to[1], __uint_as_float(pair & 0xffff0000u));
        }
      }
    }
  }
  if constexpr (kFollowing == Following::kRope) {
#pragma unroll
    for (int slot = 0; slot < kOwn; ++slot) {
      if (slot == own) break;
      const int column = column_of(slot);
#pragma unroll
      for (int token = 0; token < 2; ++token) {
        if (!place.has(token)) break;
        const int row = place.row + token * kTokenStep;
        auto& of_token = y[slot].at[token];
        store_heads(e, turns[slot].of_token[token], row, place.span, column, of_token[0],
                    of_token[1]);
      }
    }
  } else {
    // All of them before the first branch.
    using Pair = decltype(packed(Out(), y[0].at[0][0], args.divisor));
    constexpr int kHalves = kIsGated ? 1 : 2;
    Pair pairs[2][kOwn][kHalves];
#pragma unroll
    for (int token = 0; token < 2; ++token) {
#pragma unroll
      for (int slot = 0; slot < kOwn; ++slot) {
#pragma unroll
        for (int half = 0; half < kHalves; ++half)
          pairs[token][slot][half] = packed(Out(), y[slot].at[token][half], args.divisor);
      }
    }
#pragma unroll
    for (int token = 0; token < 2; ++token) {
      if (!place.has(token)) break;
      Out* const to = static_cast<Out*>((kIsGated ? e.out : e.y).data) + place.first[token];
#pragma unroll
      for (int slot = 0; slot < kOwn; ++slot) {
        if (slot == own) break;
#pragma unroll
        for (int half = 0; half < kHalves; ++half) {
          *reinterpret_cast<Pair*>(to + column_of(slot) + half * place.half_span) =
              pairs[token][slot][half];
        }
      }
    }
  }
}

// The parameters that nothing reads before the kernel ahead has ended: they would be fetched then.
__device__ __forceinline__ void touch(const StreamArgs& args) {
  const auto read = [](auto x) { asm volatile("" ::"l"(reinterpret_cast<int64_t>(x))); };
  read(args.epilogue.shift.data);
  read(args.rows.length);
}

#endif  // __CUDA_ARCH_FEAT_SM90_ALL

// kIsGeneral: y may be float32, may be the sum with a residual, and its activation may be relu.
template <class Element, int kChannels, bool kIsSplit, LinearEpilogue::Following kFollowing,
          bool kIsGeneral>
__global__ void __launch_bounds__(kThreads)
    linear_stream_kernel(const __grid_constant__ StreamArgs args) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Following = LinearEpilogue::Following;
  using Product = sm90::Product<Element, kChannels>;
  constexpr int kHalf = kChannels / 2, kSlots = kChannels / kSlotChannels;
  constexpr int kOwn = kIsSplit ? (kSlots + 1) / 2 : kSlots;  // at most, that a block finishes
  constexpr int kStepBytes = 32;                              // of a row, per instruction
  extern __shared__ __align__(sm90::kTileAlignment) uint8_t memory[];

  const int splits = kIsSplit ? args.splits : 1;
  const int split = kIsSplit ? blockIdx.x : 0;  // of this block, in its cluster
  const Layout layout{kChannels, args.x_rows, args.k_blocks, splits};
  const uint32_t x = shared_address(memory), weight = x + layout.weight_offset();
  auto* const barriers = reinterpret_cast<Barriers*>(memory + layout.barriers_offset());
  uint64_t* const x_arrived = barriers->x_arrived;
  auto* const received = reinterpret_cast<float4*>(memory + layout.sums_offset());
  const int chunks = args.k_blocks / args.chunk_blocks;
  const int chunk_bytes = args.chunk_blocks * layout.x_block_bytes();
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int span_blocks = args.span / kChannels, half_span = args.span / 2;
  const int span = blockIdx.y / span_blocks;
  const int span_column = (blockIdx.y - span * span_blocks) * kHalf;

  if (warp == kCopyingWarp) {
    if (lane == 0) {
      init_barrier(shared_address(&barriers->weight_arrived), 1);
      for (int c = 0; c < chunks; ++c) init_barrier(shared_address(x_arrived + c), 1);
      // Shows the barriers above as well.
      expect_bytes(&barriers->sums_received, layout.slots_of(split) * (splits - 1) * kSlotBytes);
      arrive_expecting(shared_address(&barriers->weight_arrived),
                       args.k_blocks * layout.weight_block_bytes());
      for (int c = 0; c < chunks; ++c) arrive_expecting(shared_address(x_arrived + c), chunk_bytes);
    }
    __syncwarp();
    if constexpr (kIsSplit) cluster_started();
      // Weights and x go through the same instructions, so that they are there for x.
#pragma unroll 1
    for (bool is_x = args.k_blocks == 0;; is_x = true) {  // the compiler cannot know
      if (is_x) wait_for_previous();
      if (lane == 0) {
        const CUtensorMap* const map = is_x ? &args.x : &args.weight;
        sm90::BlockedAt at{is_x ? 0 : span_column, is_x ? 0 : 2 * span, split * args.k_blocks};
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

  // ---- constants
  if constexpr (kIsSplit) cluster_started();
  // A block finishes slots split, split + splits, ... A slot is eight columns of either half.
  const auto column_of = [&](int slot) {
    return span_column + (slot * splits + split) * (kSlotChannels / 2) + lane % 4 * 2;
  };
  const int own = kIsSplit ? layout.slots_of(split) : kOwn;
  Terms terms[kOwn] = {};
#pragma unroll
  for (int slot = 0; slot < kOwn; ++slot) {
    if (slot == own) break;
    terms[slot].load(args.epilogue, int64_t{span} * args.span + column_of(slot), half_span);
  }
  touch(args);
  sync_threads(kStarted, kThreads);  // the barriers are initialised, before one is waited for

  // What follows x runs twice: first with nothing to store, while there is time, so that its
  // instructions and parameters are in the caches when they are waited for.
  Place place{.row = warp * 16 + lane / 4, .valid = 0, .span = span, .half_span = half_span};
#pragma unroll
  for (int token = 0; token < 2; ++token) {
    const int row = place.row + token * kTokenStep;
    place.first[token] = kFollowing == Following::kGlu
                             ? row * args.epilogue.out.stride
                             : row * args.epilogue.y.stride + int64_t{span} * args.span;
  }
  float sums[kChannels / 2] = {};
  Turn turns[kOwn] = {};
  Finished y[kOwn] = {};
  Residual residual[kOwn] = {};
#pragma unroll 1
  for (bool is_rehearsal = args.k_blocks > 0;; is_rehearsal = false) {  // the compiler cannot know
    if (!is_rehearsal) {
      wait_for_previous();
      place.valid = static_cast<int>(min(valid_rows(args.rows), args.rows.rows));
      if (args.epilogue.shift.data) {
#pragma unroll
        for (int slot = 0; slot < kOwn; ++slot) {
          if (slot == own) break;
          terms[slot].add_shift(args.epilogue.shift, int64_t{span} * args.span + column_of(slot),
                                half_span);
        }
      }

      if constexpr (kFollowing == Following::kRope) {
#pragma unroll
        for (int slot = 0; slot < kOwn; ++slot) {
          if (slot == own) break;
#pragma unroll
          for (int token = 0; token < 2; ++token) {
            if (!place.has(token)) break;
            turns[slot].of_token[token] =
                angles_of<2>(args.epilogue, place.row + token * kTokenStep, column_of(slot));
          }
        }
      }
      if constexpr (kIsGeneral) {
        const Matrix& m = args.epilogue.residual;
#pragma unroll
        for (int token = 0; token < 2; ++token) {
          if (!m.data || !place.has(token)) break;
          const bf16* const from = static_cast<const bf16*>(m.data) + int64_t{span} * args.span +
                                   (place.row + token * kTokenStep) * m.stride;
#pragma unroll
          for (int slot = 0; slot < kOwn; ++slot) {
            if (slot == own) break;
#pragma unroll
            for (int half = 0; half < 2; ++half) {
              residual[slot].at[token][half] =
                  *reinterpret_cast<const uint32_t*>(from + column_of(slot) + half * half_span);
            }
          }
        }
      }

      // ---- products
      uint32_t is_sum = 0;
      uint64_t a = sm90::tile_descriptor(x), b = sm90::tile_descriptor(weight);
      wait_barrier(shared_address(&barriers->weight_arrived), 0);
      sm90::begin_products();
      for (int c = 0; c < chunks; ++c) {
        wait_barrier(shared_address(x_arrived + c), 0);
        for (int block = 0; block < args.chunk_blocks; ++block) {
#pragma unroll
          for (int step = 0; step < sm90::kSwizzleBytes / kStepBytes; ++step) {
            const uint64_t along = sm90::descriptor_step(step * kStepBytes);
            Product::add(sums, a + along, b + along, is_sum);
            is_sum = 1;
          }
          a += sm90::descriptor_step(layout.x_block_bytes());
          b += sm90::descriptor_step(layout.weight_block_bytes());
        }
      }
      sm90::commit_products();
      sm90::wait_for_products<0>();
      sm90::settle(sums);
    }

    // ---- sums of the other parts of D. Thread t sends to the threads t of the other blocks.
    const auto sum_of = [&](int slot, int half) {
      const float* s = sums + 4 * (slot + half * kSlots);
      return float4{s[0], s[1], s[2], s[3]};
    };
    if constexpr (kIsSplit) {
      const auto received_at = [&](int slot, int sender, int half) {
        return received + ((slot * splits + sender) * 2 + half) * sm90::kWarpGroup + threadIdx.x;
      };
      if (!is_rehearsal) cluster_wait();  // all barriers are initialised, before anything is sent
      int owner = 0, slot = 0;
#pragma unroll
      for (int g = 0; g < kSlots; ++g) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float4* const to = received_at(slot, split, half);
          if (owner == split) *to = sum_of(g, half);  // read by this thread alone
          send_if(owner != split && !is_rehearsal, to, sum_of(g, half), &barriers->sums_received,
                  owner);
        }
        if (++owner == splits) owner = 0, ++slot;
      }
      if (!is_rehearsal) wait_for_bytes(&barriers->sums_received);
#pragma unroll
      for (auto& of_slot : y) of_slot = {};
#pragma unroll 1
      for (int sender = 0; sender < splits; ++sender) {
#pragma unroll
        for (int slot = 0; slot < kOwn; ++slot) {
          if (slot == own) break;
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const float4 s = *received_at(slot, sender, half);
            auto& at = y[slot].at;
            at[0][half][0] += s.x, at[0][half][1] += s.y;
            at[1][half][0] += s.z, at[1][half][1] += s.w;
          }
        }
      }
    } else {
#pragma unroll
      for (int slot = 0; slot < kOwn; ++slot) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float4 s = sum_of(slot, half);
          auto& at = y[slot].at;
          at[0][half][0] = s.x, at[0][half][1] = s.y, at[1][half][0] = s.z, at[1][half][1] = s.w;
        }
      }
    }

    // ---- epilogue
    const LinearEpilogue& e = args.epilogue;
    constexpr bool kIsGated = kFollowing == Following::kGlu;
    using Packed = std::conditional_t<kIsGeneral, float, e4m3>;  // in place of bf16
    with_activation<kIsGeneral>(kIsGated ? e.gate_activation : e.activation, [&](auto activation) {
      if (kFollowing != Following::kRope && (kIsGated ? e.out : e.y).type == TypeOf<Packed>::value)
        finish<activation.value, Packed, kFollowing, kIsGeneral>(args, terms, turns, residual, y,
                                                                 own, place, column_of);
      else
        finish<activation.value, bf16, kFollowing, kIsGeneral>(args, terms, turns, residual, y, own,
                                                               place, column_of);
    });
    if (!is_rehearsal) break;
  }
#endif
}

// ---- configurations

struct Configuration {
  const char* name;
  int channels, splits;
};

// Named after the channels of a block and the parts of D.
constexpr std::array kConfigurations = {
    Configuration{"32", 32, 1},         Configuration{"32 split 2", 32, 2},
    Configuration{"32 split 4", 32, 4}, Configuration{"48", 48, 1},
    Configuration{"64", 64, 1},         Configuration{"64 split 2", 64, 2},
    Configuration{"64 split 4", 64, 4}, Configuration{"64 split 8", 64, 8},
};
constexpr auto kNames = [] {
  std::array<const char*, kConfigurations.size()> names{};
  for (size_t i = 0; i < names.size(); ++i) names[i] = kConfigurations[i].name;
  return names;
}();

constexpr int kNoHeads = 48;  // channels that no head is a multiple of

using Kernel = void (*)(StreamArgs);

template <class Element, int kChannels, bool kIsSplit>
Kernel kernel_for(LinearEpilogue::Following following, bool is_general) {
  using Following = LinearEpilogue::Following;
  switch (following) {
    case Following::kGlu:
      return linear_stream_kernel<Element, kChannels, kIsSplit, Following::kGlu, false>;
    case Following::kRope:
      if constexpr (kChannels == kNoHeads) {
        return nullptr;
      } else {
        return linear_stream_kernel<Element, kChannels, kIsSplit, Following::kRope, false>;
      }
    default:
      if constexpr (std::is_same_v<Element, bf16>) {
        if (is_general)
          return linear_stream_kernel<Element, kChannels, kIsSplit, Following::kNone, true>;
      }
      return linear_stream_kernel<Element, kChannels, kIsSplit, Following::kNone, false>;
  }
}
template <class Element>
Kernel kernel_for(const Configuration& c, LinearEpilogue::Following following, bool is_general) {
  const bool is_split = c.splits > 1;
  if (c.channels == 48) return kernel_for<Element, 48, false>(following, is_general);
  if (c.channels == 32) {
    return is_split ? kernel_for<Element, 32, true>(following, is_general)
                    : kernel_for<Element, 32, false>(following, is_general);
  }
  return is_split ? kernel_for<Element, 64, true>(following, is_general)
                  : kernel_for<Element, 64, false>(following, is_general);
}

// What few linears around the blocks need.
bool is_general(const LinearArgs& args) {
  return args.residual || args.y.type == DType::kF32 || args.activation == Activation::kRelu;
}

int64_t row_bytes(const LinearArgs& args) {
  return args.x.width * static_cast<int64_t>(size_of(args.x.type));
}

// The largest of a few sizes of which there is a whole number: few copies, but the first of them is
// there early.
int chunk_blocks_for(int k_blocks) { return k_blocks % 3 == 0 ? 3 : k_blocks % 2 == 0 ? 2 : 1; }

// All but the tensor maps.
StreamArgs stream_args_of(const LinearArgs& args, const Configuration& c) {
  StreamArgs stream;
  stream.epilogue = epilogue_of(args);
  stream.divisor = divisor_of(args.glu ? args.glu->y : args.y);
  stream.rows = args.x;
  stream.x_rows = static_cast<int>((args.x.rows + kGroupRows - 1) / kGroupRows * kGroupRows);
  stream.splits = c.splits;
  stream.k_blocks = static_cast<int>(row_bytes(args) / sm90::kSwizzleBytes / c.splits);
  stream.chunk_blocks = chunk_blocks_for(stream.k_blocks);
  stream.span = static_cast<int>(span_of(args, c.channels));
  return stream;
}
size_t shared_bytes(const StreamArgs& args, const Configuration& c) {
  return static_cast<size_t>(Layout{c.channels, args.x_rows, args.k_blocks, c.splits}.bytes());
}

bool accepts_operands(const LinearArgs& args) {
  constexpr int kAlignment = 16;  // what the copy engine asks for
  const DType type = args.x.type;
  if (type != args.weight.type || (type != DType::kE4M3 && type != DType::kBF16)) return false;
  if (args.x.rows > kMaxRows || !can_follow(args) || !is_aligned(args.x, kAlignment) ||
      !is_aligned(args.weight, kAlignment) || !epilogue_is_aligned(epilogue_of(args), 2))
    return false;
  if (args.euler || (args.shift && args.shift.type != DType::kF32)) return false;
  if (is_general(args)) {
    return type == DType::kBF16 && !args.glu && !args.rope &&
           (args.y.type == DType::kF32 || args.y.type == DType::kBF16) &&
           (!args.residual || args.residual.type == DType::kBF16) &&
           (args.activation == Activation::kRelu || has_short_formula(args.activation));
  }
  if (!has_short_formula(args.activation)) return false;
  // Heads may have any type, but what is accepted with them is accepted without.
  return args.glu ? can_gate(args) : is_packed(args.y);
}

}  // namespace

std::span<const char* const> linear_stream_configurations() { return kNames; }

bool linear_stream_accepts(const LinearArgs& args, int configuration, const DeviceInfo& device) {
  constexpr int kMaxBoxBlocks = 256;  // what a tensor map allows
  if (device.compute_capability() != 90 || !device.is_specialised) return false;
  if (!accepts_operands(args)) return false;
  const Configuration& c = kConfigurations.at(configuration);
  const int64_t span = span_of(args, c.channels);
  if (args.rope && c.channels == kNoHeads) return false;
  if (span % c.channels != 0 || args.weight.rows % span != 0 ||
      row_bytes(args) % (int64_t{sm90::kSwizzleBytes} * c.splits) != 0)
    return false;
  const StreamArgs stream = stream_args_of(args, c);
  return stream.k_blocks <= kMaxBoxBlocks && stream.k_blocks / stream.chunk_blocks <= kMaxChunks &&
         shared_bytes(stream, c) <= device.shared_bytes_per_block;
}

const char* linear_stream(const LinearArgs& args, int configuration, const Launch& launch) {
  check_linear(kName, args);
  const Configuration& c = kConfigurations.at(configuration);
  check_accepted(linear_stream_accepts(args, configuration, *launch.device), kName, c.name, args);
  const WeightView& w = args.weight;
  const Matrix& x = args.x;
  StreamArgs stream = stream_args_of(args, c);
  const int half_span = stream.span / 2;
  stream.weight =
      blocked_tensor_map(w.data, w.type, half_span, w.rows / half_span, w.width, w.stride,
                         {.rows = c.channels / 2, .groups = 2, .blocks = stream.k_blocks});
  stream.x =
      blocked_tensor_map(x.data, x.type, x.rows, 1, x.width, x.stride,
                         {.rows = stream.x_rows, .groups = 1, .blocks = stream.chunk_blocks});
  const dim3 grid(c.splits, static_cast<unsigned>(w.rows / c.channels));
  const auto following = stream.epilogue.following;
  const Kernel kernel = x.type == DType::kE4M3 ? kernel_for<e4m3>(c, following, false)
                                               : kernel_for<bf16>(c, following, is_general(args));
  launch_kernel(kName, kernel, grid, dim3(kThreads), shared_bytes(stream, c), launch, c.splits,
                stream);
  return kName;
}

}  // namespace flashrt::cuda
