// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Backend and Program: a plan bound to memory on one device. The CPU backend is the reference.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.hpp"

namespace flashrt {

class Weights;
class Calibration;

// Weights as one backend consumes them. Programs share them.
class DeviceWeights {
 public:
  virtual ~DeviceWeights() = default;
  virtual size_t bytes() const = 0;
};

// Called after each call of a run that is observed; reading values in it is allowed.
using Observer = std::function<void(int call, int iteration)>;

// What a program and its backend have done so far. After the warm-up none of the first three may
// grow.
struct ProgramCounters {
  int64_t captures = 0;     // graphs recorded by this program
  int64_t allocations = 0;  // of device and pinned memory by this process
  int64_t tunings = 0;      // searches for the fastest algorithm by this backend
  int graph_nodes = 0;      // of the graph that an inference replays; 0 without graphs
  std::map<std::string, int> graph_node_kinds;  // "kernel", "memcpy", ...
  // The graph is recorded several times and the fastest stays: medians of the extremes.
  double fastest_capture_ms = 0, slowest_capture_ms = 0;
};

class Program {
 public:
  virtual ~Program() = default;

  virtual const Plan& plan() const = 0;
  virtual size_t arena_bytes() const = 0;

  // Inputs and states, by name: the whole capacity, or the first rows of it.
  virtual void write(std::string_view value, std::span<const std::byte> data) = 0;
  // Bytes [offset, offset + data.size()) of an input or state alone.
  virtual void write_part(std::string_view value, size_t offset,
                          std::span<const std::byte> data) = 0;
  // Memory of the host in which a caller may prepare an input: what lies there in its place is
  // written without another copy. Not to be touched while a run that reads the input is under way.
  virtual std::span<std::byte> input_buffer(std::string_view input) = 0;
  // Valid rows of any value that still has its memory, in its own type, packed.
  virtual void read(std::string_view value, std::span<std::byte> data) const = 0;
  // The same as float32, quantised values multiplied by their scale.
  virtual void read_float(std::string_view value, std::span<float> data) const = 0;

  virtual void run(When when) = 0;
  // Call by call, no capture: for calibration, comparing and tracing.
  virtual void run_observed(When when, const Observer& observer) = 0;
  // The stages of kInfer up to and including this call in this iteration of its stage.
  virtual void run_until(int call, int iteration) = 0;

  // ---- for comparing programs call by call; these two need keep_values

  // Valid rows of any value, rounded to its type; a quantised one is divided by its scale of this
  // iteration.
  virtual void write_float(std::string_view value, int iteration, std::span<const float> data) = 0;
  // This call alone, in this iteration of its stage, on what its operands hold.
  virtual void run_call(int call, int iteration) = 0;

  // ---- for measuring: milliseconds on the device

  // What run() does, once and launched as run() launches it.
  virtual double time_run(When when) = 0;
  // Per stage of the plan; 0 for the stages of another `when`.
  virtual std::vector<double> time_stages(When when) = 0;
  // Per call of the plan, over all iterations of its stage; 0 for the calls of another `when` and
  // for those whose work is done by the kernel of the call before. Calls run apart from the others,
  // so their sum is not time_run().
  //
  // Both may run calls more than once and in another order: what the values hold then is of no use.
  virtual std::vector<double> time_calls(When when) = 0;
  // Names of the kernels that run a call, in order; none if the kernel of the call before does it.
  virtual std::vector<std::string> kernels(int call) const = 0;
  virtual ProgramCounters counters() const = 0;
};

struct CompileOptions {
  bool keep_values = false;  // no memory is reused, so every value can be read after a run
  bool poison = false;       // fill the arena with NaN before use: a test of lifetimes
};

// What a backend runs on, for reports.
struct DeviceReport {
  std::string name;      // "NVIDIA H200"
  std::string versions;  // of driver and libraries
  size_t total_bytes = 0;
  size_t free_bytes = 0;  // memory of the host: also what the system would give up for a program
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual DeviceReport device() const = 0;

  // Error, before any work, where it cannot run this plan.
  virtual void check_plan(const Plan& /*plan*/) const {}
  // Memory that the weights of this plan take once they are uploaded, known before they are read.
  virtual size_t weight_bytes(const Plan& plan) const = 0;
  // Loads the weights of this plan in its types.
  virtual std::shared_ptr<const DeviceWeights> upload(const Plan& plan, const Weights& weights) = 0;
  // The same beside `like`, which this backend uploaded from the same weights: what both plans hold
  // in the same form may be shared. A backend that cannot share loads all of it.
  virtual std::shared_ptr<const DeviceWeights> upload_like(const Plan& plan, const Weights& weights,
                                                           const DeviceWeights& /*like*/) {
    return upload(plan, weights);
  }
  // How much of weight_bytes(plan) upload_like() takes no new memory for.
  virtual size_t shared_bytes(const Plan& /*plan*/, const DeviceWeights& /*like*/) const {
    return 0;
  }
  // Scratch memory that one call needs; the memory pass reserves the largest.
  virtual size_t workspace_bytes(const Plan& plan, const Call& call) const = 0;
  virtual std::unique_ptr<Program> compile(Plan plan, std::shared_ptr<const DeviceWeights> weights,
                                           const Calibration& calibration,
                                           const CompileOptions& options) = 0;
};

// What a backend is made with. Each takes what concerns it.
struct BackendOptions {
  int threads = 0;  // of the host; 0: one per core
  int device = 0;   // index of the GPU
  // Where the CUDA backend keeps which algorithm is fastest for a shape; empty: tuned in each
  // process.
  std::filesystem::path tuning;
  bool tune = true;                 // false: what the file lacks is chosen by rule, not by timing
  bool fast_accumulation = true;    // FP8 products are summed with about 14 bits
  bool dependent_launch = true;     // a kernel may start while the one ahead still runs
  bool specialised_kernels = true;  // false: the portable kernels only
  bool library_products = true;     // false: cuBLASLt computes no linear
  int captures = 3;  // how often the graph of an inference is recorded, to keep the fastest
};

std::unique_ptr<Backend> make_cpu_backend(int threads);

}  // namespace flashrt
