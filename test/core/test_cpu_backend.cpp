// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// The CPU backend as a whole: models against the double reference, memory that is used again, what
// may be read and written, errors, and that a run allocates nothing.

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>
#include <random>
#include <set>
#include <thread>

#include "compile_cpu.hpp"
#include "expect_error.hpp"
#include "models/inputs.hpp"
#include "quant/precision.hpp"
#include "quant/recipe.hpp"
#include "reference.hpp"
#include "tiny_models.hpp"

namespace {
std::atomic<int64_t> allocations{0};
}  // namespace

// Counts every allocation of this program. GCC cannot see that new and delete below belong
// together.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void* operator new(size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  return std::malloc(bytes ? bytes : 1);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
#pragma GCC diagnostic pop

namespace flashrt {
namespace {

template <class T>
std::span<const std::byte> bytes(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

// A model with random weights, and inputs that depend on a seed.
class TinyModel {
 public:
  TinyModel(const ModelConfig& config, const PlanOptions& options,
            const std::string& recipe = "f32")
      : config_(config),
        options_(options),
        plan_(assign_precision(build_plan(config, options), Recipe::named(recipe))) {
    for (const ValueInfo& info : plan_.values) {  // values of order 1: up to 4.48
      if (info.type == DType::kE4M3) scales_[info.site] = {0.01f};
    }
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (const WeightInfo& info : plan_.weights) {
      HostTensor tensor{info.shape, {}};
      const float deviation =
          info.shape.rank() == 2 ? 1 / std::sqrt(static_cast<float>(info.shape.width())) : 0.1f;
      for (int64_t i = 0; i < info.shape.elements(); ++i)
        tensor.data.push_back(deviation * normal(random));
      weights_[info.name] = std::move(tensor);
    }
  }

  const Plan& plan() const { return plan_; }
  const HostWeights& weights() const { return weights_; }
  std::unique_ptr<Program> compile(int threads = 2,
                                   const CompileOptions& options = {.poison = true}) const {
    return compile_cpu(plan_, weights_, scales_, threads, options);
  }

  // Calls put(name, vector of the type of the value) for every input.
  template <class Put>
  void inputs(int seed, int prompt_length, int committed, Put&& put) const {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    const auto floats = [&](int64_t n) {
      std::vector<float> values(n);
      for (float& v : values) v = normal(random);
      return values;
    };
    const int size = config_.vision.image_size;
    std::vector<uint8_t> images(int64_t{options_.cameras} * size * size * 3);
    for (uint8_t& pixel : images) pixel = static_cast<uint8_t>(random() % 256);
    put("images", images);
    std::vector<int32_t> tokens(prompt_length);
    for (int32_t& token : tokens) token = static_cast<int32_t>(random() % config_.vocab_size);
    put("tokens", tokens);
    put("prompt_length", std::vector<int32_t>{prompt_length});
    if (config_.type == ModelType::kGrootN16) {
      std::vector<int32_t> markup(observation_layout(config_, options_).markup_rows);
      for (int32_t& token : markup) token = static_cast<int32_t>(random() % config_.vocab_size);
      put("markup", markup);
    }
    put("actions", floats(int64_t{options_.horizon} * config_.action_dim));
    if (config_.state_dim > 0) put("state", floats(config_.state_dim));
    std::vector<float> times;
    for (int k = 0; k < options_.steps; ++k) {
      times.push_back(1 - static_cast<float>(k) / static_cast<float>(options_.steps));
    }
    for (const InputData& input : load_inputs(config_, options_, times)) {
      if (plan_[plan_.find(input.name)].type == DType::kI32) {
        put(input.name, values_of<int32_t>(input.data));
      } else {
        put(input.name, values_of<float>(input.data));
      }
    }
    if (options_.guided) {
      put("committed_rows", std::vector<int32_t>{committed});
      put("previous_actions", floats(int64_t{options_.horizon} * config_.action_dim));
      std::vector<float> weights(options_.horizon, 0);
      weights[0] = 1;
      put("previous_weights", weights);
      put("guidance", std::vector<float>(options_.steps, 2.5f));
    }
  }

  std::vector<float> infer(Program& program, int seed, int prompt_length, int committed = 0) const {
    inputs(seed, prompt_length, committed,
           [&](std::string_view name, const auto& values) { program.write(name, bytes(values)); });
    program.run(When::kLoad);
    program.run(When::kPrompt);
    program.run(When::kInfer);
    std::vector<float> actions(int64_t{options_.horizon} * config_.action_dim);
    program.read_float("actions", actions);
    return actions;
  }

  std::vector<double> reference(int seed, int prompt_length, int committed = 0) const {
    reference::Program program(plan_, weights_, scales_);
    inputs(seed, prompt_length, committed, [&](std::string_view name, const auto& values) {
      program.write(std::string(name), std::vector<double>(values.begin(), values.end()));
    });
    for (const When when : {When::kLoad, When::kPrompt, When::kInfer}) program.run(when);
    return program.read("actions");
  }

 private:
  template <class T>
  static std::vector<T> values_of(const std::vector<std::byte>& data) {
    std::vector<T> values(data.size() / sizeof(T));
    std::memcpy(values.data(), data.data(), data.size());
    return values;
  }

  ModelConfig config_;
  PlanOptions options_;
  Plan plan_;
  HostWeights weights_;
  Scales scales_;
};

const PlanOptions kOptions{.cameras = 2, .prompt_capacity = 7, .horizon = 3, .steps = 4};

const TinyModel& pi05() {
  static const TinyModel model(tiny_pi05(), kOptions);
  return model;
}

PlanOptions guided() {
  PlanOptions options = kOptions;
  options.guided = true;
  return options;
}

// ---- models

void expect_near(const std::vector<float>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-4) << i;
}

TEST(Models, Pi05IsTheReference) {
  const auto program = pi05().compile();
  for (const int length : {1, 4, 7})
    expect_near(pi05().infer(*program, 1, length), pi05().reference(1, length));
}

TEST(Models, Pi0IsTheReference) {
  const TinyModel model(tiny_pi0(), kOptions);
  expect_near(model.infer(*model.compile(), 2, 5), model.reference(2, 5));
}

TEST(Models, GrootN16IsTheReference) {
  const TinyModel model(tiny_groot(), kOptions);
  const auto program = model.compile();
  for (const int length : {1, 4, 7})
    expect_near(model.infer(*program, 1, length), model.reference(1, length));
}

TEST(Models, GuidedPi05IsTheReference) {
  const TinyModel model(tiny_pi05(), guided());
  for (const int committed : {0, 2}) {
    expect_near(model.infer(*model.compile(), 3, 5, committed), model.reference(3, 5, committed));
  }
}

// Rounding is chaotic: a value at a boundary falls on either side and moves all that follows. So
// the whole tensor is compared, and the distance to float32 is what it must stay well below.
TEST(Models, RecipesAreTheReference) {
  struct Distance {
    double reference, float32;
  };
  const auto distance = [](const std::vector<float>& a, const std::vector<double>& b) {
    double difference = 0, size = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      difference += (a[i] - b[i]) * (a[i] - b[i]);
      size += b[i] * b[i];
    }
    return std::sqrt(difference / size);
  };
  for (const std::string recipe : {"bf16", "fp8", "fp8_f16"}) {
    const TinyModel model(tiny_pi05(), kOptions, recipe);
    Distance mean{};
    constexpr int kSeeds = 8;
    for (int seed = 0; seed < kSeeds; ++seed) {
      const std::vector<float> actions = model.infer(*model.compile(), seed, 5);
      mean.reference += distance(actions, model.reference(seed, 5)) / kSeeds;
      mean.float32 += distance(actions, pi05().reference(seed, 5)) / kSeeds;
    }
    EXPECT_GT(mean.float32, 1e-4) << recipe << " rounds nothing";
    EXPECT_LT(mean.reference, mean.float32 / 20) << recipe;
    EXPECT_LT(mean.float32, 0.2) << recipe;
    RecordProperty(recipe + "_to_reference", text(mean.reference));
    RecordProperty(recipe + "_to_float32", text(mean.float32));
  }
}

// ---- memory

TEST(Memory, TwoRunsEqualTwoFreshPrograms) {
  const auto program = pi05().compile();
  const std::vector<float> first = pi05().infer(*program, 1, 7);
  const std::vector<float> second = pi05().infer(*program, 2, 2);
  EXPECT_EQ(first, pi05().infer(*pi05().compile(), 1, 7));
  EXPECT_EQ(second, pi05().infer(*pi05().compile(), 2, 2));
  EXPECT_NE(first, second);
}

TEST(Memory, ReusedMemoryGivesTheBitsOfSeparateMemory) {
  const auto kept = pi05().compile(2, {.keep_values = true});
  const auto reused = pi05().compile();
  EXPECT_LT(reused->arena_bytes(), kept->arena_bytes());
  EXPECT_EQ(pi05().infer(*kept, 1, 5), pi05().infer(*reused, 1, 5));
}

TEST(Memory, LoadAndPromptResultsOutliveInferences) {
  const TinyModel groot(tiny_groot(), kOptions);
  for (const TinyModel* model : {&pi05(), &groot}) {
    const auto program = model->compile();
    const auto infer_alone = [&](int seed) {
      model->inputs(seed, 5, 0,
                    [&](std::string_view name, const auto& v) { program->write(name, bytes(v)); });
      program->run(When::kInfer);
      std::vector<float> actions(15);
      program->read_float("actions", actions);
      return actions;
    };
    const std::vector<float> first = model->infer(*program, 1, 5);
    EXPECT_NE(infer_alone(2), first);
    EXPECT_EQ(infer_alone(1), first);
  }
}

TEST(Memory, ARunAllocatesNothing) {
  const auto program = pi05().compile(2, {});
  pi05().infer(*program, 1, 5);
  const int64_t before = allocations;
  program->run(When::kInfer);
  EXPECT_EQ(allocations - before, 0);
  EXPECT_GT(before, 0) << "the counter does not count";
}

TEST(Memory, ProgramsShareABackendFromSeveralThreads) {
  const auto backend = make_cpu_backend(2);
  const auto weights = cpu_weights(pi05().plan(), pi05().weights());
  const std::vector<float> expected = pi05().infer(*pi05().compile(), 1, 5);
  std::vector<std::vector<float>> results(3);
  std::vector<std::thread> threads;
  for (std::vector<float>& result : results) {
    threads.emplace_back([&] {
      const auto program = backend->compile(pi05().plan(), weights, Calibration(), {});
      for (int i = 0; i < 5; ++i) result = pi05().infer(*program, 1, 5);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<float>& result : results) EXPECT_EQ(result, expected);
}

// ---- reading and observing

int call_named(const Plan& plan, std::string_view name) {
  for (size_t i = 0; i < plan.calls.size(); ++i) {
    if (plan.calls[i].name == name) return static_cast<int>(i);
  }
  throw Error(text("no call ", name));
}

std::vector<float> values_of(const Program& program, std::string_view name, int64_t rows) {
  std::vector<float> values(rows * program.plan()[program.plan().find(name)].shape.width());
  program.read_float(name, values);
  return values;
}

TEST(Observer, SeesEveryCallInOrder) {
  const auto program = pi05().compile();
  pi05().infer(*program, 1, 5);
  const int first = call_named(pi05().plan(), "denoise.action_in"),
            last = call_named(pi05().plan(), "denoise.euler_step");
  std::vector<std::pair<int, int>> seen;
  program->run_observed(When::kInfer, [&](int call, int iteration) {
    if (call >= first) seen.emplace_back(call, iteration);
  });
  ASSERT_EQ(seen.size(), static_cast<size_t>((last - first + 1) * kOptions.steps));
  for (size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i], std::pair(first + static_cast<int>(i) % (last - first + 1),
                                 static_cast<int>(i) / (last - first + 1)));
  }
}

TEST(RunUntil, StopsWhereTheObserverIs) {
  const auto program = pi05().compile();
  const int call = call_named(pi05().plan(), "denoise.velocity");
  for (const int stop : {0, 2}) {
    std::vector<float> observed;
    pi05().infer(*program, 1, 5);
    pi05().inputs(1, 5, 0,
                  [&](std::string_view name, const auto& v) { program->write(name, bytes(v)); });
    program->run_observed(When::kInfer, [&](int index, int iteration) {
      if (index == call && iteration == stop) observed = values_of(*program, "denoise.velocity", 3);
    });
    pi05().inputs(1, 5, 0,
                  [&](std::string_view name, const auto& v) { program->write(name, bytes(v)); });
    program->run_until(call, stop);
    EXPECT_EQ(values_of(*program, "denoise.velocity", 3), observed);
  }
}

TEST(RunUntil, RefusesWhatIsNotAnInference) {
  const auto program = pi05().compile();
  const std::string load = error_text([&] { program->run_until(0, 0); });
  EXPECT_CONTAINS(load, "styles.time");
  const int call = call_named(pi05().plan(), "denoise.velocity");
  EXPECT_CONTAINS(error_text([&] { program->run_until(call, 4); }), "iteration 4");
  EXPECT_CONTAINS(error_text([&] { program->run_until(100000, 0); }), "100000");
}

TEST(Read, RefusesMemoryThatIsUsedAgain) {
  const auto reused = pi05().compile();
  pi05().infer(*reused, 1, 5);
  const std::string name = "prefix.0.qkv";
  EXPECT_CONTAINS(error_text([&] { values_of(*reused, name, 13); }), name);
  EXPECT_CONTAINS(error_text([&] { values_of(*reused, name, 13); }), "keep_values");

  const auto kept = pi05().compile(2, {.keep_values = true});
  EXPECT_CONTAINS(error_text([&] { values_of(*kept, name, 13); }), "not computed");
  pi05().infer(*kept, 1, 5);
  for (const float v : values_of(*kept, name, 2 * 4 + 5)) EXPECT_TRUE(std::isfinite(v));
}

TEST(Read, GivesValidRowsOnly) {
  const auto kept = pi05().compile(2, {.keep_values = true});
  pi05().infer(*kept, 1, 5);
  const std::string text = error_text([&] { values_of(*kept, "prefix.0.qkv", 2 * 4 + 7); });
  EXPECT_CONTAINS(text, "13 valid rows");
  std::vector<float> floats(values_of(*kept, "prefix.0.qkv", 13));
  std::vector<float> raw(floats.size());
  kept->read("prefix.0.qkv", std::as_writable_bytes(std::span(raw)));
  EXPECT_EQ(floats, raw);
  EXPECT_CONTAINS(error_text([&] { kept->read("prefix.0.qkv", {}); }), "0 bytes");
}

// ---- writing

TEST(Write, ChecksNamesAndSizes) {
  const auto program = pi05().compile();
  const std::vector<float> actions(15);
  EXPECT_CONTAINS(error_text([&] { program->write("action", bytes(actions)); }), "actions");
  EXPECT_CONTAINS(error_text([&] { program->write("actions", bytes(actions).first(56)); }),
                  "56 bytes");
  EXPECT_CONTAINS(error_text([&] { program->write("actions", bytes(actions).first(40)); }),
                  "40 bytes");
  EXPECT_CONTAINS(error_text([&] { program->write("denoise.velocity", bytes(actions)); }),
                  "only inputs and states");
  program->write("actions", bytes(actions));
}

TEST(Write, TakesFewerRowsWhereTheLengthMoves) {
  const auto program = pi05().compile();
  const std::vector<int32_t> tokens(8, 1);
  program->write("tokens", bytes(tokens).first(3 * 4));
  program->write("tokens", bytes(tokens).first(7 * 4));
  EXPECT_CONTAINS(error_text([&] { program->write("tokens", bytes(tokens)); }), "32 bytes");
  EXPECT_CONTAINS(error_text([&] { program->write("tokens", bytes(tokens).first(6)); }), "6 bytes");
}

TEST(Write, LengthsAndTokensAreCheckedWhenTheyAreUsed) {
  const auto program = pi05().compile();
  pi05().infer(*program, 1, 5);
  for (const int32_t length : {-1, 8}) {
    program->write("prompt_length", bytes(std::vector{length}));
    EXPECT_CONTAINS(error_text([&] {
                      program->run(When::kPrompt);
                      program->run(When::kInfer);
                    }),
                    "valid rows");
  }
  program->write("prompt_length", bytes(std::vector{5}));
  program->write("tokens", bytes(std::vector<int32_t>{1, 2, 3, 32, 4}));
  const std::string text = error_text([&] {
    program->run(When::kPrompt);
    program->run(When::kInfer);
  });
  EXPECT_CONTAINS(text, "token 3 is 32");
  pi05().infer(*program, 1, 5);  // and the program lives on
}

// ---- quantised values

// y[k] = x W^T in e4m3, in a stage that runs three times.
struct Quantised {
  Plan plan;
  HostWeights weights{{"w", {Shape{4, 2}, {1, 0, 0, 1, 1, 1, 3, -1}}}};

  Quantised() {
    plan.model = "quantised";
    plan.values = {{.name = "x", .kind = Kind::kInput, .shape = {1, 2}, .rows = {.capacity = 1}},
                   {.name = "q",
                    .kind = Kind::kLocal,
                    .type = DType::kE4M3,
                    .shape = {1, 2},
                    .rows = {.capacity = 1},
                    .site = "stage.q"},
                   {.name = "y", .kind = Kind::kState, .shape = {3, 4}, .rows = {.capacity = 3}},
                   {.name = "y[step]",
                    .kind = Kind::kView,
                    .shape = {1, 4},
                    .rows = {.capacity = 1},
                    .storage = Value{2},
                    .row_stride = 4,
                    .step_stride = 4}};
    plan.weights = {{.name = "w", .shape = {4, 2}}};
    plan.calls = {{"stage.quantize", Quantize{.x = Value{0}, .y = Value{1}}},
                  {"stage.linear", Linear{.x = Value{1}, .weight = "w", .y = Value{3}}}};
    plan.stages = {{.name = "stage", .when = When::kInfer, .repeat = 3, .first = 0, .last = 2}};
  }
};

TEST(Scales, OnePerStep) {
  const Quantised q;
  const auto program = compile_cpu(q.plan, q.weights, {{"stage.q", {1.0f, 0.5f, 0.001f}}});
  program->write("x", bytes(std::vector<float>{1.1f, -0.3f}));
  std::vector<std::vector<float>> seen;
  program->run_observed(When::kInfer, [&](int call, int) {
    if (call == 0) seen.push_back(values_of(*program, "q", 1));
  });
  // 1.1 -> 1.125, 0.3 -> 0.3125; 2.2 -> 2.25, 0.6 -> 0.625; saturated at 448 and 300 -> 288 (grid
  // of 32: 288 or 320)
  const std::vector<std::vector<float>> expected{
      {1.125f, -0.3125f}, {1.125f, -0.3125f}, {448 * 0.001f, -288 * 0.001f}};
  EXPECT_EQ(seen, expected);
  const std::vector<float> y = values_of(*program, "y", 3);
  for (int k = 0; k < 3; ++k) {
    const float a = expected[k][0], b = expected[k][1];
    const float want[] = {a, b, a + b, 3 * a - b};
    for (int i = 0; i < 4; ++i) EXPECT_NEAR(y[4 * k + i], want[i], 1e-6f) << k << " " << i;
  }
}

TEST(Scales, WhatIsMissingIsNamed) {
  const Quantised q;
  EXPECT_CONTAINS(error_text([&] {
                    compile_cpu(q.plan, q.weights, {{"stage.other", {1.0f}}});
                  }),
                  "stage.q");
  EXPECT_CONTAINS(error_text([&] {
                    compile_cpu(q.plan, q.weights, {{"stage.q", {1.0f, 2.0f}}});
                  }),
                  "2 scales");
  EXPECT_CONTAINS(error_text([&] {
                    compile_cpu(q.plan, q.weights, {{"stage.q", {0.0f}}});
                  }),
                  "scale 0");
  Quantised no_site;
  no_site.plan.values[1].site.clear();
  EXPECT_CONTAINS(error_text([&] { compile_cpu(no_site.plan, q.weights, {}); }), "q is e4m3");
}

// ---- weights

TEST(CpuWeights, RefusesWhatThePlanDoesNotRead) {
  Quantised q;
  EXPECT_CONTAINS(error_text([&] {
                    cpu_weights(q.plan, {{"w", {Shape{2, 4}, std::vector<float>(8)}}});
                  }),
                  "[2, 4]");
  const auto weights = cpu_weights(q.plan, q.weights);
  EXPECT_EQ(weights->bytes(), 8 * sizeof(float));
  Calibration calibration;
  calibration.set_scales("stage.q", {1.0f});
  Plan other = q.plan;
  other.weights[0].type = DType::kBF16;
  EXPECT_CONTAINS(
      error_text([&] { make_cpu_backend(1)->compile(other, weights, calibration, {}); }),
      "held as f32 with no scale, the plan reads bf16");
  other.weights[0].scale = WeightScale::kTensor;
  EXPECT_CONTAINS(error_text([&] { cpu_weights(other, q.weights); }), "bf16 with one scale");
  Plan empty = q.plan;
  empty.weights.clear();
  EXPECT_CONTAINS(error_text([&] {
                    make_cpu_backend(1)->compile(q.plan, cpu_weights(empty, {}), calibration, {});
                  }),
                  "w was not uploaded");
}

TEST(CpuWeights, OfAnotherBackendAreRefused) {
  struct Foreign : DeviceWeights {
    size_t bytes() const override { return 0; }
  };
  const Quantised q;
  EXPECT_CONTAINS(error_text([&] {
                    make_cpu_backend(1)->compile(q.plan, std::make_shared<Foreign>(), Calibration(),
                                                 {});
                  }),
                  "another backend");
}

}  // namespace
}  // namespace flashrt
