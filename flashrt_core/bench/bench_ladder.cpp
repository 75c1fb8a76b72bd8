// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// bench_ladder [--json FILE] [--tuning FILE] [--runs N]: what each part of the method saves. Starts
// from a pipeline without fusions whose scales are measured in every run and whose kernels are
// launched one by one, adds one part after the other, and prints a row of times and errors for
// each.
//
// Full-size Pi0.5 with random weights, two cameras, horizon 10, ten steps, a prompt of 10 tokens,
// recipe fp8. What the plan has fused is taken out of it again (plan_rewrites.hpp); the rest are
// options of the backend. Errors are those of `actions - noise` against a float32 program on the
// same inputs; scales come from that program on other inputs. Where a step of the story is not
// quite what runs:
//   - The plan has no operation that measures a scale. The first row runs the plan of the second
//     one with other launches in place of each quantise call: clear, maximum, scale, round. The
//     scale goes to the linear with those of its weight.
//   - A residual is added by an add_norm whose norm nobody reads; GELU and the biases stay in the
//     epilogues of linears, gate * up and the rotation stay one call each.
//   - Vectors are shown by the norms alone, whose rows are moved off 16 bytes. Other kernels have
//     no scalar twin that computes in the same way.
//   - Launched one by one, a call costs what dispatch and driver take on the host. A step that
//     saves time of the device alone saves nothing there.
//   - Linears of up to 64 rows run our own linear_skinny or linear_f32 from the first row on, in
//     its first configuration until they are tuned.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/cuda_backend.hpp"
#include "base/atomic_file.hpp"
#include "bench/measured_program.hpp"
#include "bench/plan_rewrites.hpp"
#include "models/models.hpp"
#include "quant/calibration.hpp"
#include "quant/precision.hpp"

namespace flashrt {
namespace {

using Clock = std::chrono::steady_clock;

constexpr PlanOptions kOptions{.cameras = 2, .prompt_capacity = 10, .horizon = 10, .steps = 10};
constexpr uint64_t kWeightSeed = 1;
// Seeds of observations: those that scales come from are never those that are judged.
constexpr int kCalibrationSeed = 101, kCalibrationCount = 2;
constexpr int kJudgedSeed = 201, kJudgedCount = 2;
constexpr int kWarmUps = 5;
constexpr int kLaunchedRuns = 10;  // of what the host launches call by call

struct Settings {
  std::filesystem::path json, tuning;
  int runs = 100;  // replays
};

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// ---- the steps of the ladder

// Everything that a step may switch. The first row has it all apart.
struct Configuration {
  bool measures_scales = true;
  bool norms_quantize = false;   // and add the residual; else calls of their own
  bool others_quantize = false;  // glu, attention, and linears with GELU
  bool is_merged = false;
  bool has_styles_ready = false;
  bool is_folded = false;
  bool has_vectors = false;
  bool is_replayed = false;
  bool has_pairs = false;
  BackendOptions backend{
      .tune = false, .dependent_launch = false, .specialised_kernels = false, .captures = 1};
};

// Milliseconds, written down before anything was measured: launched one by one at 10 us a launch;
// in a graph at 1 to 1.5 us a node and the bytes that it moves.
struct Prediction {
  std::optional<double> launched, replayed;
};

struct Step {
  const char* name;
  Prediction saving;
  const char* because;
  void (*take)(Configuration&);
};

const std::vector<Step>& steps() {
  static const std::vector<Step> all{
      {"unfused, scales measured in every run", {}, "", [](Configuration&) {}},
      {"static scales",
       {46, 6.0},
       "1,544 times clearing, maximum and scale: 4,632 launches",
       [](Configuration& c) { c.measures_scales = false; }},
      {"residual, norm and quantise in one call",
       {15, 2.6},
       "448 adds and 1,096 quantise calls",
       [](Configuration& c) { c.norms_quantize = true; }},
      {"GEGLU, GELU and attention quantise",
       {4.5, 0.9},
       "448 quantise calls, 17 of them over 522 x 16384",
       [](Configuration& c) { c.others_quantize = true; }},
      {"merged QKV and gate|up",
       {6.5, 1.6},
       "646 linears",
       [](Configuration& c) { c.is_merged = true; }},
      {"styles precomputed",
       {4.0, 1.5},
       "400 calls that read 4.5 GB",
       [](Configuration& c) { c.has_styles_ready = true; }},
      {"(1 + w) folded",
       {0.0, 0.0},
       "a vector that is read before the wait",
       [](Configuration& c) { c.is_folded = true; }},
      {"vector loads and packed stores, in the norms",
       {0.0, 0.5},
       "460 norms; launched one by one they wait for the host",
       [](Configuration& c) { c.has_vectors = true; }},
      {"one graph",
       {11, 0.0},
       "2,120 launches at 10 us against about 10 ms of nodes",
       [](Configuration& c) { c.is_replayed = true; }},
      {"graph autotune",
       {{}, 0.05},
       "the spread of three recordings",
       [](Configuration& c) { c.backend.captures = 3; }},
      {"dependent launch",
       {{}, 0.9},
       "0.28 us a node, and weights that are on their way before the wait",
       [](Configuration& c) { c.backend.dependent_launch = true; }},
      {"linears tuned",
       {{}, 0.9},
       "1 us of 720 linears of the expert, a tenth of the library's",
       [](Configuration& c) { c.backend.tune = true; }},
      {"kernels for sm_90",
       {{}, 1.0},
       "tiles that fit 522 rows, no second kernel to finish a product, split keys",
       [](Configuration& c) { c.backend.specialised_kernels = true; }},
      {"linear with glu, rope or step in one kernel",
       {{}, 0.5},
       "370 nodes of the expert, 17 GEGLU of 8.8 us",
       [](Configuration& c) { c.has_pairs = true; }}};
  return all;
}

Plan fused_plan(const std::string& recipe) {
  return assign_precision(build_plan(full_size_config(ModelType::kPi05), kOptions),
                          Recipe::named(recipe));
}

Plan plan_of(const Configuration& c, DerivedWeights& derived) {
  Plan plan = fused_plan("fp8");
  const auto is_norm = [](const Op& op) { return std::holds_alternative<AddNorm>(op); };
  if (!c.is_merged) split_linears(plan, derived);
  if (!c.norms_quantize) quantize_apart(plan, DType::kBF16, is_norm);
  if (!c.others_quantize)
    quantize_apart(plan, DType::kBF16, [&](const Op& op) { return !is_norm(op); });
  if (!c.norms_quantize) add_apart(plan);
  if (!c.has_styles_ready) styles_in_loop(plan);
  if (!c.is_folded) norms_apart(plan, derived);
  if (!c.has_vectors) misalign_residuals(plan);
  if (!c.has_pairs) pairs_apart(plan);
  return plan;
}

bool is_same(const BackendOptions& a, const BackendOptions& b) {
  return a.tune == b.tune && a.dependent_launch == b.dependent_launch &&
         a.specialised_kernels == b.specialised_kernels && a.captures == b.captures;
}

// ---- observations

struct Observation {
  std::vector<uint8_t> images;
  std::vector<int32_t> tokens;
  std::vector<float> noise;
};

Observation random_observation(const ModelConfig& config, int seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  const int size = config.vision.image_size;
  Observation observation{
      .images = std::vector<uint8_t>(size_t{3} * kOptions.cameras * size * size),
      .tokens = std::vector<int32_t>(kOptions.prompt_capacity),
      .noise = std::vector<float>(size_t{1} * kOptions.horizon * config.action_dim)};
  for (uint8_t& pixel : observation.images) pixel = static_cast<uint8_t>(random() % 256);
  for (int32_t& token : observation.tokens)
    token = static_cast<int32_t>(random() % config.vocab_size);
  for (float& value : observation.noise) value = normal(random);
  return observation;
}

void put(auto& program, std::string_view name, const auto& values) {
  program.write(name, std::as_bytes(std::span(values)));
}

void write(auto& program, const Observation& observation) {
  std::vector<float> times{1};
  while (times.size() < kOptions.steps) {
    times.push_back(times.back() + static_cast<float>(-1.0 / kOptions.steps));
  }
  put(program, "times", times);
  put(program, "images", observation.images);
  put(program, "tokens", observation.tokens);
  put(program, "prompt_length", std::vector{static_cast<int32_t>(observation.tokens.size())});
  put(program, "actions", observation.noise);
}

std::vector<float> actions_of(const auto& program, const Observation& observation) {
  std::vector<float> actions(observation.noise.size());
  program.read_float("actions", actions);
  return actions;
}

constexpr When kAllWhens[] = {When::kLoad, When::kPrompt, When::kInfer};

std::vector<float> infer(auto& program, const Observation& observation) {
  write(program, observation);
  for (const When when : kAllWhens) program.run(when);
  return actions_of(program, observation);
}

// ---- the reference

// What a float32 program says about the observations.
struct Reference {
  std::vector<Observation> observations;
  std::vector<std::vector<float>> actions;  // per observation
  Calibration calibration;                  // on other observations
};

// Adds to the calibration what the plan in fp8 will hold in e4m3.
void observe(Program& program, const Plan& quantised, const Observation& observation,
             Calibration& calibration) {
  write(program, observation);
  std::vector<float> data;
  for (const When when : kAllWhens) {
    program.run_observed(when, [&](int call, int) {
      for_each_write(program.plan().calls[call], [&](Value value) {
        const ValueInfo& info = quantised[value];
        if (info.site.empty()) return;
        data.resize(static_cast<size_t>(info.shape.elements()));  // the prompt is full
        program.read_float(info.name, data);
        calibration.observe(info.site, -1, data);
      });
    });
  }
}

Reference reference_of(const ModelConfig& config) {
  const auto backend = cuda::make_cuda_backend({.tune = false, .captures = 0});
  const Plan plan = fused_plan("f32"), quantised = fused_plan("fp8");
  FLASHRT_CHECK(plan.values.size() == quantised.values.size(),
                "the plans in f32 and fp8 have other values: fp8 quantises in calls of their own");
  const auto program = backend->compile(
      plan, backend->upload(plan, Weights::random(config, kWeightSeed, 0)), {}, {});
  Reference reference;
  for (int i = 0; i < kCalibrationCount; ++i) {
    observe(*program, quantised, random_observation(config, kCalibrationSeed + i),
            reference.calibration);
  }
  reference.calibration.finish(RangeEstimator::kMinMax, 1, false);
  for (int i = 0; i < kJudgedCount; ++i) {
    reference.observations.push_back(random_observation(config, kJudgedSeed + i));
    reference.actions.push_back(infer(*program, reference.observations.back()));
  }
  return reference;
}

// Of `actions - noise`, over all observations.
struct Accuracy {
  double cosine = 0, rms = 0, relative = 0;
};

Accuracy accuracy_of(const Reference& reference, const std::vector<std::vector<float>>& actions) {
  double product = 0, ours = 0, theirs = 0, difference = 0, count = 0;
  for (size_t i = 0; i < actions.size(); ++i) {
    for (size_t k = 0; k < actions[i].size(); ++k) {
      const double noise = reference.observations[i].noise[k];
      const double a = actions[i][k] - noise, b = reference.actions[i][k] - noise;
      product += a * b;
      ours += a * a;
      theirs += b * b;
      difference += (a - b) * (a - b);
      ++count;
    }
  }
  return {.cosine = product / std::sqrt(ours * theirs),
          .rms = std::sqrt(difference / count),
          .relative = std::sqrt(difference / theirs)};
}

// ---- measuring

struct Times {
  double launched = 0, replayed = 0;  // medians, milliseconds
};

// From inputs on the device to actions on the host, on the host's clock.
double time_launched(auto& program, const Observation& observation) {
  put(program, "actions", observation.noise);
  actions_of(program, observation);  // waits
  const auto begin = Clock::now();
  program.run_observed(When::kInfer, {});
  actions_of(program, observation);
  return milliseconds_since(begin);
}

Times time_program(auto& program, const Observation& observation, bool is_replayed, int runs) {
  std::vector<double> launched, replayed;
  for (int run = -kWarmUps; run < runs; ++run) {
    put(program, "actions", observation.noise);
    const double time = program.time_run(When::kInfer);
    if (run >= 0) replayed.push_back(time);
  }
  if (is_replayed) return {.replayed = median(replayed)};
  for (int run = -1; run < kLaunchedRuns; ++run) {
    const double time = time_launched(program, observation);
    if (run >= 0) launched.push_back(time);
  }
  return {.launched = median(launched), .replayed = median(replayed)};
}

struct Row {
  const Step* step;
  Times times;
  int nodes = 0;
  Accuracy accuracy;
  bool is_replayed = false;
  double fastest_capture_ms = 0, slowest_capture_ms = 0;
};

class Ladder {
 public:
  explicit Ladder(const Settings& settings)
      : settings_(settings), reference_(reference_of(config_)) {
    std::fprintf(stderr, "reference: %.0f s\n", seconds());
    // One upload for all: the weights of the first plan and those of the last one.
    DerivedWeights derived;
    Plan all = plan_of({}, derived);
    const Plan fused = fused_plan("fp8");
    for (const WeightInfo& info : fused.weights) {
      if (std::ranges::find(all.weights, info.name, &WeightInfo::name) == all.weights.end())
        all.weights.push_back(info);
    }
    use_backend({});
    device_ = backend_->device();
    weights_ = backend_->upload(
        all, with_derived(Weights::random(config_, kWeightSeed, 0), std::move(derived)));
  }

  std::vector<Row> climb() {
    std::vector<Row> rows;
    Configuration configuration;
    for (const Step& step : steps()) {
      step.take(configuration);
      rows.push_back(measure(step, configuration));
      std::fprintf(stderr, "%s: %.0f s\n", step.name, seconds());
    }
    return rows;
  }

  const DeviceReport& device() const { return device_; }

 private:
  double seconds() const { return milliseconds_since(begin_) * 1e-3; }

  void use_backend(const Configuration& configuration) {
    if (backend_ && is_same(backend_options_, configuration.backend)) return;
    backend_options_ = configuration.backend;
    backend_options_.tuning = settings_.tuning;
    backend_ = cuda::make_cuda_backend(backend_options_);
  }

  Row measure(const Step& step, const Configuration& configuration) {
    use_backend(configuration);
    DerivedWeights derived;
    const Plan plan = plan_of(configuration, derived);
    if (configuration.measures_scales) {
      cuda::MeasuredProgram program(
          plan, with_derived(Weights::random(config_, kWeightSeed, 0), std::move(derived)),
          backend_options_);
      return row_of(step, configuration, program);
    }
    const auto program = backend_->compile(plan, weights_, reference_.calibration, {});
    return row_of(step, configuration, *program);
  }

  Row row_of(const Step& step, const Configuration& configuration, auto& program) const {
    const auto& observations = reference_.observations;
    std::vector<std::vector<float>> actions;
    for (const Observation& observation : observations)
      actions.push_back(infer(program, observation));
    infer(program, observations.front());
    const ProgramCounters counters = program.counters();
    return {.step = &step,
            .times = time_program(program, observations.front(), configuration.is_replayed,
                                  settings_.runs),
            .nodes = counters.graph_nodes,
            .accuracy = accuracy_of(reference_, actions),
            .is_replayed = configuration.is_replayed,
            .fastest_capture_ms = counters.fastest_capture_ms,
            .slowest_capture_ms = counters.slowest_capture_ms};
  }

  const Clock::time_point begin_ = Clock::now();
  const Settings settings_;
  const ModelConfig config_ = full_size_config(ModelType::kPi05);
  const Reference reference_;
  BackendOptions backend_options_;
  std::unique_ptr<Backend> backend_;
  DeviceReport device_;
  std::shared_ptr<const DeviceWeights> weights_;
};

// ---- the table

std::string cell(std::optional<double> value) {
  if (!value) return "";
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.2f", *value);
  return digits;
}

// Milliseconds of the row where its kernels are launched one by one; of the graph's own row those
// of the graph.
std::optional<double> launched_of(const std::vector<Row>& rows, size_t i) {
  if (!rows[i].is_replayed) return rows[i].times.launched;
  if (i > 0 && !rows[i - 1].is_replayed) return rows[i].times.replayed;
  return {};
}

std::optional<double> launched_saving(const std::vector<Row>& rows, size_t i) {
  if (i == 0 || !launched_of(rows, i)) return {};
  return *launched_of(rows, i - 1) - *launched_of(rows, i);
}

std::optional<double> replayed_saving(const std::vector<Row>& rows, size_t i) {
  if (i == 0) return {};
  return rows[i - 1].times.replayed - rows[i].times.replayed;
}

void print(const std::vector<Row>& rows, const DeviceReport& device) {
  std::printf("%s, %s\n\n", device.name.c_str(), device.versions.c_str());
  std::printf(
      "| step | one by one: predicted saving | saving | ms | in a graph: predicted saving | saving "
      "| ms | nodes | cosine | RMS error |\n|---|---|---|---|---|---|---|---|---|---|\n");
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    std::printf("| %s | %s | %s | %s | %s | %s | %s | %d | %.5f | %.4f (%.1f %%) |\n",
                row.step->name, cell(row.step->saving.launched).c_str(),
                cell(launched_saving(rows, i)).c_str(), cell(launched_of(rows, i)).c_str(),
                cell(row.step->saving.replayed).c_str(), cell(replayed_saving(rows, i)).c_str(),
                cell(row.times.replayed).c_str(), row.nodes, row.accuracy.cosine, row.accuracy.rms,
                100 * row.accuracy.relative);
  }
}

void write_json(const std::filesystem::path& path, const std::vector<Row>& rows,
                const DeviceReport& device, int runs) {
  using Json = nlohmann::ordered_json;
  const auto number = [](std::optional<double> value) { return value ? Json(*value) : Json(); };
  Json content{{"format", "flashrt_ladder"},  {"version", 2}, {"device", device.name},
               {"versions", device.versions}, {"runs", runs}, {"launched_runs", kLaunchedRuns},
               {"rows", Json::array()}};
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    content["rows"].push_back({{"name", row.step->name},
                               {"because", row.step->because},
                               {"predicted_launched_saving_ms", number(row.step->saving.launched)},
                               {"launched_ms", number(launched_of(rows, i))},
                               {"predicted_replayed_saving_ms", number(row.step->saving.replayed)},
                               {"replayed_ms", row.times.replayed},
                               {"nodes", row.nodes},
                               {"cosine", row.accuracy.cosine},
                               {"rms_error", row.accuracy.rms},
                               {"relative_error", row.accuracy.relative},
                               {"fastest_capture_ms", row.fastest_capture_ms},
                               {"slowest_capture_ms", row.slowest_capture_ms}});
  }
  write_file_atomically(path, content.dump(1) + "\n");
}

Settings parse(std::span<char* const> arguments) {
  Settings settings;
  for (size_t i = 0; i < arguments.size(); i += 2) {
    const std::string name = arguments[i];
    FLASHRT_CHECK(i + 1 < arguments.size(), name, ": a value is missing");
    const std::string value = arguments[i + 1];
    if (name == "--json") {
      settings.json = value;
    } else if (name == "--tuning") {
      settings.tuning = value;
    } else if (name == "--runs") {
      settings.runs = std::atoi(value.c_str());
      FLASHRT_CHECK(settings.runs > 0, "--runs ", value, ": expected a positive number");
    } else {
      throw Error(text(name, ": expected --json FILE, --tuning FILE or --runs N"));
    }
  }
  return settings;
}

int run(const Settings& settings) {
  Ladder ladder(settings);
  const std::vector<Row> rows = ladder.climb();
  print(rows, ladder.device());
  if (!settings.json.empty()) write_json(settings.json, rows, ladder.device(), settings.runs);
  return 0;
}

}  // namespace
}  // namespace flashrt

int main(int argc, char** argv) {
  try {
    return flashrt::run(flashrt::parse(std::span(argv, static_cast<size_t>(argc)).subspan(1)));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_ladder: %s\n", error.what());
    return 2;
  }
}
