// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Plan: one model as a flat list of calls with static shapes. It names no device.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/number_format.hpp"
#include "base/range_estimator.hpp"
#include "base/tensor.hpp"
#include "plan/op.hpp"

namespace flashrt {

// When a stage runs: once per program, once per prompt, or for every observation.
enum class When { kLoad, kPrompt, kInfer };

std::string_view name_of(When when);

// A first extent that changes between runs: base + *length rows are valid, out of a fixed capacity.
// Rows past them are never read; what they hold is unspecified.
struct Rows {
  int64_t capacity = 0;
  Value length;  // i32 scalar input; unset: all rows are valid
  int64_t base = 0;
};

enum class Kind {
  kInput,  // written by the caller, survives runs
  kState,  // written by calls, survives runs: KV cache, actions, styles
  kLocal,  // lives from its first writer to its last reader
  kView,   // a part of another value
};

struct ValueInfo {
  std::string name;
  Kind kind = Kind::kLocal;
  DType type = DType::kF32;
  Shape shape;  // the capacity, where rows is dynamic
  Rows rows;

  // Of a value that the recipe quantises: where its scales are found, the value's name without the
  // step (empty where it needs none), and the format that they are for.
  std::string site;
  NumberFormat format = NumberFormat::kNone;
  // Holds numbers of the format in float32, for one that is emulated. Not for e4m3, which is a
  // type, and not where calibration measures what will be quantised.
  bool holds_format = false;

  // Views only. Offsets and strides count elements of the storage, a value that is not a view.
  Value storage;
  int64_t offset = 0;
  int64_t row_stride = 0;  // from row to row
  int64_t step_stride =
      0;  // from iteration to iteration of a repeated stage; 0 for an ordinary view
};

struct Call {
  std::string name;  // "prefix.3.qkv"
  Op op;
};

struct Stage {
  std::string name;
  When when = When::kInfer;
  int repeat = 1;
  int first = 0, last = 0;  // calls [first, last)
};

// How a weight is held on the device.
enum class WeightScale { kNone, kTensor, kChannel };

// Whether weights in this format say how many scales they have: one per tensor or per channel.
bool takes_weight_scale(NumberFormat format);

// "a scale per channel", for error texts.
std::string_view describe(WeightScale scale);

// From which magnitudes of a tensor or of a channel its scale follows.
struct WeightRange {
  RangeEstimator estimator = RangeEstimator::kMinMax;
  double fraction = 1;  // of the values inside the range, for the percentile

  bool operator==(const WeightRange&) const = default;
};

// A weight the plan reads, by its plan name ("language.3.gate_up"), in source order of first use.
struct WeightInfo {
  std::string name;
  Shape shape;  // [width, D] of a linear, [D] of a bias or norm
  DType type = DType::kF32;
  WeightScale scale = WeightScale::kNone;  // kTensor or kChannel for e4m3, e5m2 and int8
  // Its numbers are of this format. One that is not e4m3 is emulated: they are held in float32.
  NumberFormat format = NumberFormat::kNone;
  WeightRange range;

  bool operator==(const WeightInfo&) const = default;
};

// The format whose numbers are held; kNone for plain types.
NumberFormat held_format(const ValueInfo& info);
NumberFormat held_format(const WeightInfo& info);
// In float32, for want of a type.
bool is_emulated(const ValueInfo& info);
bool is_emulated(const WeightInfo& info);
// Of the format where it is emulated, else of the type: for people.
std::string_view type_name(const ValueInfo& info);
std::string_view type_name(const WeightInfo& info);
// Of one number in its type or format, with the scales of blocks: what a device that has the format
// would hold, whatever emulates it.
double bits_of(const ValueInfo& info);
double bits_of(const WeightInfo& info);

struct Plan {
  std::string model;
  std::string recipe;  // that decided the types; empty before
  std::vector<ValueInfo> values;
  std::vector<Call> calls;
  std::vector<Stage> stages;
  std::vector<WeightInfo> weights;

  const ValueInfo& operator[](Value value) const { return values.at(value.id); }
  ValueInfo& operator[](Value value) { return values.at(value.id); }

  // The value that owns the memory of this one: itself, unless it is a view.
  Value storage_of(Value value) const;
  // Unknown names: Error with the nearest known ones.
  Value find(std::string_view name) const;
  const WeightInfo& weight(std::string_view name) const;
  const Stage& stage_of(int call) const;
};

// Shows every operand that is set.
void for_each_read(Call& call, const std::function<void(Value&)>& visit);
void for_each_write(Call& call, const std::function<void(Value&)>& visit);
void for_each_read(const Call& call, const std::function<void(Value)>& visit);
void for_each_write(const Call& call, const std::function<void(Value)>& visit);

}  // namespace flashrt
