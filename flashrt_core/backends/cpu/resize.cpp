// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// resize: images[n] = the frame of camera n, turned, brought to RGB, scaled and placed between
// bars. Compiled without contraction of floating-point expressions: every backend has the same
// bits.

#include <algorithm>
#include <bit>
#include <cstring>

#include "backends/cpu/kernel.hpp"
#include "backends/cpu/versions.hpp"
#include "base/frame_descriptor.hpp"

namespace flashrt::cpu {
namespace {

constexpr int kChannels = 3;
constexpr int kLanes = 4;  // of a pixel while it is summed: three colours, one that is not used
constexpr int kRowsAtOnce = 8;  // of one thread

// The two arithmetics: what is summed, what is kept between the axes, what is written.
struct Bytes {
  using Sum = int32_t;
  using Kept = uint8_t;
  using Pixel = uint8_t;
  static constexpr Sum kStart = 1 << (kWeightBits - 1);  // halves are rounded up
  static Sum from_byte(uint8_t byte) { return byte; }
  static Kept keep(Sum sum) {
    return static_cast<Kept>(std::clamp(sum >> kWeightBits, Sum{0}, Sum{255}));
  }
  static Pixel finish(Sum sum) { return keep(sum); }
  static Pixel bars(float) { return 0; }
};

struct Floats {
  using Sum = float;
  using Kept = float;
  using Pixel = float;
  static constexpr Sum kStart = 0;
  static Sum from_byte(uint8_t byte) { return static_cast<float>(byte) / 255.0f; }
  static Kept keep(Sum sum) { return sum; }
  static Pixel finish(Sum sum) { return std::clamp(sum, 0.0f, 1.0f) * 2.0f - 1.0f; }
  static Pixel bars(float value) { return value; }
};

// One camera's frame and its descriptor.
struct Picture {
  FrameGeometry geometry;
  const uint8_t* memory;
  const int32_t *first_row, *first_column;
  const int32_t *vertical, *horizontal;  // weights
};

// ---- the inner loops, each in both arithmetics

using IntLanes = int32_t __attribute__((vector_size(16), aligned(4)));
using FloatLanes = float __attribute__((vector_size(16), aligned(4)));

// out[i] = start + sum of weight[k * outputs + i] * line[first[i] + k], four lanes each.
template <class Lanes, class Sum>
[[gnu::always_inline]] inline void weigh_pixels(const Sum* line, const int32_t* first,
                                                const int32_t* weights, int outputs, int taps,
                                                Sum start, Sum* out) {
  for (int i = 0; i < outputs; ++i) {
    Lanes sum = Lanes{} + start;
    for (int k = 0; k < taps; ++k) {
      const auto weight = std::bit_cast<Sum>(weights[int64_t{k} * outputs + i]);
      sum += *reinterpret_cast<const Lanes*>(line + (first[i] + k) * kLanes) * weight;
    }
    *reinterpret_cast<Lanes*>(out + i * kLanes) = sum;
  }
}
FLASHRT_VERSIONS void weigh(const int32_t* line, const int32_t* first, const int32_t* weights,
                            int outputs, int taps, int32_t start, int32_t* out) {
  weigh_pixels<IntLanes>(line, first, weights, outputs, taps, start, out);
}
FLASHRT_VERSIONS void weigh(const float* line, const int32_t* first, const int32_t* weights,
                            int outputs, int taps, float start, float* out) {
  weigh_pixels<FloatLanes>(line, first, weights, outputs, taps, start, out);
}

// sums[i] += weight * row[i]
FLASHRT_VERSIONS void accumulate(const uint8_t* row, int32_t weight, int32_t* sums, int64_t n) {
  for (int64_t i = 0; i < n; ++i) sums[i] += weight * row[i];
}
FLASHRT_VERSIONS void accumulate(const float* row, float weight, float* sums, int64_t n) {
  for (int64_t i = 0; i < n; ++i) sums[i] += weight * row[i];
}

// ---- the two axes

template <class A>
struct Scratch {
  typename A::Kept* kept;  // [rows, size, 3]: the picture after its horizontal axis
  typename A::Sum* lines;  // per thread: a source row and an output row, four lanes each
};

constexpr int64_t line_elements(int64_t size) { return kLanes * (kMaxFrameSide + size); }

template <class A>
Scratch<A> carve(Carver& carver, const Resize& op, const Plan& plan, int threads) {
  const int64_t size = plan[op.images].shape[1];
  const int64_t rows = std::min<int64_t>(kMaxFrameSide, plan[op.frames].shape[1]);
  const auto elements = [&](int64_t n, size_t bytes) {
    return carver.floats((n * bytes + sizeof(float) - 1) / sizeof(float));
  };
  return {.kept = reinterpret_cast<typename A::Kept*>(
              elements(rows * size * kChannels, sizeof(typename A::Kept))),
          .lines = reinterpret_cast<typename A::Sum*>(
              elements(threads * line_elements(size), sizeof(typename A::Sum)))};
}

template <class A>
void scale_row(const Picture& picture, int64_t row, typename A::Sum* line, typename A::Kept* kept) {
  const FrameGeometry& g = picture.geometry;
  const uint8_t* pixel = picture.memory + g.origin + row * g.row_stride;
  for (int32_t column = 0; column < g.columns; ++column, pixel += g.column_stride) {
    for (int c = 0; c < kChannels; ++c)
      line[column * kLanes + c] = A::from_byte(pixel[g.channel[c]]);
    line[column * kLanes + kChannels] = 0;
  }
  typename A::Sum* sums = line + int64_t{g.columns} * kLanes;
  weigh(line, picture.first_column, picture.horizontal, g.width, g.horizontal_taps, A::kStart,
        sums);
  for (int32_t i = 0; i < g.width; ++i) {
    for (int c = 0; c < kChannels; ++c) kept[i * kChannels + c] = A::keep(sums[i * kLanes + c]);
  }
}

// One row of the image, bars included.
template <class A>
void write_row(const Picture& picture, int64_t row, int64_t size, const typename A::Kept* kept,
               typename A::Sum* sums, typename A::Pixel* image) {
  const FrameGeometry& g = picture.geometry;
  const int64_t i = row - g.top, n = int64_t{g.width} * kChannels;
  std::fill_n(image, size * kChannels, A::bars(g.bars));
  if (i < 0 || i >= g.height) return;
  std::fill_n(sums, n, A::kStart);
  for (int32_t k = 0; k < g.vertical_taps; ++k) {
    const auto weight = std::bit_cast<typename A::Sum>(picture.vertical[int64_t{k} * g.height + i]);
    accumulate(kept + (picture.first_row[i] + k) * n, weight, sums, n);
  }
  std::transform(sums, sums + n, image + int64_t{g.left} * kChannels, A::finish);
}

// The descriptor is an input; numbers that lead out of the memory are refused.
void check(const Picture& picture, std::string_view call, int64_t camera, int64_t bytes,
           int64_t size) {
  const FrameGeometry& g = picture.geometry;
  const auto axis = [&](int64_t inputs, int64_t outputs, int64_t before, int64_t taps,
                        const int32_t* first) {
    if (outputs < 1 || before < 0 || before + outputs > size) return false;
    if (taps < 1 || taps * outputs > frame_taps(size)) return false;
    return std::all_of(first, first + outputs,
                       [&](int32_t f) { return 0 <= f && f + taps <= inputs; });
  };
  const int64_t down = int64_t{g.rows - 1} * g.row_stride;
  const int64_t right = int64_t{g.columns - 1} * g.column_stride;
  const int64_t first = g.origin + std::min<int64_t>(down, 0) + std::min<int64_t>(right, 0);
  const int64_t last = g.origin + std::max<int64_t>(down, 0) + std::max<int64_t>(right, 0);
  const auto [low, high] = std::minmax_element(g.channel, g.channel + kChannels);
  FLASHRT_CHECK(g.rows <= kMaxFrameSide && g.columns >= 1 && g.columns <= kMaxFrameSide &&
                    0 <= *low && *high < g.pixel_bytes && 0 <= first &&
                    last + g.pixel_bytes <= bytes &&
                    axis(g.rows, g.height, g.top, g.vertical_taps, picture.first_row) &&
                    axis(g.columns, g.width, g.left, g.horizontal_taps, picture.first_column),
                "resize ", call, ": the descriptor of camera ", camera, " (", g.rows, " rows, ",
                g.columns, " columns, bytes ", first, " to ", last + g.pixel_bytes, " of ", bytes,
                ") does not describe a frame");
}

template <class A>
Kernel bind_arithmetic(const Resize& op, const Binding& b) {
  Carver carver(b.workspace);
  const Scratch<A> scratch = carve<A>(carver, op, b.plan, b.pool.threads());
  const Operand frames = b.operand(op.frames), descriptors = b.operand(op.descriptors),
                images = b.operand(op.images);
  const int64_t size = b.plan[op.images].shape[1];
  ThreadPool& pool = b.pool;
  return [=, &pool, call = b.call.name](int) {
    const FrameDescriptorLayout layout = frame_descriptor_layout(size);
    for (int64_t camera = 0; camera < frames.capacity; ++camera) {
      const auto* words =
          reinterpret_cast<const int32_t*>(descriptors.data) + camera * descriptors.stride;
      Picture picture{
          .geometry = {},
          .memory = reinterpret_cast<const uint8_t*>(frames.data) + camera * frames.stride,
          .first_row = words + layout.first_row,
          .first_column = words + layout.first_column,
          .vertical = words + layout.vertical_weights,
          .horizontal = words + layout.horizontal_weights};
      FrameGeometry& g = picture.geometry;
      std::memcpy(&g, words, sizeof g);
      if (g.rows == 0) {
        g.height = 0;
      } else {
        check(picture, call, camera, frames.width, size);
      }
      const int64_t kept_width = int64_t{g.width} * kChannels;
      pool.parallel_for(g.rows, kRowsAtOnce, [&](int64_t begin, int64_t end, int worker) {
        for (int64_t row = begin; row < end; ++row)
          scale_row<A>(picture, row, scratch.lines + worker * line_elements(size),
                       scratch.kept + row * kept_width);
      });
      auto* image = reinterpret_cast<typename A::Pixel*>(images.data) + camera * images.stride;
      pool.parallel_for(size, kRowsAtOnce, [&](int64_t begin, int64_t end, int worker) {
        for (int64_t row = begin; row < end; ++row)
          write_row<A>(picture, row, size, scratch.kept,
                       scratch.lines + worker * line_elements(size),
                       image + row * size * kChannels);
      });
    }
  };
}

bool is_bytes(const Resize& op, const Plan& plan) { return plan[op.images].type == DType::kU8; }

}  // namespace

size_t workspace_bytes(const Resize& op, const Plan& plan, int threads) {
  Carver carver;
  if (is_bytes(op, plan)) {
    carve<Bytes>(carver, op, plan, threads);
  } else {
    carve<Floats>(carver, op, plan, threads);
  }
  return carver.bytes();
}

Kernel bind(const Resize& op, const Binding& b) {
  return is_bytes(op, b.plan) ? bind_arithmetic<Bytes>(op, b) : bind_arithmetic<Floats>(op, b);
}

}  // namespace flashrt::cpu
