// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "models/models.hpp"

namespace flashrt {

namespace {

// Generous for any real robot, small enough that no count of rows overflows.
constexpr int kMaxCameras = 64, kMaxRows = 1 << 14;
constexpr int64_t kMaxImageTokens = 1 << 20;
constexpr int64_t kMaxImageBytes = int64_t{1} << 28;

void check_range(std::string_view what, int value, int max) {
  FLASHRT_CHECK(1 <= value && value <= max, what, ": ", value, ", expected 1 to ", max);
}

}  // namespace

Plan build_plan(const ModelConfig& config, const PlanOptions& options) {
  check_range("cameras", options.cameras, kMaxCameras);
  check_range("prompt capacity", options.prompt_capacity, kMaxRows);
  check_range("horizon", options.horizon, kMaxRows);
  check_range("denoise steps", options.steps, kMaxRows);
  const int64_t tokens = int64_t{options.cameras} * config.vision.tokens();
  FLASHRT_CHECK(tokens <= kMaxImageTokens, "cameras: ", options.cameras, " of ",
                config.vision.tokens(), " image tokens each, expected at most ", kMaxImageTokens,
                " tokens");
  FLASHRT_CHECK(config.type == ModelType::kGrootN16 ||
                    (options.image_sizes.empty() && options.markup_rows.empty()),
                "image sizes or markup rows were given, but ", name_of(config.type),
                " has square images of one size and no markup between them");
  check_range("state rows", options.state_rows, kMaxRows);
  FLASHRT_CHECK(config.type == ModelType::kGrootN16 || options.state_rows == 1,
                "state rows: ", options.state_rows, ", but ", name_of(config.type),
                " is given the state of one moment");
  FLASHRT_CHECK(0 <= options.max_image_bytes && options.max_image_bytes <= kMaxImageBytes,
                "max image bytes: ", options.max_image_bytes,
                ", expected 0 (images come resized) to ", kMaxImageBytes);
  switch (config.type) {
    case ModelType::kPi05:
      return build_pi05(config, options);
    case ModelType::kPi0:
      return build_pi0(config, options);
    case ModelType::kGrootN16:
      return build_groot_n16(config, options);
  }
  throw Error("unknown model type");
}

}  // namespace flashrt
