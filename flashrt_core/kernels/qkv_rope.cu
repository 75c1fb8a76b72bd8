// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// qkv_rope: splits qkv into heads, normalises and rotates q and k, stores k and v in the cache.
//
// Layout    qkv: [T, (H + 2K)*E]; q: [T, H*E]; k, v: [T, K*E], rows of the cache.
// Work      one block per row, eight pairs of columns per thread; neighbouring lanes add up the
//           squares of a head. Other shapes and types: one warp per row and head.
// Traffic   one read and one write of [T, (H + 2K)*E]; a row of the table serves all its heads.
// Numerics  float32, rounded once; the formula is shared with the linear that does this itself.
// Reference backends/cpu/qkv_rope.cpp
#include <algorithm>
#include <bit>

#include "kernels/common.cuh"
#include "kernels/qkv_rope.cuh"
#include "kernels/rotation.cuh"

namespace flashrt::cuda {
namespace {

// ---- vectors

constexpr int kPairs = 8;  // of a thread: columns j to j + 7 of a head, and j + E/2 onwards
constexpr int kMaxThreads = 1024;
constexpr int kMaxNormThreads = 512;  // weights of the norm take registers

template <class T>
struct VectorArgs {
  const T* qkv;
  T* q;
  T* k;
  T* v;
  int64_t qkv_stride, q_stride, k_stride, v_stride;
  int heads, kv_heads, head_dim;
  RopeTableView rope;
  int position_start;
  const int32_t* position;
  bool position_is_settled;
  const float* q_norm;
  const float* k_norm;
  float eps, inverse_width;  // of the mean square of a head
  const int32_t* length;
  int32_t base, rows;
};

__device__ __forceinline__ void load_angles(const RopeTableView& rope, int head_dim, int position,
                                            int j, float2 (&angles)[kPairs]) {
  if (0 <= position && position < rope.positions) {
    const float* row = rope.table + static_cast<int64_t>(position) * head_dim + j;
    float cosines[kPairs], sines[kPairs];
    load_floats(row, cosines);
    load_floats(row + head_dim / 2, sines);
#pragma unroll
    for (int i = 0; i < kPairs; ++i) angles[i] = {cosines[i], sines[i]};
  } else {
#pragma unroll
    for (int i = 0; i < kPairs; ++i)
      angles[i] = computed_rotation(rope.inverse_frequencies[j + i], position);
  }
}

template <class T, bool kIsNormalised>
__global__ void __launch_bounds__(kIsNormalised ? kMaxNormThreads : kMaxThreads)
    qkv_rope_vector_kernel(const __grid_constant__ VectorArgs<T> args) {
  const int threads_per_head = args.head_dim / (2 * kPairs);
  const int head = threadIdx.x / threads_per_head;
  const int j = threadIdx.x % threads_per_head * kPairs;
  const int row = blockIdx.x;
  const int k_head = head - args.heads, v_head = k_head - args.kv_heads;
  const bool is_rotated = args.rope.table && v_head < 0;
  T* out = v_head >= 0   ? args.v + row * args.v_stride + v_head * args.head_dim
           : k_head >= 0 ? args.k + row * args.k_stride + k_head * args.head_dim
                         : args.q + row * args.q_stride + head * args.head_dim;
  float2 angles[kPairs];
  const int first_position = args.position_start + row;
  float first_weight[kPairs], second_weight[kPairs];
  const float* norm = v_head >= 0 ? nullptr : k_head >= 0 ? args.k_norm : args.q_norm;
  if (kIsNormalised && norm) {
    load_floats(norm + j, first_weight);
    load_floats(norm + j + args.head_dim / 2, second_weight);
  }
  // The table is a constant; where a row stands may not be.
  const auto find_angles = [&] {
    const int position = first_position + (args.position ? *args.position : 0);
    load_angles(args.rope, args.head_dim, position, j, angles);
  };
  if (is_rotated && args.position_is_settled) find_angles();
  wait_for_previous();

  const int valid = args.length ? args.base + *args.length : args.rows;
  const T* in = args.qkv + row * args.qkv_stride + head * args.head_dim + j;
  const auto firsts = load_vector<T, kPairs>(in);
  const auto seconds = load_vector<T, kPairs>(in + args.head_dim / 2);
  if (is_rotated && !args.position_is_settled) find_angles();
  float first[kPairs], second[kPairs];
  to_floats(firsts, first);
  to_floats(seconds, second);
  if constexpr (kIsNormalised) {
    float square = 0;
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      square = fmaf(first[i], first[i], square);
      square = fmaf(second[i], second[i], square);
    }
    for (int lanes = threads_per_head / 2; lanes > 0; lanes /= 2)
      square += __shfl_xor_sync(kAllLanes, square, lanes);
    const float factor = rsqrtf(square * args.inverse_width + args.eps);
    if (norm) {
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        first[i] *= factor * first_weight[i];
        second[i] *= factor * second_weight[i];
      }
    }
  }
  if (is_rotated) {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const float2 turned = rotated(first[i], second[i], angles[i]);
      first[i] = turned.x;
      second[i] = turned.y;
    }
  }
  if (row >= valid) return;
  store_floats(out + j, first, Divisor{});
  store_floats(out + j + args.head_dim / 2, second, Divisor{});
}

// The lanes of a head lie in one warp, and every warp is whole.
bool fits_norms(const QkvRopeArgs& a, int threads) {
  const auto fits = [](const float* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; };
  const auto lanes = static_cast<unsigned>(a.head_dim / (2 * kPairs));
  return std::has_single_bit(lanes) && lanes <= kWarp && threads % kWarp == 0 &&
         threads <= kMaxNormThreads && fits(a.q_norm) && fits(a.k_norm);
}

bool fits_vectors(const QkvRopeArgs& a) {
  const DType type = a.qkv.type;
  const auto fits = [type](const Matrix& m) { return !m || (m.type == type && is_aligned(m, 16)); };
  const int threads = (a.heads + 2 * a.kv_heads) * a.head_dim / (2 * kPairs);
  return (type == DType::kF32 || type == DType::kBF16) && a.head_dim % (2 * kPairs) == 0 &&
         threads <= kMaxThreads && ((!a.q_norm && !a.k_norm) || fits_norms(a, threads)) &&
         fits(a.qkv) && fits(a.q) && fits(a.k) && fits(a.v) &&
         reinterpret_cast<uintptr_t>(a.rope.table) % 16 == 0;
}

template <class T>
const char* launch_vectors(const QkvRopeArgs& a, const Launch& launch) {
  const VectorArgs<T> args{.qkv = static_cast<const T*>(a.qkv.data),
                           .q = static_cast<T*>(a.q.data),
                           .k = static_cast<T*>(a.k.data),
                           .v = static_cast<T*>(a.v.data),
                           .qkv_stride = a.qkv.stride,
                           .q_stride = a.q.stride,
                           .k_stride = a.k.stride,
                           .v_stride = a.v.stride,
                           .heads = a.heads,
                           .kv_heads = a.kv_heads,
                           .head_dim = a.head_dim,
                           .rope = a.rope,
                           .position_start = a.position_start,
                           .position = a.position,
                           .position_is_settled = !a.position || a.position_is_settled,
                           .q_norm = a.q_norm,
                           .k_norm = a.k_norm,
                           .eps = a.eps,
                           .inverse_width = 1.0f / static_cast<float>(a.head_dim),
                           .length = a.qkv.length,
                           .base = a.qkv.base,
                           .rows = static_cast<int32_t>(a.qkv.rows)};
  const int threads = (a.heads + 2 * a.kv_heads) * a.head_dim / (2 * kPairs);
  const auto kernel =
      a.q_norm || a.k_norm ? qkv_rope_vector_kernel<T, true> : qkv_rope_vector_kernel<T, false>;
  launch_kernel("qkv_rope", kernel, dim3(static_cast<unsigned>(a.qkv.rows)), dim3(threads), 0,
                launch, 1, args);
  return "qkv_rope";
}

// ---- any shape and type

constexpr int kWarps = 4;  // of a block

__global__ void __launch_bounds__(kWarps* kWarp)
    qkv_rope_generic_kernel(const __grid_constant__ QkvRopeArgs args) {
  wait_for_previous();
  const int all_heads = args.heads + 2 * args.kv_heads, lane = threadIdx.x % kWarp;
  const int64_t warp = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
  const int64_t row = warp / all_heads;
  if (row >= valid_rows(args.qkv)) return;
  const int head = static_cast<int>(warp % all_heads);
  const int k_head = head - args.heads, v_head = k_head - args.kv_heads;
  const Matrix& out = v_head >= 0 ? args.v : k_head >= 0 ? args.k : args.q;
  const int64_t to = int64_t{v_head >= 0 ? v_head : k_head >= 0 ? k_head : head} * args.head_dim;
  const int64_t from = int64_t{head} * args.head_dim;
  const float* norm = v_head >= 0 ? nullptr : k_head >= 0 ? args.k_norm : args.q_norm;

  float factor = 1;
  if (norm) {
    float square = 0;
    for (int j = lane; j < args.head_dim; j += kWarp) {
      const float x = load(args.qkv, row, from + j);
      square = fmaf(x, x, square);
    }
    factor = rsqrtf(warp_sum(square) / static_cast<float>(args.head_dim) + args.eps);
  }
  const auto normalised = [&](int j) {
    const float x = load(args.qkv, row, from + j);
    return norm ? x * factor * norm[j] : x;
  };
  if (args.rope.table && v_head < 0) {
    const int position =
        args.position_start + (args.position ? *args.position : 0) + static_cast<int>(row);
    const int half = args.head_dim / 2;
    for (int j = lane; j < half; j += kWarp) {
      const float2 angle = rotation_of(args.rope, args.head_dim, position, j);
      const float2 turned = rotated(normalised(j), normalised(j + half), angle);
      store(out, row, to + j, turned.x);
      store(out, row, to + j + half, turned.y);
    }
  } else {
    for (int j = lane; j < args.head_dim; j += kWarp) store(out, row, to + j, normalised(j));
  }
}

const char* launch_generic(const QkvRopeArgs& a, const Launch& launch) {
  constexpr const char* kName = "qkv_rope_generic";
  const int64_t warps = a.qkv.rows * (a.heads + 2 * a.kv_heads);
  launch_kernel(kName, qkv_rope_generic_kernel,
                dim3(static_cast<unsigned>((warps + kWarps - 1) / kWarps)), dim3(kWarps * kWarp), 0,
                launch, 1, a);
  return kName;
}

void check_operands(const QkvRopeArgs& a) {
  constexpr const char* kName = "qkv_rope";
  FLASHRT_CHECK(a.heads >= 0 && a.kv_heads > 0 && a.head_dim > 0, kName, ": ", a.heads, " heads, ",
                a.kv_heads, " kv heads of ", a.head_dim,
                " columns, expected kv heads that are not empty");
  const int64_t rows = a.qkv.rows, head_dim = a.head_dim;
  check_operand(kName, "qkv", a.qkv, rows, (a.heads + 2 * a.kv_heads) * head_dim);
  if (a.heads > 0) check_operand(kName, "q", a.q, rows, a.heads * head_dim);
  check_operand(kName, "k", a.k, rows, a.kv_heads * head_dim);
  check_operand(kName, "v", a.v, rows, a.kv_heads * head_dim);
  FLASHRT_CHECK(!a.rope || (a.head_dim % 2 == 0 && a.rope.inverse_frequencies), kName,
                ": a rotation needs an even number of columns and its frequencies; heads have ",
                a.head_dim, " columns");
}

}  // namespace

const char* qkv_rope(const QkvRopeArgs& args, const Launch& launch) {
  check_operands(args);
  if (!fits_vectors(args)) return launch_generic(args, launch);
  return args.qkv.type == DType::kF32 ? launch_vectors<float>(args, launch)
                                      : launch_vectors<bf16>(args, launch);
}

}  // namespace flashrt::cuda
