// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Every case of op_cases.hpp on the CUDA backend, with the kernels that are written for this device
// and with the portable ones alone, against the double reference and the CPU backend.

#include <gtest/gtest.h>

#include "case_results.hpp"
#include "compile_cuda.hpp"

namespace flashrt::cuda {
namespace {

const std::vector<OpCase>& cases() {
  static const std::vector<OpCase> list = op_cases();
  return list;
}

struct Variant {
  const char* name;
  bool specialised_kernels;
};
constexpr Variant kVariants[] = {{"specialised", true}, {"portable", false}};

// One per variant for all cases: a backend keeps what it found to be fast.
Backend& backend_of(const Variant& variant) {
  static std::map<std::string, std::unique_ptr<Backend>> backends;
  std::unique_ptr<Backend>& backend = backends[variant.name];
  if (!backend) {
    backend = make_cuda_backend({.tune = !is_racechecked(),
                                 .specialised_kernels = variant.specialised_kernels,
                                 .library_products = !is_racechecked()});
  }
  return *backend;
}

std::string join(const std::vector<std::string>& words) {
  std::string joined;
  for (const std::string& word : words) joined += (joined.empty() ? "" : " + ") + word;
  return joined;
}

class CudaOperation : public NeedsDevice<testing::TestWithParam<size_t>> {
 protected:
  const OpCase& op_case() const { return cases()[GetParam()]; }
};

TEST_P(CudaOperation, MatchesReferenceAndCpu) {
  const OpCase& c = op_case();
  const CaseResults expected = run_reference(c);
  const CaseResults on_cpu = run_case(c, *compile_cpu(c.plan, c.weights, c.scales));
  for (const Variant& variant : kVariants) {
    const auto program = compile_cuda(backend_of(variant), c.plan, c.weights, c.scales);
    const CaseResults actual = run_case(c, *program);
    const std::string kernels = join(program->kernels(0));
    RecordProperty(variant.name, kernels);
    EXPECT_FALSE(kernels.empty()) << "a call that no kernel ran";

    SCOPED_TRACE(text(variant.name, " kernels: ", kernels));
    Agreement agreement{.past = RowsPastLength::kAnything, .matrix_units = true};
    expect_agreement(c, expected, actual, agreement);
    agreement.factor = 2;  // both may be off
    expect_agreement(c, on_cpu, actual, agreement);

    if (is_racechecked()) continue;
    const CaseResults again = run_case(c, *program);
    for (const auto& [name, values] : actual) {
      const std::vector<char> is_free = free_elements(c, name);
      for (size_t i = 0; i < values.size(); ++i)
        ASSERT_TRUE(is_free[i] || same(values[i], again.at(name)[i]))
            << name << " " << i << " is not the same in a second run";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, CudaOperation, testing::Range<size_t>(0, cases().size()),
                         [](const auto& param) { return cases()[param.param].name; });

}  // namespace
}  // namespace flashrt::cuda
