// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// glu: y = activation(gate_up[:, :F]) * gate_up[:, F:].

#include <algorithm>

#include "backends/cpu/kernel.hpp"

namespace flashrt::cpu {
namespace {

constexpr int64_t kColumns =
    1024;  // of one piece: both halves and the result stay in the first-level cache
constexpr int64_t kRows = 4;

void glu(Activation activation, const View& gate_up, const View& y, float* scratch,
         ThreadPool& pool) {
  pool.parallel_for(y.rows, kRows, [&](int64_t begin, int64_t end, int worker) {
    float* gate = scratch + worker * 2 * kColumns;
    float* buffer = gate + kColumns;
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t column = 0; column < y.width; column += kColumns) {
        const int64_t n = std::min(kColumns, y.width - column);
        decode(gate_up.type, gate_up.at(row, column), gate_up.scale, gate, n);
        activate(activation, gate, n);
        multiply(gate, load(gate_up, row, y.width + column, n, buffer), n);
        store(y, row, column, n, gate);
      }
    }
  });
}

}  // namespace

size_t workspace_bytes(const Glu&, const Plan&, int threads) {
  Carver carver;
  carver.floats(threads * 2 * kColumns);
  return carver.bytes();
}

Kernel bind(const Glu& op, const Binding& b) {
  const Operand gate_up = b.operand(op.gate_up), y = b.operand(op.y);
  float* scratch = Carver(b.workspace).floats(0);
  const Activation activation = op.activation;
  ThreadPool& pool = b.pool;
  return [=, &pool](int k) { glu(activation, gate_up.at(k), y.at(k), scratch, pool); };
}

}  // namespace flashrt::cpu
