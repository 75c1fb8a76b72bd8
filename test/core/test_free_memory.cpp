// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// A model that does not fit is refused before memory is taken, with what it needs and what is free.

#include <gtest/gtest.h>

#include "base/host_memory.hpp"
#include "checkpoint/weights.hpp"
#include "expect_error.hpp"
#include "quant/recipe.hpp"
#include "runtime/engine.hpp"
#include "runtime/free_memory.hpp"
#include "tiny_models.hpp"

namespace flashrt {
namespace {

Plan tiny_plan(const std::string& recipe) {
  return plan_for(tiny_pi05(), {.prompt_capacity = 4, .steps = 2}, Recipe::named(recipe));
}

// The CPU backend on a machine with so much free memory.
class CrowdedBackend : public Backend {
 public:
  explicit CrowdedBackend(size_t free_bytes) : free_bytes_(free_bytes) {}

  DeviceReport device() const override {
    return {.name = "a small board", .total_bytes = 1'000'000, .free_bytes = free_bytes_};
  }
  size_t weight_bytes(const Plan& plan) const override { return backend_->weight_bytes(plan); }
  size_t workspace_bytes(const Plan& plan, const Call& call) const override {
    return backend_->workspace_bytes(plan, call);
  }
  std::shared_ptr<const DeviceWeights> upload(const Plan&, const Weights&) override {
    throw Error("memory was taken");
  }
  std::unique_ptr<Program> compile(Plan, std::shared_ptr<const DeviceWeights>, const Calibration&,
                                   const CompileOptions&) override {
    throw Error("memory was taken");
  }

 private:
  std::unique_ptr<Backend> backend_ = make_cpu_backend(1);
  size_t free_bytes_;
};

TEST(FreeMemory, WeightsTakeWhatWasSaidBefore) {
  const auto backend = make_cpu_backend(1);
  const Weights weights = Weights::random(tiny_pi05(), 1, 1);
  for (const char* recipe : {"f32", "bf16", "fp8", "fp8_f16", "fp8_mixed"}) {
    const Plan plan = tiny_plan(recipe);
    EXPECT_EQ(backend->weight_bytes(plan), backend->upload(plan, weights)->bytes()) << recipe;
  }
}

TEST(FreeMemory, WeightsInTheSameFormAreShared) {
  const auto backend = make_cpu_backend(1);
  const Weights weights = Weights::random(tiny_pi05(), 1, 1);
  const Plan plan = tiny_plan("fp8"), other = tiny_plan("fp8_mixed");
  const auto uploaded = backend->upload(plan, weights);
  EXPECT_EQ(backend->shared_bytes(plan, *uploaded), uploaded->bytes());
  // All but the vision tower, which the other recipe holds in bf16.
  const size_t shared = backend->shared_bytes(other, *uploaded);
  EXPECT_GT(shared, 0);
  EXPECT_LT(shared, backend->weight_bytes(other));
  const auto beside = backend->upload_like(other, weights, *uploaded);
  EXPECT_EQ(beside->bytes(), backend->weight_bytes(other));
  const PlanStats stats = stats_of(other, *backend);
  const size_t needed = stats.arena_bytes + backend->weight_bytes(other) - shared;
  EXPECT_NO_THROW(check_free_memory(CrowdedBackend(needed), other, false, shared));
  EXPECT_THROW(check_free_memory(CrowdedBackend(needed - 1), other, false, shared), Error);
}

TEST(FreeMemory, TheLastByteCounts) {
  const Plan plan = tiny_plan("f32");
  const auto backend = make_cpu_backend(1);
  const PlanStats stats = stats_of(plan, *backend);
  const size_t weights = backend->weight_bytes(plan), needed = weights + stats.arena_bytes;
  EXPECT_NO_THROW(check_free_memory(CrowdedBackend(needed), plan, false));
  const std::string refusal =
      error_text([&] { check_free_memory(CrowdedBackend(needed - 1), plan, false); });
  EXPECT_CONTAINS(refusal, text("model pi05 needs ", needed, " bytes of memory (weights ", weights,
                                ", values ", stats.arena_bytes, "), "));
  EXPECT_CONTAINS(refusal, text(needed - 1, " of 1000000 are free on a small board"));
  // Every value kept: more is needed.
  EXPECT_GT(stats.unplanned_bytes, stats.arena_bytes);
  EXPECT_CONTAINS(error_text([&] { check_free_memory(CrowdedBackend(needed), plan, true); }),
                  text(weights + stats.unplanned_bytes, " bytes"));
}

TEST(FreeMemory, MemoryThatHoldsFilesIsAvailable) {
  const HostMemory memory = parse_meminfo(
      "MemTotal:       24689532 kB\nMemFree:          812344 kB\nMemAvailable:   20971520 kB\n");
  EXPECT_EQ(memory.total_bytes, size_t{24689532} * 1024);
  EXPECT_EQ(memory.available_bytes, size_t{20} << 30);
  EXPECT_EQ(error_text([] { parse_meminfo("MemTotal: 5 kB\nMemAvailable: kB\n"); }),
            "/proc/meminfo has no number after MemAvailable:");
  EXPECT_EQ(error_text([] { parse_meminfo(""); }), "/proc/meminfo has no number after MemTotal:");

  const HostMemory here = host_memory();
  EXPECT_GT(here.available_bytes, 0u);
  EXPECT_LE(here.available_bytes, here.total_bytes);
}

}  // namespace
}  // namespace flashrt
