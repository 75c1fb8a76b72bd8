// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Frame: a picture as a camera driver delivers it, and the descriptor that tells `resize` how to
// bring it to the size of the model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/frame_descriptor.hpp"

namespace flashrt {

enum class PixelFormat : uint8_t { kRgb8, kBgr8, kRgba8, kBgra8, kMono8 };

// By the labels of sensor_msgs/Image; Error for another one, with those that are known.
PixelFormat pixel_format(std::string_view label);
std::string_view name_of(PixelFormat format);

struct Frame {
  std::span<const std::byte> data;
  int height = 0, width = 0;
  int step = 0;  // bytes from one row to the next
  PixelFormat format = PixelFormat::kRgb8;
};

// kLetterbox keeps the aspect ratio and leaves bars, kStretch fills the square.
enum class Fit : uint8_t { kLetterbox, kStretch };

// kPillow: antialiased, integers over 2^22, rounded to bytes after each axis. kBilinear: the two
// pixels around each position, in float32, mapped to [-1, 1].
enum class Resampling : uint8_t { kPillow, kBilinear };

struct FrameOptions {
  Fit fit = Fit::kLetterbox;
  int rotation = 0;  // 0, 90, 180 or 270 degrees counter-clockwise, before the picture is scaled
  float bars = -1;   // kBilinear: their value in the range of the model
};

// Fills the descriptor of a frame for a square of `size` pixels. Error if the frame's numbers
// contradict each other, a side is too long, or a side would become 0 pixels.
void describe_frame(const Frame& frame, const FrameOptions& options, Resampling resampling,
                    int size, std::span<int32_t> descriptor);

}  // namespace flashrt
