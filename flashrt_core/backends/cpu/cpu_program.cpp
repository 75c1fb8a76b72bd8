// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "backends/cpu/cpu_program.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <numeric>

#include "plan/checks.hpp"
#include "quant/scales.hpp"

namespace flashrt::cpu {
namespace {

constexpr size_t kArenaAlignment = 256;
constexpr int kPoison = 0xff;  // a NaN in every float type

bool is_integer(DType type) { return type == DType::kI32 || type == DType::kU8; }

size_t call_workspace(const Plan& plan, const Call& call, int threads) {
  return std::visit([&](const auto& op) { return workspace_bytes(op, plan, threads); }, call.op);
}

}  // namespace

CpuProgram::CpuProgram(Plan plan, std::shared_ptr<const CpuWeights> weights,
                       const Calibration& calibration, std::shared_ptr<ThreadPool> pool,
                       const CompileOptions& options)
    : plan_(std::move(plan)),
      weights_(std::move(weights)),
      pool_(std::move(pool)),
      memory_(plan_memory(
          plan_, [&](const Call& call) { return call_workspace(plan_, call, pool_->threads()); },
          options.keep_values)),
      is_poisoned_(options.poison),
      keeps_values_(options.keep_values),
      scales_(resolve_scales(plan_, calibration)),
      residency_(plan_, memory_) {
  const size_t bytes =
      (std::max<size_t>(memory_.arena_bytes, 1) + kArenaAlignment - 1) / kArenaAlignment;
  arena_.reset(
      static_cast<std::byte*>(std::aligned_alloc(kArenaAlignment, bytes * kArenaAlignment)));
  FLASHRT_CHECK(arena_, "plan ", plan_.model, ": an arena of ", memory_.arena_bytes,
                " bytes cannot be allocated");
  std::memset(arena_.get(), is_poisoned_ ? kPoison : 0, memory_.arena_bytes);
  for (size_t id = 0; id < plan_.values.size(); ++id) {
    const ValueInfo& info = plan_.values[id];
    const bool is_outer = info.kind == Kind::kInput || info.kind == Kind::kState;
    if (is_outer && is_integer(info.type))
      std::memset(arena_.get() + memory_.offset[id], 0, bytes_of(info));
  }
  bind_calls();
}

// ---- compile

Operand CpuProgram::operand(Value value) const {
  if (!value) return {};
  const ValueInfo& info = plan_[value];
  const Value storage = plan_.storage_of(value);
  const bool is_view = info.kind == Kind::kView;
  const auto element = static_cast<std::ptrdiff_t>(size_of(info.type));
  Operand result{
      .name = info.name,
      .data = arena_.get() + memory_.offset[storage.id] + (is_view ? info.offset * element : 0),
      .type = info.type,
      .capacity = info.shape.rows(),
      .width = info.shape.width(),
      .stride = is_view ? info.row_stride : info.shape.width(),
      .step_bytes = is_view ? info.step_stride * element : 0,
      .format = is_emulated(info) ? held_format(info) : NumberFormat::kNone,
      .scales = scales_[storage.id]};
  if (info.rows.length) {
    result.length = reinterpret_cast<const int32_t*>(operand(info.rows.length).data);
    result.base = info.rows.base;
  }
  return result;
}

std::shared_ptr<const RopeTable> CpuProgram::rope_table(double base, int head_dim,
                                                        int64_t positions) {
  for (auto& [key, table] : rope_tables_) {
    if (key != std::pair(base, head_dim)) continue;
    if (table->positions() < positions)
      table = std::make_shared<RopeTable>(base, head_dim, positions);
    return table;
  }
  rope_tables_.emplace_back(std::pair(base, head_dim),
                            std::make_shared<RopeTable>(base, head_dim, positions));
  return rope_tables_.back().second;
}

void CpuProgram::bind_calls() {
  kernels_.reserve(plan_.calls.size());
  for (const Call& call : plan_.calls) {
    const Binding binding{
        .plan = plan_,
        .call = call,
        .pool = *pool_,
        .workspace = arena_.get() + memory_.workspace_offset,
        .operand = [this](Value value) { return operand(value); },
        .weight = [this](std::string_view name) -> const Weight& {
          return weights_->get(plan_.weight(name));
        },
        .rope_table = [this](double base, int head_dim,
                             int64_t positions) { return rope_table(base, head_dim, positions); }};
    kernels_.push_back(std::visit([&](const auto& op) { return bind(op, binding); }, call.op));
  }
}

// ---- inputs and results

void CpuProgram::write(std::string_view name, std::span<const std::byte> data) {
  check_write(plan_, plan_.find(name), data.size());
  write_part(name, 0, data);
}

void CpuProgram::write_part(std::string_view name, size_t offset, std::span<const std::byte> data) {
  const std::span<std::byte> memory = input_buffer(name);
  FLASHRT_CHECK(offset <= memory.size() && data.size() <= memory.size() - offset, "write ", name,
                ": ", data.size(), " bytes from byte ", offset, " on, it has ", memory.size());
  std::byte* to = memory.data() + offset;
  if (to != data.data()) std::memcpy(to, data.data(), data.size());
}

std::span<std::byte> CpuProgram::input_buffer(std::string_view name) {
  const Value value = plan_.find(name);
  const ValueInfo& info = plan_[value];
  FLASHRT_CHECK(info.kind == Kind::kInput || info.kind == Kind::kState, "write ", name,
                ": only inputs and states can be written");
  return {arena_.get() + memory_.offset[value.id], bytes_of(info)};
}

View CpuProgram::held(std::string_view name) const {
  const Value value = plan_.find(name);
  residency_.held(value);
  return operand(value).at(residency_.iteration_of(value));
}

void CpuProgram::read(std::string_view name, std::span<std::byte> data) const {
  const View view = held(name);
  const size_t row = view.width * size_of(view.type);
  FLASHRT_CHECK(data.size() == view.rows * row, "read ", name, ": a buffer of ", data.size(),
                " bytes, it has ", view.rows, " valid rows of ", row, " bytes");
  for (int64_t r = 0; r < view.rows; ++r) std::memcpy(data.data() + r * row, view.at(r), row);
}

void CpuProgram::read_float(std::string_view name, std::span<float> data) const {
  const View view = held(name);
  FLASHRT_CHECK(data.size() == static_cast<size_t>(view.rows * view.width), "read_float ", name,
                ": a buffer of ", data.size(), " floats, it has ", view.rows, " valid rows of ",
                view.width);
  for (int64_t r = 0; r < view.rows; ++r) {
    decode(view.type, view.at(r), view.scale, data.data() + r * view.width, view.width);
  }
}

// ---- run

// A poisoned program starts each run with NaN in its workspace and in every value that lives within
// such runs.
void CpuProgram::poison(When when) {
  if (!is_poisoned_) return;
  for (const int id : residency_.locals_of(when)) {
    std::memset(arena_.get() + memory_.offset[id], kPoison, bytes_of(plan_.values[id]));
    residency_.lost(id);
  }
  std::memset(arena_.get() + memory_.workspace_offset, kPoison, memory_.workspace_bytes);
}

void CpuProgram::execute(int call, int iteration) {
  kernels_[call](iteration);
  residency_.ran(call, iteration);
}

void CpuProgram::run(When when) { run_observed(when, {}); }

void CpuProgram::run_observed(When when, const Observer& observer) {
  poison(when);
  for (const Stage& stage : plan_.stages) {
    if (stage.when != when) continue;
    for (int iteration = 0; iteration < stage.repeat; ++iteration) {
      for (int call = stage.first; call < stage.last; ++call) {
        execute(call, iteration);
        if (observer) observer(call, iteration);
      }
    }
  }
}

void CpuProgram::run_until(int last, int last_iteration) {
  check_run_until(plan_, last, last_iteration);
  poison(When::kInfer);
  for (const Stage& stage : plan_.stages) {
    if (stage.when != When::kInfer) continue;
    for (int iteration = 0; iteration < stage.repeat; ++iteration) {
      for (int call = stage.first; call < stage.last; ++call) {
        execute(call, iteration);
        if (call == last && iteration == last_iteration) return;
      }
    }
  }
}

// ---- comparing

void CpuProgram::write_float(std::string_view name, int iteration, std::span<const float> data) {
  const Value value = plan_.find(name);
  FLASHRT_CHECK(keeps_values_, "write_float ", name,
                ": values share memory; compile with keep_values");
  const View view = operand(value).at(iteration);
  FLASHRT_CHECK(!is_integer(view.type), "write_float ", name, ": it holds ", view.type,
                "; integers are inputs, which write() takes");
  FLASHRT_CHECK(data.size() == static_cast<size_t>(view.rows * view.width), "write_float ", name,
                ": ", data.size(), " floats, it has ", view.rows, " valid rows of ", view.width);
  for (int64_t r = 0; r < view.rows; ++r) store_row(view, r, data.data() + r * view.width);
  residency_.given(value, iteration);
}

void CpuProgram::run_call(int call, int iteration) {
  check_run_call(plan_, call, iteration, keeps_values_);
  execute(call, iteration);
}

// ---- measuring

namespace {

// Milliseconds.
template <class Body>
double timed(Body&& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

}  // namespace

double CpuProgram::time_run(When when) {
  return timed([&] { run(when); });
}

std::vector<double> CpuProgram::time_stages(When when) {
  const std::vector<double> calls = time_calls(when);
  std::vector<double> stages;
  for (const Stage& stage : plan_.stages)
    stages.push_back(std::accumulate(calls.begin() + stage.first, calls.begin() + stage.last, 0.0));
  return stages;
}

std::vector<double> CpuProgram::time_calls(When when) {
  poison(when);
  std::vector<double> times(plan_.calls.size());
  for (const Stage& stage : plan_.stages) {
    if (stage.when != when) continue;
    for (int iteration = 0; iteration < stage.repeat; ++iteration) {
      for (int call = stage.first; call < stage.last; ++call)
        times[call] += timed([&] { execute(call, iteration); });
    }
  }
  return times;
}

std::vector<std::string> CpuProgram::kernels(int call) const {
  return {text("cpu ", name_of(plan_.calls.at(call).op))};
}

}  // namespace flashrt::cpu
