// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Engine: a checkpoint, compiled and ready. Observation in, action chunk out, in the model's own
// units.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "base/frame.hpp"
#include "checkpoint/model_config.hpp"
#include "models/models.hpp"
#include "quant/calibration.hpp"
#include "quant/equalisation.hpp"
#include "quant/recipe.hpp"

namespace flashrt {

// What one program is compiled for.
struct ProgramOptions {
  PlanOptions plan;  // horizon, steps or prompt_capacity of 0: the checkpoint's own
  std::vector<float>
      times;  // of the steps; empty: default_times() of the model, as the reference has them
  // Per camera, of plans with max_image_bytes; empty: all by default.
  std::vector<FrameOptions> frames;
  bool keep_values = false;
};

struct EngineOptions {
  std::filesystem::path checkpoint;  // a folder
  // Random weights of this seed; of the checkpoint only config.json is read. The names pi05, pi0
  // and groot_n16 then stand for the published sizes.
  std::optional<uint64_t> random_seed;
  double random_outliers = 1;  // of random weights: factor of a few channels and a token
  Embodiment embodiment;       // GR00T only, and needed there: whose small networks are loaded
  // Made by pack() for this recipe: read instead of the weights, which then need not be there.
  std::filesystem::path packed;
  std::string backend = "cpu";  // or "cuda"
  BackendOptions backend_options;
  std::string recipe = "f32";
  std::filesystem::path calibration;  // needed by recipes whose activations have a scale
  bool float_activations = false;     // hold quantised activations in float: to calibrate
  Equalisation equalisation;          // to calibrate: of a calibration to come
  ProgramOptions program;
};

// How weights that an engine has are run in another way; as in EngineOptions.
struct RecipeOptions {
  std::string recipe = "f32";
  std::filesystem::path calibration;
  bool float_activations = false;
};

// Real-time chunking: what is known of the chunk to come. Spans are empty or full size.
struct Guidance {
  std::span<const float> previous;  // [N, A], model space
  std::span<const float> weights;   // [N]
  std::span<const float> guidance;  // [S]
  int committed_rows = 0;
};

// One observation as the model takes it.
struct ModelInput {
  // [cameras, H, W, 3] RGB; images of several sizes one behind the other ...
  std::span<const uint8_t> images;
  std::span<const float> float_images;  // ... or [-1, 1], where the engine is compiled for that
  std::vector<Frame> frames;            // instead, one per camera: plans with max_image_bytes
  std::span<const int32_t> tokens;      // valid ones, as prompt_inputs() takes them
  std::span<const float> noise;         // [N, A]
  std::span<const float> state;         // [state_rows, state_dim], where the model has one
  Guidance guidance;                    // engines compiled for it only
};

// A value of the plan as it was during a run: float32, valid rows, one block per iteration of its
// stage.
struct TracedValue {
  std::vector<int64_t> shape;  // [iterations,] rows, ...
  std::vector<float> data;
};

struct PlanStats {
  int calls = 0;
  int quantize_calls = 0;
  size_t arena_bytes = 0;      // planned
  size_t unplanned_bytes = 0;  // if no memory were reused
  // In the types and number formats of the recipe, and as the backend holds them: the CPU backend
  // computes in float32, whatever it rounds to.
  double stored_weight_bytes = 0;
  size_t weight_bytes = 0;
};

class Engine {
 public:
  explicit Engine(const EngineOptions& options);
  ~Engine();
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;

  // Another program on the same weights.
  Engine recompile(const ProgramOptions& options) const;
  // The same program in another recipe. A backend that can shares the weights that both recipes
  // hold in the same form; the others are read from the source again. Error if that has changed.
  Engine with_recipe(const RecipeOptions& options) const;

  const ModelConfig& config() const;
  const ProgramOptions& program_options() const;
  const std::string& weights_digest() const;
  const std::string& plan_digest() const;
  const Equalisation& equalisation() const;
  const Plan& plan() const;
  PlanStats stats() const;
  DeviceReport device() const;
  // Rows of the prompt that is loaded.
  int prompt_length() const { return prompt_length_; }
  // Writes an input, and runs what follows from the prompt if that is new; infer() begins with it.
  void load(const ModelInput& input);
  // Computes the styles again, and the prompt with the next input: after values were written from
  // outside.
  void recompute();
  // What runs the plan: to measure and to compare. Nothing keeps another thread from using it.
  Program& program() { return *program_; }

  // Memory of the host for the frame of a camera, max_image_bytes or a little more: a frame that
  // lies at its beginning is not copied on the host. Not to be touched while a call runs.
  std::span<std::byte> frame_buffer(int camera);

  // Writes actions [N, A]. One call of these three at a time; Error while another one runs.
  void infer(const ModelInput& input, std::span<float> actions);
  std::map<std::string, TracedValue> trace(const std::vector<std::string>& values,
                                           const ModelInput& input);
  // Adds the values of this inference to the sites of the calibration; the engine has
  // float_activations.
  void observe(const ModelInput& input, Calibration& calibration);
  // The same for what equalisation follows from; the engine is not equalised.
  void observe_channels(const ModelInput& input, ChannelMaxima& maxima);
  // What follows from it for another engine. Reads the weights again, unpacked.
  Equalisation equalise(const ChannelMaxima& maxima, double strength) const;

 private:
  struct Model;
  Engine(std::shared_ptr<Model> model, const ProgramOptions& options);
  void write_images(const ModelInput& input);
  void write_frames(const std::vector<Frame>& frames);
  void write_guidance(const ModelInput& input);

  std::shared_ptr<Model> model_;
  ProgramOptions options_;
  std::unique_ptr<Program> program_;
  std::vector<int32_t> tokens_;  // of the prompt that is in the program
  int prompt_length_ = 0;        // its rows
  // Norms whose channels observe_channels() looks at, and their sites; from its first call on.
  std::optional<std::map<std::string, std::string>> norms_;
  std::vector<float> zeros_;  // stands for guidance that is not given
  std::vector<Frame>
      described_;  // per camera: what the program's descriptor describes; without data
  std::unique_ptr<std::atomic_flag> running_ = std::make_unique<std::atomic_flag>();
};

// The configuration of the model that the options name, with the embodiment they choose.
ModelConfig config_of(const EngineOptions& options);

// Without the weights, which a plan alone does not have.
PlanStats stats_of(const Plan& plan, const Backend& backend);

// The plan of a checkpoint's configuration, without its weights: as the model is built, and with
// its types assigned.
Plan untyped_plan_for(const ModelConfig& config, const PlanOptions& options);
Plan plan_for(const ModelConfig& config, const PlanOptions& options, const Recipe& recipe,
              const Equalisation& equalisation = {});

}  // namespace flashrt
