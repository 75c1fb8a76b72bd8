// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "models/inputs.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace flashrt {
namespace {

// Of GR00T's conversation: "</img><image 2><img>" between two images, "</img><|im_end|>\n" at the
// end. The number of the next image has a token per digit.
constexpr int kMarkupBetween = 6, kMarkupEnd = 3;

int digits(int number) { return number < 10 ? 1 : 1 + digits(number / 10); }

template <class T>
InputData input(std::string name, std::span<const T> values) {
  const auto bytes = std::as_bytes(values);
  return {std::move(name), {bytes.begin(), bytes.end()}};
}

// Row i: the weights of the table's entries in entry i of a table that is resized from n to m
// entries, linearly between the centres of pixels, over a wider span where it shrinks.
std::vector<double> resize_weights(int n, int m) {
  std::vector<double> weights(static_cast<size_t>(n) * m, 0.0);
  const double ratio = static_cast<double>(n) / m, support = std::max(1.0, ratio);
  for (int i = 0; i < m; ++i) {
    const double center = (i + 0.5) * ratio;
    const int begin = std::max(static_cast<int>(center - support + 0.5), 0);
    const int end = std::min(static_cast<int>(center + support + 0.5), n);
    double* row = weights.data() + static_cast<size_t>(i) * n;
    for (int j = begin; j < end; ++j)
      row[j] = std::max(0.0, 1.0 - std::abs((j - center + 0.5) / support));
    const double sum = std::accumulate(row, row + n, 0.0);
    for (int j = begin; j < end; ++j) row[j] /= sum;
  }
  return weights;
}

// Per camera.
std::vector<ImageSize> image_sizes(const ModelConfig& c, const PlanOptions& o) {
  if (o.image_sizes.empty())
    return std::vector<ImageSize>(o.cameras, {c.vision.image_size, c.vision.image_size});
  FLASHRT_CHECK(static_cast<int>(o.image_sizes.size()) == o.cameras,
                "image sizes: ", o.image_sizes.size(), ", expected one per camera, ", o.cameras);
  return o.image_sizes;
}

// [N*T, side^2] of images of one size, their tokens in squares of 2 x 2 patches.
std::vector<float> position_weights(const VisionConfig& c, const ImageInput& input) {
  constexpr int kSquare = 2;
  const int side = c.position_grid;
  const int down = input.size.height / c.patch, across = input.size.width / c.patch;
  const std::vector<double> vertical = resize_weights(side, down);
  const std::vector<double> horizontal = resize_weights(side, across);
  std::vector<float> weights;
  for (int token = 0; token < input.images * down * across; ++token) {
    const int inside = token % (kSquare * kSquare);
    const int square = token % (down * across) / (kSquare * kSquare);
    const int row = square / (across / kSquare) * kSquare + inside / kSquare;
    const int column = square % (across / kSquare) * kSquare + inside % kSquare;
    for (int y = 0; y < side; ++y) {
      for (int x = 0; x < side; ++x) {
        weights.push_back(
            static_cast<float>(vertical[row * side + y] * horizontal[column * side + x]));
      }
    }
  }
  return weights;
}

// The tokens in front of the first image, and those between and behind the images.
PromptInputs conversation(const ModelConfig& c, const PlanOptions& o,
                          std::span<const int32_t> tokens) {
  const ObservationLayout layout = observation_layout(c, o);
  const auto first = std::ranges::find(tokens, c.image_token);
  const auto length = static_cast<int>(first - tokens.begin());
  FLASHRT_CHECK(1 <= length && length <= o.prompt_capacity, "prompt: ", length,
                " tokens before the first image token (", c.image_token, "), expected 1 to ",
                o.prompt_capacity);
  const std::span<const int32_t> rest = tokens.subspan(static_cast<size_t>(length));
  FLASHRT_CHECK(rest.size() == static_cast<size_t>(layout.rows), "prompt: ", rest.size(),
                " tokens from the first image on, this engine takes ", layout.rows, " for ",
                layout.views.size(), " images");
  std::vector<int32_t> markup;
  for (const auto& view : layout.views) {
    for (int row = view.image_begin; row < view.markup_begin + view.markup_rows; ++row) {
      const bool is_image = row < view.markup_begin;
      FLASHRT_CHECK((rest[row] == c.image_token) == is_image, "prompt: token ", length + row,
                    " is ", rest[row], ", expected ", is_image ? "the" : "no", " image token (",
                    c.image_token, "): image ", &view - layout.views.data(), " has ",
                    view.image_rows, " rows");
      if (!is_image) markup.push_back(rest[row]);
    }
  }
  return {length,
          {input<int32_t>("prompt_length", std::span(&length, 1)),
           input("tokens", tokens.first(static_cast<size_t>(length))),
           input<int32_t>("markup", markup)}};
}

}  // namespace

std::vector<ImageInput> image_inputs(const ModelConfig& c, const PlanOptions& o) {
  const std::vector<ImageSize> sizes = image_sizes(c, o);
  if (std::ranges::count(sizes, sizes.front()) == o.cameras)
    return {{.suffix = "", .images = o.cameras, .size = sizes.front()}};
  std::vector<ImageInput> inputs;
  for (const ImageSize& size : sizes)
    inputs.push_back({.suffix = text(".", inputs.size()), .images = 1, .size = size});
  return inputs;
}

ObservationLayout observation_layout(const ModelConfig& c, const PlanOptions& o) {
  const std::vector<ImageSize> sizes = image_sizes(c, o);
  FLASHRT_CHECK(o.markup_rows.empty() || o.markup_rows.size() == sizes.size(),
                "markup rows: ", o.markup_rows.size(), " numbers, expected one per camera, ",
                sizes.size());
  const int square = 2 * c.vision.patch;
  ObservationLayout layout;
  for (size_t view = 0; view < sizes.size(); ++view) {
    const auto [height, width] = sizes[view];
    FLASHRT_CHECK(height > 0 && width > 0 && height % square == 0 && width % square == 0,
                  "image of camera ", view, ": ", height, " x ", width,
                  " pixels, expected multiples of ", square);
    const bool is_last = view + 1 == sizes.size();
    const int markup = !o.markup_rows.empty() ? o.markup_rows[view]
                       : is_last              ? kMarkupEnd
                                              : kMarkupBetween + digits(static_cast<int>(view) + 2);
    FLASHRT_CHECK(markup > 0, "markup rows of camera ", view, ": ", markup,
                  ", expected 1 or more: an image has an end");
    const int image = (height / square) * (width / square);
    layout.views.push_back({.image_begin = layout.rows,
                            .image_rows = image,
                            .markup_begin = layout.rows + image,
                            .markup_rows = markup});
    layout.rows += image + markup;
    layout.markup_rows += markup;
  }
  return layout;
}

std::vector<float> default_times(const ModelConfig& c, int steps) {
  std::vector<float> times(steps);
  if (c.type == ModelType::kGrootN16) {  // from noise at 0 towards actions at 1, in buckets
    for (int step = 0; step < steps; ++step) {
      const double bucket = static_cast<double>(step) / steps * c.dit.buckets;
      times[step] = static_cast<float>(std::trunc(bucket));
    }
    return times;
  }
  // t = 1; t += (float)(-1.0 / S): the float32 accumulation of the reference, bit for bit.
  float t = 1.0f;
  for (float& time : times) {
    time = t;
    t += static_cast<float>(-1.0 / steps);
  }
  return times;
}

std::vector<InputData> load_inputs(const ModelConfig& c, const PlanOptions& o,
                                   std::span<const float> times) {
  std::vector<float> all_times(times.begin(), times.end());
  if (o.guided && c.type == ModelType::kPi05) all_times.push_back(0.0f);  // of committed rows
  std::vector<InputData> inputs{input<float>("times", all_times)};
  if (c.type != ModelType::kGrootN16) return inputs;
  std::vector<int32_t> rows(o.horizon);
  std::iota(rows.begin(), rows.end(), 0);
  inputs.push_back(input<int32_t>("action_rows", rows));
  for (const ImageInput& images : image_inputs(c, o)) {
    inputs.push_back(
        input<float>("position_weights" + images.suffix, position_weights(c.vision, images)));
  }
  return inputs;
}

PromptInputs prompt_inputs(const ModelConfig& c, const PlanOptions& o,
                           std::span<const int32_t> tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    FLASHRT_CHECK(tokens[i] >= 0 && tokens[i] < c.vocab_size, "prompt: token ", i, " is ",
                  tokens[i], ", the vocabulary has ", c.vocab_size);
  }
  if (c.type == ModelType::kGrootN16) return conversation(c, o, tokens);
  FLASHRT_CHECK(!tokens.empty() && tokens.size() <= static_cast<size_t>(o.prompt_capacity),
                "prompt: ", tokens.size(), " tokens, expected 1 to ", o.prompt_capacity);
  const auto length = static_cast<int32_t>(tokens.size());
  return {length,
          {input<int32_t>("prompt_length", std::span(&length, 1)), input("tokens", tokens)}};
}

}  // namespace flashrt
