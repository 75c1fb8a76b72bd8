// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// The builder: inferred shapes, parts of values, and refusals that name the call and the shapes.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>

#include "expect_error.hpp"
#include "plan/builder.hpp"

namespace flashrt {
namespace {

TEST(Builder, InfersShapesAndKeepsDynamicRows) {
  PlanBuilder b("test");
  const Value length = b.input("length", {1}, DType::kI32);
  const Value tokens =
      b.input("tokens", Rows{.capacity = 9, .length = length, .base = 2}, {}, DType::kI32);
  b.stage("s", When::kInfer, 1, [&] {
    const Value embedded = b.token_embed("embed", tokens, "table", 100, 8);
    const Value hidden = b.linear("up", embedded, "up", 12, {.bias = true});
    b.glu("glu", hidden, Activation::kSilu);
  });
  const Plan plan = std::move(b).finish();
  const ValueInfo& glu = plan[plan.find("s.glu")];
  EXPECT_EQ(glu.shape, (Shape{9, 6}));
  EXPECT_EQ(glu.rows.base, 2);
  EXPECT_EQ(glu.rows.length, length);
  EXPECT_EQ(plan.weight("up.weight").shape, (Shape{12, 8}));
  EXPECT_EQ(plan.weight("up.bias").shape, (Shape{12}));
  EXPECT_EQ(plan.stages.size(), 1u);
  EXPECT_EQ(plan.calls[1].name, "s.up");
}

TEST(Builder, PartsPointIntoTheirStorage) {
  PlanBuilder b("test");
  const Value x = b.state("x", {10, 6});
  const Value part = b.columns(b.rows(x, 4, 3), 2, 4);
  EXPECT_EQ(b.rows(x, 4, 3), b.rows(x, 4, 3)) << "one handle for one part";
  Value step;
  b.stage("loop", When::kInfer, 10, [&] { step = b.columns(b.at_step(x), 1, 2); });
  const Plan plan = std::move(b).finish();
  EXPECT_EQ(plan[part].storage, x);
  EXPECT_EQ(plan[part].offset, 4 * 6 + 2);
  EXPECT_EQ(plan[part].row_stride, 6);
  EXPECT_EQ(plan[part].shape, (Shape{3, 4}));
  EXPECT_EQ(plan[step].storage, x);
  EXPECT_EQ(plan[step].offset, 1);
  EXPECT_EQ(plan[step].step_stride, 6);
  EXPECT_EQ(plan[step].shape, (Shape{1, 2}));
}

TEST(Builder, OnePartHasOneLength) {
  PlanBuilder b("test");
  const Value length = b.input("length", {1}, DType::kI32);
  const Value x = b.state("x", {10, 6});
  const Rows rows{.capacity = 5, .length = length, .base = 2};
  EXPECT_EQ(b.rows(x, 3, rows), b.rows(x, 3, rows));
  EXPECT_CONTAINS(error_text([&] { b.rows(x, 3, 5); }),
                  "x[3:8] exists already with another length");
}

TEST(Builder, ConcatPlacesItsParts) {
  PlanBuilder b("test");
  const Value length = b.input("length", {1}, DType::kI32);
  const Value x = b.input("x", {3, 4}, DType::kF32);
  const Value tokens = b.input("tokens", Rows{.capacity = 5, .length = length}, {}, DType::kI32);
  Value whole, first, second;
  b.stage("s", When::kInfer, 1, [&] {
    first = b.linear("first", x, "w", 7);
    second = b.token_embed("second", tokens, "table", 11, 7);
    whole = b.concat("whole", {first, second});
    b.linear("read", whole, "r", 2);
  });
  const Plan plan = std::move(b).finish();
  EXPECT_EQ(plan.calls.size(), 3u) << "concat launches nothing";
  EXPECT_EQ(plan[whole].shape, (Shape{8, 7}));
  EXPECT_EQ(plan[whole].rows.base, 3);
  EXPECT_EQ(plan[whole].rows.length, length);
  EXPECT_EQ(plan.storage_of(first), whole);
  EXPECT_EQ(plan[second].offset, 3 * 7);
}

TEST(Builder, RefusesWhatCannotBePlaced) {
  PlanBuilder b("test");
  const Value x = b.input("x", {3, 4}, DType::kF32);
  b.stage("s", When::kInfer, 1, [&] {
    const Value y = b.linear("y", x, "w", 4);
    EXPECT_CONTAINS(error_text([&] { b.concat("c", {y, x}); }), "x cannot be placed");
    const Value z = b.linear("z", x, "w", 4);
    b.columns(z, 0, 2);
    EXPECT_CONTAINS(error_text([&] {
                      b.concat("c", {y, z});
                    }),
                    "s.z cannot be placed: s.z[:, 0:2] is a part of it");
    b.concat("c", {y});
    EXPECT_CONTAINS(error_text([&] { b.concat("d", {y}); }), "a part of another value");
    const Value wide = b.linear("wide", x, "wide", 5);
    const Value narrow = b.linear("narrow", x, "w", 4);
    EXPECT_CONTAINS(error_text([&] { b.concat("e", {narrow, wide}); }), "s.wide is [3, 5]");
  });
}

TEST(Builder, ErrorsNameTheCallAndBothShapes) {
  PlanBuilder b("test");
  const Value x = b.input("x", {3, 4}, DType::kF32);
  const Value other = b.input("other", {2, 4}, DType::kF32);
  EXPECT_CONTAINS(error_text([&] { b.linear("y", x, "w", 4); }), "in no stage");
  b.stage("s", When::kInfer, 1, [&] {
    const std::string sum =
        error_text([&] { b.add_norm("norm", {.residual = x, .delta = other}, {}); });
    EXPECT_CONTAINS(sum, "s.norm");
    EXPECT_CONTAINS(sum, "[3, 4]");
    EXPECT_CONTAINS(sum, "[2, 4]");
    b.linear("a", x, "w", 4);
    EXPECT_CONTAINS(error_text([&] { b.linear("b", x, "w", 5); }),
                    "weight w.weight is used as [4, 4] and as [5, 4]");
    EXPECT_CONTAINS(error_text([&] { b.linear("a", x, "w", 4); }), "'s.a' exists already");
    EXPECT_CONTAINS(
        error_text([&] { b.qkv_rope("r", x, x, x, {.heads = 2, .kv_heads = 1, .head_dim = 8}); }),
        "expected width (2 + 2 x 1) x 8 = 32");
    EXPECT_CONTAINS(
        error_text([&] { b.glu("g", b.linear("odd", x, "odd", 5), Activation::kSilu); }),
        "[T, 2F]");
    EXPECT_CONTAINS(error_text([&] { b.rows(x, 2, 2); }), "rows [2, 4) of x: it has 3");
    EXPECT_CONTAINS(error_text([&] { b.add_norm("gated", {.residual = x, .gate = x}, {}); }),
                    "a gate without a delta");
  });
}

TEST(Builder, RefusesToWritePartOfTheColumns) {
  PlanBuilder b("test");
  const Value x = b.input("x", {3, 8}, DType::kF32);
  b.stage("s", When::kInfer, 1, [&] {
    const Value wide = b.linear("wide", x, "w", 8);
    const Value k = b.columns(wide, 0, 4);
    b.qkv_rope("rope", x, k, b.columns(wide, 4, 4), {.heads = 0, .kv_heads = 1, .head_dim = 4});
  });
  EXPECT_CONTAINS(error_text([&] { std::move(b).finish(); }),
                  "call s.rope writes s.wide[:, 0:4], a part of the columns of s.wide");
}

TEST(Builder, AtStepNeedsARowForEveryStep) {
  PlanBuilder b("test");
  const Value times = b.input("times", {3}, DType::kF32);
  b.stage("loop", When::kInfer, 4, [&] {
    EXPECT_CONTAINS(error_text([&] { b.at_step(times); }), "3 rows, stage loop runs 4 times");
  });
}

// With a search through all values per name, twice the values take four times as long. Seconds are
// those of the processor, of which none pass while the machine pauses.
TEST(Builder, FindsNamesInTimeThatDoesNotGrowWithTheirNumber) {
  const auto seconds = [](int values) {
    const std::clock_t start = std::clock();
    PlanBuilder b("test");
    for (int i = 0; i < values; ++i) b.rows(b.state(text("state_", i), {2, 2}), 0, 1);
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  };
  double few = 1e9;  // the least disturbed of some runs
  for (int run = 0; run < 5; ++run) few = std::min(few, seconds(1'000));
  EXPECT_LT(seconds(20'000), 20 * few * 6);
}

TEST(Plan, UnknownValueNamesTheNearest) {
  PlanBuilder b("test");
  b.input("prompt_length", {1}, DType::kI32);
  const Plan plan = std::move(b).finish();
  EXPECT_CONTAINS(error_text([&] { plan.find("prompt_lenght"); }), "prompt_length");
}

}  // namespace
}  // namespace flashrt
