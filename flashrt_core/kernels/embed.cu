// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// What enters a model: patches of images, rows of the token table, features of the time.
//
// Layout    images: [N, H, W, 3]; patches: [N*T, >= 3*patch*patch] as (channel, dy, dx), over
//           squares of group x group patches. tokens: [T], table: [vocabulary, D]. times: [S].
// Work      patches: four columns per thread, or one where a row does not divide. token_embed: one
//           block per row. time_embed: one thread per frequency.
// Traffic   one read of the images or of the rows that occur, one write of y.
// Numerics  pixels in float32 as on the CPU; tokens are copied; times in double, rounded once.
// Reference backends/cpu/patch_embed.cpp, token_embed.cpp, time_embed.cpp
#include <algorithm>

#include "kernels/common.cuh"
#include "kernels/embed.cuh"

namespace flashrt::cuda {
namespace {

constexpr int kThreads = 256;

// ---- patches

constexpr int kChannels = 3;

// The bits of byte / 255 * 2 - 1: of every byte, the quotient has those of the division.
__device__ __forceinline__ float pixel(uint8_t byte) {
  return fmaf(quotient(byte, {255.0f, 1.0f / 255.0f}), 2.0f, -1.0f);
}
__device__ __forceinline__ float pixel(float value) { return value; }

template <class Pixel, class Y>
struct PatchArgs {
  const Pixel* images;
  Y* y;
  int image_height, image_width, patch, group, width, rows;
  int64_t stride;
  Divisor y_scale;
};

template <class Y>
__device__ __forceinline__ void store_columns(Y* y, const float (&x)[1], const Divisor& d) {
  *y = from_float<Y>(std::is_same_v<Y, e4m3> ? quotient(x[0], d) : x[0]);
}
template <class Y>
__device__ __forceinline__ void store_columns(Y* y, const float (&x)[4], const Divisor& d) {
  store_floats(y, x, d);
}

template <class Pixel, class Y, int N>
__global__ void __launch_bounds__(kThreads) patches_kernel(const PatchArgs<Pixel, Y> args) {
  const unsigned pieces = args.width / N, group = args.group;
  const unsigned across = args.image_width / args.patch, down = args.image_height / args.patch;
  const unsigned index = blockIdx.x * kThreads + threadIdx.x;
  const unsigned row = index / pieces, image = row / (across * down), token = row % (across * down);
  const unsigned square = token / (group * group), inside = token % (group * group);
  const unsigned patch_row = square / (across / group) * group + inside / group;
  const unsigned patch_column = square % (across / group) * group + inside % group;
  const int first = index % pieces * N;
  const int64_t top = int64_t{image} * args.image_height + patch_row * args.patch;
  const int left = patch_column * args.patch, area = args.patch * args.patch;
  int channel = first / area, dy = first % area / args.patch, dx = first % args.patch;
  wait_for_previous();
  if (row >= args.rows) return;
  Pixel pixels[N];  // all are requested before the first is used
  bool is_pixel[N];
#pragma unroll
  for (int i = 0; i < N; ++i) {
    is_pixel[i] = channel < kChannels;
    const int64_t at = ((top + dy) * args.image_width + left + dx) * kChannels + channel;
    pixels[i] = args.images[is_pixel[i] ? at : 0];
    const bool ends_line = ++dx == args.patch;
    dx = ends_line ? 0 : dx;
    dy += ends_line;
    const bool ends_channel = dy == args.patch;
    dy = ends_channel ? 0 : dy;
    channel += ends_channel;
  }
  float x[N];
#pragma unroll
  for (int i = 0; i < N; ++i) x[i] = is_pixel[i] ? pixel(pixels[i]) : 0.0f;
  store_columns(args.y + int64_t{row} * args.stride + first, x, args.y_scale);
}

template <class Pixel, class Y>
const char* launch_patches(const PatchesArgs& a, const Launch& launch) {
  const PatchArgs<Pixel, Y> args{.images = static_cast<const Pixel*>(a.images),
                                 .y = static_cast<Y*>(a.y.data),
                                 .image_height = a.height,
                                 .image_width = a.width,
                                 .patch = a.patch,
                                 .group = a.group,
                                 .width = static_cast<int>(a.y.width),
                                 .rows = static_cast<int>(a.y.rows),
                                 .stride = a.y.stride,
                                 .y_scale = divisor_of(a.y)};
  constexpr int kColumns = 4;
  const bool has_vectors = is_aligned(a.y, kColumns * sizeof(Y));
  const char* name = has_vectors ? "patches" : "patches_generic";
  const int64_t threads = a.y.rows * (has_vectors ? a.y.width / kColumns : a.y.width);
  FLASHRT_CHECK(threads <= INT32_MAX, name, ": ", a.y.rows, " rows of ", a.y.width,
                " columns, expected less than 2^31 threads");
  const auto kernel =
      has_vectors ? patches_kernel<Pixel, Y, kColumns> : patches_kernel<Pixel, Y, 1>;
  launch_kernel(name, kernel, dim3(static_cast<unsigned>((threads + kThreads - 1) / kThreads)),
                kThreads, 0, launch, 1, args);
  return name;
}

template <class Pixel>
const char* launch_patches(const PatchesArgs& a, const Launch& launch) {
  switch (a.y.type) {
    case DType::kF32:
      return launch_patches<Pixel, float>(a, launch);
    case DType::kBF16:
      return launch_patches<Pixel, bf16>(a, launch);
    case DType::kF16:
      return launch_patches<Pixel, f16>(a, launch);
    default:
      return launch_patches<Pixel, e4m3>(a, launch);
  }
}

// ---- tokens

__global__ void token_embed_kernel(const __grid_constant__ TokenEmbedArgs args) {
  wait_for_previous();
  const int64_t row = blockIdx.x;
  if (row >= valid_rows(args.y)) return;
  const int64_t token = args.tokens[row];
  const bool is_known = 0 <= token && token < args.table.rows;
  const int64_t first = token * args.table.stride;
  for (int64_t i = threadIdx.x; i < args.y.width; i += kThreads) {
    const float x = is_known ? load_element(args.table.data, args.table.type, first + i) : 0.0f;
    store(args.y, row, i, x);
  }
}

// ---- times

__global__ void __launch_bounds__(kThreads)
    time_embed_kernel(const __grid_constant__ TimeEmbedArgs args) {
  constexpr double kTwicePi = 6.283185307179586;
  wait_for_previous();
  const int64_t half = args.y.width / 2;
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int64_t row = index / half, i = index % half;
  if (row >= valid_rows(args.y)) return;
  // The ends of the range are exact: there u is a multiple of pi / 2 within the last bit, and so
  // its sine or cosine is nothing but the rounding of u.
  const double ratio = args.max_period / args.min_period;
  const double exponent = static_cast<double>(i) / static_cast<double>(half - 1);
  const double power = exponent == 0 ? 1 : exponent == 1 ? ratio : pow(ratio, exponent);
  const double u = kTwicePi * args.times[row] / (args.min_period * power);
  store(args.y, row, i, static_cast<float>(sin(u)));
  store(args.y, row, half + i, static_cast<float>(cos(u)));
}

}  // namespace

const char* patches(const PatchesArgs& args, const Launch& launch) {
  constexpr const char* kName = "patches";
  const int square = args.patch * args.group;
  FLASHRT_CHECK(args.images && args.count > 0 && square > 0 && args.height % square == 0 &&
                    args.width % square == 0,
                kName, ": ", args.count, " images of ", args.height, " x ", args.width,
                " pixels in squares of ", args.group, " patches of ", args.patch,
                ", expected squares that divide the image");
  FLASHRT_CHECK(args.type == DType::kU8 || args.type == DType::kF32, kName, ": images are ",
                args.type, ", expected u8 or f32");
  const int64_t tokens = int64_t{args.height / args.patch} * (args.width / args.patch);
  const int64_t depth = int64_t{kChannels} * args.patch * args.patch;
  check_operand(kName, "y", args.y, args.count * tokens, args.y.width);
  FLASHRT_CHECK(is_divisor(args.y.scale), kName, ": y has scale ", args.y.scale,
                ", expected one between 2^-100 and 2^100");
  FLASHRT_CHECK(args.y.width >= depth, kName, ": y has ", args.y.width, " columns, a patch ",
                depth);
  return args.type == DType::kU8 ? launch_patches<uint8_t>(args, launch)
                                 : launch_patches<float>(args, launch);
}

const char* token_embed(const TokenEmbedArgs& args, const Launch& launch) {
  constexpr const char* kName = "token_embed";
  FLASHRT_CHECK(args.tokens && args.table && args.table.scale_count == 0, kName,
                ": tokens and a table without scales are expected");
  check_operand(kName, "y", args.y, args.y.rows, args.table.width);
  launch_kernel(kName, token_embed_kernel, dim3(static_cast<unsigned>(args.y.rows)), kThreads, 0,
                launch, 1, args);
  return kName;
}

const char* time_embed(const TimeEmbedArgs& args, const Launch& launch) {
  constexpr const char* kName = "time_embed";
  check_operand(kName, "y", args.y, args.y.rows, args.y.width);
  FLASHRT_CHECK(args.times && args.y.width % 2 == 0, kName, ": y has ", args.y.width,
                " columns, expected times and an even number");
  const int64_t threads = args.y.rows * (args.y.width / 2);
  launch_kernel(kName, time_embed_kernel,
                dim3(static_cast<unsigned>((threads + kThreads - 1) / kThreads)), kThreads, 0,
                launch, 1, args);
  return kName;
}

}  // namespace flashrt::cuda
