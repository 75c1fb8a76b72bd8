// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// linear for up to 64 rows in float32: the linears around actions and state, so small that the
// times of a launch, of a load and of a sum over lanes decide.
//
// Layout    x [T <= 64, D] and the weight [width, D] row-major, as they are; both go straight into
//           registers, 16 bytes per load.
// Work      a warp has a tile of channels by rows and one part of D. Eight of its lanes split that
//           part and add up the same sums, as many as pay for the loads. Rows are split among
//           blocks as channels are, so that there are enough of them. A thread's weights are all on
//           their way before the kernel ahead has ended, and all of x is right after. Where D is
//           long, the warps of a block split it, and the first of them finishes the sums.
// Traffic   the weights once per tile of rows, early; x once per tile of channels, from L2. The
//           weight of the next linear, a share per block, from device memory to L2.
// Numerics  float32 multiply-adds, summed in a fixed order per configuration; the epilogue is
//           linear_epilogue.cuh.
// Reference backends/cpu/linear.cpp

#include <array>

#include "kernels/copy_async.cuh"
#include "kernels/linear_epilogue.cuh"

namespace flashrt::cuda {
namespace {

constexpr const char* kName = "linear_f32";
constexpr int64_t kMaxRows = 64;
constexpr int kVector = 4;      // elements of a load
constexpr int kTeam = 8;        // lanes that share sums
constexpr int kSides = 2;       // teams along the channels of a warp, and along its rows
constexpr int kSplitWarps = 8;  // of a block, where they split D
constexpr int kWholeWarps = 4;  // where each has channels of its own
static_assert(kTeam * kSides * kSides == kWarp);

struct Float32Args {
  Matrix x;
  const float* weight = nullptr;
  int64_t weight_stride = 0;
  int channels = 0;
  LinearEpilogue epilogue;
  Prefetch next_weight;
};

// A weight is read by few blocks, once each. Volatile, so that it stays ahead of
// wait_for_previous().
__device__ __forceinline__ void load_weight(const float* p, float4& w) {
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.f32 {%0,%1,%2,%3}, [%4];"
               : "=f"(w.x), "=f"(w.y), "=f"(w.z), "=f"(w.w)
               : "l"(p));
}

// Sums over the lanes of a team. Each round halves what a lane holds, down to a pair; in the end
// lane l has pair l * pairs / kTeam of them.
template <int kHeld, int kOffset, int N>
__device__ __forceinline__ void sum_over_team(float (&sums)[N], int lane) {
  if constexpr (kOffset > 0) {
    constexpr int kKept = kHeld > 2 ? kHeld / 2 : kHeld;
    const bool keeps_upper = lane & kOffset;
#pragma unroll
    for (int i = 0; i < kKept; ++i) {
      const float upper = sums[i + kHeld - kKept];
      const float sent = keeps_upper ? sums[i] : upper, kept = keeps_upper ? upper : sums[i];
      sums[i] = kept + __shfl_xor_sync(kAllLanes, sent, kOffset);
    }
    sum_over_team<kKept, kOffset / 2>(sums, lane);
  }
}

// kSide: channels, and rows, of a lane. kVectors: those of a row that it holds at a time. Small
// blocks share a multiprocessor, so that there is one wave of them.
template <int kSide, int kVectors, bool kIsSplit>
__global__ void __launch_bounds__((kIsSplit ? kSplitWarps : kWholeWarps) * kWarp, kIsSplit ? 1 : 3)
    linear_f32_kernel(const __grid_constant__ Float32Args args) {
  constexpr int kPairs = kSide * kSide / 2;
  constexpr int kWarps = kIsSplit ? kSplitWarps : kWholeWarps;
  constexpr int kWarpDepth = kVectors * kTeam * kVector;
  static_assert(kSide % 2 == 0 && kTeam % kPairs == 0);
  const LinearEpilogue& e = args.epilogue;
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  const int part = kIsSplit ? warp : 0;
  const int tile = kIsSplit ? blockIdx.x : blockIdx.x * kWarps + warp;
  const int first_channel = (tile * kSides + lane / kTeam % kSides) * kSide;
  const int first_row = (blockIdx.y * kSides + lane / (kTeam * kSides)) * kSide;
  const int rows = static_cast<int>(args.x.rows), depth = static_cast<int>(args.x.width);

  // The pair of sums that this lane finishes, if it is the one that does.
  const int pair = lane % kTeam * kPairs / kTeam;
  const int column = first_channel + pair * 2 % kSide;
  const int row = first_row + pair * 2 / kSide;
  const bool finishes =
      part == 0 && lane % (kTeam / kPairs) == 0 && column < args.channels && row < rows;

  // ---- weights and constants
  int k = part * kWarpDepth + lane % kTeam * kVector;
  float4 w[kVectors][kSide] = {}, x[kVectors][kSide] = {};
  const auto load_weights = [&] {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
#pragma unroll
      for (int c = 0; c < kSide; ++c) {
        if (first_channel + c < args.channels && k + v * kTeam * kVector < depth) {
          load_weight(
              args.weight + (first_channel + c) * args.weight_stride + k + v * kTeam * kVector,
              w[v][c]);
        }
      }
    }
  };
  load_weights();
  ChannelTerms<2> terms;
  if (finishes) terms = channel_terms<2>(e, column);

  // ---- x
  wait_for_previous();
  const auto load_x = [&] {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
#pragma unroll
      for (int r = 0; r < kSide; ++r) {
        if (first_row + r < rows && k + v * kTeam * kVector < depth) {
          x[v][r] = *reinterpret_cast<const float4*>(static_cast<const float*>(args.x.data) +
                                                     (first_row + r) * args.x.stride + k +
                                                     v * kTeam * kVector);
        }
      }
    }
  };
  load_x();
  const bool is_step = e.following == LinearEpilogue::Following::kEuler;
  Vector<float, 2> shift{}, residual{}, actions{};
  const auto operand = [&](const Matrix& m, int64_t of_row) {
    if (m.type != DType::kF32) return load_columns<2>(m, of_row, column);
    // The usual one in line: a call would wait for x.
    return load_vector<float, 2>(static_cast<const float*>(m.data) + of_row * m.stride + column);
  };
  if (finishes) {  // beside x: behind the sums each would be a trip of its own
    if (e.shift.data) shift = operand(e.shift, 0);
    if (e.residual.data) residual = operand(e.residual, row);
    if (is_step) actions = operand(e.out, row);
  }
  const int valid = static_cast<int>(valid_rows(args.x));
  if (threadIdx.x == 0) prefetch_share(args.next_weight);

  // ---- products
  float sums[kSide * kSide] = {};
  for (int begin = 0;;) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
#pragma unroll
      for (int r = 0; r < kSide; ++r) {
#pragma unroll
        for (int c = 0; c < kSide; ++c) {
          float& sum = sums[r * kSide + c];
          sum = fmaf(x[v][r].x, w[v][c].x, sum);
          sum = fmaf(x[v][r].y, w[v][c].y, sum);
          sum = fmaf(x[v][r].z, w[v][c].z, sum);
          sum = fmaf(x[v][r].w, w[v][c].w, sum);
        }
      }
    }
    constexpr int kBlockDepth = kWarpDepth * (kIsSplit ? kSplitWarps : 1);
    begin += kBlockDepth;
    if (begin >= depth) break;
    k += kBlockDepth;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {  // a row may end within this round
#pragma unroll
      for (int i = 0; i < kSide; ++i) w[v][i] = x[v][i] = {};
    }
    load_weights();
    load_x();
  }

  // ---- sums over lanes, then over warps
  sum_over_team<kSide * kSide, kTeam / 2>(sums, lane);
  float y[2] = {sums[0], sums[1]};
  if constexpr (kIsSplit) {
    __shared__ float2 parts[kSplitWarps][kWarp];
    parts[warp][lane] = {y[0], y[1]};
    __syncthreads();  // the sums are written, before the first warp reads those of the others
    if (warp > 0) return;
#pragma unroll
    for (int i = 1; i < kSplitWarps; ++i) {
      const float2 more = parts[i][lane];
      y[0] += more.x;
      y[1] += more.y;
    }
  }
  if (!finishes || row >= valid) return;
  scale_sums(e, terms, y);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (e.shift.data) y[i] = __fadd_rn(y[i], shift.at[i]);
    y[i] = activate(e.activation, y[i]);
    if (e.residual.data) y[i] = __fadd_rn(y[i], residual.at[i]);
  }
  store_columns(e.y, row, column, y);
  if (!is_step) return;
  round_columns(e, y);
#pragma unroll
  for (int i = 0; i < 2; ++i) y[i] = euler_advanced(actions.at[i], e.step, y[i]);
  store_columns(e.out, row, column, y);
}

// ---- configurations

struct Configuration {
  const char* name;
  int side;       // of the square of sums of a lane
  bool is_split;  // D among the warps
  int vectors;    // of a row, per lane
  int max_depth;  // 0: any
};

// Named after channels and rows of a warp; short ones are for D of one load per lane.
constexpr std::array kConfigurations = {
    Configuration{"8x8 short", 4, false, 1, kTeam* kVector},
    Configuration{"4x4 short", 2, false, 1, kTeam* kVector},
    Configuration{"8x8", 4, false, 4, 256},
    Configuration{"4x4", 2, false, 4, 256},
    Configuration{"8x8 split", 4, true, 4, 0},
    Configuration{"4x4 split", 2, true, 4, 0},
};
constexpr auto kNames = [] {
  std::array<const char*, kConfigurations.size()> names{};
  for (size_t i = 0; i < names.size(); ++i) names[i] = kConfigurations[i].name;
  return names;
}();

using Kernel = void (*)(Float32Args);

template <int kVectors, bool kIsSplit>
Kernel kernel_for(int side) {
  return side == 4 ? linear_f32_kernel<4, kVectors, kIsSplit>
                   : linear_f32_kernel<2, kVectors, kIsSplit>;
}
Kernel kernel_for(const Configuration& c) {
  if (c.vectors == 1) return kernel_for<1, false>(c.side);
  return c.is_split ? kernel_for<4, true>(c.side) : kernel_for<4, false>(c.side);
}

}  // namespace

std::span<const char* const> linear_f32_configurations() { return kNames; }

bool linear_f32_accepts(const LinearArgs& args, int configuration, const DeviceInfo&) {
  const Configuration& c = kConfigurations.at(configuration);
  constexpr int kAlignment = kVector * sizeof(float);
  return args.x.type == DType::kF32 && args.weight.type == DType::kF32 && !args.glu && !args.rope &&
         can_follow(args) && args.x.rows <= kMaxRows &&
         (c.max_depth == 0 || args.x.width <= c.max_depth) && is_aligned(args.x, kAlignment) &&
         is_aligned(args.weight, kAlignment) && epilogue_is_aligned(epilogue_of(args), 2);
}

const char* linear_f32(const LinearArgs& args, int configuration, const Launch& launch) {
  const Configuration& c = kConfigurations.at(configuration);
  check_linear(kName, args);
  check_accepted(linear_f32_accepts(args, configuration, *launch.device), kName, c.name, args);
  const int warps = c.is_split ? kSplitWarps : kWholeWarps;
  const int tile = kSides * c.side;  // channels, and rows, of a warp
  const auto blocks = [](int64_t all, int of_block) {
    return static_cast<unsigned>((all + of_block - 1) / of_block);
  };
  const dim3 grid(blocks(args.weight.rows, c.is_split ? tile : tile * kWholeWarps),
                  blocks(args.x.rows, tile));
  const Float32Args f32{.x = args.x,
                        .weight = static_cast<const float*>(args.weight.data),
                        .weight_stride = args.weight.stride,
                        .channels = static_cast<int>(args.weight.rows),
                        .epilogue = epilogue_of(args),
                        .next_weight = prefetch_of(args.next_weight, int64_t{grid.x} * grid.y,
                                                   launch.device->l2_bytes)};
  launch_kernel(kName, kernel_for(c), grid, warps * kWarp, 0, launch, 1, f32);
  return kName;
}

}  // namespace flashrt::cuda
