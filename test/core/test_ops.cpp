// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Every case of op_cases.hpp: double reference against the CPU backend.

#include <gtest/gtest.h>

#include <cmath>

#include "compile_cpu.hpp"
#include "op_cases.hpp"
#include "reference.hpp"
#include "tolerance.hpp"

namespace flashrt {
namespace {

const std::vector<OpCase>& cases() {
  static const std::vector<OpCase> list = op_cases();
  return list;
}

float scale_of(const OpCase& c, const ValueInfo& info) {
  return info.type == DType::kE4M3 ? c.scales.at(info.site)[0] : 1;
}

using Results = std::map<std::string, std::vector<double>>;

Results run_reference(const OpCase& c) {
  reference::Program program(c.plan, c.weights, c.scales);
  for (const auto& [name, values] : c.data) program.write(name, values);
  program.run(When::kInfer);
  Results results;
  for (const std::string& name : c.outputs) results[name] = program.read(name);
  return results;
}

Results run_cpu(const OpCase& c, int threads) {
  const auto program = compile_cpu(c.plan, c.weights, c.scales, threads);
  for (const auto& [name, values] : c.data) {
    const ValueInfo& info = c.plan[c.plan.find(name)];
    std::vector<double> rounded;
    for (const double v : values)
      rounded.push_back(reference::stored(info.type, v, scale_of(c, info)));
    program->write(name, reference::bytes_of(info.type, rounded, scale_of(c, info)));
  }
  program->run(When::kInfer);
  Results results;
  for (const std::string& name : c.outputs) {
    std::vector<float> values(c.plan[c.plan.find(name)].shape.elements());
    program->read_float(name, values);
    results[name].assign(values.begin(), values.end());
  }
  return results;
}

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

class Operation : public testing::TestWithParam<size_t> {
 protected:
  const OpCase& op_case() const { return cases()[GetParam()]; }
};

TEST_P(Operation, MatchesReference) {
  const OpCase& c = op_case();
  const Tolerance tolerance = tolerance_of(c.plan.calls[0].op);
  const Results expected = run_reference(c), actual = run_cpu(c, 2);
  for (const auto& [name, reference_values] : expected) {
    const ValueInfo& info = c.plan[c.plan.find(name)];
    const std::vector<double>& values = actual.at(name);
    ASSERT_EQ(values.size(), reference_values.size());
    int64_t neighbours = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double want = reference_values[i], got = values[i];
      if (same(want, got)) continue;
      const double near =
          c.amplification * (tolerance.absolute + tolerance.relative * std::abs(want));
      const double step = reference::step_of(info.type, want, scale_of(c, info));
      ASSERT_LE(std::abs(got - want), near + step)
          << c.name << ": " << name << "[" << i / info.shape.width() << ", "
          << i % info.shape.width() << "] is " << got << ", the reference has " << want << " ("
          << tolerance.reason << ")";
      if (std::abs(got - want) > near) ++neighbours;
    }
    EXPECT_LE(neighbours, std::ceil(kMaxNeighbours * static_cast<double>(values.size())))
        << c.name << ": " << name << " differs by a step of " << info.type << " too often";
  }
}

TEST_P(Operation, HasTheSameBitsOnAnyNumberOfThreads) {
  const Results one = run_cpu(op_case(), 1), three = run_cpu(op_case(), 3);
  for (const auto& [name, values] : one) {
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_TRUE(same(values[i], three.at(name)[i])) << name << " " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, Operation, testing::Range<size_t>(0, cases().size()),
                         [](const auto& param) { return cases()[param.param].name; });

}  // namespace
}  // namespace flashrt
