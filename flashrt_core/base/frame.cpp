// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Compiled without contraction of floating-point expressions: a fused multiply-add would give other
// weights than the libraries whose results these are.

#include "base/frame.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/check.hpp"

namespace flashrt {
namespace {

struct Format {
  std::string_view label;
  int pixel_bytes;
  std::array<int32_t, 3> channel;  // red, green, blue
};

constexpr std::array<Format, 5> kFormats{{{"rgb8", 3, {0, 1, 2}},
                                          {"bgr8", 3, {2, 1, 0}},
                                          {"rgba8", 4, {0, 1, 2}},
                                          {"bgra8", 4, {2, 1, 0}},
                                          {"mono8", 1, {0, 0, 0}}}};

const Format& format_of(PixelFormat format) { return kFormats[static_cast<size_t>(format)]; }

// What one output reads along an axis: inputs first, first + 1, ... with these weights.
struct Taps {
  int first = 0;
  std::vector<double> weights;
};

// Term by term as in precompute_coeffs of Pillow's Resample.c, for its bilinear filter.
Taps pillow_taps(int inputs, int outputs, int output) {
  const double scale = static_cast<double>(inputs) / outputs;
  const double width = std::max(1.0, scale);
  const double factor = 1.0 / width;
  const double centre = (output + 0.5) * scale;
  const int first = std::max(0, static_cast<int>(centre - width + 0.5));
  const int last = std::min(inputs, static_cast<int>(centre + width + 0.5));
  Taps taps{.first = first, .weights = {}};
  double total = 0;
  for (int tap = first; tap < last; ++tap) {
    const double distance = std::abs((tap - centre + 0.5) * factor);
    taps.weights.push_back(distance < 1.0 ? 1.0 - distance : 0.0);
    total += taps.weights.back();
  }
  for (double& weight : taps.weights)
    weight = std::floor(weight / total * (1 << kWeightBits) + 0.5);
  return taps;
}

// As PyTorch's upsample_bilinear2d without align_corners; positions in float32.
Taps bilinear_taps(int inputs, int outputs, int output) {
  const float scale = static_cast<float>(inputs) / static_cast<float>(outputs);
  const float source = std::max((static_cast<float>(output) + 0.5f) * scale - 0.5f, 0.0f);
  const int first = std::min(static_cast<int>(source), inputs - 1);
  if (first == inputs - 1) return {.first = first, .weights = {1}};
  const double fraction = static_cast<double>(source) - first;
  return {.first = first, .weights = {1 - fraction, fraction}};
}

void trim(Taps& taps) {
  while (taps.weights.size() > 1 && taps.weights.back() == 0) taps.weights.pop_back();
  const auto used = std::find_if(taps.weights.begin(), taps.weights.end() - 1,
                                 [](double weight) { return weight != 0; });
  taps.first += static_cast<int>(used - taps.weights.begin());
  taps.weights.erase(taps.weights.begin(), used);
}

// Writes the taps of every output of an axis; returns how many each has. All have as many and stay
// inside the picture, so that no kernel needs a test: some weights are zero.
int write_axis(Resampling resampling, int inputs, int outputs, std::span<int32_t> first,
               std::span<int32_t> weights) {
  std::vector<Taps> axis;
  size_t count = 1;
  for (int output = 0; output < outputs; ++output) {
    axis.push_back(resampling == Resampling::kPillow ? pillow_taps(inputs, outputs, output)
                                                     : bilinear_taps(inputs, outputs, output));
    trim(axis.back());
    count = std::max(count, axis.back().weights.size());
  }
  FLASHRT_CHECK(count * outputs <= weights.size(), "resize: ", inputs, " to ", outputs,
                " pixels needs ", count * outputs, " weights, a descriptor has room for ",
                weights.size());
  for (int output = 0; output < outputs; ++output) {
    const Taps& taps = axis[output];
    const int begin = std::min(taps.first, inputs - static_cast<int>(count));
    first[output] = begin;
    for (int k = 0; k < static_cast<int>(count); ++k) {
      const int index = begin + k - taps.first;
      const bool is_used = 0 <= index && index < static_cast<int>(taps.weights.size());
      const double weight = is_used ? taps.weights[index] : 0;
      weights[int64_t{k} * outputs + output] =
          resampling == Resampling::kPillow ? static_cast<int32_t>(weight)
                                            : std::bit_cast<int32_t>(static_cast<float>(weight));
    }
  }
  return static_cast<int>(count);
}

void check(const Frame& frame, int pixel_bytes) {
  const auto described = [&] {
    return text("frame of ", frame.width, " x ", frame.height, " ", name_of(frame.format),
                " pixels, step ", frame.step, ", ", frame.data.size(), " bytes");
  };
  FLASHRT_CHECK(1 <= std::min(frame.width, frame.height) &&
                    std::max(frame.width, frame.height) <= kMaxFrameSide,
                described(), ": expected sides of 1 to ", kMaxFrameSide, " pixels");
  FLASHRT_CHECK(frame.step >= int64_t{frame.width} * pixel_bytes, described(), ": a row alone has ",
                int64_t{frame.width} * pixel_bytes, " bytes");
  const int64_t needed = int64_t{frame.step} * frame.height;
  FLASHRT_CHECK(static_cast<int64_t>(frame.data.size()) == needed, described(), ": expected ",
                needed, " bytes");
  FLASHRT_CHECK(needed <= std::numeric_limits<int32_t>::max(), described(), ": too many bytes");
}

}  // namespace

PixelFormat pixel_format(std::string_view label) {
  std::string known;
  for (size_t i = 0; i < kFormats.size(); ++i) {
    if (kFormats[i].label == label) return static_cast<PixelFormat>(i);
    known += (i ? ", " : "") + std::string(kFormats[i].label);
  }
  throw Error(text("pixel format '", label, "' is not one that frames are resized from; known: ",
                   known, ". Convert it first"));
}

std::string_view name_of(PixelFormat format) { return format_of(format).label; }

void describe_frame(const Frame& frame, const FrameOptions& options, Resampling resampling,
                    int size, std::span<int32_t> descriptor) {
  const Format& format = format_of(frame.format);
  check(frame, format.pixel_bytes);
  FLASHRT_CHECK(options.rotation % 90 == 0 && 0 <= options.rotation && options.rotation < 360,
                "rotation: ", options.rotation, " degrees, expected 0, 90, 180 or 270");
  const FrameDescriptorLayout layout = frame_descriptor_layout(size);
  FLASHRT_CHECK(static_cast<int64_t>(descriptor.size()) == layout.words,
                "frame descriptor: ", descriptor.size(), " words, one for ", size, " pixels has ",
                layout.words);

  FrameGeometry g{.pixel_bytes = format.pixel_bytes,
                  .channel = {format.channel[0], format.channel[1], format.channel[2]},
                  .bars = options.bars};
  const int quarters = options.rotation / 90;
  g.rows = quarters % 2 ? frame.width : frame.height;
  g.columns = quarters % 2 ? frame.height : frame.width;
  // Row and column of the turned picture walk along one of the axes of the memory, either way.
  const int32_t pixel = format.pixel_bytes, last_pixel = (frame.width - 1) * pixel;
  const int32_t step = frame.step, last_row = (frame.height - 1) * step;
  g.origin = (quarters == 1 || quarters == 2 ? last_pixel : 0) + (quarters >= 2 ? last_row : 0);
  g.row_stride = std::array{step, -pixel, -step, pixel}[quarters];
  g.column_stride = std::array{pixel, step, -pixel, -step}[quarters];

  g.height = g.width = size;
  if (options.fit == Fit::kLetterbox) {
    // Sides are rounded down in exactly this order: for some sizes the result is one below the
    // rational value.
    const double ratio =
        std::max(static_cast<double>(g.columns) / size, static_cast<double>(g.rows) / size);
    g.height = static_cast<int32_t>(g.rows / ratio);
    g.width = static_cast<int32_t>(g.columns / ratio);
    FLASHRT_CHECK(g.height >= 1 && g.width >= 1, "resize: a picture of ", g.columns, "x", g.rows,
                  " (width x height) scaled into ", size, "x", size, " would be ", g.width, "x",
                  g.height, "; a side would become 0 pixels");
  }
  g.top = (size - g.height) / 2;
  g.left = (size - g.width) / 2;

  const auto part = [&](int64_t begin, int64_t count) { return descriptor.subspan(begin, count); };
  const int64_t taps = frame_taps(size);
  g.vertical_taps = write_axis(resampling, g.rows, g.height, part(layout.first_row, size),
                               part(layout.vertical_weights, taps));
  g.horizontal_taps = write_axis(resampling, g.columns, g.width, part(layout.first_column, size),
                                 part(layout.horizontal_weights, taps));
  std::memcpy(descriptor.data(), &g, sizeof g);
}

}  // namespace flashrt
