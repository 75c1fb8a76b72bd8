// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "runtime/compare.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <span>

namespace flashrt {
namespace {

// ---- bounds

// What a value or weight is held in.
struct Held {
  DType type = DType::kF32;
  NumberFormat format = NumberFormat::kNone;

  template <class Info>
  static Held of(const Info& info) {
    return {info.type, held_format(info)};
  }
  bool operator==(const Held&) const = default;
};

// Root mean square of the relative error of rounding: half a unit in the last place, spread evenly,
// over mantissas from 1 to 2.
double rounding(Held held) {
  constexpr double kSpread = 0.425;  // sqrt(1/3 * 3 / (8 ln 2))
  constexpr double kInt8Peak = 16;   // largest magnitude over the root mean square, of most values
  switch (held.format) {
    case NumberFormat::kE5M2:
      return kSpread * 0x1p-3;
    case NumberFormat::kInt8:
      return kInt8Peak / largest(held.format) / std::sqrt(12.0);
    case NumberFormat::kNvFp4:
    case NumberFormat::kMxFp4:
      return kSpread * 0x1p-2;
    case NumberFormat::kE4M3:
    case NumberFormat::kNone:
      break;
  }
  switch (held.type) {
    case DType::kF32:
      return kSpread * 0x1p-24;
    case DType::kF16:
      return kSpread * 0x1p-11;
    case DType::kBF16:
      return kSpread * 0x1p-8;
    case DType::kE4M3:
      return kSpread * 0x1p-4;
    case DType::kI32:
    case DType::kU8:
      return 0;
  }
  return 0;
}

// What one engine rounds and the other does not, or rounds otherwise.
double difference(Held first, Held second) {
  return first == second ? 0 : std::max(rounding(first), rounding(second));
}

// How a call passes on errors of its operands, and its own besides.
struct Sensitivity {
  double gain;
  double own;
  const char* reason;
};

struct SensitivityOf {
  template <class Operation>
  Sensitivity operator()(const Operation&) const {
    return {2, 1e-6, "rounding of operands and result"};
  }
  Sensitivity operator()(const Resize&) const { return {2, 0, "integer arithmetic is exact"}; }
  Sensitivity operator()(const Linear&) const {
    return {3, 2e-5, "rounded factors and another order of a long sum"};
  }
  Sensitivity operator()(const PatchEmbed&) const {
    return {3, 2e-5, "rounded factors and another order of a long sum"};
  }
  Sensitivity operator()(const Attention&) const {
    return {6, 2e-5, "rounding of scores before an exponential, and another order of the sums"};
  }
  Sensitivity operator()(const AddNorm&) const {
    return {3, 1e-5, "a sum of rounded streams over its own root mean square"};
  }
  Sensitivity operator()(const QkvRope&) const {
    return {3, 1e-5, "rounded operands and sines from another table"};
  }
  Sensitivity operator()(const Glu&) const {
    return {3, 1e-5, "a product of two rounded operands and another tanh"};
  }
};

Sensitivity sensitivity(const Op& op) { return std::visit(SensitivityOf{}, op); }

// What the operands of a call are held in, in order, without absent ones.
std::vector<Held> held_operands(const Plan& plan, Call call) {
  struct Visitor {
    const Plan& plan;
    std::vector<Held>& operands;
    void read(std::string_view, Value value) const {
      if (value) operands.push_back(Held::of(plan[value]));
    }
    void write(std::string_view, Value) const {}
  };
  std::vector<Held> operands;
  std::visit([&](auto& op) { op.operands(Visitor{plan, operands}); }, call.op);
  return operands;
}

const std::string* matrix_of(const Op& op) {
  if (const auto* linear = std::get_if<Linear>(&op)) return &linear->weight;
  if (const auto* patch = std::get_if<PatchEmbed>(&op)) return &patch->weight;
  if (const auto* tokens = std::get_if<TokenEmbed>(&op)) return &tokens->table;
  return nullptr;
}

// Independent errors add up in squares.
double bound_of(const Plan& first, const Call& first_call, const Plan& second,
                const Call& second_call, Held first_result, Held second_result) {
  double squares = std::pow(std::max(rounding(first_result), rounding(second_result)), 2);
  const std::vector<Held> a = held_operands(first, first_call),
                          b = held_operands(second, second_call);
  FLASHRT_CHECK(a.size() == b.size(), "compare: call ", second_call.name, " has ", a.size(),
                " operands in the first plan, ", b.size(), " in the second");
  for (size_t i = 0; i < a.size(); ++i) squares += std::pow(difference(a[i], b[i]), 2);
  const std::string* weight = matrix_of(second_call.op);
  if (weight) {
    squares +=
        std::pow(difference(Held::of(first.weight(*weight)), Held::of(second.weight(*weight))), 2);
  }
  const Sensitivity s = sensitivity(second_call.op);
  return s.gain * std::sqrt(squares) + s.own;
}

std::string reason_of(const Plan& second, const Call& call) {
  std::string reason = sensitivity(call.op).reason;
  bool is_quantised = false;
  const auto look = [&](Value value) { is_quantised |= has_scale(held_format(second[value])); };
  for_each_read(call, look);
  for_each_write(call, look);
  if (is_quantised) reason += "; values beyond the calibrated range saturate, which it leaves out";
  return reason;
}

// ---- the walk

class Comparison {
 public:
  Comparison(Engine& first, Engine& second, bool all)
      : first_(first.program()), second_(second.program()), all_(all) {
    for (int index = 0; index < static_cast<int>(first_plan().calls.size()); ++index)
      first_calls_.emplace(first_plan().calls[index].name, index);
    for (const ValueInfo& info : first_plan().values) first_values_.emplace(info.name, &info);
    const auto& a = first_plan().stages;
    const auto& b = second_plan().stages;
    const auto alike = [](const Stage& x, const Stage& y) {
      return x.name == y.name && x.when == y.when && x.repeat == y.repeat;
    };
    FLASHRT_CHECK(first_plan().model == second_plan().model &&
                      std::equal(a.begin(), a.end(), b.begin(), b.end(), alike),
                  "compare: the plans of ", first_plan().model, " and ", second_plan().model,
                  " have other stages; compile both engines for the same sizes");
  }

  std::vector<CallDifference> run(int prompt_length) && {
    prompt_length_ = prompt_length;
    for (const When when : {When::kLoad, When::kPrompt, When::kInfer}) {
      for (size_t s = 0; s < second_plan().stages.size(); ++s) {
        if (second_plan().stages[s].when == when && !run_stage(s)) return std::move(differences_);
      }
    }
    return std::move(differences_);
  }

 private:
  const Plan& first_plan() const { return first_.plan(); }
  const Plan& second_plan() const { return second_.plan(); }

  // False: a result was beyond its bound.
  bool run_stage(size_t index) {
    const Stage& a = first_plan().stages[index];
    const Stage& b = second_plan().stages[index];
    for (int iteration = 0; iteration < b.repeat; ++iteration) {
      int next = a.first;
      for (int call = b.first; call < b.last; ++call) {
        const auto same = first_calls_.find(second_plan().calls[call].name);
        if (same != first_calls_.end()) {
          // Up to this one, with those that only the first plan has.
          for (; next <= same->second; ++next) first_.run_call(next, iteration);
        }
        second_.run_call(call, iteration);
        if (same != first_calls_.end() && !compare_results(same->second, call, iteration) && !all_)
          return false;
      }
      for (; next < a.last; ++next) first_.run_call(next, iteration);
    }
    return true;
  }

  // Compares what both calls wrote, then gives the first one's values to the second program.
  bool compare_results(int first_call, int second_call, int iteration) {
    bool passed = true;
    const Call& call = second_plan().calls[second_call];
    for_each_write(call, [&](Value value) {
      const ValueInfo& b = second_plan()[value];
      const auto found = first_values_.find(b.name);
      FLASHRT_CHECK(found != first_values_.end(), "compare: call ", call.name, " writes ", b.name,
                    ", which the first plan does not have");
      const ValueInfo& a = *found->second;
      FLASHRT_CHECK(a.shape == b.shape && a.rows.base == b.rows.base, "compare: ", b.name, " is ",
                    a.shape, " and ", b.shape, "; compile both engines for the same sizes");
      const int64_t rows = b.rows.length ? b.rows.base + prompt_length_ : b.shape.rows();
      const auto size = static_cast<size_t>(rows * b.shape.width());
      expected_.resize(size);
      found_.resize(size);
      const bool is_bytes = a.type == DType::kU8 && b.type == DType::kU8;  // resized pictures
      if (is_bytes) {
        read_bytes(first_, b.name, expected_);
        read_bytes(second_, b.name, found_);
      } else {
        first_.read_float(b.name, expected_);
        second_.read_float(b.name, found_);
      }
      CallDifference d{.call = call.name,
                       .operation = std::string(name_of(call.op)),
                       .value = b.name,
                       .iteration = iteration,
                       .first_type = std::string(type_name(a)),
                       .second_type = std::string(type_name(b)),
                       .bound = bound_of(first_plan(), first_plan().calls[first_call],
                                         second_plan(), call, Held::of(a), Held::of(b)),
                       .reason = reason_of(second_plan(), call)};
      fill_errors(d);
      passed = passed && d.passed();
      differences_.push_back(std::move(d));
      if (!is_bytes) second_.write_float(b.name, iteration, expected_);
    });
    return passed;
  }

  static void read_bytes(const Program& program, const std::string& value,
                         std::span<float> floats) {
    std::vector<std::byte> bytes(floats.size());
    program.read(value, bytes);
    std::transform(bytes.begin(), bytes.end(), floats.begin(),
                   [](std::byte byte) { return static_cast<float>(std::to_integer<int>(byte)); });
  }

  void fill_errors(CallDifference& d) const {
    double squares = 0, reference = 0, worst = 0;
    for (size_t i = 0; i < expected_.size(); ++i) {
      if (!std::isfinite(expected_[i]) || !std::isfinite(found_[i])) {
        ++d.not_finite;
        continue;
      }
      const double error = double{found_[i]} - double{expected_[i]};
      squares += error * error;
      reference += double{expected_[i]} * double{expected_[i]};
      if (std::abs(error) > worst) {
        worst = std::abs(error);
        d.worst_at = static_cast<int64_t>(i);
      }
    }
    const double scale = std::sqrt(reference / static_cast<double>(expected_.size()));
    const auto relative = [&](double error) {
      if (error == 0) return 0.0;
      return scale > 0 ? error / scale : std::numeric_limits<double>::infinity();
    };
    d.rms = relative(std::sqrt(squares / static_cast<double>(expected_.size())));
    d.worst = relative(worst);
  }

  Program& first_;
  Program& second_;
  const bool all_;
  int prompt_length_ = 0;
  std::map<std::string, int, std::less<>> first_calls_;
  std::map<std::string, const ValueInfo*, std::less<>> first_values_;
  std::vector<float> expected_, found_;
  std::vector<CallDifference> differences_;
};

}  // namespace

std::vector<CallDifference> compare(Engine& first, Engine& second, const ModelInput& input,
                                    bool all) {
  FLASHRT_CHECK(first.equalisation() == second.equalisation(), "compare: the first engine is ",
                describe(first.equalisation()), ", the second ", describe(second.equalisation()),
                ": what their norms write is not the same; give both the same factors");
  Comparison comparison(first, second, all);
  first.load(input);
  second.load(input);
  std::vector<CallDifference> differences = std::move(comparison).run(first.prompt_length());
  second.recompute();
  return differences;
}

}  // namespace flashrt
