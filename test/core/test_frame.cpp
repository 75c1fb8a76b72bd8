// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Frames of many sizes, formats and rotations through the plan's resize, byte for byte as Pillow's
// formula gives them, one pixel at a time; and what a descriptor refuses.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "base/frame.hpp"
#include "compile_cpu.hpp"
#include "expect_error.hpp"
#include "plan/builder.hpp"

namespace flashrt {
namespace {

// [rows][columns] of RGB.
using Picture = std::vector<std::vector<std::array<int, 3>>>;

// Pillow's Resample.c on one line, in whole numbers.
std::vector<int> pillow_line(const std::vector<int>& line, int outputs) {
  const int inputs = static_cast<int>(line.size());
  if (inputs == outputs) return line;
  const double scale = static_cast<double>(inputs) / outputs, width = std::max(1.0, scale);
  std::vector<int> result;
  for (int output = 0; output < outputs; ++output) {
    const double centre = (output + 0.5) * scale;
    const int first = std::max(0, static_cast<int>(centre - width + 0.5));
    const int last = std::min(inputs, static_cast<int>(centre + width + 0.5));
    std::vector<double> weights;
    double total = 0;
    for (int tap = first; tap < last; ++tap) {
      weights.push_back(std::max(0.0, 1 - std::abs((tap - centre + 0.5) * (1 / width))));
      total += weights.back();
    }
    int64_t sum = 1 << 21;
    for (int tap = first; tap < last; ++tap)
      sum += line[tap] * static_cast<int64_t>(weights[tap - first] / total * (1 << 22) + 0.5);
    result.push_back(static_cast<int>(std::clamp<int64_t>(sum >> 22, 0, 255)));
  }
  return result;
}

Picture pillow(const Picture& picture, int height, int width) {
  Picture across(picture.size(), std::vector<std::array<int, 3>>(width));
  Picture result(height, std::vector<std::array<int, 3>>(width));
  for (int c = 0; c < 3; ++c) {
    for (size_t y = 0; y < picture.size(); ++y) {
      std::vector<int> line;
      for (const auto& pixel : picture[y]) line.push_back(pixel[c]);
      line = pillow_line(line, width);
      for (int x = 0; x < width; ++x) across[y][x][c] = line[x];
    }
    for (int x = 0; x < width; ++x) {
      std::vector<int> line;
      for (const auto& row : across) line.push_back(row[x][c]);
      line = pillow_line(line, height);
      for (int y = 0; y < height; ++y) result[y][x][c] = line[y];
    }
  }
  return result;
}

// A quarter turn, counter-clockwise: the last column becomes the first row.
Picture turned(const Picture& picture) {
  Picture result(picture[0].size(), std::vector<std::array<int, 3>>(picture.size()));
  for (size_t y = 0; y < picture.size(); ++y) {
    for (size_t x = 0; x < picture[0].size(); ++x)
      result[picture[0].size() - 1 - x][y] = picture[y][x];
  }
  return result;
}

struct Sample {
  std::vector<std::byte> data;
  Picture picture;  // RGB, not turned
  int step;
};

Sample random_frame(std::mt19937& random, int height, int width, int padding, PixelFormat format) {
  const int pixel = format == PixelFormat::kMono8                                  ? 1
                    : format == PixelFormat::kRgb8 || format == PixelFormat::kBgr8 ? 3
                                                                                   : 4;
  const bool is_bgr = format == PixelFormat::kBgr8 || format == PixelFormat::kBgra8;
  Sample sample{.data = {}, .picture = {}, .step = width * pixel + padding};
  sample.data.resize(static_cast<size_t>(sample.step) * height);
  for (std::byte& byte : sample.data) byte = static_cast<std::byte>(random() % 256);
  sample.picture.assign(height, std::vector<std::array<int, 3>>(width));
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < 3; ++c) {
        const int channel = pixel == 1 ? 0 : is_bgr ? 2 - c : c;
        sample.picture[y][x][c] =
            static_cast<int>(sample.data[y * sample.step + x * pixel + channel]);
      }
    }
  }
  return sample;
}

// One camera whose frames have at most so many bytes.
std::unique_ptr<Program> resizer(int size, int64_t bytes) {
  PlanBuilder b("resizer");
  const Value frames = b.input("frames", {1, bytes}, DType::kU8);
  const Value descriptors =
      b.input("descriptors", {1, frame_descriptor_layout(size).words}, DType::kI32);
  b.stage("input", When::kInfer, 1,
          [&] { b.resize("images", frames, descriptors, size, DType::kU8); });
  return compile_cpu(std::move(b).finish(), {}, {});
}

std::vector<uint8_t> resized(Program& program, int size, int64_t bytes, const Frame& frame,
                             const FrameOptions& options) {
  std::vector<int32_t> descriptor(frame_descriptor_layout(size).words);
  describe_frame(frame, options, Resampling::kPillow, size, descriptor);
  std::vector<std::byte> memory(frame.data.begin(), frame.data.end());
  memory.resize(bytes, std::byte{0xee});
  program.write("frames", memory);
  program.write("descriptors", std::as_bytes(std::span(descriptor)));
  program.run(When::kInfer);
  std::vector<uint8_t> images(size_t{3} * size * size);
  program.read("input.images", std::as_writable_bytes(std::span(images)));
  return images;
}

TEST(Frame, IsResizedAsPillowDoesAtAnySize) {
  constexpr int64_t kBytes = 1 << 17;
  std::mt19937 random(3);
  for (const int size : {14, 33, 56}) {
    const auto program = resizer(size, kBytes);
    for (int round = 0; round < 80; ++round) {
      const auto side = [&] { return 1 + static_cast<int>(random() % (round % 2 ? 40 : 170)); };
      const auto format = static_cast<PixelFormat>(round % 5);
      const int height = side(), width = side(), padding = round % 3 ? 0 : random() % 9;
      const int quarters = round / 5 % 4;
      const Fit fit = round % 7 == 0 ? Fit::kStretch : Fit::kLetterbox;
      const Sample sample = random_frame(random, height, width, padding, format);
      Picture picture = sample.picture;
      for (int turn = 0; turn < quarters; ++turn) picture = turned(picture);

      const double rows = static_cast<double>(picture.size()), columns = picture[0].size();
      const double ratio = std::max(columns / size, rows / size);
      const bool boxed = fit == Fit::kLetterbox;
      const int inner_height = boxed ? static_cast<int>(rows / ratio) : size;
      const int inner_width = boxed ? static_cast<int>(columns / ratio) : size;
      if (std::min(inner_height, inner_width) < 1) continue;  // refused, as another test shows
      const Picture want = pillow(picture, inner_height, inner_width);
      const int top = (size - inner_height) / 2, left = (size - inner_width) / 2;

      const std::vector<uint8_t> got =
          resized(*program, size, kBytes, {sample.data, height, width, sample.step, format},
                  {.fit = fit, .rotation = 90 * quarters});
      for (int y = 0; y < size; ++y) {
        for (int x = 0; x < size; ++x) {
          const bool inside =
              top <= y && y < top + inner_height && left <= x && x < left + inner_width;
          for (int c = 0; c < 3; ++c) {
            ASSERT_EQ(got[(y * size + x) * 3 + c], inside ? want[y - top][x - left][c] : 0)
                << width << "x" << height << " " << name_of(format) << " turned " << quarters
                << " times to " << size << ": row " << y << ", column " << x << ", channel " << c;
          }
        }
      }
    }
  }
}

TEST(Frame, WithoutOneTheImageIsBlack) {
  const auto program = resizer(14, 64);
  program->run(When::kInfer);
  std::vector<uint8_t> images(3 * 14 * 14, 7);
  program->read("input.images", std::as_writable_bytes(std::span(images)));
  EXPECT_EQ(std::count(images.begin(), images.end(), 0), 3 * 14 * 14);
}

TEST(Frame, TheLongestSidesFitTheDescriptor) {
  for (const int size : {1, 14, 224, 448}) {
    std::vector<int32_t> descriptor(frame_descriptor_layout(size).words);
    const std::vector<std::byte> data(kMaxFrameSide);
    for (const int outputs : {kMaxFrameSide, 1}) {
      const Frame line{data, kMaxFrameSide / outputs, outputs, outputs, PixelFormat::kMono8};
      EXPECT_NO_THROW(
          describe_frame(line, {.fit = Fit::kStretch}, Resampling::kPillow, size, descriptor))
          << size;
    }
  }
}

TEST(Frame, ContradictionsAreRefused) {
  std::vector<int32_t> descriptor(frame_descriptor_layout(14).words);
  const std::vector<std::byte> data(60);
  const auto text_of = [&](Frame frame, FrameOptions options = {}) {
    return error_text([&] { describe_frame(frame, options, Resampling::kPillow, 14, descriptor); });
  };
  EXPECT_NO_THROW(describe_frame({data, 4, 5, 15, PixelFormat::kRgb8}, {}, Resampling::kPillow, 14,
                                 descriptor));
  EXPECT_CONTAINS(text_of({data, 4, 5, 14, PixelFormat::kRgb8}),
                  "frame of 5 x 4 rgb8 pixels, step 14, 60 bytes: a row alone has 15 bytes");
  EXPECT_CONTAINS(text_of({data, 3, 5, 15, PixelFormat::kRgb8}), "expected 45 bytes");
  EXPECT_CONTAINS(text_of({data, 0, 5, 15, PixelFormat::kRgb8}), "expected sides of 1 to 4096");
  EXPECT_CONTAINS(text_of({data, 1, 5000, 5000, PixelFormat::kMono8}),
                  "expected sides of 1 to 4096");
  EXPECT_CONTAINS(text_of({data, 1, 60, 60, PixelFormat::kMono8}),
                  "a picture of 60x1 (width x height) scaled into 14x14 would be 14x0");
  EXPECT_CONTAINS(text_of({data, 4, 5, 15, PixelFormat::kRgb8}, {.rotation = 45}),
                  "rotation: 45 degrees");
  EXPECT_CONTAINS(error_text([] { pixel_format("yuv422"); }),
                  "known: rgb8, bgr8, rgba8, bgra8, mono8");
  EXPECT_EQ(name_of(pixel_format("bgra8")), "bgra8");
}

TEST(Frame, ADescriptorThatLeadsOutOfTheFrameIsRefused) {
  const auto program = resizer(14, 64);
  const std::vector<std::byte> data(100);
  std::vector<int32_t> descriptor(frame_descriptor_layout(14).words);
  describe_frame({data, 10, 10, 10, PixelFormat::kMono8}, {}, Resampling::kPillow, 14, descriptor);
  program->write("descriptors", std::as_bytes(std::span(descriptor)));
  EXPECT_CONTAINS(error_text([&] { program->run(When::kInfer); }),
                  "the descriptor of camera 0 (10 rows, 10 columns, bytes 0 to 100 of 64)");
}

}  // namespace
}  // namespace flashrt
