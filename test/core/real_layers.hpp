// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Pi0.5 with the real widths and few layers: every kernel meets the shapes it is made for, and the
// CPU backend still answers in seconds.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "checkpoint/weights.hpp"
#include "models/models.hpp"
#include "quant/calibration.hpp"
#include "quant/precision.hpp"
#include "quant/recipe.hpp"

namespace flashrt {

inline ModelConfig real_layers_config() {
  return {.type = ModelType::kPi05,
          .vision = {.image_size = 224,
                     .patch = 14,
                     .width = 1152,
                     .layers = 1,
                     .heads = 16,
                     .mlp_width = 4304},
          .language = {.width = 2048,
                       .layers = 2,
                       .mlp_width = 16384,
                       .heads = 8,
                       .kv_heads = 1,
                       .head_dim = 256},
          .expert = {.width = 1024,
                     .layers = 2,
                     .mlp_width = 4096,
                     .heads = 8,
                     .kv_heads = 1,
                     .head_dim = 256},
          .vocab_size = 1000,
          .action_dim = 32,
          .horizon = 10,
          .min_period = 0.004,
          .max_period = 4.0};
}

class RealLayers {
 public:
  RealLayers(const std::string& recipe, const PlanOptions& options)
      : options_(options),
        recipe_(Recipe::named(recipe)),
        weights_(Weights::random(config_, 11, 0)),
        plan_(assign_precision(build_plan(config_, options), recipe_)) {}

  static PlanOptions two_cameras() {
    return {.cameras = 2, .prompt_capacity = 24, .horizon = 10, .steps = 3};
  }

  const Plan& plan() const { return plan_; }
  const PlanOptions& options() const { return options_; }
  size_t action_count() const { return size_t{1} * options_.horizon * config_.action_dim; }

  // Scales measured on this backend, with the quantised activations held in float.
  void calibrate(Backend& backend) {
    const auto is_quantised = [](const ValueInfo& info) { return info.type == DType::kE4M3; };
    if (std::none_of(plan_.values.begin(), plan_.values.end(), is_quantised)) return;
    Recipe floating = recipe_;
    floating.float_activations = true;
    const Plan plan = assign_precision(build_plan(config_, options_), floating);
    const auto program = backend.compile(plan, backend.upload(plan, weights_), {}, {});
    write(*program, 1000, options_.prompt_capacity);
    std::vector<float> data;
    for (const When when : {When::kLoad, When::kPrompt, When::kInfer}) {
      program->run_observed(when, [&](int call, int) {
        for_each_write(plan.calls[call], [&](Value value) {
          const ValueInfo& info = plan[value];
          if (info.site.empty()) return;
          data.resize(info.shape.elements());
          program->read_float(info.name, data);
          calibration_.observe(info.site, -1, data);
        });
      });
    }
    calibration_.finish(RangeEstimator::kMinMax, 1, false);
  }

  std::unique_ptr<Program> compile(Backend& backend, const CompileOptions& options = {}) const {
    return backend.compile(plan_, backend.upload(plan_, weights_), calibration_, options);
  }

  // Inputs that follow from the seed; prompts of this many tokens.
  void write(Program& program, int seed, int prompt_length) const {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    const auto put = [&](std::string_view name, const auto& values) {
      program.write(name, std::as_bytes(std::span(values)));
    };
    const int size = config_.vision.image_size;
    std::vector<uint8_t> images(size_t{3} * options_.cameras * size * size);
    for (uint8_t& pixel : images) pixel = static_cast<uint8_t>(random() % 256);
    put("images", images);
    std::vector<int32_t> tokens(prompt_length);
    for (int32_t& token : tokens) token = static_cast<int32_t>(random() % config_.vocab_size);
    put("tokens", tokens);
    put("prompt_length", std::vector<int32_t>{prompt_length});
    std::vector<float> noise(action_count());
    for (float& value : noise) value = normal(random);
    put("actions", noise);
    std::vector<float> times(options_.steps);
    for (int k = 0; k < options_.steps; ++k) {
      times[k] = 1 - static_cast<float>(k) / static_cast<float>(options_.steps);
    }
    put("times", times);
  }

  std::vector<float> actions(const Program& program) const {
    std::vector<float> values(action_count());
    program.read_float("actions", values);
    return values;
  }

  std::vector<float> infer(Program& program, int seed, int prompt_length) const {
    write(program, seed, prompt_length);
    for (const When when : {When::kLoad, When::kPrompt, When::kInfer}) program.run(when);
    return actions(program);
  }

 private:
  ModelConfig config_ = real_layers_config();
  PlanOptions options_;
  Recipe recipe_;
  Weights weights_;
  Plan plan_;
  Calibration calibration_;
};

// sqrt(sum (a - b)^2 / sum b^2)
inline double relative_error(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(double{a[i]} - b[i], 2);
    norm += std::pow(double{b[i]}, 2);
  }
  return std::sqrt(difference / norm);
}

}  // namespace flashrt
