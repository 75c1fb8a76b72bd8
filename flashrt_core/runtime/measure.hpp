// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Measuring an engine: times of inferences, of their stages and calls, and what they did beside
// computing.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "plan/cost.hpp"
#include "runtime/engine.hpp"

namespace flashrt {

struct MeasureOptions {
  int warmup = 50;         // inferences that are not counted
  int runs = 200;          // of everything but the calls
  int operation_runs = 0;  // of the calls one by one
};

// Milliseconds. "Device" is the clock of the device around the work alone, "host" that of the
// processor around everything.
struct Measurement {
  std::vector<double> inference;            // host: inputs in its memory to actions in its memory
  std::vector<double> replay;               // device: what follows from pictures, state and noise
  std::vector<double> prompt;               // device: what a new prompt costs once
  std::vector<std::vector<double>> stages;  // device: per run, per stage of the plan
  std::vector<std::vector<double>> calls;   // device: per run, per call of the plan
  ProgramCounters before, after;            // around the inferences and replays
};

// Inferences take the inputs in turn. Times the program of the engine: one call at a time.
Measurement measure(Engine& engine, std::span<const ModelInput> inputs,
                    const MeasureOptions& options);

// A call of the engine's plan, for reports.
struct CallReport {
  std::string name, operation, stage;
  When when = When::kInfer;
  int repeat = 1;
  Cost cost;                         // of one iteration
  std::vector<std::string> kernels;  // none: the kernel of the call before does the work
};

std::vector<CallReport> report_calls(Engine& engine, int prompt_length);

}  // namespace flashrt
