// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "bench/measured_program.hpp"

#include <utility>

#include "bench/measured_scales.cuh"

namespace flashrt::cuda {
namespace {

DeviceInfo device_of(const BackendOptions& options) {
  DeviceInfo device = query_device(options.device);
  device.is_specialised = options.specialised_kernels;
  return device;
}

}  // namespace

MeasuredProgram::MeasuredProgram(Plan plan, const Weights& weights, const BackendOptions& options)
    : plan_(std::move(plan)),
      device_(device_of(options)),
      weights_(
          plan_, [&](std::string_view name) { return weights.load(name); },
          [&](std::string_view name) { return weights.random_tensor(name); }, device_),
      memory_(plan_memory(
          plan_, [](const Call&) { return size_t{0}; }, false, joinable_calls(plan_))),
      arena_(memory_.arena_bytes),
      amax_(sizeof(float)),
      tuner_(device_, options),
      dispatch_(
          plan_, weights_, device_,
          [this](Value value, int iteration) { return matrix_of(value, iteration); }, false, tuner_,
          stream_) {
  for (int call = 0; call < static_cast<int>(plan_.calls.size()); ++call) {
    if (std::holds_alternative<Quantize>(plan_.calls[call].op)) {
      keep_scales(call);
    } else {
      for_each_write(plan_.calls[call], [&](Value value) {
        FLASHRT_CHECK(plan_[value].type != DType::kE4M3, plan_.calls[call].name,
                      " quantises; only calls of their own measure scales");
      });
    }
  }
  check(cudaMemsetAsync(arena_.data(), 0, arena_.size(), stream_.get()), "clearing the arena");
  for (const When when : {When::kLoad, When::kPrompt, When::kInfer}) run(when);
  stream_.synchronize();
  graph_ = Graph(stream_, [&] { run(When::kInfer); });
}

void MeasuredProgram::keep_scales(int call) {
  const auto& quantize = std::get<Quantize>(plan_.calls[call].op);
  const auto* linear = std::get_if<Linear>(&plan_.calls.at(call + 1).op);
  FLASHRT_CHECK(linear && linear->x == quantize.y, plan_.calls[call].name,
                ": the linear that reads it does not follow");
  const WeightView weight = weights_.get(plan_.weight(linear->weight));
  DeviceBuffer scales(weight.scale_count * sizeof(float));
  check(cudaMemcpyAsync(scales.data(), weight.scales, scales.size(), cudaMemcpyDeviceToDevice,
                        stream_.get()),
        "keeping the scales of a weight");
  weight_scales_.emplace(call, std::move(scales));
}

Matrix MeasuredProgram::matrix_of(Value value, int iteration) const {
  if (!value) return {};
  const ValueInfo& info = plan_[value];
  const bool is_view = info.kind == Kind::kView;
  const int64_t offset = is_view ? info.offset + iteration * info.step_stride : 0;
  Matrix matrix{.data = arena_.data() + memory_.offset[plan_.storage_of(value).id] +
                        offset * static_cast<int64_t>(size_of(info.type)),
                .type = info.type,
                .rows = info.shape.rows(),
                .width = info.shape.width(),
                .stride = is_view ? info.row_stride : info.shape.width()};
  if (info.rows.length) {
    matrix.length = static_cast<const int32_t*>(matrix_of(info.rows.length, 0).data);
    matrix.base = static_cast<int32_t>(info.rows.base);
  }
  return matrix;
}

void MeasuredProgram::write(std::string_view name, std::span<const std::byte> data) {
  check(cudaMemcpyAsync(matrix_of(plan_.find(name), 0).data, data.data(), data.size(),
                        cudaMemcpyHostToDevice, stream_.get()),
        "copying an input");
  stream_.synchronize();
}

void MeasuredProgram::read_float(std::string_view name, std::span<float> data) const {
  check(cudaMemcpyAsync(data.data(), matrix_of(plan_.find(name), 0).data, data.size_bytes(),
                        cudaMemcpyDeviceToHost, stream_.get()),
        "copying a result");
  stream_.synchronize();
}

void MeasuredProgram::run_observed(When when, const Observer& observer) {
  const Launch launch{.stream = stream_.get(), .device = &device_};
  for (const Stage& stage : plan_.stages) {
    if (stage.when != when) continue;
    for (int iteration = 0; iteration < stage.repeat; ++iteration) {
      for (int call = stage.first; call < stage.last; ++call) {
        if (const auto* op = std::get_if<Quantize>(&plan_.calls[call].op)) {
          const auto& linear = std::get<Linear>(plan_.calls[call + 1].op);
          const WeightView weight = weights_.get(plan_.weight(linear.weight));
          quantize_measured({.x = matrix_of(op->x, iteration),
                             .y = matrix_of(op->y, iteration),
                             .amax = amax_.as<float>(),
                             .weight_scales = weight_scales_.at(call).as<float>(),
                             .product_scales = const_cast<float*>(weight.scales),
                             .scale_count = weight.scale_count},
                            launch);
        } else {
          dispatch_.launch(call, iteration, launch);
        }
        if (observer) observer(call, iteration);
        if (dispatch_.runs_with_next(call)) ++call;
      }
    }
  }
}

double MeasuredProgram::time_run(When when) const {
  FLASHRT_CHECK(when == When::kInfer, "time_run: only an inference has a graph");
  const Event begin, end;
  begin.record(stream_);
  graph_.launch(stream_);
  end.record(stream_);
  end.synchronize();
  return end.since(begin);
}

}  // namespace flashrt::cuda
