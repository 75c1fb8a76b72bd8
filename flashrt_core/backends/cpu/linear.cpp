// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// linear: y = activation(x W^T + bias + shift) + residual.
//
// Products of e4m3 codes are summed in float32 without scale; scale_x * scale_w[channel] multiplies
// the sum. Formats that are emulated are float32 here: their real values are multiplied and summed
// as such. Sums of int8 codes would be exact below 2^24; a device that sums codes differs from this
// by the rounding of float32 sums, which is far below that of the formats. Everything after the
// product happens on a tile in cache and is converted once, at the store.

#include "backends/cpu/gemm.hpp"
#include "backends/cpu/kernel.hpp"

namespace flashrt::cpu {
namespace {

struct Scratch {
  float* x;      // [T, D], if x is not float32
  float* tiles;  // one per thread
  float* rows;   // one tile row per thread: shift or residual of another type
};

Scratch carve(Carver& carver, const Linear& op, const Plan& plan, int threads) {
  const ValueInfo& x = plan[op.x];
  return {.x = x.type == DType::kF32 ? nullptr : carver.floats(x.shape.elements()),
          .tiles = carver.floats(threads * kTileFloats),
          .rows = carver.floats(threads * kTileColumns)};
}

struct Args {
  View x, shift, residual, y;
  const Weight& weight;
  const float* bias;
  Activation activation;
};

// x as float32 [rows, width]; codes stay codes.
void decode_input(const View& x, float* out, ThreadPool& pool) {
  pool.parallel_for(x.rows, 16, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row)
      decode(x.type, x.at(row), 1.0f, out + row * x.width, x.width);
  });
}

void finish_row(const Args& args, const Tile& tile, int64_t r, float* buffer) {
  float* y = tile.at(r);
  const std::vector<float>& scales = args.weight.scales;
  if (scales.size() > 1) multiply(y, scales.data() + tile.column, tile.columns);
  const float factor = args.x.scale * (scales.size() == 1 ? scales[0] : 1.0f);
  if (factor != 1.0f) scale(y, factor, tile.columns);
  if (args.bias) add(y, args.bias + tile.column, y, tile.columns);
  if (args.shift) add(y, load(args.shift, 0, tile.column, tile.columns, buffer), y, tile.columns);
  activate(args.activation, y, tile.columns);
  if (args.residual) {
    add(y, load(args.residual, tile.row + r, tile.column, tile.columns, buffer), y, tile.columns);
  }
  store(args.y, tile.row + r, tile.column, tile.columns, y);
}

void linear(const Args& args, const Scratch& scratch, ThreadPool& pool) {
  const bool is_float = args.x.type == DType::kF32;
  if (!is_float) decode_input(args.x, scratch.x, pool);
  const MatrixProduct product{.rows = args.x.rows,
                              .columns = args.y.width,
                              .depth = args.x.width,
                              .a = is_float ? args.x.floats(0) : scratch.x,
                              .a_stride = is_float ? args.x.stride : args.x.width,
                              .b = args.weight.values.data(),
                              .b_stride = args.x.width};
  multiply_tiles(pool, product, scratch.tiles, [&](const Tile& tile, int worker) {
    for (int64_t r = 0; r < tile.rows; ++r)
      finish_row(args, tile, r, scratch.rows + worker * kTileColumns);
  });
}

}  // namespace

size_t workspace_bytes(const Linear& op, const Plan& plan, int threads) {
  Carver carver;
  carve(carver, op, plan, threads);
  return carver.bytes();
}

Kernel bind(const Linear& op, const Binding& b) {
  Carver carver(b.workspace);
  const Scratch scratch = carve(carver, op, b.plan, b.pool.threads());
  const Operand x = b.operand(op.x), shift = b.operand(op.shift), residual = b.operand(op.residual),
                y = b.operand(op.y);
  const Weight& weight = b.weight(op.weight);
  const float* bias = b.vector(op.bias);
  const Activation activation = op.activation;
  ThreadPool& pool = b.pool;
  return [=, &weight, &pool](int k) {
    linear({x.at(k), shift.at(k), residual.at(k), y.at(k), weight, bias, activation}, scratch,
           pool);
  };
}

}  // namespace flashrt::cpu
