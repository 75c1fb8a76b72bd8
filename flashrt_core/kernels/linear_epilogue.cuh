// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// What happens to a sum of products of linear on its way to memory, for all kernels that compute
// one: scales, bias, shift, activation, residual, and then the store of y or the operation that
// follows it.
//
// A thread calls these for N neighbouring columns of one row. N > 1 reads and writes vectors, which
// epilogue_is_aligned() allows. Every operation is spelled out, so that all kernels that use them
// and add the products in the same order give the same bits. Kernels of warp-group instructions
// fold the scales into one factor, and bias and shift into one offset, of a single rounding.
#pragma once

#include "kernels/common.cuh"
#include "kernels/linear.cuh"
#include "kernels/rotation.cuh"

namespace flashrt::cuda {

// The same operand as in LinearArgs, in a form that kernels take by value.
struct LinearEpilogue {
  enum class Following { kNone, kGlu, kRope, kEuler };

  float x_scale = 1;
  const float* scales = nullptr;  // of the weight
  bool is_per_channel = false;    // else of the whole weight, if there are scales
  const float* bias = nullptr;
  Matrix shift, residual;
  Activation activation = Activation::kNone;
  Matrix y;

  Following following = Following::kNone;
  Matrix out;  // the gated product, the query heads or the actions
  Activation gate_activation = Activation::kNone;
  float step = 0;  // of the solver
  // Of the heads; columns of y are those of q, k and v one after the other.
  Matrix k, v;
  int heads = 0, kv_heads = 0, head_dim = 0;
  RopeTableView rope;
  int position_start = 0;
  const int32_t* position = nullptr;
};

// ---- host

inline LinearEpilogue epilogue_of(const LinearArgs& args) {
  using Following = LinearEpilogue::Following;
  LinearEpilogue e;
  e.x_scale = args.x.scale;
  e.scales = args.weight.scale_count > 0 ? args.weight.scales : nullptr;
  e.is_per_channel = args.weight.scale_count > 1;
  e.bias = args.bias;
  e.shift = args.shift;
  e.residual = args.residual;
  e.activation = args.activation;
  e.y = args.y;
  if (args.glu) {
    e.following = Following::kGlu;
    e.out = args.glu->y;
    e.gate_activation = args.glu->activation;
  } else if (args.rope) {
    e.following = Following::kRope;
    e.out = args.rope->q;
    e.k = args.rope->k;
    e.v = args.rope->v;
    e.heads = args.rope->heads;
    e.kv_heads = args.rope->kv_heads;
    e.head_dim = args.rope->head_dim;
    e.rope = args.rope->rope;
    e.position_start = args.rope->position_start;
    e.position = args.rope->position;
  } else if (args.euler) {
    e.following = Following::kEuler;
    e.out = args.euler->actions;
    e.step = args.euler->step;
  }
  return e;
}

// What every kernel of linear may rely on.
inline void check_linear(const char* kernel, const LinearArgs& args) {
  const Matrix &x = args.x, &y = args.y;
  const WeightView& w = args.weight;
  FLASHRT_CHECK(x && w && x.width == w.width && w.rows == y.width && x.rows == y.rows, kernel,
                ": x is [", x.rows, ", ", x.width, "], the weight [", w.rows, ", ", w.width,
                "] and y [", y.rows, ", ", y.width, "], expected [T, D], [width, D], [T, width]");
  FLASHRT_CHECK(w.scale_count == 0 || w.scale_count == 1 || w.scale_count == w.rows, kernel,
                ": the weight has ", w.scale_count, " scales, expected 0, 1 or ", w.rows);
  FLASHRT_CHECK(args.glu.has_value() + args.rope.has_value() + args.euler.has_value() <= 1, kernel,
                ": more than one operation follows, expected at most one");
  FLASHRT_CHECK(y || args.glu || args.rope, kernel, ": y is absent");
  for (const DType type : {x.type, w.type, y.type, args.shift.type, args.residual.type}) {
    FLASHRT_CHECK(type != DType::kI32 && type != DType::kU8, kernel, ": an operand is ", type,
                  ", expected f32, bf16, f16 or e4m3");
  }
}

// True if the following operation can be part of linear at all.
inline bool can_follow(const LinearArgs& args) {
  if (args.rope) return !args.rope->q_norm && !args.rope->k_norm;  // a norm needs the whole head
  if (args.euler) return !args.euler->previous && args.euler->actions.type == DType::kF32;
  return true;
}

// Columns that are finished in one thread lie in the two halves of a span: of gate|up, of a head,
// or else just of the channels of a block.
inline int64_t span_of(const LinearArgs& args, int channels) {
  return args.glu ? args.y.width : args.rope ? args.rope->head_dim : channels;
}

// ---- host: what the kernels of warp-group instructions do with their sums, in registers

inline bool has_short_formula(Activation a) {
  return a == Activation::kNone || a == Activation::kGeluTanh || a == Activation::kSilu;
}
// What they write, several elements at a time.
inline bool is_packed(const Matrix& y) {
  return y.type == DType::kBF16 || (y.type == DType::kE4M3 && is_divisor(y.scale));
}
// They round the two factors of a gated product to bf16.
inline bool can_gate(const LinearArgs& args) {
  const Activation gate = args.glu->activation;
  return args.activation == Activation::kNone && args.y.type == DType::kBF16 &&
         gate != Activation::kNone && has_short_formula(gate) && is_packed(args.glu->y);
}

// True if groups of n columns of every operand can be accessed as one vector.
inline bool epilogue_is_aligned(const LinearEpilogue& e, int n) {
  const auto fits = [n](const Matrix& m) {
    return !m || is_aligned(m, n * static_cast<int>(size_of(m.type)));
  };
  const int floats = n * static_cast<int>(sizeof(float));
  const auto fits_vector = [floats](const float* p) {
    return reinterpret_cast<uintptr_t>(p) % floats == 0;
  };
  return fits(e.shift) && fits(e.residual) && fits(e.y) && fits(e.out) && fits(e.k) && fits(e.v) &&
         fits_vector(e.bias) && (!e.is_per_channel || fits_vector(e.scales));
}

// ---- device: groups of columns

template <class T, int N>
__device__ __forceinline__ void load_as(const Matrix& m, int64_t index, float (&out)[N]) {
  const auto values = load_vector<T, N>(static_cast<const T*>(m.data) + index);
#pragma unroll
  for (int i = 0; i < N; ++i) out[i] = to_float(values.at[i]);
}
template <int N>
__device__ __forceinline__ void load_columns(const Matrix& m, int64_t row, int64_t column,
                                             float (&out)[N]) {
  const int64_t index = row * m.stride + column;
  switch (m.type) {
    case DType::kF32:
      return load_as<float>(m, index, out);
    case DType::kBF16:
      return load_as<bf16>(m, index, out);
    case DType::kF16:
      return load_as<f16>(m, index, out);
    default:
      load_as<e4m3>(m, index, out);
#pragma unroll
      for (int i = 0; i < N; ++i) out[i] = __fmul_rn(out[i], m.scale);
  }
}

template <class T, int N>
__device__ __forceinline__ void store_as(const Matrix& m, int64_t index, const float (&x)[N]) {
  Vector<T, N> values;
#pragma unroll
  for (int i = 0; i < N; ++i) values.at[i] = from_float<T>(x[i]);
  store_vector(static_cast<T*>(m.data) + index, values);
}
template <int N>
__device__ __forceinline__ void store_columns(const Matrix& m, int64_t row, int64_t column,
                                              const float (&x)[N]) {
  const int64_t index = row * m.stride + column;
  switch (m.type) {
    case DType::kF32:
      return store_as<float>(m, index, x);
    case DType::kBF16:
      return store_as<bf16>(m, index, x);
    case DType::kF16:
      return store_as<f16>(m, index, x);
    default: {
      float codes[N];
#pragma unroll
      for (int i = 0; i < N; ++i) codes[i] = __fdiv_rn(x[i], m.scale);
      store_as<e4m3>(m, index, codes);
    }
  }
}

template <int N>
__device__ __forceinline__ void round_columns(const Matrix& m, float (&x)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) x[i] = rounded_to(m.type, m.scale, x[i]);
}

// ---- device: the epilogue

// The part of the epilogue that depends on the weights alone: may be read before
// wait_for_previous(). Nothing is computed from it yet, so that the thread need not wait either.
template <int N>
struct ChannelTerms {
  float weight_scale;  // of all channels
  float scale[N];
  float bias[N];
};
template <int N>
__device__ __forceinline__ ChannelTerms<N> channel_terms(const LinearEpilogue& e, int64_t column) {
  ChannelTerms<N> terms;
  terms.weight_scale = e.scales && !e.is_per_channel ? e.scales[0] : 1.0f;
#pragma unroll
  for (int i = 0; i < N; ++i) terms.scale[i] = 1, terms.bias[i] = 0;
  const auto read = [column](const float* from, float(&to)[N]) {
    const auto values = load_vector<float, N>(from + column);
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] = values.at[i];
  };
  if (e.is_per_channel) read(e.scales, terms.scale);
  if (e.bias) read(e.bias, terms.bias);
  return terms;
}

// The sums of columns [column, column + N) of this row become y, in float32 before its rounding.
template <int N>
__device__ __forceinline__ void finish_sums(const LinearEpilogue& e, const ChannelTerms<N>& terms,
                                            int64_t row, int64_t column, float (&sums)[N]) {
  float operand[N];
  const float factor = __fmul_rn(e.x_scale, terms.weight_scale);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    sums[i] = __fmul_rn(__fmul_rn(sums[i], terms.scale[i]), factor);
    if (e.bias) sums[i] = __fadd_rn(sums[i], terms.bias[i]);
  }
  if (e.shift.data) {
    load_columns(e.shift, 0, column, operand);
#pragma unroll
    for (int i = 0; i < N; ++i) sums[i] = __fadd_rn(sums[i], operand[i]);
  }
  if (e.activation != Activation::kNone) {
#pragma unroll
    for (int i = 0; i < N; ++i) sums[i] = activate(e.activation, sums[i]);
  }
  if (e.residual.data) {
    load_columns(e.residual, row, column, operand);
#pragma unroll
    for (int i = 0; i < N; ++i) sums[i] = __fadd_rn(sums[i], operand[i]);
  }
}

// Stores y, and advances the actions if the solver's step follows.
template <int N>
__device__ __forceinline__ void store_y(const LinearEpilogue& e, int64_t row, int64_t column,
                                        float (&y)[N]) {
  store_columns(e.y, row, column, y);
  if (e.following != LinearEpilogue::Following::kEuler) return;
  float actions[N];
  round_columns(e.y, y);
  load_columns(e.out, row, column, actions);
#pragma unroll
  for (int i = 0; i < N; ++i) actions[i] = euler_advanced(actions[i], e.step, y[i]);
  store_columns(e.out, row, column, actions);
}

// Columns [column, column + N) of both halves of y.
template <int N>
__device__ __forceinline__ void store_gated(const LinearEpilogue& e, int64_t row, int64_t column,
                                            float (&gate)[N], float (&up)[N]) {
  round_columns(e.y, gate);
  round_columns(e.y, up);
#pragma unroll
  for (int i = 0; i < N; ++i) gate[i] = gated(e.gate_activation, gate[i], up[i]);
  store_columns(e.out, row, column, gate);
}

// The angles of N columns of the first half of a head, at the position of this row. Without a
// rotation there is nothing to read.
template <int N>
struct Angles {
  float2 at[N];
};
__device__ __forceinline__ int position_of(const LinearEpilogue& e, int64_t row) {
  return e.position_start + (e.position ? *e.position : 0) + static_cast<int>(row);
}
// For a kernel that reads the angles early: the position is one of the table.
template <int N>
__device__ __forceinline__ Angles<N> tabulated_angles(const LinearEpilogue& e, int position,
                                                      int j) {
  Angles<N> angles;
#pragma unroll
  for (int i = 0; i < N; ++i)
    angles.at[i] = tabulated_rotation(e.rope, e.head_dim, position, j + i);
  return angles;
}
template <int N>
__device__ __forceinline__ Angles<N> angles_of(const LinearEpilogue& e, int64_t row, int j) {
  Angles<N> angles{};
  if (!e.rope.table) return angles;
  const int position = position_of(e, row);
#pragma unroll
  for (int i = 0; i < N; ++i) angles.at[i] = rotation_of(e.rope, e.head_dim, position, j + i);
  return angles;
}

// Columns [j, j + N) of both halves of a head; heads count through q, k and v.
template <int N>
__device__ __forceinline__ void store_heads(const LinearEpilogue& e, const Angles<N>& angles,
                                            int64_t row, int head, int j, float (&first)[N],
                                            float (&second)[N]) {
  round_columns(e.y, first);
  round_columns(e.y, second);
  const bool is_v = head >= e.heads + e.kv_heads;
  if (e.rope.table && !is_v) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float2 turned = rotated(first[i], second[i], angles.at[i]);
      first[i] = turned.x;
      second[i] = turned.y;
    }
  }
  const auto store_both = [&](const Matrix& m, int to) {
    const int64_t column = static_cast<int64_t>(to) * e.head_dim + j;
    store_columns(m, row, column, first);
    store_columns(m, row, column + e.head_dim / 2, second);
  };
  if (is_v)
    store_both(e.v, head - e.heads - e.kv_heads);
  else if (head >= e.heads)
    store_both(e.k, head - e.heads);
  else
    store_both(e.out, head);
}

}  // namespace flashrt::cuda
