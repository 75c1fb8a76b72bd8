// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "backends/cuda/cuda_program.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <span>
#include <string>

#include "base/convert.hpp"
#include "plan/checks.hpp"
#include "quant/scales.hpp"

namespace flashrt::cuda {
namespace {

constexpr size_t kAlignment = 256;
constexpr int kPoison = 0xff;             // a NaN in every float type
constexpr int kReplays = 7;               // of a graph that is timed
constexpr double kTie = 0.9985;           // another choice has to be faster than this
constexpr double kWorthTrying = 0.005;    // of an inference
constexpr size_t kResultBytes = 1 << 16;  // larger reads are for debugging and may wait

bool is_integer(DType type) { return type == DType::kI32 || type == DType::kU8; }
bool is_outer(const ValueInfo& info) {
  return info.kind == Kind::kInput || info.kind == Kind::kState;
}

}  // namespace

CudaProgram::CudaProgram(Plan plan, std::shared_ptr<const CudaWeights> weights,
                         const Calibration& calibration, std::shared_ptr<Context> context,
                         const CompileOptions& options)
    : plan_(std::move(plan)),
      weights_(std::move(weights)),
      context_(std::move(context)),
      is_poisoned_(options.poison),
      keeps_values_(options.keep_values),
      scales_(resolve_scales(plan_, calibration)),
      memory_(plan_memory(
          plan_, [](const Call&) { return size_t{0}; }, options.keep_values,
          joinable_calls(plan_))),
      residency_(plan_, memory_),
      arena_(std::max<size_t>(memory_.arena_bytes, 1)),
      staged_(plan_.values.size()),
      results_(kResultBytes),
      graphs_(3) {
  place_inputs();
  clear_arena();
  dispatch_.emplace(
      plan_, *weights_, context_->device,
      [this](Value value, int iteration) { return matrix_of(value, iteration); }, keeps_values_,
      *context_->tuner, stream_);
  warm_up();
  decide_linears();
  capture();
  clear_arena();
}

// ---- compile

void CudaProgram::place_inputs() {
  size_t bytes = 0;
  for (size_t id = 0; id < plan_.values.size(); ++id) {
    if (!is_outer(plan_.values[id])) continue;
    staged_[id] = {.offset = bytes, .bytes = bytes_of(plan_.values[id])};
    bytes += (staged_[id].bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  staging_ = PinnedBuffer(bytes);
  std::memset(staging_.data(), 0, bytes);
}

void CudaProgram::clear_arena() {
  check(cudaMemsetAsync(arena_.data(), is_poisoned_ ? kPoison : 0, arena_.size(), stream_.get()),
        "clearing the arena");
  for (size_t id = 0; id < plan_.values.size(); ++id) {
    const ValueInfo& info = plan_.values[id];
    if (!is_outer(info) || !is_integer(info.type)) continue;
    check(cudaMemsetAsync(arena_.data() + memory_.offset[id], 0, bytes_of(info), stream_.get()),
          "clearing an input");
  }
  stream_.synchronize();
}

// Runs everything once: code is loaded and attributes are set, so that recording a graph and
// replaying it do nothing but launch.
void CudaProgram::warm_up() {
  for (const When when : {When::kLoad, When::kPrompt, When::kInfer}) launch_all(when);
  stream_.synchronize();
}

Graph CudaProgram::capture_run(When when) {
  ++captures_;
  return Graph(stream_, [&] { launch_all(when); });
}

double CudaProgram::median_time(const Graph& graph) const {
  std::array<double, kReplays> times;
  for (double& time : times) time = timed([&] { graph.launch(stream_); });
  std::nth_element(times.begin(), times.begin() + kReplays / 2, times.end());
  return times[kReplays / 2];
}

// All rows are valid, as when linears are timed by themselves.
void CudaProgram::fill_lengths() {
  for (const ValueInfo& info : plan_.values) {
    if (!info.rows.length) continue;
    const auto length = static_cast<int32_t>(info.rows.capacity - info.rows.base);
    check(cudaMemcpyAsync(matrix_of(info.rows.length, 0).data, &length, sizeof(length),
                          cudaMemcpyHostToDevice, stream_.get()),
          "writing a length");
    stream_.synchronize();
  }
}

// The median time of an inference, infinity if it cannot run.
double CudaProgram::try_inference() {
  try {
    launch_all(When::kInfer);  // loads code
    const Graph graph = capture_run(When::kInfer);
    graph.launch(stream_);  // the first launch of a graph takes longer
    return median_time(graph);
  } catch (const Error&) {
    cudaGetLastError();
    return std::numeric_limits<double>::infinity();
  }
}

// Of the linears that were timed by themselves, several implementations are about as fast. Here,
// between the other kernels, one after the other is tried for all linears of a shape.
void CudaProgram::decide_linears() {
  const auto open = dispatch_->open_linears();
  if (open.empty()) return;
  LinearTuner& tuner = *context_->tuner;
  if (keeps_values_ || context_->options.captures == 0) {  // its calls do not run as they will
    for (const auto& linears : open) tuner.close(linears.key);
    return;
  }
  fill_lengths();
  const double whole = try_inference();
  for (const auto& [key, calls, milliseconds] : open) {
    std::vector<LinearChoice> choices = tuner.find_open(key)->choices;
    if (milliseconds < kWorthTrying * whole) choices.resize(1);
    const LinearChoice* best = &choices.front();
    double shortest = choices.size() > 1 ? kTie * try_inference() : 0;  // clocks drift
    for (const LinearChoice& choice : std::span(choices).subspan(1)) {
      dispatch_->use(choice, calls);
      const double time = try_inference();
      if (time < shortest) shortest = time, best = &choice;
    }
    dispatch_->use(*best, calls);
    tuner.decide(key, *best);
  }
  clear_arena();
  warm_up();  // as it will run
}

// Two recordings of the same launches may differ in speed by how the driver lays them out, so the
// graph of an inference is recorded a few times and the fastest stays.
void CudaProgram::capture() {
  graphs_[static_cast<int>(When::kPrompt)] = capture_run(When::kPrompt);
  Graph& best = graphs_[static_cast<int>(When::kInfer)];
  for (int attempt = 0; attempt < context_->options.captures; ++attempt) {
    Graph graph = capture_run(When::kInfer);
    const double median = median_time(graph);
    if (attempt == 0 || median < fastest_capture_ms_) {
      best = std::move(graph);
      fastest_capture_ms_ = median;
    }
    slowest_capture_ms_ = std::max(slowest_capture_ms_, median);
  }
}

Matrix CudaProgram::matrix_of(Value value, int iteration) const {
  if (!value) return {};
  const ValueInfo& info = plan_[value];
  const Value storage = plan_.storage_of(value);
  const bool is_view = info.kind == Kind::kView;
  const auto element = static_cast<int64_t>(size_of(info.type));
  const int64_t offset = is_view ? info.offset + iteration * info.step_stride : 0;
  Matrix matrix{.data = arena_.data() + memory_.offset[storage.id] + offset * element,
                .type = info.type,
                .rows = info.shape.rows(),
                .width = info.shape.width(),
                .stride = is_view ? info.row_stride : info.shape.width()};
  const std::vector<float>& scales = scales_[storage.id];
  if (!scales.empty()) matrix.scale = scales[scales.size() == 1 ? 0 : iteration];
  if (info.rows.length) {
    matrix.length = static_cast<const int32_t*>(matrix_of(info.rows.length, 0).data);
    matrix.base = static_cast<int32_t>(info.rows.base);
  }
  return matrix;
}

size_t CudaProgram::arena_bytes() const {
  return arena_.size() + dispatch_->workspace_bytes() + dispatch_->constant_bytes();
}

// ---- inputs and results

void CudaProgram::use_device() const {
  check(cudaSetDevice(context_->device.index), "cudaSetDevice");
}

void CudaProgram::synchronize() const {
  stream_.synchronize();
  for (Staged& staged : staged_) staged.pending_begin = staged.pending_end = 0;
}

void CudaProgram::write(std::string_view name, std::span<const std::byte> data) {
  check_write(plan_, plan_.find(name), data.size());
  write_part(name, 0, data);
}

void CudaProgram::write_part(std::string_view name, size_t offset,
                             std::span<const std::byte> data) {
  const std::span<std::byte> memory = input_buffer(name);
  const size_t end = offset + data.size();
  FLASHRT_CHECK(offset <= end && end <= memory.size(), "write ", name, ": ", data.size(),
                " bytes from byte ", offset, " on, it has ", memory.size());
  use_device();
  const Value value = plan_.find(name);
  Staged& staged = staged_[value.id];
  if (offset < staged.pending_end && staged.pending_begin < end) synchronize();
  std::byte* from = memory.data() + offset;
  if (from != data.data()) std::memcpy(from, data.data(), data.size());
  const bool is_pending = staged.pending_begin < staged.pending_end;
  staged.pending_begin = is_pending ? std::min(staged.pending_begin, offset) : offset;
  staged.pending_end = is_pending ? std::max(staged.pending_end, end) : end;
  check(cudaMemcpyAsync(arena_.data() + memory_.offset[value.id] + offset, from, data.size(),
                        cudaMemcpyHostToDevice, stream_.get()),
        "copying an input");
}

std::span<std::byte> CudaProgram::input_buffer(std::string_view name) {
  const Value value = plan_.find(name);
  FLASHRT_CHECK(is_outer(plan_[value]), "write ", name, ": only inputs and states can be written");
  const Staged& staged = staged_[value.id];
  return {staging_.data() + staged.offset, staged.bytes};
}

int64_t CudaProgram::valid_rows(const ValueInfo& info) const {
  if (!info.rows.length) return info.shape.rows();
  const auto length = *reinterpret_cast<const int32_t*>(
      staging_.data() + staged_[plan_.storage_of(info.rows.length).id].offset);
  const int64_t rows = info.rows.base + length;
  FLASHRT_CHECK(0 <= rows && rows <= info.rows.capacity, info.name, ": ", rows, " valid rows (",
                info.rows.base, " + its length input), expected 0 to ", info.rows.capacity);
  return rows;
}

void CudaProgram::read(std::string_view name, std::span<std::byte> data) const {
  const Value value = plan_.find(name);
  residency_.held(value);
  const ValueInfo& info = plan_[value];
  const Matrix matrix = matrix_of(value, residency_.iteration_of(value));
  const size_t row = matrix.width * size_of(matrix.type);
  const int64_t rows = valid_rows(info);
  FLASHRT_CHECK(data.size() == rows * row, "read ", name, ": a buffer of ", data.size(),
                " bytes, it has ", rows, " valid rows of ", row, " bytes");
  use_device();
  const bool is_small = data.size() <= results_.size();
  std::byte* to = is_small ? results_.data() : data.data();
  if (rows > 0 && row > 0) {
    check(cudaMemcpy2DAsync(to, row, matrix.data, matrix.stride * size_of(matrix.type), row, rows,
                            cudaMemcpyDeviceToHost, stream_.get()),
          "copying a result");
  }
  synchronize();
  if (is_small) std::memcpy(data.data(), to, data.size());
}

void CudaProgram::read_float(std::string_view name, std::span<float> data) const {
  const Value value = plan_.find(name);
  const DType type = plan_[value].type;
  if (type == DType::kF32) return read(name, std::as_writable_bytes(data));
  std::vector<std::byte> bytes(data.size() * size_of(type));
  read(name, bytes);
  const float scale = matrix_of(value, residency_.iteration_of(value)).scale;
  for (size_t i = 0; i < data.size(); ++i)
    data[i] = float_of(type, bytes.data(), i) * (type == DType::kE4M3 ? scale : 1);
}

// ---- run

void CudaProgram::poison(When when) {
  if (!is_poisoned_) return;
  for (const int id : residency_.locals_of(when)) {
    check(cudaMemsetAsync(arena_.data() + memory_.offset[id], kPoison, bytes_of(plan_.values[id]),
                          stream_.get()),
          "poisoning a value");
    residency_.lost(id);
  }
}

void CudaProgram::for_each_launch(When when,
                                  const std::function<bool(int call, int iteration)>& body) const {
  for (const Stage& stage : plan_.stages) {
    if (stage.when != when) continue;
    for (int iteration = 0; iteration < stage.repeat; ++iteration) {
      for (int call = stage.first; call < stage.last; ++call) {
        if (!body(call, iteration)) return;
        if (dispatch_->runs_with_next(call)) ++call;
      }
    }
  }
}

void CudaProgram::launch(int call, int iteration, bool is_first) {
  // The first launch of a repeated stage must not be dependent: it makes what lies before the stage
  // settled (Dispatch::settled_begin).
  const Stage& stage = plan_.stage_of(call);
  const bool begins_repeated = stage.repeat > 1 && iteration == 0 && call == stage.first;
  const Launch launch{.stream = stream_.get(),
                      .device = &context_->device,
                      .is_dependent = !is_first && !begins_repeated &&
                                      context_->options.dependent_launch &&
                                      context_->device.major >= 9};
  try {
    dispatch_->launch(call, iteration, launch);
  } catch (const Error& error) {
    throw Error(text("call ", plan_.calls[call].name, ": ", error.what()));
  }
}

void CudaProgram::launch_all(When when) {
  bool is_first = true;
  for_each_launch(when, [&](int call, int iteration) {
    launch(call, iteration, is_first);
    is_first = false;
    return true;
  });
}

void CudaProgram::ran(int call, int iteration) {
  residency_.ran(call, iteration, dispatch_->keeps_result(call));
  if (dispatch_->runs_with_next(call)) residency_.ran(call + 1, iteration);
}

void CudaProgram::prepare(When when) {
  use_device();
  for (const ValueInfo& info : plan_.values) valid_rows(info);
  poison(when);
}

void CudaProgram::after_run(When when) {
  for_each_launch(when, [&](int call, int iteration) {
    ran(call, iteration);
    return true;
  });
}

void CudaProgram::run(When when) {
  const Graph& graph = graphs_[static_cast<int>(when)];
  if (!graph) return run_observed(when, {});
  prepare(when);
  graph.launch(stream_);
  after_run(when);
}

void CudaProgram::run_observed(When when, const Observer& observer) {
  prepare(when);
  bool is_first = true;
  for_each_launch(when, [&](int call, int iteration) {
    launch(call, iteration, is_first);
    is_first = false;
    ran(call, iteration);
    if (observer) {
      observer(call, iteration);
      if (dispatch_->runs_with_next(call)) observer(call + 1, iteration);
    }
    return true;
  });
}

void CudaProgram::run_until(int last, int last_iteration) {
  check_run_until(plan_, last, last_iteration);
  const Stage& target = plan_.stage_of(last);
  prepare(When::kInfer);
  bool is_first = true;
  for_each_launch(When::kInfer, [&](int call, int iteration) {
    launch(call, iteration, is_first);
    is_first = false;
    ran(call, iteration);
    const int done = dispatch_->runs_with_next(call) ? call + 1 : call;
    return !(done >= last && iteration == last_iteration &&
             plan_.stage_of(call).first == target.first);
  });
}

// ---- comparing

void CudaProgram::write_float(std::string_view name, int iteration, std::span<const float> data) {
  const Value value = plan_.find(name);
  const ValueInfo& info = plan_[value];
  FLASHRT_CHECK(keeps_values_, "write_float ", name,
                ": values share memory; compile with keep_values");
  FLASHRT_CHECK(!is_integer(info.type), "write_float ", name, ": it holds ", info.type,
                "; integers are inputs, which write() takes");
  const int64_t rows = valid_rows(info), width = info.shape.width();
  FLASHRT_CHECK(data.size() == static_cast<size_t>(rows * width), "write_float ", name, ": ",
                data.size(), " floats, it has ", rows, " valid rows of ", width);
  use_device();
  const Matrix matrix = matrix_of(value, iteration);
  const size_t element = size_of(info.type);
  std::vector<std::byte> bytes(data.size() * element);
  for (size_t i = 0; i < data.size(); ++i)
    put_float(info.type, data[i] / matrix.scale, bytes.data(), i);
  if (!bytes.empty()) {
    check(cudaMemcpy2DAsync(matrix.data, matrix.stride * element, bytes.data(), width * element,
                            width * element, rows, cudaMemcpyHostToDevice, stream_.get()),
          "copying an operand");
  }
  synchronize();
  residency_.given(value, iteration);
}

void CudaProgram::run_call(int call, int iteration) {
  check_run_call(plan_, call, iteration, keeps_values_);
  use_device();
  launch(call, iteration, true);
  ran(call, iteration);
}

// ---- measuring

double CudaProgram::timed(const std::function<void()>& body) const {
  const Event begin, end;
  begin.record(stream_);
  body();
  end.record(stream_);
  end.synchronize();
  return end.since(begin);
}

double CudaProgram::time_run(When when) {
  prepare(when);
  const Graph& graph = graphs_[static_cast<int>(when)];
  const double time = timed([&] {
    if (graph) {
      graph.launch(stream_);
    } else {
      launch_all(when);
    }
  });
  after_run(when);
  return time;
}

std::vector<double> CudaProgram::time_stages(When when) {
  prepare(when);
  stage_graphs_.resize(plan_.stages.size());
  std::vector<double> times(plan_.stages.size());
  for (size_t s = 0; s < plan_.stages.size(); ++s) {
    const Stage& stage = plan_.stages[s];
    if (stage.when != when) continue;
    if (!stage_graphs_[s]) {
      ++captures_;
      stage_graphs_[s] = Graph(stream_, [&] {
        bool is_first = true;
        for_each_launch(when, [&](int call, int iteration) {
          if (stage.first <= call && call < stage.last) {
            launch(call, iteration, is_first);
            is_first = false;
          }
          return true;
        });
      });
      stage_graphs_[s].launch(stream_);  // the first launch of a graph takes longer
    }
    times[s] = timed([&] { stage_graphs_[s].launch(stream_); });
  }
  after_run(when);
  return times;
}

namespace {

// "denoise.3.attn" -> "denoise.*.attn": the same call of every layer.
std::string without_layer(const std::string& name) {
  std::string pattern;
  for (const char c : name) {
    const bool is_digit = '0' <= c && c <= '9';
    if (!is_digit) {
      pattern += c;
    } else if (pattern.back() != '*') {
      pattern += '*';
    }
  }
  return pattern;
}

}  // namespace

// The same call of all layers and iterations one after the other, in a graph of their own: launched
// as in an inference, with weights that come from memory, and without the cost of a clock between
// them. Each layer gets the same share.
std::vector<double> CudaProgram::time_calls(When when) {
  prepare(when);
  std::map<std::string, std::vector<std::pair<int, int>>> groups;  // call, iteration
  for_each_launch(when, [&](int call, int iteration) {
    groups[without_layer(plan_.calls[call].name)].emplace_back(call, iteration);
    return true;
  });
  std::vector<double> times(plan_.calls.size());
  for (const auto& [pattern, launches] : groups) {
    ++captures_;
    const Graph graph(stream_, [&, &launches = launches] {
      for (const auto& [call, iteration] : launches)
        launch(call, iteration, call == launches.front().first && iteration == 0);
    });
    graph.launch(stream_);  // the first launch of a graph takes longer
    const double time = timed([&] { graph.launch(stream_); });
    for (const auto& [call, iteration] : launches)
      times[call] += time / static_cast<double>(launches.size());
  }
  after_run(when);
  return times;
}

ProgramCounters CudaProgram::counters() const {
  const Graph& graph = graphs_[static_cast<int>(When::kInfer)];
  return {.captures = captures_,
          .allocations = allocation_count(),
          .tunings = context_->tuner->tunings(),
          .graph_nodes = graph.node_count(),
          .graph_node_kinds = graph.nodes(),
          .fastest_capture_ms = fastest_capture_ms_,
          .slowest_capture_ms = slowest_capture_ms_};
}

}  // namespace flashrt::cuda
