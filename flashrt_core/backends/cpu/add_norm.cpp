// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// add_norm: residual_out = residual + gate * delta; y = norm(residual_out) * weight + bias, or
// adaptive.
//
// The norm reads the sum before it is rounded to the type of residual_out.

#include <cmath>

#include "backends/cpu/kernel.hpp"

namespace flashrt::cpu {
namespace {

struct Style {
  View gate, scale, shift;
};

struct Args {
  Norm norm;
  float eps;
  View residual, delta;
  Style style, committed;
  View committed_rows;
  const float* weight;
  const float* bias;
  View residual_out, y;
};

constexpr int kRowsInScratch =
    5;  // sum, delta or y, and gate, scale, shift of another type than float32

struct Moments {
  float center, factor;
};

Moments moments(Norm norm, float eps, const float* x, int64_t n) {
  const float center = norm == Norm::kLayer ? sum(x, n) / static_cast<float>(n) : 0.0f;
  const float mean_square = sum_squares(x, center, n) / static_cast<float>(n);
  return {center, 1.0f / std::sqrt(mean_square + eps)};
}

void add_norm_row(const Args& args, const Style& style, int64_t row, float* scratch) {
  const int64_t width = args.residual.width;
  float* sums = scratch;
  float* other = scratch + width;
  const float* x = load(args.residual, row, 0, width, sums);
  if (args.delta) {
    const float* delta = load(args.delta, row, 0, width, other);
    float* out = target(args.residual_out, row, 0, sums);
    if (style.gate) {
      add_gated(x, load(style.gate, 0, 0, width, scratch + 2 * width), delta, out, width);
    } else {
      add(x, delta, out, width);
    }
    store(args.residual_out, row, 0, width, out);
    x = out;
  }
  const auto [center, factor] = moments(args.norm, args.eps, x, width);
  float* y = target(args.y, row, 0, other);
  if (style.scale) {
    normalise_adaptive(x, center, factor, load(style.scale, 0, 0, width, scratch + 3 * width),
                       load(style.shift, 0, 0, width, scratch + 4 * width), y, width);
  } else {
    normalise(x, center, factor, args.weight, args.bias, y, width);
  }
  store(args.y, row, 0, width, y);
}

void add_norm(const Args& args, float* scratch, ThreadPool& pool) {
  const int64_t committed = args.committed_rows ? args.committed_rows.integer() : 0;
  pool.parallel_for(args.residual.rows, 4, [&](int64_t begin, int64_t end, int worker) {
    float* rows = scratch + worker * kRowsInScratch * args.residual.width;
    for (int64_t row = begin; row < end; ++row) {
      add_norm_row(args, row < committed ? args.committed : args.style, row, rows);
    }
  });
}

}  // namespace

size_t workspace_bytes(const AddNorm& op, const Plan& plan, int threads) {
  Carver carver;
  carver.floats(threads * kRowsInScratch * plan[op.residual].shape.width());
  return carver.bytes();
}

Kernel bind(const AddNorm& op, const Binding& b) {
  FLASHRT_CHECK(bool(op.delta) == bool(op.residual_out), "add_norm ", b.call.name,
                ": delta and residual_out come together");
  FLASHRT_CHECK(
      bool(op.scale) == bool(op.shift) && (!op.scale || (op.weight.empty() && op.bias.empty())),
      "add_norm ", b.call.name, ": either scale and shift, or weight and bias");
  const Operand residual = b.operand(op.residual), delta = b.operand(op.delta),
                gate = b.operand(op.gate), scale = b.operand(op.scale), shift = b.operand(op.shift),
                committed_gate = b.operand(op.committed_gate),
                committed_scale = b.operand(op.committed_scale),
                committed_shift = b.operand(op.committed_shift),
                committed_rows = b.operand(op.committed_rows),
                residual_out = b.operand(op.residual_out), y = b.operand(op.y);
  const float* weight = b.vector(op.weight);
  const float* bias = b.vector(op.bias);
  float* scratch = Carver(b.workspace).floats(0);
  const Norm norm = op.norm;
  const float eps = op.eps;
  ThreadPool& pool = b.pool;
  return [=, &pool](int k) {
    add_norm({.norm = norm,
              .eps = eps,
              .residual = residual.at(k),
              .delta = delta.at(k),
              .style = {gate.at(k), scale.at(k), shift.at(k)},
              .committed = {committed_gate.at(k), committed_scale.at(k), committed_shift.at(k)},
              .committed_rows = committed_rows.at(k),
              .weight = weight,
              .bias = bias,
              .residual_out = residual_out.at(k),
              .y = y.at(k)},
             scratch, pool);
  };
}

}  // namespace flashrt::cpu
