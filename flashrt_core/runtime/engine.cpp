// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "runtime/engine.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "checkpoint/weights.hpp"
#include "models/inputs.hpp"
#include "plan/cost.hpp"
#include "plan/memory.hpp"
#include "quant/plan_digest.hpp"
#include "quant/precision.hpp"
#include "runtime/backends.hpp"
#include "runtime/free_memory.hpp"
#include "runtime/packed.hpp"

namespace flashrt {
namespace {

Weights weights_of(const EngineOptions& options, const ModelConfig& config,
                   const std::string& plan_digest) {
  FLASHRT_CHECK(options.random_seed || options.random_outliers == 1, "outliers of ",
                options.random_outliers, " are for random weights; those of ",
                options.checkpoint.string(), " are its own");
  return options.packed.empty() ? unpacked_weights(options, config)
                                : open_packed(options, config, plan_digest);
}

int chosen(int option, int checkpoint, std::string_view what) {
  FLASHRT_CHECK(option >= 0, what, ": ", option, ", expected 0 (the checkpoint's own) or more");
  const int value = option > 0 ? option : checkpoint;
  FLASHRT_CHECK(value > 0, what, " is needed: the checkpoint's config does not say");
  return value;
}

// Holds an engine for one call: a second one would write into the memory that the first works on.
class Exclusive {
 public:
  explicit Exclusive(std::atomic_flag& running) : running_(running) {
    FLASHRT_CHECK(!running_.test_and_set(std::memory_order_acquire),
                  "engine: a second call while one runs; give each thread its own, by recompile");
  }
  ~Exclusive() { running_.clear(std::memory_order_release); }
  Exclusive(const Exclusive&) = delete;
  Exclusive& operator=(const Exclusive&) = delete;

 private:
  std::atomic_flag& running_;
};

template <class T>
void write_values(Program& program, std::string_view name, std::span<const T> data) {
  program.write(name, std::as_bytes(data));
}

}  // namespace

ModelConfig config_of(const EngineOptions& options) {
  ModelConfig config = options.random_seed ? named_config(options.checkpoint)
                                           : read_model_config(options.checkpoint);
  FLASHRT_CHECK(options.embodiment.slot < 0 || config.type == ModelType::kGrootN16,
                "embodiment slot ", options.embodiment.slot, ": ", name_of(config.type),
                " has no embodiments");
  config.embodiment = options.embodiment;
  return config;
}

Plan untyped_plan_for(const ModelConfig& config, const PlanOptions& options) {
  PlanOptions plan = options;
  plan.horizon = chosen(options.horizon, config.horizon, "horizon");
  plan.steps = chosen(options.steps, config.steps, "number of denoise steps");
  plan.prompt_capacity = chosen(options.prompt_capacity, config.prompt_capacity, "prompt capacity");
  return build_plan(config, plan);
}

Plan plan_for(const ModelConfig& config, const PlanOptions& options, const Recipe& recipe,
              const Equalisation& equalisation) {
  return assign_precision(equalised(untyped_plan_for(config, options), equalisation), recipe);
}

PlanStats stats_of(const Plan& plan, const Backend& backend) {
  const auto workspace = [&](const Call& call) { return backend.workspace_bytes(plan, call); };
  PlanStats stats{.calls = static_cast<int>(plan.calls.size()),
                  .arena_bytes = plan_memory(plan, workspace, false).arena_bytes,
                  .unplanned_bytes = plan_memory(plan, workspace, true).arena_bytes,
                  .stored_weight_bytes = weight_bytes(plan)};
  for (const Call& call : plan.calls)
    stats.quantize_calls += std::holds_alternative<Quantize>(call.op);
  return stats;
}

// What programs share.
struct Engine::Model {
  EngineOptions options;  // to read the weights again
  ModelConfig config;
  Recipe recipe;
  std::shared_ptr<Backend> backend;
  std::string weights_digest, plan_digest;
  Calibration calibration;
  Equalisation equalisation;
  std::optional<Weights> source;  // kept from the first with_recipe() on
  std::shared_ptr<const DeviceWeights> weights;

  // As the options say. Error, before any weight is read, where the backend cannot run it.
  void read_recipe(const Plan& untyped);
  // Calibration and weights for the recipe; `like` has others of the same source, to share them.
  void upload(const Plan& untyped, const Weights& from, const Model* like);
};

void Engine::Model::read_recipe(const Plan& untyped) {
  recipe = Recipe::named(options.recipe);
  recipe.float_activations = options.float_activations;
  backend->check_plan(assign_precision(untyped, recipe));
}

void Engine::Model::upload(const Plan& untyped, const Weights& from, const Model* like) {
  equalisation = options.equalisation;
  if (!options.calibration.empty()) {
    FLASHRT_CHECK(options.equalisation.empty(), "factors of an equalisation were given beside ",
                  "calibration ", options.calibration.string(), ", which has its own or none");
    calibration = Calibration::load(options.calibration);
    calibration.check_fits(options.calibration.string(), weights_digest, plan_digest);
    equalisation = calibration.observations.equalisation;
  }
  FLASHRT_CHECK(equalisation.empty() || options.packed.empty(), "the weights in ",
                options.packed.string(),
                " were packed without equalisation, which the calibration asks for; use the "
                "checkpoint itself, or calibrate without equalisation");
  const Plan plan = assign_precision(equalised(untyped, equalisation), recipe);
  for (const ValueInfo& value : plan.values) {
    FLASHRT_CHECK(!has_scale(held_format(value)) || !options.calibration.empty(), "recipe ",
                  recipe.name, " quantises ", value.name,
                  ", but no calibration was given; `flashrt calibrate` makes one");
  }
  const Weights read = equalised(from, untyped, equalisation);
  // Equalised in another way, all of them are others.
  const DeviceWeights* shared =
      like && like->equalisation == equalisation ? like->weights.get() : nullptr;
  check_free_memory(*backend, plan, options.program.keep_values,
                    shared ? backend->shared_bytes(plan, *shared) : 0);
  weights = shared ? backend->upload_like(plan, read, *shared) : backend->upload(plan, read);
}

Engine::Engine(const EngineOptions& options) : model_(std::make_shared<Model>()) {
  model_->options = options;
  model_->backend = make_backend(options.backend, options.backend_options);
  model_->config = config_of(options);
  const Plan untyped = untyped_plan_for(model_->config, options.program.plan);
  // What calibrations and packed weights are for.
  model_->plan_digest = flashrt::plan_digest(untyped);
  model_->read_recipe(untyped);
  const Weights weights = weights_of(options, model_->config, model_->plan_digest);
  model_->weights_digest = weights.digest();
  model_->upload(untyped, weights, nullptr);
  *this = Engine(model_, options.program);
}

Engine::Engine(std::shared_ptr<Model> model, const ProgramOptions& options)
    : model_(std::move(model)), options_(options) {
  const ModelConfig& config = model_->config;
  PlanOptions& plan = options_.plan;
  plan.horizon = chosen(plan.horizon, config.horizon, "horizon");
  plan.steps = chosen(plan.steps, config.steps, "number of denoise steps");
  plan.prompt_capacity = chosen(plan.prompt_capacity, config.prompt_capacity, "prompt capacity");
  if (options_.times.empty()) options_.times = default_times(config, plan.steps);
  FLASHRT_CHECK(static_cast<int>(options_.times.size()) == plan.steps,
                "times: ", options_.times.size(), " values for ", plan.steps, " steps");
  for (size_t step = 0; step < options_.times.size(); ++step) {
    FLASHRT_CHECK(std::isfinite(options_.times[step]), "times: ", options_.times[step], " at step ",
                  step, ", expected finite values");
  }

  const size_t cameras = plan.max_image_bytes > 0 ? plan.cameras : 0;  // that deliver frames
  if (options_.frames.empty()) options_.frames.resize(cameras);
  FLASHRT_CHECK(options_.frames.size() == cameras, "frame options of ", options_.frames.size(),
                " cameras, expected ", cameras,
                plan.max_image_bytes > 0 ? "" : ": images come resized");
  described_.resize(cameras);

  program_ = model_->backend->compile(plan_for(config, plan, model_->recipe, model_->equalisation),
                                      model_->weights, model_->calibration,
                                      {.keep_values = options_.keep_values});
  zeros_.resize(static_cast<size_t>(plan.horizon) * std::max(config.action_dim, plan.steps));
  for (const InputData& input : load_inputs(config, plan, options_.times))
    program_->write(input.name, input.data);
  program_->run(When::kLoad);
}

Engine::~Engine() = default;
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;

Engine Engine::recompile(const ProgramOptions& options) const { return Engine(model_, options); }

Engine Engine::with_recipe(const RecipeOptions& options) const {
  if (!model_->source) {
    Weights source = weights_of(model_->options, model_->config, model_->plan_digest);
    FLASHRT_CHECK(source.digest() == model_->weights_digest, "the weights of ",
                  model_->options.checkpoint.string(), " were ", model_->weights_digest,
                  " when they were loaded and are ", source.digest(), " now; load them again");
    model_->source = std::move(source);
  }
  auto other = std::make_shared<Model>(*model_);
  other->options.recipe = options.recipe;
  other->options.calibration = options.calibration;
  other->options.float_activations = options.float_activations;
  other->options.equalisation = {};
  other->options.program = options_;
  other->calibration = {};
  const Plan untyped = untyped_plan_for(other->config, options_.plan);
  other->read_recipe(untyped);
  other->upload(untyped, *other->source, model_.get());
  return Engine(std::move(other), options_);
}

const ModelConfig& Engine::config() const { return model_->config; }
const ProgramOptions& Engine::program_options() const { return options_; }
const std::string& Engine::weights_digest() const { return model_->weights_digest; }
const std::string& Engine::plan_digest() const { return model_->plan_digest; }
const Equalisation& Engine::equalisation() const { return model_->equalisation; }
const Plan& Engine::plan() const { return program_->plan(); }

PlanStats Engine::stats() const {
  PlanStats stats = stats_of(plan(), *model_->backend);
  stats.arena_bytes = program_->arena_bytes();
  stats.weight_bytes = model_->weights->bytes();
  return stats;
}

DeviceReport Engine::device() const { return model_->backend->device(); }

void Engine::load(const ModelInput& input) {
  const ModelConfig& c = model_->config;
  const PlanOptions& o = options_.plan;
  const size_t actions = static_cast<size_t>(o.horizon) * c.action_dim;
  // Refuses what does not fit before anything is written.
  const bool is_new_prompt = tokens_.empty() || !std::ranges::equal(tokens_, input.tokens);
  PromptInputs prompt;
  if (is_new_prompt) prompt = prompt_inputs(c, o, input.tokens);
  FLASHRT_CHECK(input.noise.size() == actions, "noise: ", input.noise.size(), " values, expected ",
                o.horizon, " x ", c.action_dim);
  FLASHRT_CHECK(input.state.size() == static_cast<size_t>(o.state_rows) * c.state_dim,
                "state: ", input.state.size(), " values, expected ", o.state_rows, " x ",
                c.state_dim);

  write_images(input);
  write_values(*program_, "actions", input.noise);
  if (c.state_dim > 0) write_values(*program_, "state", input.state);
  if (o.guided) {
    write_guidance(input);
  } else {
    FLASHRT_CHECK(input.guidance.previous.empty() && input.guidance.committed_rows == 0,
                  "guidance was given, but the engine was compiled without it");
  }

  if (is_new_prompt) {
    tokens_.clear();  // until the program holds the new ones
    for (const InputData& data : prompt.inputs) program_->write(data.name, data.data);
    prompt_length_ = prompt.length;
    program_->run(When::kPrompt);
    tokens_.assign(input.tokens.begin(), input.tokens.end());
  }
}

void Engine::write_images(const ModelInput& input) {
  const PlanOptions& o = options_.plan;
  if (o.max_image_bytes > 0) {
    FLASHRT_CHECK(input.images.empty() && input.float_images.empty(),
                  "images were given, but this engine resizes frames (max_image_bytes)");
    return write_frames(input.frames);
  }
  FLASHRT_CHECK(input.frames.empty(),
                "frames were given, but this engine takes images that are resized already; compile "
                "it with max_image_bytes");
  const std::vector<ImageInput> inputs = image_inputs(model_->config, o);
  const auto bytes =
      o.float_images ? std::as_bytes(input.float_images) : std::as_bytes(input.images);
  const size_t element = o.float_images ? sizeof(float) : 1;
  size_t expected = 0;
  std::string sizes;
  for (const ImageInput& images : inputs) {
    expected += static_cast<size_t>(images.elements());
    sizes += text(sizes.empty() ? "" : ", ", images.images, " cameras x ", images.size.height,
                  " x ", images.size.width, " x 3");
  }
  const std::string_view unit = o.float_images ? " floats" : " bytes";
  FLASHRT_CHECK(bytes.size() == expected * element, "images: ", bytes.size() / element, unit,
                " were given, this engine takes ", sizes, unit);
  size_t begin = 0;
  for (const ImageInput& images : inputs) {
    const size_t count = static_cast<size_t>(images.elements()) * element;
    program_->write("images" + images.suffix, bytes.subspan(begin, count));
    begin += count;
  }
}

void Engine::write_frames(const std::vector<Frame>& frames) {
  const PlanOptions& o = options_.plan;
  FLASHRT_CHECK(static_cast<int>(frames.size()) == o.cameras, "frames: ", frames.size(),
                " were given, this engine takes those of ", o.cameras, " cameras");
  const int size = model_->config.vision.image_size;
  const Plan& plan = program_->plan();
  const size_t capacity = plan[plan.find("frames")].shape.width();
  for (size_t camera = 0; camera < frames.size(); ++camera) {
    const Frame& frame = frames[camera];
    FLASHRT_CHECK(frame.data.size() <= static_cast<size_t>(o.max_image_bytes), "frame of camera ",
                  camera, ": ", frame.data.size(), " bytes, max_image_bytes is ",
                  o.max_image_bytes);
    Frame& known = described_[camera];
    const bool is_described = frame.height == known.height && frame.width == known.width &&
                              frame.step == known.step && frame.format == known.format &&
                              frame.data.size() == size_t{1} * frame.height * frame.step;
    if (!is_described) {
      std::vector<int32_t> descriptor(frame_descriptor_layout(size).words);
      describe_frame(frame, options_.frames[camera],
                     o.float_images ? Resampling::kBilinear : Resampling::kPillow, size,
                     descriptor);
      known = {};  // until the program holds the new one
      const auto bytes = std::as_bytes(std::span(descriptor));
      program_->write_part("frame_descriptors", camera * bytes.size(), bytes);
      known = {
          .height = frame.height, .width = frame.width, .step = frame.step, .format = frame.format};
    }
    program_->write_part("frames", camera * capacity, frame.data);
  }
}

std::span<std::byte> Engine::frame_buffer(int camera) {
  const PlanOptions& o = options_.plan;
  FLASHRT_CHECK(o.max_image_bytes > 0 && 0 <= camera &&
                        camera<o.cameras, "frame buffer of camera ", camera,
                               ": this engine resizes the frames of ", o.max_image_bytes> 0
                    ? o.cameras
                    : 0,
                " cameras");
  const std::span<std::byte> memory = program_->input_buffer("frames");
  const size_t capacity = memory.size() / o.cameras;
  return memory.subspan(camera * capacity, capacity);
}

void Engine::recompute() {
  program_->run(When::kLoad);
  tokens_.clear();
}

void Engine::write_guidance(const ModelInput& input) {
  const PlanOptions& o = options_.plan;
  const Guidance& g = input.guidance;
  const auto full = [&](std::span<const float> data, size_t size, std::string_view name) {
    FLASHRT_CHECK(data.empty() || data.size() == size, name, ": ", data.size(),
                  " values, expected ", size);
    return data.empty() ? std::span<const float>(zeros_).first(size) : data;
  };
  FLASHRT_CHECK(g.committed_rows >= 0 && g.committed_rows <= o.horizon,
                "committed rows: ", g.committed_rows, ", the horizon is ", o.horizon);
  FLASHRT_CHECK(g.committed_rows == 0 || !g.previous.empty(), "committed rows: ", g.committed_rows,
                ", but no previous actions");
  const std::span<const float> previous = full(g.previous, input.noise.size(), "previous actions");
  write_values<int32_t>(*program_, "committed_rows", std::span(&g.committed_rows, 1));
  write_values(*program_, "previous_actions", previous);
  write_values(*program_, "previous_weights",
               full(g.weights, o.horizon, "weights of the previous actions"));
  write_values(*program_, "guidance", full(g.guidance, o.steps, "guidance"));
  if (g.committed_rows > 0) {  // these rows start as they will end
    std::vector<float> actions(input.noise.begin(), input.noise.end());
    const size_t committed = static_cast<size_t>(g.committed_rows) * model_->config.action_dim;
    std::ranges::copy(previous.first(committed), actions.begin());
    write_values<float>(*program_, "actions", actions);
  }
}

void Engine::infer(const ModelInput& input, std::span<float> actions) {
  const Exclusive exclusive(*running_);
  load(input);
  program_->run(When::kInfer);
  program_->read_float("actions", actions);
}

namespace {

// Whether this call completes the value: it writes it, or, where nothing writes it directly, the
// whole or a part of it.
std::set<int> writers_of(const Plan& plan, Value value) {
  std::set<int> direct, indirect;
  for (int index = 0; index < static_cast<int>(plan.calls.size()); ++index) {
    for_each_write(plan.calls[index], [&](Value written) {
      if (written == value) direct.insert(index);
      if (plan.storage_of(written) == plan.storage_of(value)) indirect.insert(index);
    });
  }
  if (!direct.empty()) return direct;
  FLASHRT_CHECK(!indirect.empty(), "value ", plan[value].name,
                " is written by no call: nothing to trace");
  return {*indirect.rbegin()};
}

int64_t valid_rows(const ValueInfo& info, int prompt_length) {
  return info.rows.length ? info.rows.base + prompt_length : info.shape.rows();
}

}  // namespace

std::map<std::string, TracedValue> Engine::trace(const std::vector<std::string>& values,
                                                 const ModelInput& input) {
  const Exclusive exclusive(*running_);
  const Plan& plan = program_->plan();
  struct Target {
    Value value;
    std::set<int> writers;
  };
  std::vector<Target> targets;
  for (const std::string& name : values) {
    const Value value = plan.find(name);
    targets.push_back({value, writers_of(plan, value)});
  }
  load(input);
  const int prompt_length = prompt_length_;
  std::map<std::string, TracedValue> traced;
  const auto record = [&](int call, int) {
    for (const Target& target : targets) {
      if (!target.writers.contains(call)) continue;
      const ValueInfo& info = plan[target.value];
      TracedValue& out = traced[info.name];
      if (out.shape.empty()) {
        out.shape = info.shape.extents();
        out.shape[0] = valid_rows(info, prompt_length);
        if (plan.stage_of(call).repeat > 1) out.shape.insert(out.shape.begin(), 0);
      }
      if (plan.stage_of(call).repeat > 1) ++out.shape.front();
      const size_t size = static_cast<size_t>(valid_rows(info, prompt_length) * info.shape.width());
      out.data.resize(out.data.size() + size);
      program_->read_float(info.name, std::span(out.data).last(size));
    }
  };
  for (const When when : {When::kLoad, When::kPrompt, When::kInfer})
    program_->run_observed(when, record);
  return traced;
}

void Engine::observe(const ModelInput& input, Calibration& calibration) {
  const Exclusive exclusive(*running_);
  FLASHRT_CHECK(
      model_->recipe.float_activations,
      "calibrating needs an engine that holds quantised activations in float (float_activations)");
  const Plan& plan = program_->plan();
  load(input);
  const int prompt_length = prompt_length_;
  Observations& observations = calibration.observations;
  observations.begin(model_->weights_digest, model_->plan_digest, model_->equalisation);
  std::vector<float> data;
  const auto record = [&](int call, int iteration) {
    const bool repeated = plan.stage_of(call).repeat > 1;
    for_each_write(plan.calls[call], [&](Value value) {
      const ValueInfo& info = plan[value];
      if (info.site.empty()) return;
      data.resize(static_cast<size_t>(valid_rows(info, prompt_length) * info.shape.width()));
      program_->read_float(info.name, data);
      observations.add(info.site, repeated ? iteration : -1, data, info.format);
    });
  };
  for (const When when : {When::kLoad, When::kPrompt, When::kInfer})
    program_->run_observed(when, record);
  observations.end(options_.plan.steps);
}

void Engine::observe_channels(const ModelInput& input, ChannelMaxima& maxima) {
  const Exclusive exclusive(*running_);
  FLASHRT_CHECK(model_->recipe.float_activations && model_->equalisation.empty(),
                "observing channels needs an engine that holds quantised activations in float "
                "(float_activations) and is not equalised");
  const Plan& plan = program_->plan();
  if (!norms_) norms_ = quantised_norms(untyped_plan_for(model_->config, options_.plan), plan);
  load(input);
  const int prompt_length = prompt_length_;
  maxima.begin_observation(model_->weights_digest, model_->plan_digest);
  std::vector<float> data;
  const auto record = [&](int call, int) {
    const auto norm = norms_->find(plan.calls[call].name);
    if (norm == norms_->end()) return;
    const ValueInfo& info = plan[std::get<AddNorm>(plan.calls[call].op).y];
    data.resize(static_cast<size_t>(valid_rows(info, prompt_length) * info.shape.width()));
    program_->read_float(info.name, data);
    maxima.observe(norm->second, info.shape.width(), data);
  };
  for (const When when : {When::kLoad, When::kPrompt, When::kInfer})
    program_->run_observed(when, record);
}

Equalisation Engine::equalise(const ChannelMaxima& maxima, double strength) const {
  const Weights weights = unpacked_weights(model_->options, model_->config);
  return flashrt::equalise(untyped_plan_for(model_->config, options_.plan), weights, maxima,
                           strength);
}

}  // namespace flashrt
