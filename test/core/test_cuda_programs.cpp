// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Whole programs on the GPU: against the CPU backend, replays against direct launches, memory that
// is used again, and that a run captures, allocates and tunes nothing.

#include <gtest/gtest.h>

#include <algorithm>

#include "backends/cuda/cuda_backend.hpp"
#include "cuda_fixture.hpp"
#include "real_layers.hpp"

namespace flashrt {
namespace {

class CudaPrograms : public cuda::NeedsDevice<testing::TestWithParam<const char*>> {
 protected:
  RealLayers model(const PlanOptions& options = RealLayers::two_cameras()) {
    RealLayers model(GetParam(), options);
    model.calibrate(*backend_);
    return model;
  }

  Backend* backend_ = nullptr;  // one for all tests: it keeps what it found to be fast
  void SetUp() override {
    NeedsDevice::SetUp();
    if (!cuda::test_device().info) return;
    static const std::unique_ptr<Backend> shared = cuda::make_cuda_backend({});
    backend_ = shared.get();
  }
};

class CudaRealSizes : public CudaPrograms {};

using CudaMemory = cuda::CudaTest;

TEST_F(CudaMemory, WhatIsNeededAndWhatIsFreeAreNamed) {
  constexpr size_t kBytes = size_t{1} << 50;
  std::string fault;
  try {
    const cuda::DeviceBuffer buffer(kBytes);
  } catch (const Error& error) {
    fault = error.what();
  }
  EXPECT_NE(fault.find(text("device memory: ", kBytes, " bytes are needed, ")), std::string::npos)
      << fault;
  EXPECT_NE(fault.find(" are free"), std::string::npos) << fault;
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);  // not left for the next launch
  EXPECT_NE(cuda::DeviceBuffer(1024).data(), nullptr);
}

TEST_P(CudaPrograms, MatchesTheCpuBackend) {
  const RealLayers layers = model();
  const auto cpu = make_cpu_backend(0);
  const auto expected = layers.compile(*cpu), actual = layers.compile(*backend_);
  // float32: sums of up to 16384 products in another order, through 5 layers and 3 steps. Others:
  // both round to the same grids, and a value at a boundary may fall on either side, which the
  // layers behind spread: a few grid steps of bf16 (2^-8) or of e4m3 (2^-4, of few values).
  const std::string recipe = GetParam();
  const double bound = recipe == "f32" ? 2e-5 : recipe == "bf16" ? 1e-2 : 4e-2;
  for (const int length : {1, 10, 24}) {
    const std::vector<float> want = layers.infer(*expected, 3, length);
    const std::vector<float> got = layers.infer(*actual, 3, length);
    EXPECT_LE(relative_error(got, want), bound) << "prompt of " << length << " tokens";
  }
}

TEST_P(CudaPrograms, ReplaysHaveTheBitsOfDirectLaunches) {
  const RealLayers layers = model();
  const auto program = layers.compile(*backend_, {.poison = true});
  for (int seed = 0; seed < 20; ++seed) {
    const int length = 1 + seed;
    const std::vector<float> replayed = layers.infer(*program, seed, length);
    layers.write(*program, seed, length);
    program->run(When::kPrompt);
    program->run_observed(When::kInfer, {});
    EXPECT_EQ(layers.actions(*program), replayed) << "inputs of seed " << seed;
  }
}

TEST_P(CudaPrograms, AThousandReplaysHaveTheSameBits) {
  const RealLayers layers = model();
  const auto program = layers.compile(*backend_);
  const std::vector<float> first = layers.infer(*program, 5, 9);
  for (int replay = 0; replay < 1000; ++replay) {
    layers.write(*program, 5, 9);
    program->run(When::kInfer);
    ASSERT_EQ(layers.actions(*program), first) << "replay " << replay;
  }
}

TEST_P(CudaPrograms, TwoRunsEqualTwoFreshPrograms) {
  const RealLayers layers = model();
  const auto both = layers.compile(*backend_, {.poison = true});
  const std::vector<float> first = layers.infer(*both, 1, 7), second = layers.infer(*both, 2, 20);
  EXPECT_EQ(layers.infer(*layers.compile(*backend_, {.poison = true}), 1, 7), first);
  EXPECT_EQ(layers.infer(*layers.compile(*backend_, {.poison = true}), 2, 20), second);
}

TEST_P(CudaPrograms, PairedCallsHaveTheBitsOfSeparateOnes) {
  const RealLayers layers = model();
  const auto paired = layers.compile(*backend_);
  const auto separate = layers.compile(*backend_, {.keep_values = true});
  EXPECT_LT(paired->counters().graph_nodes, separate->counters().graph_nodes);
  for (const int length : {3, 24})
    EXPECT_EQ(layers.infer(*paired, 8, length), layers.infer(*separate, 8, length));
}

TEST_P(CudaPrograms, NothingIsCapturedAllocatedOrTunedAfterWarmUp) {
  const RealLayers layers = model();
  const auto program = layers.compile(*backend_);
  layers.infer(*program, 0, 5);
  const ProgramCounters before = program->counters();
  const size_t free_before = backend_->device().free_bytes;
  for (int seed = 0; seed < 24; ++seed) layers.infer(*program, seed, 1 + seed);
  const ProgramCounters after = program->counters();
  EXPECT_EQ(after.captures, before.captures);
  EXPECT_EQ(after.allocations, before.allocations);
  EXPECT_EQ(after.tunings, before.tunings);
  EXPECT_EQ(backend_->device().free_bytes, free_before);
}

// Row-major throughout: kernels only, no copy, no transpose, no conversion of its own, no search
// for a maximum.
TEST_P(CudaRealSizes, TheGraphHoldsFusedKernelsOnly) {
  const RealLayers layers = model();
  const auto program = layers.compile(*backend_);
  const Plan& plan = program->plan();
  int launches = 0;
  for (const Stage& stage : plan.stages) {
    for (int call = stage.first; call < stage.last; ++call) {
      EXPECT_FALSE(std::holds_alternative<Quantize>(plan.calls[call].op)) << plan.calls[call].name;
      if (stage.when == When::kInfer)
        launches += stage.repeat * static_cast<int>(program->kernels(call).size());
    }
  }
  const ProgramCounters counters = program->counters();
  ASSERT_EQ(counters.graph_node_kinds.size(), 1u);
  // The library may split a product that our kernels refuse, and add the parts in a second kernel.
  const int library = std::string(GetParam()) == "bf16" ? 1 : 0;
  EXPECT_GE(counters.graph_node_kinds.at("kernel"), launches);
  EXPECT_LE(counters.graph_node_kinds.at("kernel"), launches + library);
}

// Every listed real size has a kernel made for it.
TEST_P(CudaRealSizes, RunNoGenericKernel) {
  const RealLayers layers = model();
  const auto program = layers.compile(*backend_);
  const Plan& plan = program->plan();
  for (const Stage& stage : plan.stages) {
    if (stage.when != When::kInfer) continue;
    for (int call = stage.first; call < stage.last; ++call) {
      for (const std::string& kernel : program->kernels(call))
        EXPECT_EQ(kernel.find("generic"), std::string::npos)
            << plan.calls[call].name << " runs " << kernel;
    }
  }
}

class CudaGroot : public CudaPrograms {
 protected:
  RealLayers groot(int horizon) {
    RealLayers layers(GetParam(), RealLayers::two_views_of_groot(horizon),
                      real_groot_layers_config());
    layers.calibrate(*backend_);
    return layers;
  }
};

TEST_P(CudaGroot, MatchesTheCpuBackend) {
  const RealLayers layers = groot(50);
  const auto cpu = make_cpu_backend(0);
  const auto expected = layers.compile(*cpu), actual = layers.compile(*backend_);
  const std::string recipe = GetParam();
  const double bound = recipe == "f32" ? 2e-5 : recipe == "bf16" ? 1e-2 : 4e-2;
  for (const int length : {1, 31}) {
    EXPECT_LE(relative_error(layers.infer(*actual, 3, length), layers.infer(*expected, 3, length)),
              bound)
        << "prompt of " << length << " tokens";
  }
}

TEST_P(CudaGroot, ReplaysHaveTheBitsOfDirectLaunches) {
  for (const int horizon : {16, 50}) {
    const RealLayers layers = groot(horizon);
    const auto program = layers.compile(*backend_, {.poison = true});
    for (int seed = 0; seed < 10; ++seed) {
      const int length = 1 + 4 * seed;
      const std::vector<float> replayed = layers.infer(*program, seed, length);
      layers.write(*program, seed, length);
      program->run(When::kPrompt);
      program->run_observed(When::kInfer, {});
      EXPECT_EQ(layers.actions(*program), replayed) << "horizon " << horizon << ", seed " << seed;
    }
  }
}

// A projection that attends at once adds up in another order than the two calls, whose linear may
// be any; so in the recipe that has some, values may be rounded the other way, as between backends.
TEST_P(CudaGroot, PairedCallsAgreeWithSeparateOnes) {
  const bool has_projections =
      std::string(GetParam()) == "fp8" && cuda::test_device().info->compute_capability() == 90;
  for (const int horizon : {16, 50}) {
    const RealLayers layers = groot(horizon);
    const auto paired = layers.compile(*backend_, {.poison = true});
    const auto separate = layers.compile(*backend_, {.keep_values = true});
    for (const int length : {3, 31}) {
      SCOPED_TRACE(text("horizon ", horizon, ", prompt of ", length, " tokens"));
      const auto expected = layers.infer(*separate, 8, length);
      const auto actual = layers.infer(*paired, 8, length);
      if (has_projections) {
        EXPECT_LE(relative_error(actual, expected), 4e-2);
      } else {
        EXPECT_EQ(actual, expected);
      }
    }
    const Plan& plan = paired->plan();
    int projections = 0;
    for (int call = 0; call < static_cast<int>(plan.calls.size()); ++call)
      projections += paired->kernels(call) == std::vector<std::string>{"projected_attention"};
    EXPECT_EQ(projections, has_projections ? real_groot_layers_config().dit.layers : 0);
  }
}

TEST_P(CudaGroot, RunsNoGenericKernel) {
  if (std::string(GetParam()) == "f32") return;  // for checking, by generic kernels
  const RealLayers layers = groot(50);
  const auto program = layers.compile(*backend_);
  const Plan& plan = program->plan();
  for (const Stage& stage : plan.stages) {
    if (stage.when == When::kLoad) continue;
    for (int call = stage.first; call < stage.last; ++call) {
      // Once per inference, and its rows are wider than the registers of a block hold.
      if (plan.calls[call].name == "backbone.connector_norm") continue;
      for (const std::string& kernel : program->kernels(call))
        EXPECT_EQ(kernel.find("generic"), std::string::npos)
            << plan.calls[call].name << " runs " << kernel;
    }
  }
}

TEST_P(CudaPrograms, PortableKernelsMatchTheSpecialisedOnes) {
  const RealLayers layers = model();
  const auto portable = cuda::make_cuda_backend({.specialised_kernels = false});
  const auto actual = layers.compile(*portable), expected = layers.compile(*backend_);
  const std::string recipe = GetParam();
  const double bound = recipe == "f32" ? 2e-5 : recipe == "bf16" ? 1e-2 : 4e-2;
  for (const int length : {1, 24}) {
    EXPECT_LE(relative_error(layers.infer(*actual, 4, length), layers.infer(*expected, 4, length)),
              bound)
        << "prompt of " << length << " tokens";
  }
}

INSTANTIATE_TEST_SUITE_P(Recipes, CudaPrograms, testing::Values("f32", "bf16", "fp8", "fp8_mixed"),
                         [](const auto& param) { return std::string(param.param); });
INSTANTIATE_TEST_SUITE_P(Recipes, CudaGroot, testing::Values("f32", "bf16", "fp8", "fp8_mixed"),
                         [](const auto& param) { return std::string(param.param); });
// Not f32: it is for checking, by generic kernels.
INSTANTIATE_TEST_SUITE_P(Recipes, CudaRealSizes, testing::Values("bf16", "fp8", "fp8_mixed"),
                         [](const auto& param) { return std::string(param.param); });

}  // namespace
}  // namespace flashrt
