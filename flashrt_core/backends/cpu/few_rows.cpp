// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "backends/cpu/few_rows.hpp"

#include <algorithm>
#include <cstring>

namespace flashrt::cpu {
namespace {

// Work      a block of kB rows of b against kA rows of a: kA * kB sums stay in registers while both
// run along the depth.
//           All rows of a pass over a block of b before the next one is read, so b comes from
//           memory once. The depth is cut so that the rows of a stay in cache.
// Numerics  kLanes partial sums per element, added pairwise.
template <int kLanes>
struct VectorOf {
  typedef float type __attribute__((vector_size(kLanes * sizeof(float))));
};
template <int kLanes>
using Vector = typename VectorOf<kLanes>::type;

template <int kLanes>
[[gnu::always_inline]] inline void load_vector(const float* from, Vector<kLanes>& to) {
  std::memcpy(&to, from, sizeof to);
}

// The sum of all lanes, halves added to halves.
template <int kLanes>
[[gnu::always_inline]] inline float sum_lanes(const Vector<kLanes>& v) {
  if constexpr (kLanes == 4) {
    float lanes[4];
    std::memcpy(lanes, &v, sizeof lanes);
    return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
  } else {
    Vector<kLanes / 2> low, high;
    std::memcpy(&low, &v, sizeof low);
    std::memcpy(&high, reinterpret_cast<const char*>(&v) + sizeof low, sizeof high);
    low += high;
    return sum_lanes<kLanes / 2>(low);
  }
}

// A block of rows of a, depth in [begin, end): vectors of all rows side by side, so that reading
// them is sequential and rows whose distance is a power of two do not compete for the same cache
// lines.
template <int kLanes>
[[gnu::always_inline]] inline void pack_rows(const MatrixProduct& p, int64_t row, int64_t rows,
                                             int64_t begin, int64_t end, float* packed) {
  for (int64_t k = begin; k + kLanes <= end; k += kLanes) {
    for (int64_t i = 0; i < rows; ++i) {
      std::memcpy(packed, p.a + (row + i) * p.a_stride + k, kLanes * sizeof(float));
      packed += kLanes;
    }
  }
}

template <int kLanes, bool kPrefetch, int kA, int kB>
[[gnu::always_inline]] inline void dot_block(const MatrixProduct& p, const float* packed,
                                             int64_t row, int64_t column, int64_t begin,
                                             int64_t end, float* c, int64_t c_stride) {
  const float* b = p.b + column * p.b_stride;
  Vector<kLanes> sums[kA][kB] = {};
  int64_t k = begin;
  for (; k + kLanes <= end; k += kLanes) {
    Vector<kLanes> b_part[kB];
    for (int j = 0; j < kB; ++j) {
      load_vector<kLanes>(b + j * p.b_stride + k, b_part[j]);
      if constexpr (kPrefetch)
        __builtin_prefetch(b + (kB + j) * p.b_stride + k);  // of the next block
    }
    for (int i = 0; i < kA; ++i) {
      Vector<kLanes> a_part;
      load_vector<kLanes>(packed, a_part);
      packed += kLanes;
      for (int j = 0; j < kB; ++j) sums[i][j] += a_part * b_part[j];
    }
  }
  for (int i = 0; i < kA; ++i) {
    const float* a = p.a + (row + i) * p.a_stride;
    float* out = c + (row + i) * c_stride + column;
    for (int j = 0; j < kB; ++j) {
      float sum = sum_lanes<kLanes>(sums[i][j]);
      for (int64_t rest = k; rest < end; ++rest) sum += a[rest] * b[j * p.b_stride + rest];
      out[j] = begin == 0 ? sum : out[j] + sum;
    }
  }
}

template <int kLanes, bool kPrefetch, int kA, int kB, class... Args>
[[gnu::always_inline]] inline void dot_block_of(int64_t rows, const Args&... args) {
  if constexpr (kA == 1) {
    dot_block<kLanes, kPrefetch, 1, kB>(args...);
  } else if (rows == kA) {
    dot_block<kLanes, kPrefetch, kA, kB>(args...);
  } else {
    dot_block_of<kLanes, kPrefetch, kA - 1, kB>(rows, args...);
  }
}

template <int kLanes, int kA, int kB>
[[gnu::always_inline]] inline void multiply_blocks(const MatrixProduct& p, float* c,
                                                   int64_t c_stride, float* scratch) {
  // Blocks of equal size: ten rows are five and five, not six and four.
  const int64_t blocks = (p.rows + kA - 1) / kA, block = (p.rows + blocks - 1) / blocks;
  for (int64_t begin = 0; begin < p.depth; begin += kFewRowsDepth) {
    const int64_t end = std::min(begin + kFewRowsDepth, p.depth);
    const auto packed = [&](int64_t row) { return scratch + row * kFewRowsDepth; };
    const auto rows_of = [&](int64_t row) { return std::min(block, p.rows - row); };
    for (int64_t row = 0; row < p.rows; row += block) {
      pack_rows<kLanes>(p, row, rows_of(row), begin, end, packed(row));
    }
    int64_t column = 0;
    for (; column + kB <= p.columns; column += kB) {
      for (int64_t row = 0; row < p.rows; row += block) {
        if (row == 0 && column + 2 * kB <= p.columns) {
          dot_block_of<kLanes, true, kA, kB>(rows_of(row), p, packed(row), row, column, begin, end,
                                             c, c_stride);
        } else {
          dot_block_of<kLanes, false, kA, kB>(rows_of(row), p, packed(row), row, column, begin, end,
                                              c, c_stride);
        }
      }
    }
    for (; column < p.columns; ++column) {
      for (int64_t row = 0; row < p.rows; row += block) {
        dot_block_of<kLanes, false, kA, 1>(rows_of(row), p, packed(row), row, column, begin, end, c,
                                           c_stride);
      }
    }
  }
}

#if defined(__x86_64__)
// 32 registers of 16 floats, and 16 of 8.
[[gnu::target("avx512f,avx512vl,fma")]] void multiply_avx512(const MatrixProduct& p, float* c,
                                                             int64_t stride, float* scratch) {
  multiply_blocks<16, 6, 4>(p, c, stride, scratch);
}
[[gnu::target("avx2,fma")]] void multiply_avx2(const MatrixProduct& p, float* c, int64_t stride,
                                               float* scratch) {
  multiply_blocks<8, 3, 4>(p, c, stride, scratch);
}
void multiply_sse(const MatrixProduct& p, float* c, int64_t stride, float* scratch) {
  multiply_blocks<4, 3, 4>(p, c, stride, scratch);
}

std::vector<FewRowsVersion> supported_versions() {
  std::vector<FewRowsVersion> versions;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")) {
    versions.push_back({"avx512", multiply_avx512});
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    versions.push_back({"avx2", multiply_avx2});
  }
  versions.push_back({"sse", multiply_sse});
  return versions;
}
#else
// 32 registers of 4 floats.
void multiply_baseline(const MatrixProduct& p, float* c, int64_t stride, float* scratch) {
  multiply_blocks<4, 6, 4>(p, c, stride, scratch);
}

std::vector<FewRowsVersion> supported_versions() { return {{"baseline", multiply_baseline}}; }
#endif

}  // namespace

const std::vector<FewRowsVersion>& few_rows_versions() {
  static const std::vector<FewRowsVersion> versions = supported_versions();
  return versions;
}

void multiply_few_rows(const MatrixProduct& product, float* c, int64_t c_stride, float* scratch) {
  static const FewRowsVersion best = few_rows_versions().front();
  best.multiply(product, c, c_stride, scratch);
}

}  // namespace flashrt::cpu
