// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "models/models.hpp"

namespace flashrt {

Plan build_plan(const ModelConfig& config, const PlanOptions& options) {
  FLASHRT_CHECK(options.cameras >= 1, "cameras: ", options.cameras, ", expected at least 1");
  FLASHRT_CHECK(options.prompt_capacity >= 1, "prompt capacity: ", options.prompt_capacity,
                ", expected at least 1");
  FLASHRT_CHECK(options.horizon >= 1, "horizon: ", options.horizon, ", expected at least 1");
  FLASHRT_CHECK(options.steps >= 1, "denoise steps: ", options.steps, ", expected at least 1");
  switch (config.type) {
    case ModelType::kPi05:
      return build_pi05(config, options);
    case ModelType::kPi0:
      return build_pi0(config, options);
  }
  throw Error("unknown model type");
}

}  // namespace flashrt
