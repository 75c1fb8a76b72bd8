// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// The rest of a linear whose product a library computed.
//
// Layout    product [T, width] float32; y and the other operands as in linear_epilogue.cuh.
// Work      a thread finishes four columns of a row, or one where vectors do not fit.
// Traffic   reads the product and the residual, writes y.
// Numerics  those of linear_epilogue.cuh.
// Reference backends/cpu/linear.cpp

#include "kernels/linear_epilogue.cuh"

namespace flashrt::cuda {
namespace {

constexpr int kThreads = 256;

struct FinishArgs {
  Matrix product;
  Matrix x;  // for its valid rows
  LinearEpilogue epilogue;
};

template <int kColumns>
__global__ void __launch_bounds__(kThreads)
    linear_finish_kernel(const __grid_constant__ FinishArgs args) {
  const int64_t row = blockIdx.x;  // there are fewer blocks along y
  const int64_t column = (static_cast<int64_t>(blockIdx.y) * kThreads + threadIdx.x) * kColumns;
  const bool is_inside = column < args.product.width;
  ChannelTerms<kColumns> terms;
  if (is_inside) terms = channel_terms<kColumns>(args.epilogue, column);
  wait_for_previous();
  if (!is_inside || row >= valid_rows(args.x)) return;
  float y[kColumns];
  load_floats(static_cast<const float*>(args.product.data) + row * args.product.stride + column, y);
  finish_sums(args.epilogue, terms, row, column, y);
  store_y(args.epilogue, row, column, y);
}

}  // namespace

const char* linear_finish(const LinearArgs& args, const Matrix& product, const Launch& launch) {
  constexpr const char* kName = "linear_finish";
  constexpr int kColumns = 4;
  check_linear(kName, args);
  FLASHRT_CHECK(!args.glu && !args.rope && can_follow(args), kName,
                ": glu, rope and a guided solver step are operations of their own here");
  FLASHRT_CHECK(
      product.type == DType::kF32 && product.rows >= args.x.rows && product.width == args.y.width,
      kName, ": the product is [", product.rows, ", ", product.width, "] ", product.type,
      ", expected [", args.x.rows, ", ", args.y.width, "] f32");
  const FinishArgs finish{product, args.x, epilogue_of(args)};
  const bool is_vector = is_aligned(product, kColumns * sizeof(float)) &&
                         epilogue_is_aligned(finish.epilogue, kColumns);
  const int columns = is_vector ? kColumns : 1;
  const int64_t block_columns = int64_t{kThreads} * columns;
  const dim3 grid(static_cast<unsigned>(args.x.rows),
                  static_cast<unsigned>((product.width + block_columns - 1) / block_columns));
  launch_kernel(kName, is_vector ? linear_finish_kernel<kColumns> : linear_finish_kernel<1>, grid,
                kThreads, 0, launch, 1, finish);
  return kName;
}

}  // namespace flashrt::cuda
