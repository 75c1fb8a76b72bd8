// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// glu: y = activation(gate_up[:, :F]) * gate_up[:, F:].
//
// Layout    gate_up: [T, 2F] row-major, y: [T, F].
// Work      one thread per 16 bytes of gate and up. Other shapes and types: one column per thread.
// Traffic   one read of [T, 2F] and one write of [T, F]; blocks past the valid rows leave at once.
// Numerics  float32, rounded once; the formula is shared with the linear that does this itself.
// Reference backends/cpu/glu.cpp
#include <algorithm>

#include "kernels/common.cuh"
#include "kernels/glu.cuh"

namespace flashrt::cuda {
namespace {

constexpr int kThreads = 128;

// ---- vectors

constexpr int64_t kMaxRows = 65535;  // of the second dimension of a grid

template <class In, class Out>
struct VectorArgs {
  static constexpr int kColumns = 16 / sizeof(In);  // of a thread

  const In* gate_up;
  Out* y;
  int64_t gate_up_stride, y_stride, width;
  const int32_t* length;
  int32_t base;
  Divisor y_scale;
};

template <class In, class Out, Activation kActivation>
__global__ void __launch_bounds__(kThreads)
    glu_vector_kernel(const __grid_constant__ VectorArgs<In, Out> args) {
  constexpr int kColumns = VectorArgs<In, Out>::kColumns;
  wait_for_previous();
  const int row = blockIdx.y;
  const int64_t column = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kColumns;
  if (column >= args.width || (args.length && row >= args.base + *args.length)) return;
  const In* in = args.gate_up + row * args.gate_up_stride + column;
  const auto gates = load_vector<In, kColumns>(in);
  const auto ups = load_vector<In, kColumns>(in + args.width);
  float gate[kColumns], up[kColumns], y[kColumns];
  to_floats(gates, gate);
  to_floats(ups, up);
#pragma unroll
  for (int i = 0; i < kColumns; ++i) y[i] = gated(kActivation, gate[i], up[i]);
  store_floats(args.y + row * args.y_stride + column, y, args.y_scale);
}

template <class In, class Out>
const char* launch_vectors(const GluArgs& a, const Launch& launch) {
  const VectorArgs<In, Out> args{.gate_up = static_cast<const In*>(a.gate_up.data),
                                 .y = static_cast<Out*>(a.y.data),
                                 .gate_up_stride = a.gate_up.stride,
                                 .y_stride = a.y.stride,
                                 .width = a.y.width,
                                 .length = a.y.length,
                                 .base = a.y.base,
                                 .y_scale = divisor_of(a.y)};
  constexpr int64_t kPerBlock = kThreads * VectorArgs<In, Out>::kColumns;
  const dim3 grid(static_cast<unsigned>((a.y.width + kPerBlock - 1) / kPerBlock),
                  static_cast<unsigned>(a.y.rows));
  const auto kernel = a.activation == Activation::kGeluTanh
                          ? glu_vector_kernel<In, Out, Activation::kGeluTanh>
                          : glu_vector_kernel<In, Out, Activation::kSilu>;
  launch_kernel("glu", kernel, grid, kThreads, 0, launch, 1, args);
  return "glu";
}

bool fits_vectors(const GluArgs& a) {
  const DType in = a.gate_up.type, out = a.y.type;
  const bool has_types =
      in == DType::kF32 ? out == DType::kF32 : in == DType::kBF16 && out != DType::kF32;
  const int columns = 16 / static_cast<int>(size_of(in));
  const int y_bytes = columns * static_cast<int>(size_of(out));
  return has_types &&
         (a.activation == Activation::kGeluTanh || a.activation == Activation::kSilu) &&
         a.y.rows <= kMaxRows && is_aligned(a.gate_up, 16) && is_aligned(a.y, y_bytes) &&
         is_divisor(a.y.scale);
}

// ---- any shape and type

__global__ void __launch_bounds__(kThreads)
    glu_generic_kernel(const __grid_constant__ GluArgs args) {
  wait_for_previous();
  const int64_t width = args.y.width, count = valid_rows(args.y) * width;
  const int64_t stride = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += stride) {
    const int64_t row = i / width, column = i % width;
    const float gate = load(args.gate_up, row, column);
    const float up = load(args.gate_up, row, width + column);
    store(args.y, row, column, gated(args.activation, gate, up));
  }
}

}  // namespace

const char* glu(const GluArgs& args, const Launch& launch) {
  check_operand("glu", "y", args.y, args.y.rows, args.y.width);
  check_operand("glu", "gate_up", args.gate_up, args.y.rows, 2 * args.y.width);
  if (!fits_vectors(args)) {
    constexpr const char* kName = "glu_generic";
    launch_kernel(kName, glu_generic_kernel,
                  blocks_for(args.y.rows * args.y.width, kThreads, launch), kThreads, 0, launch, 1,
                  args);
    return kName;
  }
  switch (args.y.type) {
    case DType::kF32:
      return launch_vectors<float, float>(args, launch);
    case DType::kBF16:
      return launch_vectors<bf16, bf16>(args, launch);
    case DType::kF16:
      return launch_vectors<bf16, f16>(args, launch);
    default:
      return launch_vectors<bf16, e4m3>(args, launch);
  }
}

}  // namespace flashrt::cuda
