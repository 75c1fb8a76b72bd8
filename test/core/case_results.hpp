// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// What one case of op_cases.hpp gives in the double reference and on a backend, and whether the two
// agree.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "op_cases.hpp"
#include "reference.hpp"
#include "tolerance.hpp"

namespace flashrt {

using CaseResults = std::map<std::string, std::vector<double>>;  // per output, row by row

inline float scale_of(const OpCase& c, const ValueInfo& info) {
  return info.type == DType::kE4M3 ? c.scales.at(info.site)[0] : 1;
}

inline CaseResults run_reference(const OpCase& c) {
  reference::Program program(c.plan, c.weights, c.scales);
  for (const auto& [name, values] : c.data) program.write(name, values);
  program.run(When::kInfer);
  CaseResults results;
  for (const std::string& name : c.outputs) results[name] = program.read(name);
  return results;
}

inline CaseResults run_case(const OpCase& c, Program& program) {
  for (const auto& [name, values] : c.data) {
    const ValueInfo& info = c.plan[c.plan.find(name)];
    std::vector<double> rounded;
    for (const double v : values)
      rounded.push_back(reference::stored(info.type, v, scale_of(c, info)));
    program.write(name, reference::bytes_of(info.type, rounded, scale_of(c, info)));
  }
  program.run(When::kInfer);
  CaseResults results;
  for (const std::string& name : c.outputs) {
    std::vector<float> values(c.plan[c.plan.find(name)].shape.elements());
    program.read_float(name, values);
    results[name].assign(values.begin(), values.end());
  }
  return results;
}

inline bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// May a backend write rows of a result past the valid ones, up to its capacity?
enum class RowsPastLength { kUntouched, kAnything };

// Per element of an output: may it hold anything? Those are the rows past the valid ones of what
// the call writes.
inline std::vector<char> free_elements(const OpCase& c, const std::string& output) {
  const Value storage = c.plan.find(output);
  std::vector<char> is_free(c.plan[storage].shape.elements(), false);
  for_each_write(c.plan.calls[0], [&](Value written) {
    const ValueInfo& info = c.plan[written];
    if (c.plan.storage_of(written) != storage || !info.rows.length) return;
    const auto length = static_cast<int64_t>(c.data.at(c.plan[info.rows.length].name)[0]);
    for (int64_t row = info.rows.base + length; row < info.rows.capacity; ++row) {
      for (int64_t column = 0; column < info.shape.width(); ++column)
        is_free.at(info.offset + row * info.row_stride + column) = true;
    }
  });
  return is_free;
}

// Does the call read operands or weights of this type?
inline bool reads(const OpCase& c, DType type) {
  bool found = false;
  for_each_read(c.plan.calls[0], [&](Value read) { found = found || c.plan[read].type == type; });
  for (const WeightInfo& weight : c.plan.weights) found = found || weight.type == type;
  return found;
}

// The largest absolute tolerance of an operation in float32.
inline constexpr double kUsualAbsolute = 3e-5;

// How far results are asked to agree.
struct Agreement {
  RowsPastLength past = RowsPastLength::kUntouched;
  bool matrix_units = false;  // may the backend use them?
  double factor = 1;          // widens the tolerance
};

// Every element within the tolerance of the operation or one step of its type from it; what lies
// around the results is untouched.
inline void expect_agreement(const OpCase& c, const CaseResults& expected,
                             const CaseResults& actual, const Agreement& agreement) {
  Tolerance tolerance = tolerance_of(c.plan.calls[0].op);
  if (agreement.matrix_units && (reads(c, DType::kBF16) || reads(c, DType::kF16)))
    tolerance.absolute += tolerance.matrix_units;
  if (agreement.matrix_units && reads(c, DType::kE4M3)) tolerance.absolute += tolerance.fp8_units;
  const double factor = agreement.factor;
  for (const auto& [name, reference_values] : expected) {
    const ValueInfo& info = c.plan[c.plan.find(name)];
    const std::vector<double>& values = actual.at(name);
    ASSERT_EQ(values.size(), reference_values.size());
    std::vector<char> is_free(values.size(), false);
    if (agreement.past == RowsPastLength::kAnything) is_free = free_elements(c, name);
    int64_t neighbours = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double want = reference_values[i], got = values[i];
      if (is_free[i] || same(want, got)) continue;
      const double near =
          factor * c.amplification * (tolerance.absolute + tolerance.relative * std::abs(want));
      const double step = factor * reference::step_of(info.type, want, scale_of(c, info));
      ASSERT_LE(std::abs(got - want), near + step)
          << c.name << ": " << name << "[" << i / info.shape.width() << ", "
          << i % info.shape.width() << "] is " << got << ", expected " << want << " ("
          << tolerance.reason << ")";
      if (std::abs(got - want) > near) ++neighbours;
    }
    // A tolerance that is a part of a step carries so many more values over a boundary.
    if (tolerance.absolute > kUsualAbsolute) continue;
    EXPECT_LE(neighbours, std::ceil(factor * kMaxNeighbours * static_cast<double>(values.size())))
        << c.name << ": " << name << " differs by a step of " << info.type << " too often";
  }
}

}  // namespace flashrt
