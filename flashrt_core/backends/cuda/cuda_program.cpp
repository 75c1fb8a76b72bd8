// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "backends/cuda/cuda_program.hpp"

#include <algorithm>
#include <cstring>

#include "base/fp8.hpp"
#include "base/half.hpp"
#include "quant/scales.hpp"

namespace flashrt::cuda {
namespace {

constexpr size_t kAlignment = 256;
constexpr int kPoison = 0xff;             // a NaN in every float type
constexpr size_t kResultBytes = 1 << 16;  // larger reads are for debugging and may wait

bool is_integer(DType type) { return type == DType::kI32 || type == DType::kU8; }
bool is_outer(const ValueInfo& info) {
  return info.kind == Kind::kInput || info.kind == Kind::kState;
}

float float_of(DType type, const std::byte* data, size_t index) {
  switch (type) {
    case DType::kF32:
      return reinterpret_cast<const float*>(data)[index];
    case DType::kBF16:
      return bf16_to_float(reinterpret_cast<const uint16_t*>(data)[index]);
    case DType::kF16:
      return f16_to_float(reinterpret_cast<const uint16_t*>(data)[index]);
    case DType::kE4M3:
      return e4m3_to_float(reinterpret_cast<const uint8_t*>(data)[index]);
    case DType::kI32:
      return static_cast<float>(reinterpret_cast<const int32_t*>(data)[index]);
    case DType::kU8:
      return static_cast<float>(reinterpret_cast<const uint8_t*>(data)[index]);
  }
  return 0;
}

}  // namespace

CudaProgram::CudaProgram(Plan plan, std::shared_ptr<const CudaWeights> weights,
                         const Calibration& calibration, std::shared_ptr<Context> context,
                         const CompileOptions& options)
    : plan_(std::move(plan)),
      weights_(std::move(weights)),
      context_(std::move(context)),
      is_poisoned_(options.poison),
      scales_(resolve_scales(plan_, calibration)),
      joined_(options.keep_values ? std::vector<bool>(plan_.calls.size(), false)
                                  : joinable_calls(plan_)),
      memory_(plan_memory(
          plan_, [](const Call&) { return size_t{0}; }, options.keep_values, joined_)),
      residency_(plan_, memory_),
      arena_(std::max<size_t>(memory_.arena_bytes, 1)),
      staged_(plan_.values.size()),
      results_(kResultBytes),
      graphs_(3) {
  place_inputs();
  clear_arena();
  dispatch_.emplace(
      plan_, *weights_, context_->device,
      [this](Value value, int iteration) { return matrix_of(value, iteration); }, joined_,
      *context_->tuner, stream_);
  warm_up();
  clear_arena();
  capture();
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
  for (const When when : {When::kLoad, When::kPrompt, When::kInfer}) {
    bool is_first = true;
    for_each_launch(when, [&](int call, int iteration) {
      launch(call, iteration, is_first);
      is_first = false;
      return true;
    });
  }
  stream_.synchronize();
}

void CudaProgram::capture() {
  for (const When when : {When::kPrompt, When::kInfer}) {
    graphs_[static_cast<int>(when)] = Graph(stream_, [&] {
      bool is_first = true;
      for_each_launch(when, [&](int call, int iteration) {
        launch(call, iteration, is_first);
        is_first = false;
        return true;
      });
    });
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
  for (Staged& staged : staged_) staged.is_pending = false;
}

void CudaProgram::write(std::string_view name, std::span<const std::byte> data) {
  const Value value = plan_.find(name);
  const ValueInfo& info = plan_[value];
  FLASHRT_CHECK(is_outer(info), "write ", name, ": only inputs and states can be written");
  const size_t row = info.shape.width() * size_of(info.type);
  const bool whole_rows =
      info.rows.length && row > 0 && data.size() % row == 0 && data.size() <= bytes_of(info);
  FLASHRT_CHECK(data.size() == bytes_of(info) || whole_rows, "write ", name, ": ", data.size(),
                " bytes, expected ", info.rows.length ? "whole rows of " : "",
                info.rows.length ? text(row, " bytes, at most ") : "", bytes_of(info), " for ",
                info.shape, " ", info.type);
  use_device();
  Staged& staged = staged_[value.id];
  if (staged.is_pending) synchronize();
  std::byte* from = staging_.data() + staged.offset;
  std::memcpy(from, data.data(), data.size());
  staged.is_pending = true;
  check(cudaMemcpyAsync(arena_.data() + memory_.offset[value.id], from, data.size(),
                        cudaMemcpyHostToDevice, stream_.get()),
        "copying an input");
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

void CudaProgram::check_lengths() const {
  for (const ValueInfo& info : plan_.values) valid_rows(info);
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
  const Launch launch{.stream = stream_.get(),
                      .device = &context_->device,
                      .is_dependent = !is_first && context_->options.dependent_launch &&
                                      context_->device.major >= 9};
  try {
    dispatch_->launch(call, iteration, launch);
  } catch (const Error& error) {
    throw Error(text("call ", plan_.calls[call].name, ": ", error.what()));
  }
}

void CudaProgram::ran(int call, int iteration) {
  residency_.ran(call, iteration, dispatch_->keeps_result(call));
  if (dispatch_->runs_with_next(call)) residency_.ran(call + 1, iteration);
}

void CudaProgram::run(When when) {
  if (!graphs_[static_cast<int>(when)]) return run_observed(when, {});
  use_device();
  check_lengths();
  poison(when);
  graphs_[static_cast<int>(when)].launch(stream_);
  for_each_launch(when, [&](int call, int iteration) {
    ran(call, iteration);
    return true;
  });
}

void CudaProgram::run_observed(When when, const Observer& observer) {
  use_device();
  check_lengths();
  poison(when);
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
  FLASHRT_CHECK(0 <= last && last < static_cast<int>(plan_.calls.size()), "run_until: call ", last,
                " of ", plan_.calls.size());
  const Stage& target = plan_.stage_of(last);
  FLASHRT_CHECK(
      target.when == When::kInfer && 0 <= last_iteration && last_iteration < target.repeat,
      "run_until: call ", plan_.calls[last].name, " in iteration ", last_iteration, ": stage ",
      target.name, " runs ", target.repeat, " times per ", name_of(target.when),
      ", expected a call of infer");
  use_device();
  check_lengths();
  poison(When::kInfer);
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

}  // namespace flashrt::cuda
