// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Every case of op_cases.hpp: double reference against the CPU backend.

#include <gtest/gtest.h>

#include "case_results.hpp"
#include "compile_cpu.hpp"

namespace flashrt {
namespace {

const std::vector<OpCase>& cases() {
  static const std::vector<OpCase> list = op_cases();
  return list;
}

CaseResults run_cpu(const OpCase& c, int threads) {
  return run_case(c, *compile_cpu(c.plan, c.weights, c.scales, threads));
}

class Operation : public testing::TestWithParam<size_t> {
 protected:
  const OpCase& op_case() const { return cases()[GetParam()]; }
};

TEST_P(Operation, MatchesReference) {
  expect_agreement(op_case(), run_reference(op_case()), run_cpu(op_case(), 2), {});
}

TEST_P(Operation, HasTheSameBitsOnAnyNumberOfThreads) {
  const CaseResults one = run_cpu(op_case(), 1), three = run_cpu(op_case(), 3);
  for (const auto& [name, values] : one) {
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_TRUE(same(values[i], three.at(name)[i])) << name << " " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, Operation, testing::Range<size_t>(0, cases().size()),
                         [](const auto& param) { return cases()[param.param].name; });

}  // namespace
}  // namespace flashrt
