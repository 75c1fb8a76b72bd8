// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Models with the real widths and few layers: every kernel meets the shapes it is made for, and the
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
#include "models/inputs.hpp"
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

inline ModelConfig real_groot_layers_config() {
  ModelConfig config = full_size_config(ModelType::kGrootN16);
  config.vision.layers = 1;
  config.language.layers = 2;
  config.dit.layers = 4;  // one of each sort
  config.vocab_size = 1000;
  config.image_token = 999;
  return config;
}

class RealLayers {
 public:
  RealLayers(const std::string& recipe, const PlanOptions& options,
             const ModelConfig& config = real_layers_config())
      : config_(config),
        options_(options),
        recipe_(Recipe::named(recipe)),
        weights_(Weights::random(config_, 11, 0)),
        plan_(assign_precision(build_plan(config_, options), recipe_)) {}

  static PlanOptions two_cameras() {
    return {.cameras = 2, .prompt_capacity = 24, .horizon = 10, .steps = 3};
  }
  static PlanOptions two_views_of_groot(int horizon) {
    return {.cameras = 2, .prompt_capacity = 40, .horizon = horizon, .steps = 2};
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
    for (const ImageInput& images : image_inputs(config_, options_)) {
      std::vector<uint8_t> pixels(images.elements());
      for (uint8_t& pixel : pixels) pixel = static_cast<uint8_t>(random() % 256);
      put("images" + images.suffix, pixels);
    }
    std::vector<int32_t> tokens(prompt_length);
    const int words =
        config_.type == ModelType::kGrootN16 ? config_.image_token : config_.vocab_size;
    for (int32_t& token : tokens) token = static_cast<int32_t>(random() % words);
    if (config_.type == ModelType::kGrootN16) add_observation(tokens);
    std::vector<float> noise(action_count());
    for (float& value : noise) value = normal(random);
    put("actions", noise);
    if (config_.state_dim > 0) {
      std::vector<float> state(config_.state_dim);
      for (float& value : state) value = normal(random);
      put("state", state);
    }
    for (const InputData& input : prompt_inputs(config_, options_, tokens).inputs)
      program.write(input.name, input.data);
    const std::vector<float> times = default_times(config_, options_.steps);
    for (const InputData& input : load_inputs(config_, options_, times))
      program.write(input.name, input.data);
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
  // The images, each with the tokens up to the next one.
  void add_observation(std::vector<int32_t>& tokens) const {
    for (const auto& view : observation_layout(config_, options_).views) {
      tokens.insert(tokens.end(), view.image_rows, config_.image_token);
      tokens.insert(tokens.end(), view.markup_rows, 1);
    }
  }

  ModelConfig config_;
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
