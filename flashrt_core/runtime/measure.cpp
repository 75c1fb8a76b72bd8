// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "runtime/measure.hpp"

#include <chrono>

namespace flashrt {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

}  // namespace

Measurement measure(Engine& engine, std::span<const ModelInput> inputs,
                    const MeasureOptions& options) {
  FLASHRT_CHECK(!inputs.empty(), "measure: no input was given");
  FLASHRT_CHECK(options.warmup >= 1 && options.runs >= 1 && options.operation_runs >= 0,
                "measure: ", options.warmup, " warm-ups, ", options.runs, " runs, ",
                options.operation_runs, " of the operations; expected at least 1, 1 and 0");
  std::vector<float> actions(inputs.front().noise.size());
  const auto input = [&](int run) -> const ModelInput& { return inputs[run % inputs.size()]; };
  Program& program = engine.program();
  // An inference leaves its result where its noise was: a replay starts from noise again.
  const auto restore_noise = [&](int run) {
    program.write("actions", std::as_bytes(input(run).noise));
  };

  for (int run = 0; run < options.warmup; ++run) {
    engine.infer(input(run), actions);
    restore_noise(run);
    program.time_run(When::kPrompt);
    program.time_run(When::kInfer);
  }

  Measurement result{.before = program.counters()};
  for (int run = 0; run < options.runs; ++run) {
    const auto begin = Clock::now();
    engine.infer(input(run), actions);
    result.inference.push_back(milliseconds_since(begin));
  }
  for (int run = 0; run < options.runs; ++run) {
    restore_noise(run);
    result.prompt.push_back(program.time_run(When::kPrompt));
    result.replay.push_back(program.time_run(When::kInfer));
  }
  result.after = program.counters();

  for (int run = 0; run < options.runs; ++run) {
    restore_noise(run);
    result.stages.push_back(program.time_stages(When::kInfer));
  }
  for (int run = 0; run < options.operation_runs; ++run) {
    restore_noise(run);
    result.calls.push_back(program.time_calls(When::kInfer));
  }
  return result;
}

std::vector<CallReport> report_calls(Engine& engine, int prompt_length) {
  const Plan& plan = engine.plan();
  std::vector<CallReport> reports;
  for (const Stage& stage : plan.stages) {
    for (int index = stage.first; index < stage.last; ++index) {
      const Call& call = plan.calls[index];
      reports.push_back({.name = call.name,
                         .operation = std::string(name_of(call.op)),
                         .stage = stage.name,
                         .when = stage.when,
                         .repeat = stage.repeat,
                         .cost = cost_of(plan, call, prompt_length),
                         .kernels = engine.program().kernels(index)});
    }
  }
  return reports;
}

}  // namespace flashrt
