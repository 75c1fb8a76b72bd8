// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// add_norm: residual_out = residual + gate * delta;  y = norm(residual_out), scaled and shifted.
//
// Layout    residual, delta, residual_out, y: [T, D]; gate, scale, shift: [1, D]; weight: [D], and
//           bias.
// Work      eight columns per thread, which stay in registers between the sum and the store. A
//           block takes a row, or several where there are many that become e4m3. Other shapes and
//           types: one block per row, which waits in shared memory.
// Traffic   2 reads and 2 writes of [T, D]; below 64 rows the launch and two trips to memory count.
// Numerics  float32 in a fixed order; the norm reads the sum before it is rounded; the variance is
//           taken around the mean, in a second pass over the registers.
// Reference backends/cpu/add_norm.cpp
#include <algorithm>

#include "kernels/add_norm.cuh"
#include "kernels/common.cuh"

namespace flashrt::cuda {
namespace {

constexpr int kThreads = 256;  // of a row, as a rule
constexpr int kMostThreads = 1024;

// Sums over the threads of a row: a slot for each of its warps. A sum that follows another needs
// slots of its own: slow warps may still be reading the first ones.
template <int kCount>
struct alignas(16) Slots {
  float at[kCount];
};

// Rows of fewer warps leave slots without an owner.
template <int kCount>
__device__ __forceinline__ void clear_unowned(Slots<kCount>& slots, uint32_t thread,
                                              uint32_t threads) {
  if (threads / kWarp <= thread && thread < kCount) slots.at[thread] = 0;
}

// The same bits in every thread of a row; all threads of the block call it.
template <int kCount>
__device__ __forceinline__ float sum_of_row(float x, Slots<kCount>& slots, uint32_t thread) {
  x = warp_sum(x);
  if (thread % kWarp == 0) slots.at[thread / kWarp] = x;
  __syncthreads();  // orders the sums of all warps, and cleared slots, before the reads below
  const Slots<kCount> sums = slots;
  float total = 0;
#pragma unroll
  for (int i = 0; i < kCount; i += 4) {
    total += (sums.at[i] + sums.at[i + 1]) + (sums.at[i + 2] + sums.at[i + 3]);
  }
  return total;
}

// ---- rows that fit into the registers of a block

constexpr int kColumns = 8;  // of a thread
constexpr int kMaxWidth = kMostThreads * kColumns;

// How rows and blocks go together: a row of up to kThreads threads in a block, several of them, or
// a wider one.
enum class Rows { kOne, kSome, kWide };
template <Rows kRows>
constexpr int kSlots = (kRows == Rows::kWide ? kMostThreads : kThreads) / kWarp;

// The columns of one thread, by loads that stay where they are in the program. The compiler would
// spread others over the arithmetic to save registers, and each of them would be a trip of its own.
template <class T>
__device__ __forceinline__ Vector<T, kColumns> load_in_order(const T* p) {
  Vector<T, kColumns> columns;
  auto* words = reinterpret_cast<uint4*>(&columns);
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof columns / sizeof(uint4)); ++i) {
    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[i].x), "=r"(words[i].y), "=r"(words[i].z), "=r"(words[i].w)
                 : "l"(reinterpret_cast<const uint4*>(p) + i));
  }
  return columns;
}

struct Style {
  const float* gate;
  const float* scale;
  const float* shift;
};

template <class Stream, class Y>
struct RowArgs {
  const Stream* residual;
  const Stream* delta;
  Stream* residual_out;
  Y* y;
  int64_t residual_stride, delta_stride, residual_out_stride, y_stride;
  Style style, committed;
  const int32_t* committed_rows;
  const float* weight;
  const float* bias;
  const int32_t* length;
  int32_t base, rows, width;
  bool is_layer_norm;
  float eps, inverse_width;
  Divisor y_scale;
  uint32_t row_threads;
};

__device__ __forceinline__ void fill(float (&x)[kColumns], float value) {
#pragma unroll
  for (float& v : x) v = value;
}

__device__ __forceinline__ void load_style(const Style& style, int column, float (&gate)[kColumns],
                                           float (&scale)[kColumns], float (&shift)[kColumns]) {
  fill(gate, 1);
  if (style.gate) to_floats(load_in_order(style.gate + column), gate);
  to_floats(load_in_order(style.scale + column), scale);
  to_floats(load_in_order(style.shift + column), shift);
}

// Everything a row needs is requested before anything is waited for, so that it costs one trip to
// memory: both styles where a row may be committed, and the length whether or not it cuts the row.
template <class Stream, class Y, int kStyles, Rows kRows>
__global__ void __launch_bounds__(kRows == Rows::kOne ? kThreads : kMostThreads)
    add_norm_row_kernel(const __grid_constant__ RowArgs<Stream, Y> args) {
  constexpr bool kShares = kRows == Rows::kSome;
  __shared__ Slots<kSlots<kRows>> all_sums[kShares ? kMostThreads / kWarp : 1];
  __shared__ Slots<kSlots<kRows>> all_squares[kShares ? kMostThreads / kWarp : 1];
  const uint32_t thread = kShares ? threadIdx.x % args.row_threads : threadIdx.x;
  const uint32_t block_row = kShares ? threadIdx.x / args.row_threads : 0;
  const int own_row =
      kShares ? blockIdx.x * (blockDim.x / args.row_threads) + block_row : blockIdx.x;
  // Warps past the last row take it as well, without storing it.
  const int row = kShares ? min(own_row, args.rows - 1) : own_row;
  auto& sums = all_sums[block_row];
  auto& squares = all_squares[block_row];
  const bool is_inside = thread * kColumns < args.width;
  const int column = is_inside ? thread * kColumns : 0;
  float gate[kColumns], scale[kColumns], shift[kColumns];
  if constexpr (kStyles == 0) {
    fill(gate, 1);
    fill(scale, 1);
    fill(shift, 0);
    if (args.weight) load_floats(args.weight + column, scale);
    if (args.bias) load_floats(args.bias + column, shift);
  }
  const uint32_t threads = kShares ? args.row_threads : blockDim.x;
  clear_unowned(sums, thread, threads);
  clear_unowned(squares, thread, threads);
  wait_for_previous();

  float other_gate[kColumns], other_scale[kColumns], other_shift[kColumns];
  if constexpr (kStyles > 0) load_style(args.style, column, gate, scale, shift);
  if constexpr (kStyles > 1)
    load_style(args.committed, column, other_gate, other_scale, other_shift);
  const int valid = args.length ? args.base + *args.length : args.rows;
  // What the arithmetic begins with comes last, so that no load waits for it.
  Vector<Stream, kColumns> delta;
  if (args.delta) delta = load_in_order(args.delta + row * args.delta_stride + column);
  const auto residual = load_in_order(args.residual + row * args.residual_stride + column);
  if constexpr (kStyles > 1) {
    const bool is_committed = row < *static_cast<const volatile int32_t*>(args.committed_rows);
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      gate[i] = is_committed ? other_gate[i] : gate[i];
      scale[i] = is_committed ? other_scale[i] : scale[i];
      shift[i] = is_committed ? other_shift[i] : shift[i];
    }
  }
  const bool is_stored = is_inside && own_row < (kShares ? min(valid, args.rows) : valid);

  float x[kColumns];
  to_floats(residual, x);
  if (args.delta) {
    float d[kColumns];
    to_floats(delta, d);
#pragma unroll
    for (int i = 0; i < kColumns; ++i) x[i] = fmaf(gate[i], d[i], x[i]);
    if (is_stored) {
      Stream* out = args.residual_out + row * args.residual_out_stride + column;
      store_floats(out, x, Divisor{});
    }
  }

  if (args.is_layer_norm) {
    float even = 0, odd = 0;
#pragma unroll
    for (int i = 0; i < kColumns; i += 2) {
      even += x[i];
      odd += x[i + 1];
    }
    const float mean = sum_of_row(is_inside ? even + odd : 0, sums, thread) * args.inverse_width;
#pragma unroll
    for (float& v : x) v -= mean;
  }
  float even = 0, odd = 0;
#pragma unroll
  for (int i = 0; i < kColumns; i += 2) {
    even = fmaf(x[i], x[i], even);
    odd = fmaf(x[i + 1], x[i + 1], odd);
  }
  const float mean_square =
      sum_of_row(is_inside ? even + odd : 0, squares, thread) * args.inverse_width;
  const float factor = rsqrtf(mean_square + args.eps);
#pragma unroll
  for (int i = 0; i < kColumns; ++i) {
    const float weight = kStyles > 0 ? 1 + scale[i] : scale[i];
    x[i] = fmaf(x[i] * factor, weight, shift[i]);
  }
  if (is_stored) store_floats(args.y + row * args.y_stride + column, x, args.y_scale);
}

bool is_aligned_vector(const float* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

bool fits_registers(const AddNormArgs& a) {
  const Matrix& r = a.residual;
  const auto streams = [&](const Matrix& m) {
    return !m || (m.type == r.type && is_aligned(m, 16));
  };
  const auto styles = [](const Matrix& m) {
    return !m || (m.type == DType::kF32 && is_aligned(m, 16));
  };
  const int y_bytes = std::min<int>(16, kColumns * size_of(a.y.type));
  return (r.type == DType::kF32 || r.type == DType::kBF16) && r.width <= kMaxWidth &&
         r.width % kColumns == 0 && streams(r) && streams(a.delta) && streams(a.residual_out) &&
         is_aligned(a.y, y_bytes) && is_divisor(a.y.scale) &&
         (a.scale ? r.width <= kThreads * kColumns : !a.gate && !a.committed_rows) &&
         styles(a.gate) && styles(a.scale) && styles(a.shift) && styles(a.committed_gate) &&
         styles(a.committed_scale) && styles(a.committed_shift) && is_aligned_vector(a.weight) &&
         is_aligned_vector(a.bias);
}

template <class Stream, class Y>
const char* launch_rows(const AddNormArgs& a, const Launch& launch) {
  const auto floats = [](const Matrix& m) { return static_cast<const float*>(m.data); };
  const auto width = static_cast<int>(a.residual.width);
  const RowArgs<Stream, Y> args{
      .residual = static_cast<const Stream*>(a.residual.data),
      .delta = static_cast<const Stream*>(a.delta.data),
      .residual_out = static_cast<Stream*>(a.residual_out.data),
      .y = static_cast<Y*>(a.y.data),
      .residual_stride = a.residual.stride,
      .delta_stride = a.delta.stride,
      .residual_out_stride = a.residual_out.stride,
      .y_stride = a.y.stride,
      .style = {floats(a.gate), floats(a.scale), floats(a.shift)},
      .committed = {floats(a.committed_gate), floats(a.committed_scale), floats(a.committed_shift)},
      .committed_rows = a.committed_rows,
      .weight = a.weight,
      .bias = a.bias,
      .length = a.residual.length,
      .base = a.residual.base,
      .rows = static_cast<int32_t>(a.residual.rows),
      .width = width,
      .is_layer_norm = a.is_layer_norm,
      .eps = a.eps,
      .inverse_width = 1.0f / static_cast<float>(width),
      .y_scale = divisor_of(a.y),
      .row_threads = static_cast<uint32_t>((width / kColumns + kWarp - 1) / kWarp * kWarp)};
  // Of many rows that become e4m3, one block for each multiprocessor, if it can hold its share: to
  // start more takes longer. With wider results that was no faster.
  const int share =
      (args.rows + launch.device->multiprocessors - 1) / launch.device->multiprocessors;
  const int row_threads = static_cast<int>(args.row_threads);
  const bool is_wide = row_threads > kThreads;
  const int rows_per_block = is_wide || a.scale || a.y.type != DType::kE4M3
                                 ? 1
                                 : std::clamp(share, 1, kMostThreads / row_threads);
  const auto kernel = is_wide              ? add_norm_row_kernel<Stream, Y, 0, Rows::kWide>
                      : rows_per_block > 1 ? add_norm_row_kernel<Stream, Y, 0, Rows::kSome>
                      : !a.scale           ? add_norm_row_kernel<Stream, Y, 0, Rows::kOne>
                      : !a.committed_rows  ? add_norm_row_kernel<Stream, Y, 1, Rows::kOne>
                                           : add_norm_row_kernel<Stream, Y, 2, Rows::kOne>;
  const int blocks = (args.rows + rows_per_block - 1) / rows_per_block;
  launch_kernel("add_norm", kernel, dim3(static_cast<unsigned>(blocks)),
                dim3(rows_per_block * row_threads), 0, launch, 1, args);
  return "add_norm";
}

template <class Stream>
const char* launch_rows(const AddNormArgs& a, const Launch& launch) {
  switch (a.y.type) {
    case DType::kF32:
      return launch_rows<Stream, float>(a, launch);
    case DType::kBF16:
      return launch_rows<Stream, bf16>(a, launch);
    case DType::kF16:
      return launch_rows<Stream, f16>(a, launch);
    default:
      return launch_rows<Stream, e4m3>(a, launch);
  }
}

// ---- any shape and type

__global__ void __launch_bounds__(kThreads)
    add_norm_generic_kernel(const __grid_constant__ AddNormArgs args) {
  extern __shared__ float x[];  // the row; every thread reads only what it wrote
  __shared__ Slots<kThreads / kWarp> sums, squares;
  wait_for_previous();
  const int64_t row = blockIdx.x;
  if (row >= valid_rows(args.residual)) return;
  const bool is_committed = args.committed_rows && row < *args.committed_rows;
  const Matrix& gate = is_committed ? args.committed_gate : args.gate;
  const Matrix& scale = is_committed ? args.committed_scale : args.scale;
  const Matrix& shift = is_committed ? args.committed_shift : args.shift;
  const int64_t width = args.residual.width;
  const auto count = static_cast<float>(width);

  float sum = 0;
  for (int64_t i = threadIdx.x; i < width; i += kThreads) {
    float value = load(args.residual, row, i);
    if (args.delta.data) {
      value = fmaf(gate.data ? load(gate, 0, i) : 1.0f, load(args.delta, row, i), value);
      store(args.residual_out, row, i, value);
    }
    x[i] = value;
    sum += value;
  }
  const float mean = args.is_layer_norm ? sum_of_row(sum, sums, threadIdx.x) / count : 0.0f;
  float square = 0;
  for (int64_t i = threadIdx.x; i < width; i += kThreads) {
    x[i] -= mean;
    square = fmaf(x[i], x[i], square);
  }
  const float factor = rsqrtf(sum_of_row(square, squares, threadIdx.x) / count + args.eps);
  for (int64_t i = threadIdx.x; i < width; i += kThreads) {
    float y = x[i] * factor;
    if (args.weight) y *= args.weight[i];
    if (args.bias) y += args.bias[i];
    if (scale.data) y = fmaf(y, 1 + load(scale, 0, i), load(shift, 0, i));
    store(args.y, row, i, y);
  }
}

const char* launch_generic(const AddNormArgs& a, const Launch& launch) {
  constexpr const char* kName = "add_norm_generic";
  const size_t bytes = a.residual.width * sizeof(float);
  const size_t limit = launch.device->shared_bytes_per_block - 2 * sizeof(Slots<kThreads / kWarp>);
  FLASHRT_CHECK(bytes <= limit, kName, ": a row of ", a.residual.width, " columns takes ", bytes,
                " bytes of shared memory, a block of this device has ", limit);
  launch_kernel(kName, add_norm_generic_kernel, dim3(static_cast<unsigned>(a.residual.rows)),
                kThreads, bytes, launch, 1, a);
  return kName;
}

void check_operands(const AddNormArgs& a) {
  constexpr const char* kName = "add_norm";
  const int64_t rows = a.residual.rows, width = a.residual.width;
  check_operand(kName, "residual", a.residual, rows, width);
  check_operand(kName, "y", a.y, rows, width);
  FLASHRT_CHECK(bool(a.delta) == bool(a.residual_out), kName,
                ": delta and residual_out come together");
  if (a.delta) {
    check_operand(kName, "delta", a.delta, rows, width);
    check_operand(kName, "residual_out", a.residual_out, rows, width);
  }
  FLASHRT_CHECK(bool(a.scale) == bool(a.shift) && !(a.scale && (a.weight || a.bias)), kName,
                ": scale and shift come together, and without weight and bias");
  const auto check_style = [&](const char* name, const Matrix& style, const char* committed_name,
                               const Matrix& committed) {
    if (style) check_operand(kName, name, style, 1, width);
    FLASHRT_CHECK(bool(committed) == (style && a.committed_rows), kName, ": ", committed_name,
                  " is given exactly if ", name, " and committed_rows are");
    if (committed) check_operand(kName, committed_name, committed, 1, width);
  };
  check_style("gate", a.gate, "committed_gate", a.committed_gate);
  check_style("scale", a.scale, "committed_scale", a.committed_scale);
  check_style("shift", a.shift, "committed_shift", a.committed_shift);
}

}  // namespace

const char* add_norm(const AddNormArgs& args, const Launch& launch) {
  check_operands(args);
  if (!fits_registers(args)) return launch_generic(args, launch);
  return args.residual.type == DType::kF32 ? launch_rows<float>(args, launch)
                                           : launch_rows<bf16>(args, launch);
}

}  // namespace flashrt::cuda
