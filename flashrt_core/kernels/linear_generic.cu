// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// linear for any shape, stride and type, in float32 arithmetic.
//
// Layout    x [T, D] and the weight [width, D] row-major with any stride; nothing is aligned.
// Work      a block computes 64 rows by 64 channels from tiles of 16 k in shared memory, a thread
//           4 by 4 of them; the next tile is loaded while this one is multiplied.
// Traffic   x once per 64 channels and the weight once per 64 rows, from L2; meant for checks in
//           float32 and for odd sizes, not for speed.
// Numerics  one fused multiply-add after the other in ascending k; codes are multiplied as they
//           are, their scales follow; the epilogue is linear_epilogue.cuh.
// Reference backends/cpu/linear.cpp

#include "kernels/linear_epilogue.cuh"

namespace flashrt::cuda {
namespace {

constexpr int kTile = 64;   // rows and channels of a block
constexpr int kDepth = 16;  // k of a tile
constexpr int kSide = 4;    // rows and channels of a thread
constexpr int kThreads = kTile / kSide * kTile / kSide;
constexpr int kLoads = kTile * kDepth / kThreads;  // elements of a tile that a thread brings

struct GenericArgs {
  Matrix x;
  WeightView weight;
  LinearEpilogue epilogue;
};

// Elements [first, first + kLoads rows) of an operand: thread i brings column i % kDepth of every
// kThreads / kDepth'th row. Outside there are zeros.
template <class T>
__device__ __forceinline__ void load_tile(const T* data, int64_t stride, int64_t first_row,
                                          int64_t rows, int64_t k, int64_t width,
                                          float (&out)[kLoads]) {
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    const int64_t row = first_row + threadIdx.x / kDepth + i * (kThreads / kDepth);
    const int64_t column = k + threadIdx.x % kDepth;
    out[i] = row < rows && column < width ? to_float(data[row * stride + column]) : 0.0f;
  }
}

template <class X, class W>
__global__ void __launch_bounds__(kThreads)
    linear_generic_kernel(const __grid_constant__ GenericArgs args) {
  constexpr int kPadding = 4;  // keeps the columns of a tile on different banks, vectors aligned
  // The tiles of a round, [k][row]; in the end the sums [row][channel].
  union Memory {
    struct {
      float x[kDepth][kTile + kPadding], w[kDepth][kTile + kPadding];
    } tiles;
    float sums[kTile][kTile + kPadding];
  };
  __shared__ Memory memory;

  wait_for_previous();
  const int64_t valid = valid_rows(args.x);
  const int64_t first_channel = static_cast<int64_t>(blockIdx.x) * kTile;
  const int64_t first_row = static_cast<int64_t>(blockIdx.y) * kTile;
  if (first_row >= valid) return;

  const int64_t width = args.x.width, channels = args.weight.rows;
  const X* x = static_cast<const X*>(args.x.data);
  const W* w = static_cast<const W*>(args.weight.data);
  const int row = threadIdx.x / (kTile / kSide) * kSide;      // of the first of this thread's sums
  const int channel = threadIdx.x % (kTile / kSide) * kSide;  // likewise
  float x_next[kLoads], w_next[kLoads];
  float sums[kSide][kSide] = {};
  load_tile(x, args.x.stride, first_row, valid, 0, width, x_next);
  load_tile(w, args.weight.stride, first_channel, channels, 0, width, w_next);
  for (int64_t k = 0; k < width; k += kDepth) {
    __syncthreads();  // the previous tiles are read, before these replace them
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int to = threadIdx.x / kDepth + i * (kThreads / kDepth);
      memory.tiles.x[threadIdx.x % kDepth][to] = x_next[i];
      memory.tiles.w[threadIdx.x % kDepth][to] = w_next[i];
    }
    __syncthreads();  // the tiles are written, before any thread multiplies them
    if (k + kDepth < width) {
      load_tile(x, args.x.stride, first_row, valid, k + kDepth, width, x_next);
      load_tile(w, args.weight.stride, first_channel, channels, k + kDepth, width, w_next);
    }
#pragma unroll
    for (int i = 0; i < kDepth; ++i) {
      const auto a = load_vector<float, kSide>(&memory.tiles.x[i][row]);
      const auto b = load_vector<float, kSide>(&memory.tiles.w[i][channel]);
#pragma unroll
      for (int r = 0; r < kSide; ++r) {
#pragma unroll
        for (int c = 0; c < kSide; ++c) sums[r][c] = fmaf(a.at[r], b.at[c], sums[r][c]);
      }
    }
  }
  __syncthreads();  // the last tiles are read, before the sums take their place
#pragma unroll
  for (int r = 0; r < kSide; ++r) {
    store_vector(&memory.sums[row + r][channel],
                 Vector<float, kSide>{sums[r][0], sums[r][1], sums[r][2], sums[r][3]});
  }
  __syncthreads();  // the sums are written, before threads finish those of others
  const int64_t column = first_channel + threadIdx.x % kTile;
  if (column >= channels) return;
  const ChannelTerms<1> terms = channel_terms<1>(args.epilogue, column);
#pragma unroll 1
  for (int r = threadIdx.x / kTile; r < kTile && first_row + r < valid; r += kThreads / kTile) {
    float y[1] = {memory.sums[r][threadIdx.x % kTile]};
    finish_sums(args.epilogue, terms, first_row + r, column, y);
    store_y(args.epilogue, first_row + r, column, y);
  }
}

template <class X>
auto kernel_for(DType weight) {
  switch (weight) {
    case DType::kBF16:
      return linear_generic_kernel<X, bf16>;
    case DType::kF16:
      return linear_generic_kernel<X, f16>;
    case DType::kE4M3:
      return linear_generic_kernel<X, e4m3>;
    default:
      return linear_generic_kernel<X, float>;
  }
}
auto kernel_for(DType x, DType weight) {
  switch (x) {
    case DType::kBF16:
      return kernel_for<bf16>(weight);
    case DType::kF16:
      return kernel_for<f16>(weight);
    case DType::kE4M3:
      return kernel_for<e4m3>(weight);
    default:
      return kernel_for<float>(weight);
  }
}

}  // namespace

bool linear_generic_accepts(const LinearArgs& args) {
  return !args.glu && !args.rope && can_follow(args);
}

const char* linear_generic(const LinearArgs& args, const Launch& launch) {
  constexpr const char* kName = "linear_generic";
  check_linear(kName, args);
  FLASHRT_CHECK(linear_generic_accepts(args), kName,
                ": glu, rope and a guided solver step are operations of their own here");
  const dim3 grid(static_cast<unsigned>((args.weight.rows + kTile - 1) / kTile),
                  static_cast<unsigned>((args.x.rows + kTile - 1) / kTile));
  launch_kernel(kName, kernel_for(args.x.type, args.weight.type), grid, kThreads, 0, launch, 1,
                GenericArgs{args.x, args.weight, epilogue_of(args)});
  return kName;
}

}  // namespace flashrt::cuda
