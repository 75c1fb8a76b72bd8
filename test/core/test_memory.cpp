// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// The memory pass: no two live values overlap, in the unrolled order of execution, and memory is
// reused where it can be.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "models/models.hpp"
#include "plan/memory.hpp"
#include "tiny_models.hpp"

namespace flashrt {
namespace {

size_t no_workspace(const Call&) { return 0; }

// Runs the plan on paper. Each byte of the arena remembers which value wrote it last; a read finds
// its own bytes.
class PaperArena {
 public:
  PaperArena(const Plan& plan, const MemoryPlan& memory)
      : plan_(plan), memory_(memory), owner_(memory.arena_bytes, -1) {}

  void write_inputs() {
    for (size_t id = 0; id < plan_.values.size(); ++id) {
      const Kind kind = plan_.values[id].kind;
      if (kind == Kind::kInput || kind == Kind::kState) claim(Value{static_cast<int>(id)});
    }
  }

  void run(When when) {
    for (const Stage& stage : plan_.stages) {
      if (stage.when != when) continue;
      for (int iteration = 0; iteration < stage.repeat; ++iteration) {
        for (int index = stage.first; index < stage.last; ++index) {
          for_each_read(plan_.calls[index], [&](Value value) { check(value, index); });
          for_each_write(plan_.calls[index], [&](Value value) { claim(value); });
        }
      }
    }
  }

 private:
  // First and past-the-end byte of the storage.
  std::pair<size_t, size_t> span(Value value) const {
    const Value storage = plan_.storage_of(value);
    const ValueInfo& info = plan_[storage];
    const size_t begin = memory_.offset[storage.id];
    return {begin, begin + info.shape.elements() * size_of(info.type)};
  }
  void claim(Value value) {
    const auto [begin, end] = span(value);
    std::fill(owner_.begin() + begin, owner_.begin() + end, plan_.storage_of(value).id);
  }
  void check(Value value, int call) const {
    const auto [begin, end] = span(value);
    for (size_t byte = begin; byte < end; ++byte) {
      ASSERT_EQ(owner_[byte], plan_.storage_of(value).id)
          << plan_.calls[call].name << " reads " << plan_[value].name << ", overwritten at byte "
          << byte;
    }
  }

  const Plan& plan_;
  const MemoryPlan& memory_;
  std::vector<int> owner_;
};

void expect_sound(const Plan& plan) {
  const MemoryPlan memory = plan_memory(plan, no_workspace, false);
  PaperArena arena(plan, memory);
  arena.write_inputs();
  arena.run(When::kLoad);
  arena.run(When::kPrompt);
  for (int run = 0; run < 2; ++run) arena.run(When::kInfer);
  arena.run(When::kPrompt);  // a new prompt between inferences
  arena.run(When::kInfer);
}

TEST(Memory, ModelsReadWhatTheyWrote) {
  for (const bool guided : {false, true}) {
    expect_sound(build_pi05(
        tiny_pi05(),
        {.cameras = 2, .prompt_capacity = 7, .horizon = 3, .steps = 3, .guided = guided}));
    expect_sound(build_pi0(
        tiny_pi0(),
        {.cameras = 1, .prompt_capacity = 5, .horizon = 4, .steps = 2, .guided = guided}));
  }
}

TEST(Memory, ReusesMemory) {
  const Plan plan =
      build_pi05(tiny_pi05(), {.cameras = 2, .prompt_capacity = 7, .horizon = 3, .steps = 3});
  const MemoryPlan planned = plan_memory(plan, no_workspace, false);
  const MemoryPlan kept = plan_memory(plan, no_workspace, true);
  EXPECT_LT(planned.arena_bytes, kept.arena_bytes);
  EXPECT_EQ(planned.unplanned_bytes, kept.unplanned_bytes);
  EXPECT_EQ(kept.arena_bytes, kept.unplanned_bytes);
}

TEST(Memory, ValueReadInsideALoopLivesToItsEnd) {
  PlanBuilder b("loop");
  const Value x = b.input("x", {4, 64}, DType::kF32);
  Value before;
  b.stage("before", When::kInfer, 1, [&] { before = b.linear("y", x, "w", 64); });
  b.stage("loop", When::kInfer, 3, [&] {
    const Value early = b.linear("early", before, "w", 64);  // the only reader of before
    const Value late = b.linear("late", early, "w", 64);
    b.linear("last", late, "w", 64);
  });
  const Plan plan = std::move(b).finish();
  const std::vector<LiveRange> ranges = live_ranges(plan);
  EXPECT_EQ(ranges[before.id].last, 3) << "the last call of the loop";
  EXPECT_EQ(ranges[plan.find("loop.early").id].last, 2);
  expect_sound(plan);
}

TEST(Memory, ValueReadByALaterRunIsNeverReused) {
  PlanBuilder b("load");
  const Value x = b.input("x", {4, 64}, DType::kF32);
  Value loaded;
  b.stage("load", When::kLoad, 1, [&] { loaded = b.linear("y", x, "w", 64); });
  b.stage("infer", When::kInfer, 1,
          [&] { b.linear("z", b.linear("first", loaded, "w", 64), "w", 64); });
  const Plan plan = std::move(b).finish();
  const LiveRange range = live_ranges(plan)[loaded.id];
  EXPECT_EQ(range.first, 0);
  EXPECT_EQ(range.last, static_cast<int>(plan.calls.size()));
}

TEST(Memory, WorkspaceIsTheLargestAndLiesApart) {
  const Plan plan =
      build_pi05(tiny_pi05(), {.cameras = 1, .prompt_capacity = 5, .horizon = 3, .steps = 2});
  const MemoryPlan memory = plan_memory(
      plan,
      [](const Call& call) { return call.name == "prefix.0.qkv" ? size_t{1000} : size_t{10}; },
      false);
  EXPECT_GE(memory.workspace_bytes, 1000u);
  EXPECT_EQ(memory.arena_bytes, memory.workspace_offset + memory.workspace_bytes);
}

// Random straight and looping plans.
TEST(Memory, RandomPlansAreSound) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    PlanBuilder b("random");
    std::vector<Value> values{b.input("x", {2, 16}, DType::kF32)};
    const auto pick = [&] { return values[random() % values.size()]; };
    int calls = 0;
    for (int stage = 0; stage < 4; ++stage) {
      const When when = stage == 0 ? When::kLoad : When::kInfer;
      b.stage(text("s", stage), when, 1 + static_cast<int>(random() % 3), [&] {
        std::vector<Value> local;
        for (int i = 0; i < 6; ++i) {
          const Value from =
              !local.empty() && random() % 2 ? local[random() % local.size()] : pick();
          local.push_back(b.linear(text("c", calls++), from, "w", 16));
        }
        values.insert(values.end(), local.begin(), local.end());
      });
    }
    expect_sound(std::move(b).finish());
  }
}

}  // namespace
}  // namespace flashrt
