// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// resize: images[n] = the frame of camera n, turned, brought to RGB, scaled and placed between
// bars.
//
// Layout    base/frame_descriptor.hpp; images [N, S, S, 3].
// Work      one block per tile of 4 rows and 32 columns of an image. The source pixels it needs are
//           staged in shared memory in parts. A thread owns a column and every eighth source row:
//           it scales that row at its column and adds the result to the four rows of the tile; the
//           sums of the eight threads of a column meet at the end.
// Traffic   each source byte 1.25 times (1 + 1 / tile rows), words; images are written once.
// Numerics  u8: integers, so the order of sums does not matter; the bytes of Pillow. f32: at most
//           two rows meet in a sum, products and sums are not fused; the bits of the CPU backend.
// Reference backends/cpu/resize.cpp

#include "base/frame_descriptor.hpp"
#include "kernels/common.cuh"
#include "kernels/resize.cuh"

namespace flashrt::cuda {
namespace {

constexpr int kChannels = 3;
constexpr int kTileRows = 4, kTileColumns = kWarp;
constexpr int kGroups = 8;  // warps; each takes every eighth source row
constexpr int kThreads = kGroups * kTileColumns;
constexpr int kWord = sizeof(uint32_t);
constexpr int kStageBytes = 16 * 1024;
static_assert(kStageBytes >= kMaxFrameSide * kWord, "a row of the largest pixels fits");
constexpr int kTileElements = kTileRows * kTileColumns * kChannels;

struct Bytes {
  using Sum = int32_t;
  using Pixel = uint8_t;
  static constexpr int kBlocks = 5;  // of a multiprocessor at once, without spilling registers
  static constexpr Sum kStart = 1 << (kWeightBits - 1);  // halves are rounded up
  static __device__ Sum weight(int32_t word) { return word; }
  static __device__ Sum from_byte(uint8_t byte) { return byte; }
  static __device__ Sum add_product(Sum sum, Sum weight, Sum x) { return sum + weight * x; }
  static __device__ Sum add(Sum a, Sum b) { return a + b; }
  static __device__ Sum keep(Sum sum) { return min(max(sum >> kWeightBits, 0), 255); }
  static __device__ Pixel finish(Sum sum) { return static_cast<Pixel>(keep(sum)); }
  static __device__ Pixel bars(float) { return 0; }
};

struct Floats {
  using Sum = float;
  using Pixel = float;
  static constexpr int kBlocks = 3;
  static constexpr Sum kStart = 0;
  static __device__ Sum weight(int32_t word) { return __int_as_float(word); }
  static __device__ Sum from_byte(uint8_t byte) {
    return __fdiv_rn(static_cast<float>(byte), 255.0f);
  }
  static __device__ Sum add_product(Sum sum, Sum weight, Sum x) {
    return __fadd_rn(sum, __fmul_rn(weight, x));
  }
  static __device__ Sum add(Sum a, Sum b) { return __fadd_rn(a, b); }
  static __device__ Sum keep(Sum sum) { return sum; }
  static __device__ Pixel finish(Sum sum) {
    return __fadd_rn(__fmul_rn(fminf(fmaxf(sum, 0.0f), 1.0f), 2.0f), -1.0f);
  }
  static __device__ Pixel bars(float value) { return value; }
};

// [begin, end)
struct Range {
  int begin, end;
  __device__ int count() const { return end - begin; }
};

// Four bytes from any address in a frame. Words past its end are not touched.
__device__ __forceinline__ uint32_t load_unaligned(const uint32_t* frame, int last_word, int at) {
  const int word = at / kWord;
  return __funnelshift_r(frame[word], frame[min(word + 1, last_word)], at % kWord * 8);
}

// A part of a frame in shared memory: its pixel (row, column) is at
// data + row * row_stride + column * column_stride.
struct Pixels {
  const uint8_t* data;
  int row_stride, column_stride;
};

// How a part of a frame lies in the stage: the lines of its memory, one after the other.
struct Stage {
  bool rows_are_lines;  // else columns are: the picture is turned by a quarter
  int pitch;            // bytes from line to line
  int rows;             // that fit at once, 1 or more
};

__device__ Stage plan_stage(const FrameGeometry& g, int columns) {
  const int down = abs(g.row_stride), right = abs(g.column_stride);
  if (down >= right) {
    const int pitch = ((columns - 1) * right + g.pixel_bytes + kWord - 1) / kWord * kWord;
    return {.rows_are_lines = true, .pitch = pitch, .rows = kStageBytes / pitch};
  }
  const int pitch = kStageBytes / columns / kWord * kWord;
  return {.rows_are_lines = false, .pitch = pitch, .rows = (pitch - g.pixel_bytes) / down + 1};
}

// Copies these rows and columns; the result addresses them from their first row and column.
__device__ Pixels fill_stage(const FrameGeometry& g, const Stage& plan, const uint32_t* frame,
                             int last_word, Range rows, Range columns, uint32_t* stage) {
  const int last_row = rows.end - 1, last_column = columns.end - 1;
  const int low = g.origin + min(rows.begin * g.row_stride, last_row * g.row_stride) +
                  min(columns.begin * g.column_stride, last_column * g.column_stride);
  const int down = abs(g.row_stride), right = abs(g.column_stride);
  const int lines = plan.rows_are_lines ? rows.count() : columns.count();
  const int line_stride = plan.rows_are_lines ? down : right;
  const int line_bytes = plan.rows_are_lines ? (columns.count() - 1) * right + g.pixel_bytes
                                             : (rows.count() - 1) * down + g.pixel_bytes;
  const int words = (line_bytes + kWord - 1) / kWord;
  for (int i = threadIdx.x; i < lines * words; i += kThreads) {
    const int line = i / words, word = i % words;
    stage[line * (plan.pitch / kWord) + word] =
        load_unaligned(frame, last_word, low + line * line_stride + word * kWord);
  }
  const auto pitch_like = [&](int stride) { return stride < 0 ? -plan.pitch : plan.pitch; };
  Pixels staged{
      .data = reinterpret_cast<const uint8_t*>(stage),
      .row_stride = plan.rows_are_lines ? pitch_like(g.row_stride) : g.row_stride,
      .column_stride = plan.rows_are_lines ? g.column_stride : pitch_like(g.column_stride)};
  // A negative stride starts at the far end.
  if (staged.row_stride < 0) staged.data -= (rows.count() - 1) * staged.row_stride;
  if (staged.column_stride < 0) staged.data -= (columns.count() - 1) * staged.column_stride;
  return staged;
}

// A thread's column of a tile: its taps, and the sums of its source rows.
template <class A>
struct Column {
  using Sum = typename A::Sum;
  const FrameGeometry& g;
  const int32_t* first_row;   // of the output rows of the frame
  const int32_t* vertical;    // weights
  const int32_t* horizontal;  // weights, of this column on
  Range out_rows;             // of the tile, in the scaled picture
  Sum sums[kTileRows][kChannels] = {};

  // Rows [rows.begin + group, rows.end) by eights; `pixels` begins at rows.begin and at the first
  // tap.
  __device__ __forceinline__ void add_rows(const Pixels& pixels, Range rows, int group) {
    for (int row = rows.begin + group; row < rows.end; row += kGroups) {
      const uint8_t* pixel = pixels.data + (row - rows.begin) * pixels.row_stride;
      Sum across[kChannels] = {A::kStart, A::kStart, A::kStart};
#pragma unroll 4
      for (int k = 0; k < g.horizontal_taps; ++k) {
        const Sum weight = A::weight(horizontal[k * g.width]);
#pragma unroll
        for (int c = 0; c < kChannels; ++c)
          across[c] = A::add_product(across[c], weight, A::from_byte(pixel[g.channel[c]]));
        pixel += pixels.column_stride;
      }
#pragma unroll
      for (int c = 0; c < kChannels; ++c) across[c] = A::keep(across[c]);
#pragma unroll
      for (int j = 0; j < kTileRows; ++j) {
        const int out = out_rows.begin + j;
        if (out >= out_rows.end) break;
        const int k = row - first_row[out];
        if (k < 0 || k >= g.vertical_taps) continue;
        const Sum weight = A::weight(vertical[k * g.height + out]);
#pragma unroll
        for (int c = 0; c < kChannels; ++c)
          sums[j][c] = A::add_product(sums[j][c], weight, across[c]);
      }
    }
  }
};

// The part of an axis of the tile that lies in the scaled picture.
__device__ Range inside(int tile_begin, int tile_size, int before, int size) {
  return {max(tile_begin - before, 0), min(tile_begin + tile_size - before, size)};
}

template <class A>
__global__ void __launch_bounds__(kThreads, A::kBlocks)
    resize_kernel(ResizeArgs args, FrameDescriptorLayout layout) {
  __shared__ uint32_t stage[kStageBytes / kWord];
  __shared__ typename A::Sum partial[kGroups][kTileElements];
  wait_for_previous();

  const int size = args.size, camera = blockIdx.z;
  const int tile_row = blockIdx.y * kTileRows, tile_column = blockIdx.x * kTileColumns;
  const int lane = threadIdx.x % kTileColumns, group = threadIdx.x / kTileColumns;
  const int32_t* words = args.descriptors + camera * layout.words;
  const FrameGeometry g = *reinterpret_cast<const FrameGeometry*>(words);

  const Range out_rows = inside(tile_row, kTileRows, g.top, g.rows > 0 ? g.height : 0);
  const Range out_columns = inside(tile_column, kTileColumns, g.left, g.width);
  const bool has_pixels = out_rows.count() > 0 && out_columns.count() > 0;
  if (has_pixels) {
    const int32_t* first_row = words + layout.first_row;
    Range rows{first_row[out_rows.begin], 0};
    for (int out = out_rows.begin; out < out_rows.end; ++out) {
      rows.begin = min(rows.begin, first_row[out]);
      rows.end = max(rows.end, first_row[out] + g.vertical_taps);
    }
    // Lanes beside the picture follow the nearest column; what they sum is not written.
    const int out = min(max(tile_column + lane - g.left, out_columns.begin), out_columns.end - 1);
    const int first = words[layout.first_column + out];
    const Range columns{__reduce_min_sync(kAllLanes, first),
                        __reduce_max_sync(kAllLanes, first) + g.horizontal_taps};

    Column<A> column{.g = g,
                     .first_row = first_row,
                     .vertical = words + layout.vertical_weights,
                     .horizontal = words + layout.horizontal_weights + out,
                     .out_rows = out_rows};
    const auto* frame = reinterpret_cast<const uint32_t*>(args.frames + camera * args.frame_bytes);
    const Stage plan = plan_stage(g, columns.count());
    const auto last_word = static_cast<int>(args.frame_bytes / kWord) - 1;
    for (int row = rows.begin; row < rows.end; row += plan.rows) {
      const Range part{row, min(row + plan.rows, rows.end)};
      Pixels pixels = fill_stage(g, plan, frame, last_word, part, columns, stage);
      pixels.data += (first - columns.begin) * pixels.column_stride;
      __syncthreads();  // the stage is written before any thread reads it
      column.add_rows(pixels, part, group);
      __syncthreads();  // all have read the stage before the next part overwrites it
    }
#pragma unroll
    for (int j = 0; j < kTileRows; ++j) {
#pragma unroll
      for (int c = 0; c < kChannels; ++c)
        partial[group][(j * kTileColumns + lane) * kChannels + c] = column.sums[j][c];
    }
  }
  __syncthreads();  // the sums of all groups are written before they are added up

  auto* image = static_cast<typename A::Pixel*>(args.images) +
                static_cast<int64_t>(camera) * size * size * kChannels;
  for (int i = threadIdx.x; i < kTileElements; i += kThreads) {
    const int pixel = i / kChannels, y = tile_row + pixel / kTileColumns,
              x = tile_column + pixel % kTileColumns;
    if (y >= size || x >= size) continue;
    const int row = y - g.top, x_inside = x - g.left;
    typename A::Pixel value = A::bars(g.bars);
    if (has_pixels && out_rows.begin <= row && row < out_rows.end &&
        out_columns.begin <= x_inside && x_inside < out_columns.end) {
      const int from =
          ((row - out_rows.begin) * kTileColumns + x - tile_column) * kChannels + i % kChannels;
      typename A::Sum sum = A::kStart;
#pragma unroll
      for (int n = 0; n < kGroups; ++n) sum = A::add(sum, partial[n][from]);
      value = A::finish(sum);
    }
    image[(static_cast<int64_t>(y) * size + x) * kChannels + i % kChannels] = value;
  }
}

template <class A>
void launch_resize(const ResizeArgs& args, const Launch& launch) {
  const auto tiles = [&](int tile) { return static_cast<unsigned>((args.size + tile - 1) / tile); };
  launch_kernel("resize", resize_kernel<A>,
                dim3(tiles(kTileColumns), tiles(kTileRows), static_cast<unsigned>(args.cameras)),
                dim3(kThreads), 0, launch, 1, args, frame_descriptor_layout(args.size));
}

}  // namespace

const char* resize(const ResizeArgs& args, const Launch& launch) {
  FLASHRT_CHECK(args.frames && args.descriptors && args.images, "resize: an operand is absent");
  FLASHRT_CHECK(args.cameras > 0 && args.size > 0, "resize: ", args.cameras, " images of ",
                args.size, " pixels");
  FLASHRT_CHECK(args.frame_bytes % kWord == 0 && args.frame_bytes > 0 &&
                    reinterpret_cast<uintptr_t>(args.frames) % kWord == 0,
                "resize: frames have room for ", args.frame_bytes,
                " bytes each, expected a multiple of ", kWord, " at an aligned address");
  FLASHRT_CHECK(args.type == DType::kU8 || args.type == DType::kF32, "resize: images are ",
                args.type, ", expected u8 or f32");
  if (args.type == DType::kU8) {
    launch_resize<Bytes>(args, launch);
  } else {
    launch_resize<Floats>(args, launch);
  }
  return "resize";
}

}  // namespace flashrt::cuda
