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

  // What the device asks of the operands, in one word: parameters are read one after the other.
  enum Fact : uint32_t { kHasRest = 1, kHasBias = 2, kRoundsToBF16 = 4, kGatesByGelu = 8 };
  uint32_t facts = 0;

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
  if (e.shift || e.activation != Activation::kNone || e.residual) e.facts |= e.kHasRest;
  if (e.bias) e.facts |= e.kHasBias;
  if (e.y.type == DType::kBF16) e.facts |= e.kRoundsToBF16;
  if (e.gate_activation == Activation::kGeluTanh) e.facts |= e.kGatesByGelu;
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
inline void check_accepted(bool is_accepted, const char* kernel, const char* configuration,
                           const LinearArgs& args) {
  const Matrix& x = args.x;
  const WeightView& w = args.weight;
  FLASHRT_CHECK(is_accepted, kernel, " ", configuration, ": does not take x [", x.rows, ", ",
                x.width, "] ", x.type, " and a weight [", w.rows, ", ", w.width, "] ", w.type, "; ",
                kernel, "_accepts() says which configurations do");
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
//
// A block of a kernel for few rows runs its epilogue once, and every cache line of instructions
// that it jumps to may have to be fetched. So what most linears do is short and without jumps, and
// the rest is out of line, with values for arguments.

// For what is out of line: it takes and returns a vector, which travels in registers.
template <int N, class Function>
__device__ __forceinline__ void call_with(float (&x)[N], const Function& function) {
  Vector<float, N> v;
#pragma unroll
  for (int i = 0; i < N; ++i) v.at[i] = x[i];
  v = function(v);
#pragma unroll
  for (int i = 0; i < N; ++i) x[i] = v.at[i];
}

template <class T, int N>
__device__ __forceinline__ Vector<float, N> load_as(const void* data, int64_t index) {
  const auto values = load_vector<T, N>(static_cast<const T*>(data) + index);
  Vector<float, N> x;
#pragma unroll
  for (int i = 0; i < N; ++i) x.at[i] = to_float(values.at[i]);
  return x;
}
template <int N>
__device__ __noinline__ Vector<float, N> load_columns(const void* data, DType type, float scale,
                                                      int64_t index) {
  switch (type) {
    case DType::kF32:
      return load_as<float, N>(data, index);
    case DType::kBF16:
      return load_as<bf16, N>(data, index);
    case DType::kF16:
      return load_as<f16, N>(data, index);
    default: {
      auto x = load_as<e4m3, N>(data, index);
#pragma unroll
      for (int i = 0; i < N; ++i) x.at[i] = __fmul_rn(x.at[i], scale);
      return x;
    }
  }
}
template <int N>
__device__ __forceinline__ Vector<float, N> load_columns(const Matrix& m, int64_t row,
                                                         int64_t column) {
  return load_columns<N>(m.data, m.type, m.scale, row * m.stride + column);
}

template <class T, int N>
__device__ __forceinline__ void store_as(void* data, int64_t index, const Vector<float, N>& x) {
  Vector<T, N> values;
#pragma unroll
  for (int i = 0; i < N; ++i) values.at[i] = from_float<T>(x.at[i]);
  store_vector(static_cast<T*>(data) + index, values);
}
template <int N>
__device__ __noinline__ void store_other(void* data, DType type, float scale, int64_t index,
                                         Vector<float, N> x) {
  if (type == DType::kF32) return store_as<float>(data, index, x);
#pragma unroll
  for (int i = 0; i < N; ++i) x.at[i] = __fdiv_rn(x.at[i], scale);
  store_as<e4m3>(data, index, x);
}
template <int N>
__device__ __forceinline__ void store_columns(const Matrix& m, int64_t row, int64_t column,
                                              const float (&x)[N]) {
  const int64_t index = row * m.stride + column;
  if (m.type == DType::kF16 || m.type == DType::kBF16) {
    uint16_t* to = static_cast<uint16_t*>(m.data) + index;
    if constexpr (N % 2 == 0) {
      Vector<uint32_t, N / 2> pairs;
#pragma unroll
      for (int i = 0; i < N; i += 2) {
        pairs.at[i / 2] =
            m.type == DType::kF16 ? packed_f16(x[i], x[i + 1]) : packed_bf16(x[i], x[i + 1]);
      }
      store_vector(reinterpret_cast<uint32_t*>(to), pairs);
    } else {
      Vector<uint16_t, N> values;
#pragma unroll
      for (int i = 0; i < N; ++i) {
        values.at[i] = m.type == DType::kF16 ? __half_as_ushort(from_float<f16>(x[i]))
                                             : __bfloat16_as_ushort(from_float<bf16>(x[i]));
      }
      store_vector(to, values);
    }
  } else {
    Vector<float, N> values;
#pragma unroll
    for (int i = 0; i < N; ++i) values.at[i] = x[i];
    store_other(m.data, m.type, m.scale, index, values);
  }
}

template <int N>
__device__ __noinline__ Vector<float, N> rounded_to_other(DType type, float scale,
                                                          Vector<float, N> x) {
#pragma unroll 1
  for (int i = 0; i < N; ++i) x.at[i] = rounded_to(type, scale, x.at[i]);
  return x;
}
// Rounds to the type of y.
template <int N>
__device__ __forceinline__ void round_columns(const LinearEpilogue& e, float (&x)[N]) {
  if (e.facts & e.kRoundsToBF16) {
    if constexpr (N % 2 == 0) {
#pragma unroll
      for (int i = 0; i < N; i += 2) {
        const uint32_t pair = packed_bf16(x[i], x[i + 1]);
        x[i] = __uint_as_float(pair << 16);
        x[i + 1] = __uint_as_float(pair & 0xffff0000u);
      }
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i) x[i] = to_float(from_float<bf16>(x[i]));
    }
  } else {
    call_with(x,
              [&](const Vector<float, N>& v) { return rounded_to_other(e.y.type, e.y.scale, v); });
  }
}

template <int N>
__device__ __noinline__ Vector<float, N> activated(Activation activation, Vector<float, N> x) {
#pragma unroll
  for (int i = 0; i < N; ++i) x.at[i] = activate(activation, x.at[i]);
  return x;
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

// Shift, activation and residual.
template <int N>
__device__ __noinline__ Vector<float, N> finish_rest(const LinearEpilogue& e, int64_t row,
                                                     int64_t column, Vector<float, N> sums) {
  if (e.shift.data) {
    const auto shift = load_columns<N>(e.shift, 0, column);
#pragma unroll
    for (int i = 0; i < N; ++i) sums.at[i] = __fadd_rn(sums.at[i], shift.at[i]);
  }
#pragma unroll
  for (int i = 0; i < N; ++i) sums.at[i] = activate(e.activation, sums.at[i]);
  if (e.residual.data) {
    const auto residual = load_columns<N>(e.residual, row, column);
#pragma unroll
    for (int i = 0; i < N; ++i) sums.at[i] = __fadd_rn(sums.at[i], residual.at[i]);
  }
  return sums;
}

// Scales and bias.
template <int N>
__device__ __forceinline__ void scale_sums(const LinearEpilogue& e, const ChannelTerms<N>& terms,
                                           float (&sums)[N]) {
  const float factor = __fmul_rn(e.x_scale, terms.weight_scale);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    sums[i] = __fmul_rn(__fmul_rn(sums[i], terms.scale[i]), factor);
    if (e.facts & e.kHasBias) sums[i] = __fadd_rn(sums[i], terms.bias[i]);
  }
}

// The sums of columns [column, column + N) of this row become y, in float32 before its rounding.
template <int N>
__device__ __forceinline__ void finish_sums(const LinearEpilogue& e, const ChannelTerms<N>& terms,
                                            int64_t row, int64_t column, float (&sums)[N]) {
  scale_sums(e, terms, sums);
  if (e.facts & e.kHasRest) {
    call_with(sums, [&](const Vector<float, N>& v) { return finish_rest(e, row, column, v); });
  }
}

// Stores y, and advances the actions if the solver's step follows.
template <int N>
__device__ __forceinline__ void store_y(const LinearEpilogue& e, int64_t row, int64_t column,
                                        float (&y)[N]) {
  store_columns(e.y, row, column, y);
  if (e.following != LinearEpilogue::Following::kEuler) return;
  round_columns(e, y);
  const auto actions = load_columns<N>(e.out, row, column);
#pragma unroll
  for (int i = 0; i < N; ++i) y[i] = euler_advanced(actions.at[i], e.step, y[i]);
  store_columns(e.out, row, column, y);
}

// Columns [column, column + N) of both halves of y.
template <int N>
__device__ __forceinline__ void store_gated(const LinearEpilogue& e, int64_t row, int64_t column,
                                            float (&gate)[N], float (&up)[N]) {
  round_columns(e, gate);
  round_columns(e, up);
  if (e.facts & e.kGatesByGelu) {
#pragma unroll
    for (int i = 0; i < N; ++i) gate[i] = activate(Activation::kGeluTanh, gate[i]);
  } else {
    call_with(gate, [&](const Vector<float, N>& v) { return activated(e.gate_activation, v); });
  }
#pragma unroll
  for (int i = 0; i < N; ++i) gate[i] = __fmul_rn(gate[i], up[i]);
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
// Where the position is known to be one of the table.
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
  round_columns(e, first);
  round_columns(e, second);
  const bool is_v = head >= e.heads + e.kv_heads;
  if (e.rope.table && !is_v) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float2 turned = rotated(first[i], second[i], angles.at[i]);
      first[i] = turned.x;
      second[i] = turned.y;
    }
  }
  const bool is_q = head < e.heads;
  const Matrix& m = is_v ? e.v : is_q ? e.out : e.k;
  const int own_head = is_v ? head - e.heads - e.kv_heads : is_q ? head : head - e.heads;
  const int64_t column = static_cast<int64_t>(own_head) * e.head_dim + j;
  store_columns(m, row, column, first);
  store_columns(m, row, column + e.head_dim / 2, second);
}

}  // namespace flashrt::cuda
