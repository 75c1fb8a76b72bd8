// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Per operation a list of one-call plans with their data: small, odd and real shapes, each type,
// each optional operand. Every backend runs the same list.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/fp8.hpp"
#include "base/frame.hpp"
#include "checkpoint/weights.hpp"
#include "plan/plan.hpp"

namespace flashrt {

struct OpCase {
  std::string name;
  Plan plan;
  std::map<std::string, std::vector<double>>
      data;  // per input and state: what it holds before the call
  std::map<std::string, HostTensor> weights;
  std::map<std::string, std::vector<float>> scales;
  std::vector<std::string>
      outputs;  // whole memories the call writes to, with what must stay untouched around it
  double amplification = 1;  // of rounding errors, in a case that is made to be ill-conditioned
};

// kStrided puts every matrix into the middle of a larger one, as parts of values are; kAligned does
// too, with rows on multiples of 16 bytes.
enum class Layout { kPacked, kStrided, kAligned };

// Puts one call and everything it refers to into a plan.
class CaseBuilder {
 public:
  CaseBuilder(std::string name, Layout layout = Layout::kPacked) : layout_(layout) {
    case_.name = std::move(name);
    case_.plan.model = case_.name;
    random_.seed(static_cast<uint32_t>(std::hash<std::string>{}(case_.name) & 0xffffu));
  }

  // [rows.capacity, width] of random numbers with this deviation. Rows past the length and what
  // lies around the matrix are NaN: an operation that reads them shows it.
  Value in(const std::string& name, Rows rows, int64_t width, DType type = DType::kF32,
           double deviation = 1) {
    return add(name, rows, width, type, Kind::kInput, [&](bool inside) {
      return inside ? deviation * normal_(random_) : std::numeric_limits<double>::quiet_NaN();
    });
  }
  Value in(const std::string& name, int64_t rows, int64_t width, DType type = DType::kF32,
           double deviation = 1) {
    return in(name, Rows{.capacity = rows}, width, type, deviation);
  }
  // The same with one number everywhere.
  Value constant(const std::string& name, int64_t rows, int64_t width, double number,
                 DType type = DType::kF32) {
    return add(name, {.capacity = rows}, width, type, Kind::kInput, [&](bool) { return number; });
  }
  // Written by the call. It starts as 0.5 and so must end where the call has no business.
  Value out(const std::string& name, Rows rows, int64_t width, DType type = DType::kF32) {
    const Value value = add(name, rows, width, type, Kind::kState, [](bool) { return 0.5; });
    case_.outputs.push_back(case_.plan[case_.plan.storage_of(value)].name);
    return value;
  }
  Value out(const std::string& name, int64_t rows, int64_t width, DType type = DType::kF32) {
    return out(name, Rows{.capacity = rows}, width, type);
  }
  // Read and written.
  Value in_out(const std::string& name, int64_t rows, int64_t width) {
    const Value value = in(name, rows, width);
    case_.outputs.push_back(case_.plan[case_.plan.storage_of(value)].name);
    return value;
  }
  Value integer(const std::string& name, int32_t number) {
    return integers(name, {number}, Shape{});
  }
  Value integers(const std::string& name, const std::vector<int32_t>& numbers, Shape shape,
                 DType type = DType::kI32, Rows rows = {}) {
    case_.data[name].assign(numbers.begin(), numbers.end());
    if (rows.capacity == 0) rows.capacity = shape.rows();
    return push({.name = name, .kind = Kind::kInput, .type = type, .shape = shape, .rows = rows});
  }
  // [N, S, S, 3], written by the call.
  Value images(const std::string& name, const Shape& shape, DType type) {
    case_.data[name].assign(shape.elements(), type == DType::kU8 ? 99 : 0.5);
    case_.outputs.push_back(name);
    return push({.name = name,
                 .kind = Kind::kState,
                 .type = type,
                 .shape = shape,
                 .rows = {.capacity = shape.rows()}});
  }
  // [n] float32.
  Value numbers(const std::string& name, const std::vector<double>& values) {
    case_.data[name] = values;
    const auto n = static_cast<int64_t>(values.size());
    return push({.name = name, .kind = Kind::kInput, .shape = Shape{n}, .rows = {.capacity = n}});
  }

  std::string weight(const std::string& name, Shape shape, double deviation = 1,
                     DType type = DType::kF32, WeightScale scale = WeightScale::kNone) {
    HostTensor tensor{shape, {}};
    for (int64_t i = 0; i < shape.elements(); ++i) {
      tensor.data.push_back(static_cast<float>(deviation * normal_(random_)));
    }
    case_.plan.weights.push_back({.name = name, .shape = shape, .type = type, .scale = scale});
    case_.weights[name] = std::move(tensor);
    return name;
  }
  std::vector<double>& data_of(Value value) {
    return case_.data.at(case_.plan[case_.plan.storage_of(value)].name);
  }
  // Keys outside the ranges become NaN.
  void spoil_other_keys(const Attention& op) {
    const auto spoil = [&](int64_t begin, int64_t end) {
      for (const Value value : {op.k, op.v}) {
        const ValueInfo& info = case_.plan[value];
        const int64_t stride = case_.plan[case_.plan.storage_of(value)].shape.width();
        for (int64_t row = begin; row < end; ++row) {
          std::fill_n(data_of(value).begin() + info.offset + row * stride, info.shape.width(),
                      std::numeric_limits<double>::quiet_NaN());
        }
      }
    };
    int64_t end = 0;
    for (const KeyRange& range : op.ranges) {
      spoil(end, range.begin);
      end = range.begin + range.count;
      if (range.length) end += static_cast<int64_t>(data_of(range.length)[0]);
    }
    spoil(end, case_.plan[op.k].shape.rows());
  }
  void set_scale(const std::string& site, float scale) { case_.scales[site] = {scale}; }
  void amplifies(double factor) { case_.amplification = factor; }
  std::mt19937& random() { return random_; }

  OpCase build(Op op) && {
    case_.plan.calls.push_back({"call", std::move(op)});
    case_.plan.stages.push_back(
        {.name = "stage", .when = When::kInfer, .repeat = 1, .first = 0, .last = 1});
    return std::move(case_);
  }

 private:
  static constexpr int64_t kAbove = 1, kBelow = 1;  // around a strided matrix

  Value push(ValueInfo info) {
    case_.plan.values.push_back(std::move(info));
    return Value{static_cast<int>(case_.plan.values.size()) - 1};
  }

  Value add(const std::string& name, Rows rows, int64_t width, DType type, Kind kind,
            const std::function<double(bool inside)>& number) {
    const int64_t valid =
        rows.length
            ? rows.base + static_cast<int64_t>(case_.data.at(case_.plan[rows.length].name)[0])
            : rows.capacity;
    const bool strided = layout_ != Layout::kPacked;
    const int64_t left = layout_ == Layout::kAligned ? 16 : 2;
    const int64_t right = layout_ == Layout::kAligned ? 16 : 1;
    const int64_t all_rows = rows.capacity + (strided ? kAbove + kBelow : 0);
    const int64_t all_columns = width + (strided ? left + right : 0);
    const std::string memory = strided ? name + ".memory" : name;
    for (int64_t r = 0; r < all_rows; ++r) {
      for (int64_t c = 0; c < all_columns; ++c) {
        const int64_t row = r - (strided ? kAbove : 0), column = c - (strided ? left : 0);
        case_.data[memory].push_back(
            number(0 <= row && row < valid && 0 <= column && column < width));
      }
    }
    if (type == DType::kE4M3) case_.scales.try_emplace(name, std::vector<float>{0.01f});
    const Value storage = push({.name = memory,
                                .kind = kind,
                                .type = type,
                                .shape = Shape{all_rows, all_columns},
                                .rows = {.capacity = all_rows},
                                .site = type == DType::kE4M3 ? name : ""});
    if (!strided && !rows.length) return storage;
    return push({.name = strided ? name : name + ".valid",
                 .kind = Kind::kView,
                 .type = type,
                 .shape = Shape{rows.capacity, width},
                 .rows = rows,
                 .storage = storage,
                 .offset = strided ? kAbove * all_columns + left : 0,
                 .row_stride = all_columns});
  }

  OpCase case_;
  Layout layout_;
  std::mt19937 random_;
  std::normal_distribution<double> normal_;
};

inline std::string name_of(Layout layout) {
  return layout == Layout::kPacked ? "packed" : layout == Layout::kStrided ? "strided" : "aligned";
}

// ---- linear

inline void add_linear_cases(std::vector<OpCase>& cases) {
  struct Sizes {
    int64_t rows, depth, width;
  };
  for (const Sizes s :
       {Sizes{1, 8, 1}, Sizes{1, 33, 130}, Sizes{3, 5, 7}, Sizes{10, 256, 640}, Sizes{17, 72, 33},
        Sizes{50, 1024, 96}, Sizes{64, 2, 513}, Sizes{200, 100, 600}, Sizes{385, 72, 1030}}) {
    for (const Layout layout : {Layout::kPacked, Layout::kStrided}) {
      CaseBuilder b(text("linear_", s.rows, "x", s.depth, "x", s.width, "_", name_of(layout)),
                    layout);
      Linear op{.x = b.in("x", s.rows, s.depth), .y = b.out("y", s.rows, s.width)};
      op.weight = b.weight("w", {s.width, s.depth}, 1 / std::sqrt(static_cast<double>(s.depth)));
      op.bias = b.weight("b", {s.width});
      cases.push_back(std::move(b).build(op));
    }
  }
  struct Types {
    DType x, weight;
    WeightScale scale;
    DType y;
  };
  for (const int64_t rows : {10, 130}) {
    for (const Types t : {Types{DType::kBF16, DType::kBF16, WeightScale::kNone, DType::kBF16},
                          Types{DType::kF16, DType::kF16, WeightScale::kNone, DType::kF16},
                          Types{DType::kE4M3, DType::kE4M3, WeightScale::kTensor, DType::kF32},
                          Types{DType::kE4M3, DType::kE4M3, WeightScale::kChannel, DType::kE4M3},
                          Types{DType::kE4M3, DType::kE4M3, WeightScale::kChannel, DType::kBF16},
                          Types{DType::kF16, DType::kE4M3, WeightScale::kTensor, DType::kF32},
                          Types{DType::kE4M3, DType::kF32, WeightScale::kNone, DType::kF16}}) {
      CaseBuilder b(
          text("linear_", rows, "_", t.x, "_", t.weight, "_", static_cast<int>(t.scale), "_", t.y),
          Layout::kStrided);
      Linear op{.x = b.in("x", rows, 96, t.x), .residual = b.in("r", rows, 200, DType::kBF16)};
      op.y = b.out("y", rows, 200, t.y);
      op.shift = b.in("s", 1, 200, DType::kF16);
      op.weight = b.weight("w", {200, 96}, 0.1, t.weight, t.scale);
      op.activation = Activation::kGeluTanh;
      cases.push_back(std::move(b).build(op));
    }
  }
  for (const Activation a : {Activation::kNone, Activation::kGeluTanh, Activation::kGeluErf,
                             Activation::kSilu, Activation::kRelu}) {
    CaseBuilder b(text("linear_", name_of(a)));
    Linear op{.x = b.in("x", 5, 16), .y = b.out("y", 5, 40)};
    op.weight = b.weight("w", {40, 16}, 1);
    op.activation = a;
    op.residual = b.in("r", 5, 40);
    cases.push_back(std::move(b).build(op));
  }
  for (const int32_t length : {0, 1, 6, 40}) {
    CaseBuilder b(text("linear_rows_", length), Layout::kStrided);
    const Rows rows{.capacity = 43, .length = b.integer("n", length), .base = 3};
    Linear op{.x = b.in("x", rows, 24), .residual = b.in("r", rows, 50), .y = b.out("y", rows, 50)};
    op.weight = b.weight("w", {50, 24}, 0.2);
    cases.push_back(std::move(b).build(op));
  }
  // Aligned, few rows and much depth, as around the actions: the kernels that read weights once.
  struct FewRows {
    int64_t rows, depth, width;
    DType x, weight;
    WeightScale scale;
    DType y;
  };
  for (const FewRows s :
       {FewRows{10, 1024, 2560, DType::kE4M3, DType::kE4M3, WeightScale::kChannel, DType::kBF16},
        FewRows{10, 2048, 512, DType::kF16, DType::kE4M3, WeightScale::kChannel, DType::kBF16},
        FewRows{10, 4096, 256, DType::kE4M3, DType::kE4M3, WeightScale::kTensor, DType::kBF16},
        FewRows{16, 4096, 64, DType::kF16, DType::kE4M3, WeightScale::kChannel, DType::kF32},
        FewRows{50, 1024, 512, DType::kE4M3, DType::kE4M3, WeightScale::kTensor, DType::kE4M3},
        FewRows{50, 4096, 64, DType::kF16, DType::kE4M3, WeightScale::kChannel, DType::kBF16},
        FewRows{10, 2048, 512, DType::kBF16, DType::kBF16, WeightScale::kNone, DType::kBF16},
        FewRows{17, 1024, 128, DType::kF16, DType::kF16, WeightScale::kNone, DType::kF16},
        FewRows{51, 1024, 64, DType::kBF16, DType::kBF16, WeightScale::kNone, DType::kBF16},
        FewRows{50, 1536, 128, DType::kBF16, DType::kBF16, WeightScale::kNone, DType::kF32},
        FewRows{10, 1536, 64, DType::kF16, DType::kE4M3, WeightScale::kChannel, DType::kF16},
        FewRows{12, 2048, 128, DType::kBF16, DType::kE4M3, WeightScale::kChannel, DType::kBF16},
        FewRows{31, 1024, 96, DType::kBF16, DType::kE4M3, WeightScale::kTensor, DType::kBF16},
        FewRows{10, 32, 1024, DType::kF32, DType::kF32, WeightScale::kNone, DType::kF32},
        FewRows{50, 1024, 32, DType::kF32, DType::kF32, WeightScale::kNone, DType::kF32},
        FewRows{50, 128, 192, DType::kF32, DType::kF32, WeightScale::kNone, DType::kBF16},
        FewRows{1, 204, 66, DType::kF32, DType::kF32, WeightScale::kNone, DType::kF16},
        FewRows{64, 2052, 30, DType::kF32, DType::kF32, WeightScale::kNone, DType::kE4M3}}) {
    CaseBuilder b(text("linear_few_rows_", s.rows, "x", s.depth, "x", s.width, "_", s.x, "_",
                       s.weight, "_", s.y));
    Linear op{.x = b.in("x", s.rows, s.depth, s.x), .y = b.out("y", s.rows, s.width, s.y)};
    op.weight = b.weight("w", {s.width, s.depth}, 1 / std::sqrt(static_cast<double>(s.depth)),
                         s.weight, s.scale);
    op.bias = b.weight("b", {s.width});
    op.shift = b.in("s", 1, s.width);
    op.activation = Activation::kSilu;
    op.residual = b.in("r", s.rows, s.width, DType::kBF16);
    cases.push_back(std::move(b).build(op));
  }
  for (const int32_t length : {0, 7}) {
    for (const DType type : {DType::kE4M3, DType::kF32}) {
      CaseBuilder b(text("linear_few_rows_length_", length, "_", type));
      const Rows rows{.capacity = 16, .length = b.integer("n", length), .base = 3};
      Linear op{.x = b.in("x", rows, 1024, type), .y = b.out("y", rows, 64, DType::kBF16)};
      op.weight = b.weight("w", {64, 1024}, 1.0 / 32, type,
                           type == DType::kE4M3 ? WeightScale::kChannel : WeightScale::kNone);
      cases.push_back(std::move(b).build(op));
    }
  }
  // Aligned, from 17 rows on, as in vision and prefix: the kernels on warp-group matrix
  // instructions. Depths and widths end inside their tiles.
  struct ManyRows {
    int64_t rows, depth, width;
    DType type;
    WeightScale scale;
    DType y;
    Activation activation;
  };
  for (const ManyRows s :
       {ManyRows{17, 1536, 144, DType::kE4M3, WeightScale::kChannel, DType::kE4M3,
                 Activation::kGeluTanh},
        ManyRows{51, 1536, 1536, DType::kE4M3, WeightScale::kChannel, DType::kBF16,
                 Activation::kNone},
        ManyRows{51, 6144, 400, DType::kE4M3, WeightScale::kChannel, DType::kBF16,
                 Activation::kNone},
        ManyRows{64, 1024, 272, DType::kBF16, WeightScale::kNone, DType::kE4M3, Activation::kSilu},
        ManyRows{66, 144, 272, DType::kE4M3, WeightScale::kChannel, DType::kBF16,
                 Activation::kNone},
        ManyRows{200, 1152, 144, DType::kE4M3, WeightScale::kTensor, DType::kE4M3,
                 Activation::kGeluTanh},
        ManyRows{353, 128, 528, DType::kE4M3, WeightScale::kChannel, DType::kBF16,
                 Activation::kSilu},
        ManyRows{176, 256, 272, DType::kE4M3, WeightScale::kChannel, DType::kE4M3,
                 Activation::kSilu},
        ManyRows{180, 256, 144, DType::kE4M3, WeightScale::kTensor, DType::kE4M3,
                 Activation::kNone},
        ManyRows{512, 72, 400, DType::kBF16, WeightScale::kNone, DType::kBF16,
                 Activation::kGeluTanh},
        ManyRows{177, 2048, 136, DType::kBF16, WeightScale::kNone, DType::kBF16, Activation::kNone},
        ManyRows{648, 1152, 592, DType::kE4M3, WeightScale::kChannel, DType::kE4M3,
                 Activation::kGeluTanh},
        ManyRows{648, 320, 592, DType::kBF16, WeightScale::kNone, DType::kBF16,
                 Activation::kNone}}) {
    CaseBuilder b(text("linear_many_rows_", s.rows, "x", s.depth, "x", s.width, "_", s.type));
    Linear op{.x = b.in("x", s.rows, s.depth, s.type), .y = b.out("y", s.rows, s.width, s.y)};
    op.weight = b.weight("w", {s.width, s.depth}, 1 / std::sqrt(static_cast<double>(s.depth)),
                         s.type, s.scale);
    op.bias = b.weight("b", {s.width});
    op.activation = s.activation;
    cases.push_back(std::move(b).build(op));
  }
  for (const int32_t length : {0, 64, 122}) {
    CaseBuilder b(text("linear_many_rows_length_", length));
    const Rows rows{.capacity = 400, .length = b.integer("n", length), .base = 129};
    Linear op{.x = b.in("x", rows, 256, DType::kE4M3), .y = b.out("y", rows, 272, DType::kBF16)};
    op.weight = b.weight("w", {272, 256}, 1.0 / 16, DType::kE4M3, WeightScale::kChannel);
    op.shift = b.in("s", 1, 272);
    cases.push_back(std::move(b).build(op));
  }
  {
    CaseBuilder b("linear_zero");
    Linear op{.x = b.constant("x", 4, 16, 0, DType::kE4M3), .y = b.out("y", 4, 8)};
    op.weight = b.weight("w", {8, 16}, 0, DType::kE4M3, WeightScale::kChannel);
    cases.push_back(std::move(b).build(op));
  }
  for (const DType type :
       {DType::kE4M3, DType::kF16, DType::kBF16}) {  // 448 * 0.01 and 65504 are passed
    CaseBuilder b(text("linear_saturating_", type));
    Linear op{.x = b.in("x", 4, 16, DType::kF32, 1e5), .y = b.out("y", 4, 8, type)};
    op.weight = b.weight("w", {8, 16});
    cases.push_back(std::move(b).build(op));
  }
}

// ---- add_norm

inline void add_add_norm_cases(std::vector<OpCase>& cases) {
  struct Sizes {
    int64_t rows, width;
  };
  for (const Norm norm : {Norm::kRms, Norm::kLayer}) {
    for (const Sizes s :
         {Sizes{1, 1}, Sizes{1, 8}, Sizes{3, 17}, Sizes{10, 1024}, Sizes{50, 72}, Sizes{9, 2048}}) {
      for (const Layout layout : {Layout::kPacked, Layout::kStrided}) {
        CaseBuilder b(text("add_norm_", norm == Norm::kRms ? "rms_" : "layer_", s.rows, "x",
                           s.width, "_", name_of(layout)),
                      layout);
        AddNorm op{.norm = norm, .residual = b.in("residual", s.rows, s.width)};
        op.delta = b.in("delta", s.rows, s.width);
        op.weight = b.weight("w", {s.width});
        if (norm == Norm::kLayer) op.bias = b.weight("b", {s.width});
        op.residual_out = b.out("residual_out", s.rows, s.width);
        op.y = b.out("y", s.rows, s.width);
        cases.push_back(std::move(b).build(op));
      }
    }
  }
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16, DType::kE4M3}) {
    for (const int32_t committed : {-1, 0, 2, 7}) {  // -1: no committed rows
      CaseBuilder b(text("add_norm_adaptive_", type, "_", committed < 0 ? "all" : text(committed)),
                    Layout::kStrided);
      const DType stream = type == DType::kE4M3 ? DType::kBF16 : type;
      AddNorm op{.residual = b.in("residual", 7, 33, stream), .delta = b.in("delta", 7, 33, type)};
      op.gate = b.in("gate", 1, 33, stream);
      op.scale = b.in("scale", 1, 33, stream);
      op.shift = b.in("shift", 1, 33);
      if (committed >= 0) {
        op.committed_rows = b.integer("committed", committed);
        op.committed_gate = b.in("committed_gate", 1, 33);
        op.committed_scale = b.in("committed_scale", 1, 33);
        op.committed_shift = b.in("committed_shift", 1, 33, stream);
      }
      op.residual_out = b.out("residual_out", 7, 33, stream);
      op.y = b.out("y", 7, 33, type);
      cases.push_back(std::move(b).build(op));
    }
  }
  {
    CaseBuilder b("add_norm_plain");
    cases.push_back(
        std::move(b).build(AddNorm{.residual = b.in("residual", 4, 20), .y = b.out("y", 4, 20)}));
  }
  {
    CaseBuilder b("add_norm_in_place", Layout::kStrided);
    const Value residual = b.in_out("residual", 4, 20);
    cases.push_back(std::move(b).build(AddNorm{.residual = residual,
                                               .delta = b.in("delta", 4, 20),
                                               .residual_out = residual,
                                               .y = b.out("y", 4, 20)}));
  }
  for (const int32_t length : {0, 1, 5}) {
    CaseBuilder b(text("add_norm_rows_", length), Layout::kStrided);
    const Rows rows{.capacity = 9, .length = b.integer("n", length), .base = 2};
    AddNorm op{.residual = b.in("residual", rows, 24), .delta = b.in("delta", rows, 24)};
    op.residual_out = b.out("residual_out", rows, 24);
    op.y = b.out("y", rows, 24);
    cases.push_back(std::move(b).build(op));
  }
  for (const Norm norm : {Norm::kRms, Norm::kLayer}) {
    CaseBuilder b(text("add_norm_zero_", static_cast<int>(norm)));
    cases.push_back(std::move(b).build(AddNorm{
        .norm = norm, .residual = b.constant("residual", 3, 40, 0), .y = b.out("y", 3, 40)}));
  }
  {
    CaseBuilder b("add_norm_offset");  // a mean far from zero: a one-pass variance would lose it
    AddNorm op{.norm = Norm::kLayer, .residual = b.in("residual", 3, 256), .y = b.out("y", 3, 256)};
    for (double& v : b.data_of(op.residual)) v = 100 + std::round(v * 64) / 64;
    cases.push_back(std::move(b).build(op));
  }
  // What the models ask for: an action expert, a vision tower, a prefix with a length.
  for (const DType type : {DType::kBF16, DType::kF16, DType::kE4M3}) {
    for (const int32_t committed : {-1, 3}) {
      CaseBuilder b(text("add_norm_expert_", type, "_", committed < 0 ? "all" : text(committed)));
      AddNorm op{.residual = b.in("residual", 10, 1024, DType::kBF16),
                 .delta = b.in("delta", 10, 1024, DType::kBF16)};
      op.gate = b.in("gate", 1, 1024);
      op.scale = b.in("scale", 1, 1024);
      op.shift = b.in("shift", 1, 1024);
      if (committed >= 0) {
        op.committed_rows = b.integer("committed", committed);
        op.committed_gate = b.in("committed_gate", 1, 1024);
        op.committed_scale = b.in("committed_scale", 1, 1024);
        op.committed_shift = b.in("committed_shift", 1, 1024);
      }
      op.residual_out = b.out("residual_out", 10, 1024, DType::kBF16);
      op.y = b.out("y", 10, 1024, type);
      cases.push_back(std::move(b).build(op));
    }
    CaseBuilder b(text("add_norm_vision_", type));
    AddNorm op{.norm = Norm::kLayer, .residual = b.in("residual", 3, 1152, DType::kBF16)};
    op.delta = b.in("delta", 3, 1152, DType::kBF16);
    op.weight = b.weight("w", {1152});
    op.bias = b.weight("b", {1152});
    op.residual_out = b.out("residual_out", 3, 1152, DType::kBF16);
    op.y = b.out("y", 3, 1152, type);
    cases.push_back(std::move(b).build(op));
  }
  // More rows than a device has multiprocessors, and rows wider than a block as a rule.
  struct Large {
    int64_t capacity, width;
    int32_t length;
    DType stream, type;
  };
  for (const Large& s : {Large{281, 1152, 279, DType::kBF16, DType::kE4M3},
                         Large{420, 72, 420, DType::kF32, DType::kBF16},
                         Large{3, 4608, 2, DType::kBF16, DType::kE4M3},
                         Large{281, 2560, 279, DType::kBF16, DType::kE4M3},
                         Large{140, 4096, 140, DType::kF32, DType::kE4M3},
                         Large{2, 2056, 2, DType::kF32, DType::kF32}}) {
    CaseBuilder b(text("add_norm_large_", s.capacity, "x", s.width));
    const Rows rows{.capacity = s.capacity, .length = b.integer("n", s.length)};
    AddNorm op{.norm = Norm::kLayer, .residual = b.in("residual", rows, s.width, s.stream)};
    op.delta = b.in("delta", rows, s.width, s.stream);
    op.weight = b.weight("w", {s.width});
    op.bias = b.weight("b", {s.width});
    op.residual_out = b.out("residual_out", rows, s.width, s.stream);
    op.y = b.out("y", rows, s.width, s.type);
    cases.push_back(std::move(b).build(op));
  }
  for (const DType stream : {DType::kF32, DType::kBF16}) {
    CaseBuilder b(text("add_norm_prefix_", stream));
    const Rows rows{.capacity = 4, .length = b.integer("n", 1), .base = 2};
    AddNorm op{.residual = b.in("residual", rows, 2048, stream),
               .delta = b.in("delta", rows, 2048, stream)};
    op.residual_out = b.out("residual_out", rows, 2048, stream);
    op.y = b.out("y", rows, 2048, DType::kE4M3);
    cases.push_back(std::move(b).build(op));
  }
  {
    CaseBuilder b("add_norm_first_layer");  // a style, and nothing to add yet
    AddNorm op{.residual = b.in("residual", 2, 64, DType::kBF16)};
    op.scale = b.in("scale", 1, 64);
    op.shift = b.in("shift", 1, 64);
    op.y = b.out("y", 2, 64, DType::kE4M3);
    cases.push_back(std::move(b).build(op));
  }
  {
    CaseBuilder b("add_norm_in_place_packed");
    const Value residual = b.in_out("residual", 4, 256);
    cases.push_back(std::move(b).build(AddNorm{.residual = residual,
                                               .delta = b.in("delta", 4, 256),
                                               .residual_out = residual,
                                               .y = b.out("y", 4, 256, DType::kBF16)}));
  }
}

// ---- qkv_rope

inline void add_qkv_rope_cases(std::vector<OpCase>& cases) {
  struct Heads {
    int heads, kv_heads, head_dim;
  };
  for (const Heads h :
       {Heads{8, 1, 256}, Heads{4, 1, 16}, Heads{16, 16, 72}, Heads{0, 2, 16}, Heads{4, 2, 6}}) {
    for (const double base : {0.0, 10000.0}) {
      for (const DType type : {DType::kF32, DType::kBF16, DType::kE4M3}) {
        CaseBuilder b(
            text("qkv_rope_", h.heads, "_", h.kv_heads, "_", h.head_dim, "_", base > 0, "_", type),
            Layout::kStrided);
        QkvRope op{
            .heads = h.heads, .kv_heads = h.kv_heads, .head_dim = h.head_dim, .rope_base = base};
        op.qkv = b.in("qkv", 11, int64_t{h.heads + 2 * h.kv_heads} * h.head_dim, type);
        if (base > 0) op.position = b.integer("position", 5);
        op.position_start = 3;
        if (h.heads > 0) op.q = b.out("q", 11, int64_t{h.heads} * h.head_dim, type);
        op.k = b.out("k", 11, int64_t{h.kv_heads} * h.head_dim);
        op.v = b.out("v", 11, int64_t{h.kv_heads} * h.head_dim, type);
        cases.push_back(std::move(b).build(op));
      }
    }
  }
  for (const int32_t length : {0, 1, 8}) {
    CaseBuilder b(text("qkv_rope_rows_", length), Layout::kStrided);
    const Rows rows{.capacity = 10, .length = b.integer("n", length), .base = 2};
    QkvRope op{.heads = 2,
               .kv_heads = 1,
               .head_dim = 8,
               .rope_base = 100,
               .position = b.integer("position", 900)};
    op.qkv = b.in("qkv", rows, 32);
    op.q_norm = b.weight("q_norm", {8});
    op.k_norm = b.weight("k_norm", {8});
    op.q = b.out("q", rows, 16);
    op.k = b.out("k", rows, 8);
    op.v = b.out("v", rows, 8);
    cases.push_back(std::move(b).build(op));
  }
  for (const DType type : {DType::kF32, DType::kBF16}) {
    for (const auto& [head_dim, kv_heads] : {std::pair{128, 2}, {128, 3}, {128, 8}, {32, 2}}) {
      CaseBuilder b(text("qkv_rope_normalised_", head_dim, "_", kv_heads, "_", type));
      const Rows rows{.capacity = 6, .length = b.integer("n", 3), .base = 1};
      QkvRope op{.heads = 2 * kv_heads, .kv_heads = kv_heads, .head_dim = head_dim};
      op.rope_base = 1e6;
      op.position = b.integer("position", 30);
      op.qkv = b.in("qkv", rows, int64_t{4} * kv_heads * head_dim, type);
      op.q_norm = b.weight("q_norm", {head_dim});
      op.k_norm = b.weight("k_norm", {head_dim});
      op.q = b.out("q", rows, int64_t{2} * kv_heads * head_dim, type);
      op.k = b.out("k", rows, int64_t{kv_heads} * head_dim, type);
      op.v = b.out("v", rows, int64_t{kv_heads} * head_dim, type);
      cases.push_back(std::move(b).build(op));
    }
  }
  for (const DType type : {DType::kF32, DType::kBF16}) {
    for (const int32_t position :
         {-1, 2, 900}) {  // -1: none; 900: past a table made for this cache
      CaseBuilder b(text("qkv_rope_packed_", type, "_", position < 0 ? "start" : text(position)));
      const Rows rows{.capacity = 5, .length = b.integer("n", 3), .base = 1};
      QkvRope op{.heads = 8, .kv_heads = 1, .head_dim = 256, .rope_base = 10000};
      if (position >= 0) op.position = b.integer("position", position);
      op.position_start = 7;
      op.qkv = b.in("qkv", rows, 10 * 256, type);
      op.q = b.out("q", rows, 8 * 256, type);
      op.k = b.out("k", rows, 256, type);
      op.v = b.out("v", rows, 256, type);
      cases.push_back(std::move(b).build(op));
    }
  }
}

// ---- attention

inline void add_attention_cases(std::vector<OpCase>& cases) {
  struct Sizes {
    int heads, kv_heads, head_dim;
    int64_t rows, keys;
  };
  const auto prepare = [](CaseBuilder& b, const Sizes& s, DType type) {
    Attention op{.heads = s.heads, .kv_heads = s.kv_heads, .head_dim = s.head_dim};
    op.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(s.head_dim)));
    op.q = b.in("q", s.rows, int64_t{s.heads} * s.head_dim, type, 2);
    op.k = b.in("k", s.keys, int64_t{s.kv_heads} * s.head_dim, type);
    op.v = b.in("v", s.keys, int64_t{s.kv_heads} * s.head_dim, type);
    op.y = b.out("y", s.rows, int64_t{s.heads} * s.head_dim, type);
    return op;
  };
  for (const Sizes s : {Sizes{1, 1, 4, 1, 1}, Sizes{4, 1, 16, 9, 9}, Sizes{8, 1, 256, 10, 600},
                        Sizes{8, 1, 256, 50, 70}, Sizes{16, 16, 72, 66, 66},
                        Sizes{6, 2, 10, 70, 1030}, Sizes{96, 1, 8, 3, 20}}) {
    for (const DType type : {DType::kF32, DType::kBF16, DType::kE4M3}) {
      CaseBuilder b(text("attention_", s.heads, "_", s.kv_heads, "_", s.head_dim, "_", s.rows, "x",
                         s.keys, "_", type),
                    Layout::kStrided);
      Attention op = prepare(b, s, type);
      op.ranges = {{.begin = 0, .count = static_cast<int>(s.keys), .length = {}}};
      cases.push_back(std::move(b).build(op));
    }
  }
  for (const int offset : {-2, 0, 5, 600}) {
    CaseBuilder b(text("attention_causal_", offset < 0 ? "minus" : "", std::abs(offset)));
    Attention op = prepare(b, {4, 2, 16, 20, 540}, DType::kF32);
    if (offset <
        0) {  // the first tokens see no key: they are not compared with 0 / 0 of the formula
      op.q = b.in("q_rows", 18, 64);
      op.y = b.out("y_rows", 18, 64);
    }
    op.mask = Mask::kCausal;
    op.mask_argument = std::abs(offset);
    op.ranges = {{.begin = 0, .count = 540, .length = {}}};
    cases.push_back(std::move(b).build(op));
  }
  for (const int32_t length : {0, 9}) {  // causal among the first keys, the others seen whole
    CaseBuilder b(text("attention_causal_ranges_", length));
    Attention op = prepare(b, {4, 2, 16, 20, 40}, DType::kF32);
    op.mask = Mask::kCausal;
    const Value n = b.integer("n", length);
    op.ranges = {{.begin = 0, .count = 20, .length = {}}, {.begin = 24, .count = 2, .length = n}};
    cases.push_back(std::move(b).build(op));
  }
  for (const Sizes s :
       {Sizes{2, 2, 72, 512, 512}, Sizes{2, 2, 8, 12, 12}, Sizes{2, 1, 8, 14, 14}}) {
    CaseBuilder b(text("attention_block_", s.rows));
    Attention op = prepare(b, s, DType::kF32);
    op.mask = Mask::kBlock;
    op.mask_argument = s.rows == 512 ? 256 : s.rows == 12 ? 4 : 7;
    op.ranges = {{.begin = 0, .count = static_cast<int>(s.keys), .length = {}}};
    cases.push_back(std::move(b).build(op));
  }
  for (const int32_t length :
       {0, 1, 17, 30}) {  // the cache of a denoise step: suffix first, then the prefix
    CaseBuilder b(text("attention_ranges_", length), Layout::kStrided);
    Attention op = prepare(b, {8, 1, 32, 10, 60}, DType::kF32);
    const Value n = b.integer("n", length);
    op.ranges = {{.begin = 0, .count = 10, .length = {}}, {.begin = 20, .count = 4, .length = n}};
    b.spoil_other_keys(op);
    cases.push_back(std::move(b).build(op));
  }
  {
    CaseBuilder b("attention_rows", Layout::kStrided);
    Attention op = prepare(b, {4, 1, 16, 5, 9}, DType::kF32);
    const Rows rows{.capacity = 20, .length = b.integer("n", 7), .base = 1};
    op.q = b.in("q_rows", rows, 64);
    op.y = b.out("y_rows", rows, 64);
    op.ranges = {{.begin = 2, .count = 6, .length = {}}};
    cases.push_back(std::move(b).build(op));
  }
  {
    CaseBuilder b("attention_peaked");  // logits of several hundred: only the running maximum keeps
                                        // exp finite
    Attention op = prepare(b, {2, 1, 64, 6, 1100}, DType::kF32);
    for (double& v : b.data_of(op.q)) v *= 20;
    b.amplifies(20);
    op.ranges = {{.begin = 0, .count = 1100, .length = {}}};
    cases.push_back(std::move(b).build(op));
  }
  {
    CaseBuilder b("attention_zero");
    Attention op = prepare(b, {2, 1, 8, 4, 6}, DType::kF32);
    for (double& v : b.data_of(op.q)) v = 0;
    op.ranges = {{.begin = 0, .count = 6, .length = {}}};
    cases.push_back(std::move(b).build(op));
  }
}

// Operands of 16 bits in aligned rows at the shapes of the models: kernels on matrix units take
// them. Keys outside the ranges are NaN.
inline void add_model_attention_cases(std::vector<OpCase>& cases) {
  const auto prepare = [](CaseBuilder& b, int heads, int kv_heads, int head_dim, Rows rows,
                          Rows keys, DType type) {
    Attention op{.heads = heads, .kv_heads = kv_heads, .head_dim = head_dim};
    op.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(head_dim)));
    op.q = b.in("q", rows, int64_t{heads} * head_dim, DType::kBF16, 2);
    op.k = b.in("k", keys, int64_t{kv_heads} * head_dim, DType::kBF16);
    op.v = b.in("v", keys, int64_t{kv_heads} * head_dim, DType::kBF16);
    op.y = b.out("y", rows, int64_t{heads} * head_dim, type);
    return op;
  };
  struct Vision {
    int heads, rows, block;
    DType type;
  };
  for (const Vision s : {Vision{2, 512, 256, DType::kBF16}, Vision{2, 128, 64, DType::kF16},
                         Vision{2, 192, 192, DType::kE4M3}, Vision{2, 77, 0, DType::kBF16},
                         Vision{2, 648, 324, DType::kE4M3}, Vision{2, 90, 30, DType::kBF16},
                         Vision{2, 1000, 500, DType::kBF16}, Vision{3, 353, 0, DType::kF32},
                         Vision{2, 336, 0, DType::kF16}, Vision{1, 300, 100, DType::kF32},
                         Vision{16, 768, 256, DType::kE4M3}, Vision{16, 648, 324, DType::kBF16}}) {
    CaseBuilder b(text("attention_vision_", s.heads, "_", s.rows, "_", s.type), Layout::kAligned);
    Attention op =
        prepare(b, s.heads, s.heads, 72, {.capacity = s.rows}, {.capacity = s.rows}, s.type);
    if (s.block > 0) op.mask = Mask::kBlock;
    op.mask_argument = s.block;
    op.ranges = {{.begin = 0, .count = s.rows, .length = {}}};
    cases.push_back(std::move(b).build(op));
  }
  // With blocks, the first one sees no key, and the last one is shorter.
  for (const int block : {0, 30}) {
    CaseBuilder b(text("attention_vision_range_", block), Layout::kAligned);
    Attention op = prepare(b, 2, 2, 72, {.capacity = 100}, {.capacity = 100}, DType::kF32);
    if (block > 0) op.mask = Mask::kBlock;
    op.mask_argument = block;
    op.ranges = {{.begin = 35, .count = 60}};
    b.spoil_other_keys(op);
    cases.push_back(std::move(b).build(op));
  }
  // The cache holds `suffix` rows, then the images, then a prompt of some of its capacity.
  struct Cached {
    const char* name;
    int heads, suffix, images, prompt_capacity, prompt;
    DType type;
  };
  for (const Cached s : {Cached{"prefix", 8, 10, 60, 20, 10, DType::kBF16},
                         Cached{"prefix", 8, 10, 130, 40, 0, DType::kE4M3},
                         Cached{"prefix", 1, 10, 512, 20, 10, DType::kF16},
                         Cached{"prefix", 32, 10, 200, 20, 10, DType::kBF16},
                         Cached{"decode", 8, 10, 512, 200, 10, DType::kBF16},
                         Cached{"decode", 8, 10, 512, 20, 10, DType::kE4M3},
                         Cached{"decode", 8, 10, 512, 20, 3, DType::kF16},
                         Cached{"decode", 8, 20, 90, 20, 7, DType::kBF16},
                         Cached{"decode", 8, 50, 512, 20, 10, DType::kBF16},
                         Cached{"decode", 8, 10, 512, 200, 200, DType::kBF16},
                         Cached{"decode", 8, 50, 512, 200, 190, DType::kE4M3},
                         Cached{"decode", 8, 10, 900, 100, 100, DType::kF16},
                         Cached{"decode", 8, 1, 3, 20, 0, DType::kF32}}) {
    const bool is_prefix = std::string(s.name) == "prefix";
    CaseBuilder b(text("attention_", s.name, "_", s.heads, "_", s.suffix, "_", s.images, "_",
                       s.prompt, "_", s.type),
                  Layout::kAligned);
    const Value n = b.integer("n", s.prompt);
    const Rows prefix{.capacity = s.images + s.prompt_capacity, .length = n, .base = s.images};
    const Rows cache{
        .capacity = s.suffix + prefix.capacity, .length = n, .base = s.suffix + s.images};
    Attention op =
        prepare(b, s.heads, 1, 256, is_prefix ? prefix : Rows{.capacity = s.suffix}, cache, s.type);
    const int begin = is_prefix ? s.suffix : 0;
    op.ranges = {{.begin = begin, .count = s.suffix + s.images - begin, .length = n}};
    cases.push_back(std::move(b).build(op));
  }
  // A state token: keys before and after rows that it must not see. The same of many rows.
  for (const int rows : {11, 70}) {
    CaseBuilder b(text("attention_ranges_256_", rows), Layout::kAligned);
    const Value n = b.integer("n", 21);
    const Rows cache{.capacity = 210, .length = n, .base = 180};
    Attention op = prepare(b, 8, 1, 256, {.capacity = rows}, cache, DType::kBF16);
    op.ranges = {{.begin = 0, .count = 1, .length = {}},
                 {.begin = 1, .count = 0, .length = {}},
                 {.begin = 5, .count = 140, .length = {}},
                 {.begin = 160, .count = 20, .length = n}};
    b.spoil_other_keys(op);
    cases.push_back(std::move(b).build(op));
  }
  // A prefix on two kv heads, and one of no keys.
  for (const int count : {170, 0}) {
    CaseBuilder b(text("attention_prefix_kv_heads_", count), Layout::kAligned);
    Attention op = prepare(b, 16, 2, 256, {.capacity = 66}, {.capacity = 180}, DType::kF32);
    op.ranges = {{.begin = 7, .count = count}};
    b.spoil_other_keys(op);
    cases.push_back(std::move(b).build(op));
  }
  // Heads of 48 over columns of a value: tokens of one sort, text around images, more ranges than
  // the kernels on matrix units take.
  struct Crossed {
    int rows;
    std::vector<KeyRange> ranges;
    int keys;
    DType type;
  };
  const std::vector<KeyRange> six{{.begin = 0, .count = 9},  {.begin = 11, .count = 20},
                                  {.begin = 31, .count = 1}, {.begin = 40, .count = 30},
                                  {.begin = 80, .count = 5}, {.begin = 86, .count = 4}};
  for (const Crossed& s :
       {Crossed{51, {{.begin = 0, .count = 51}}, 51, DType::kE4M3},
        Crossed{17, {{.begin = 0, .count = 17}}, 17, DType::kBF16},
        Crossed{51, {{.begin = 0, .count = 81}, {.begin = 88, .count = 81}}, 172, DType::kF16},
        Crossed{70, {{.begin = 0, .count = 300}}, 300, DType::kBF16},
        Crossed{20, six, 90, DType::kBF16}}) {
    CaseBuilder b(text("attention_48_", s.rows, "_", s.keys, "_", s.ranges.size()),
                  Layout::kAligned);
    Attention op = prepare(b, 3, 3, 48, {.capacity = s.rows}, {.capacity = s.keys}, s.type);
    op.ranges = s.ranges;
    b.spoil_other_keys(op);
    cases.push_back(std::move(b).build(op));
  }
  {
    CaseBuilder b("attention_48_length", Layout::kAligned);
    const Value n = b.integer("n", 10);
    Attention op = prepare(b, 3, 3, 48, {.capacity = 40, .length = n, .base = 8}, {.capacity = 60},
                           DType::kF32);
    op.ranges = {{.begin = 1, .count = 30, .length = n}};
    b.spoil_other_keys(op);
    cases.push_back(std::move(b).build(op));
  }
  // Causal, heads of 128 in pairs. The rows of an observation come first in the cache, those of the
  // prompt behind them; each of the two is computed by itself.
  struct Causal {
    int observation, prompt, capacity;
    bool is_prompt;
    DType type;
  };
  for (const Causal s :
       {Causal{172, 31, 31, false, DType::kE4M3}, Causal{172, 20, 40, true, DType::kBF16},
        Causal{33, 0, 8, false, DType::kF16}, Causal{7, 200, 260, true, DType::kBF16},
        Causal{300, 9, 40, false, DType::kBF16}}) {
    CaseBuilder b(
        text("attention_causal_128_", s.observation, "_", s.prompt, s.is_prompt ? "_prompt" : ""),
        Layout::kAligned);
    const Value n = b.integer("n", s.prompt);
    const Rows prompt{.capacity = s.capacity, .length = n};
    const Rows cache{.capacity = s.observation + s.capacity, .length = n, .base = s.observation};
    Attention op = prepare(b, 4, 2, 128, s.is_prompt ? prompt : Rows{.capacity = s.observation},
                           cache, s.type);
    op.mask = Mask::kCausal;
    op.mask_argument = s.is_prompt ? s.observation : 0;
    const KeyRange observed{.begin = 0, .count = s.observation, .length = {}};
    const KeyRange prompted{.begin = s.observation, .count = 0, .length = n};
    op.ranges = s.is_prompt ? std::vector{prompted} : std::vector{observed, prompted};
    cases.push_back(std::move(b).build(op));
  }
  // Heads of 128 without a mask, so many of them on a kv head; some rows see no key.
  struct Folded {
    int heads, kv_heads, rows;
    std::vector<KeyRange> ranges;
    DType type;
  };
  for (const Folded& s :
       {Folded{2, 2, 70, {{.begin = 3, .count = 100}, {.begin = 110, .count = 20}}, DType::kF32},
        Folded{16, 1, 9, {{.begin = 0, .count = 300}}, DType::kE4M3},
        Folded{6, 2, 40, {{.begin = 5, .count = 130}}, DType::kBF16},
        Folded{4, 1, 33, {{.begin = 5, .count = 0}}, DType::kF16}}) {
    CaseBuilder b(text("attention_128_", s.heads, "_", s.kv_heads, "_", s.rows), Layout::kAligned);
    Attention op =
        prepare(b, s.heads, s.kv_heads, 128, {.capacity = s.rows}, {.capacity = 310}, s.type);
    op.ranges = s.ranges;
    b.spoil_other_keys(op);
    cases.push_back(std::move(b).build(op));
  }
}

// ---- resize

// One frame per camera; a size of 0 leaves a camera without one.
struct CaseFrame {
  int width, height;
  int row_padding;  // bytes
  PixelFormat format;
  int rotation;
};

inline void add_resize_case(std::vector<OpCase>& cases, const std::string& name, int size,
                            const std::vector<CaseFrame>& frames, DType type, Fit fit) {
  CaseBuilder b(text("resize_", name, "_", size, "_", type));
  const auto cameras = static_cast<int64_t>(frames.size());
  const int64_t words = frame_descriptor_layout(size).words;
  std::vector<std::vector<int32_t>> pictures;
  std::vector<int32_t> descriptors(cameras * words), memory;
  int64_t bytes = 16;  // of each camera
  for (size_t n = 0; n < frames.size(); ++n) {
    const CaseFrame& f = frames[n];
    std::vector<int32_t>& picture = pictures.emplace_back();
    if (f.width == 0) continue;
    const int pixel = f.format == PixelFormat::kMono8                                      ? 1
                      : f.format == PixelFormat::kRgba8 || f.format == PixelFormat::kBgra8 ? 4
                                                                                           : 3;
    const int step = f.width * pixel + f.row_padding;
    for (int i = 0; i < step * f.height; ++i) picture.push_back(b.random()() % 256);
    bytes = std::max<int64_t>(bytes, (step * f.height + 15) / 16 * 16);
    const std::vector<std::byte> data(picture.size());
    describe_frame({data, f.height, f.width, step, f.format},
                   {.fit = fit, .rotation = f.rotation, .bars = -3},
                   type == DType::kU8 ? Resampling::kPillow : Resampling::kBilinear, size,
                   std::span(descriptors).subspan(n * words, words));
  }
  for (std::vector<int32_t>& picture : pictures) {
    picture.resize(bytes, 255);
    memory.insert(memory.end(), picture.begin(), picture.end());
  }
  Resize op{.frames = b.integers("frames", memory, {cameras, bytes}, DType::kU8)};
  op.descriptors = b.integers("descriptors", descriptors, {cameras, words});
  op.images = b.images("images", {cameras, size, size, 3}, type);
  cases.push_back(std::move(b).build(op));
}

inline void add_resize_cases(std::vector<OpCase>& cases) {
  using enum PixelFormat;
  for (const DType type : {DType::kU8, DType::kF32}) {
    add_resize_case(cases, "real", 224, {{640, 480, 0, kRgb8, 0}, {320, 240, 0, kBgr8, 0}}, type,
                    Fit::kLetterbox);
    add_resize_case(cases, "turned", 56,
                    {{96, 70, 0, kRgb8, 0},
                     {96, 70, 5, kRgb8, 90},
                     {96, 70, 2, kBgr8, 180},
                     {96, 70, 7, kRgba8, 270}},
                    type, Fit::kLetterbox);
    add_resize_case(cases, "larger", 48,
                    {{33, 21, 1, kBgra8, 0}, {1, 1, 0, kMono8, 90}, {7, 50, 3, kMono8, 270}}, type,
                    Fit::kLetterbox);
    add_resize_case(cases, "stretched", 28,
                    {{61, 200, 3, kRgb8, 0}, {28, 28, 0, kRgb8, 0}, {28, 5, 1, kBgr8, 90}}, type,
                    Fit::kStretch);
    add_resize_case(cases, "long", 14, {{4096, 30, 0, kMono8, 180}, {20, 3000, 4, kRgba8, 90}},
                    type, Fit::kStretch);
    add_resize_case(cases, "absent", 14, {{0, 0, 0, kRgb8, 0}, {20, 30, 0, kRgb8, 0}}, type,
                    Fit::kLetterbox);
  }
}

// ---- the others

inline void add_glu_cases(std::vector<OpCase>& cases) {
  for (const Activation a :
       {Activation::kGeluTanh, Activation::kSilu, Activation::kGeluErf, Activation::kRelu}) {
    for (const DType type : {DType::kF32, DType::kBF16, DType::kF16, DType::kE4M3}) {
      CaseBuilder b(text("glu_", name_of(a), "_", type), Layout::kStrided);
      const Rows rows{.capacity = 9, .length = b.integer("n", 5), .base = 1};
      Glu op{.activation = a, .gate_up = b.in("gate_up", rows, 2 * 1100, DType::kF32, 2)};
      op.y = b.out("y", rows, 1100, type);
      cases.push_back(std::move(b).build(op));
    }
  }
  for (const Activation a : {Activation::kGeluTanh, Activation::kSilu}) {
    for (const DType type : {DType::kF32, DType::kBF16, DType::kF16, DType::kE4M3}) {
      CaseBuilder b(text("glu_packed_", name_of(a), "_", type));
      const Rows rows{.capacity = 3, .length = b.integer("n", 1), .base = 1};
      const DType stream = type == DType::kF32 ? DType::kF32 : DType::kBF16;
      Glu op{.activation = a, .gate_up = b.in("gate_up", rows, 2 * 1056, stream, 2)};
      op.y = b.out("y", rows, 1056, type);
      cases.push_back(std::move(b).build(op));
    }
  }
  // Gates that are not finite, or nearly so.
  for (const Activation a :
       {Activation::kGeluTanh, Activation::kSilu, Activation::kGeluErf, Activation::kRelu}) {
    for (const DType type : {DType::kF32, DType::kBF16}) {
      CaseBuilder b(text("glu_limits_", name_of(a), "_", type));
      constexpr double kInfinity = std::numeric_limits<double>::infinity();
      Glu op{.activation = a, .gate_up = b.in("gate_up", 2, 2 * 16, type)};
      op.y = b.out("y", 2, 16, type);
      const std::vector<double> limits{
          -kInfinity, kInfinity, -1e38, 1e30, -100, 100, std::numeric_limits<double>::quiet_NaN()};
      std::copy(limits.begin(), limits.end(), b.data_of(op.gate_up).begin());
      cases.push_back(std::move(b).build(op));
    }
  }
  CaseBuilder b("glu_bf16_input");
  cases.push_back(std::move(b).build(
      Glu{.gate_up = b.in("gate_up", 3, 14, DType::kBF16, 30), .y = b.out("y", 3, 7)}));
}

inline void add_embed_cases(std::vector<OpCase>& cases) {
  struct Sizes {
    int64_t images, side;
    int patch;
    int64_t width;
  };
  for (const Sizes s :
       {Sizes{2, 28, 14, 72}, Sizes{1, 4, 4, 3}, Sizes{3, 12, 3, 17}, Sizes{1, 224, 14, 96}}) {
    for (const DType type : {DType::kF32, DType::kBF16}) {
      CaseBuilder b(text("patch_embed_", s.images, "_", s.side, "_", s.patch, "_", type));
      std::vector<int32_t> pixels;
      for (int64_t i = 0; i < s.images * s.side * s.side * 3; ++i)
        pixels.push_back(b.random()() % 256);
      const int64_t tokens = (s.side / s.patch) * (s.side / s.patch), depth = 3 * s.patch * s.patch;
      PatchEmbed op{.images =
                        b.integers("images", pixels, {s.images, s.side, s.side, 3}, DType::kU8)};
      op.y = b.out("y", s.images * tokens, s.width, type);
      op.weight = b.weight("w", {s.width, depth}, 1 / std::sqrt(static_cast<double>(depth)), type);
      op.bias = b.weight("b", {s.width});
      op.position = b.weight("p", {tokens, s.width});
      op.patch = s.patch;
      cases.push_back(std::move(b).build(op));
    }
  }
  // Pictures that are not square, in squares of patches, with positions that a call has computed.
  struct Squares {
    int64_t images, height, width;
    int patch, group;
  };
  for (const Squares s : {Squares{2, 8, 12, 2, 2}, Squares{1, 12, 18, 2, 3}, Squares{2, 6, 4, 2, 1},
                          Squares{1, 56, 84, 14, 2}}) {
    for (const DType type : {DType::kF32, DType::kBF16}) {
      CaseBuilder b(text("patch_embed_", s.height, "x", s.width, "_squares_", s.group, "_", type));
      std::vector<int32_t> pixels;
      for (int64_t i = 0; i < s.images * s.height * s.width * 3; ++i)
        pixels.push_back(b.random()() % 256);
      const int64_t tokens = s.images * (s.height / s.patch) * (s.width / s.patch),
                    depth = 3 * s.patch * s.patch, width = 24;
      PatchEmbed op{.images =
                        b.integers("images", pixels, {s.images, s.height, s.width, 3}, DType::kU8)};
      op.positions = b.in("positions", tokens, width, type);
      op.y = b.out("y", tokens, width, type);
      op.weight = b.weight("w", {width, depth}, 1 / std::sqrt(static_cast<double>(depth)), type);
      op.bias = b.weight("b", {width});
      op.patch = s.patch;
      op.group = s.group;
      cases.push_back(std::move(b).build(op));
    }
  }
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16, DType::kE4M3}) {
    CaseBuilder b(text("token_embed_", type), Layout::kStrided);
    const Rows rows{.capacity = 8, .length = b.integer("n", 5), .base = 0};
    TokenEmbed op{.tokens =
                      b.integers("tokens", {2, 0, 10, 3, 3, -1, 999, -5}, {8}, DType::kI32, rows)};
    op.y = b.out("y", rows, 12, type);
    op.table = b.weight("table", {11, 12});
    cases.push_back(std::move(b).build(op));
  }
  for (const int64_t width : {4, 64, 1024}) {
    CaseBuilder b(text("time_embed_", width));
    TimeEmbed op{.times = b.numbers("times", {1.0f, 0.9f, 0.1f, 0.0f}),
                 .min_period = 0.004,
                 .max_period = 4};
    op.y = b.out("y", 4, width);
    cases.push_back(std::move(b).build(op));
  }
}

inline void add_solver_cases(std::vector<OpCase>& cases) {
  for (const DType type : {DType::kF32, DType::kBF16}) {
    CaseBuilder b(text("euler_step_", type), Layout::kStrided);
    EulerStep op{.actions = b.in_out("actions", 10, 32),
                 .velocity = b.in("velocity", 10, 32, type),
                 .step = -0.1f};
    cases.push_back(std::move(b).build(op));
  }
  for (const int32_t committed : {0, 3, 10}) {
    CaseBuilder b(text("euler_step_guided_", committed), Layout::kStrided);
    EulerStep op{.actions = b.in_out("actions", 10, 32),
                 .velocity = b.in("velocity", 10, 32),
                 .step = -0.1f};
    op.time = b.numbers("time", {0.7f});
    op.guidance = b.numbers("guidance", {2.76f});
    op.previous = b.in("previous", 10, 32);
    op.weights = b.numbers("weights", {1, 1, 1, 0.75, 0.5, 0.25, 0, 0, 0, 0});
    op.committed_rows = b.integer("committed", committed);
    cases.push_back(std::move(b).build(op));
  }
}

inline void add_quantize_cases(std::vector<OpCase>& cases) {
  for (const DType from : {DType::kF32, DType::kBF16, DType::kF16, DType::kE4M3}) {
    for (const DType to : {DType::kF32, DType::kBF16, DType::kF16, DType::kE4M3}) {
      CaseBuilder b(text("quantize_", from, "_", to), Layout::kStrided);
      const Rows rows{.capacity = 20, .length = b.integer("n", 18), .base = 1};
      Quantize op{.x = b.in("x", rows, 75, from, 3), .y = b.out("y", rows, 75, to)};
      cases.push_back(std::move(b).build(op));
    }
  }
}

inline std::vector<OpCase> op_cases() {
  std::vector<OpCase> cases;
  add_linear_cases(cases);
  add_add_norm_cases(cases);
  add_qkv_rope_cases(cases);
  add_attention_cases(cases);
  add_model_attention_cases(cases);
  add_glu_cases(cases);
  add_resize_cases(cases);
  add_embed_cases(cases);
  add_solver_cases(cases);
  add_quantize_cases(cases);
  return cases;
}

}  // namespace flashrt
