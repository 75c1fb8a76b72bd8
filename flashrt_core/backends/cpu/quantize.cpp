// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// quantize: y = x in another type or number format. The one kernel that makes numbers of a format
// that is emulated.

#include "backends/cpu/kernel.hpp"

namespace flashrt::cpu {

size_t workspace_bytes(const Quantize& op, const Plan& plan, int threads) {
  Carver carver;
  carver.floats(threads * plan[op.x].shape.width());
  return carver.bytes();
}

Kernel bind(const Quantize& op, const Binding& b) {
  const Operand x = b.operand(op.x), y = b.operand(op.y);
  float* scratch = Carver(b.workspace).floats(0);
  ThreadPool& pool = b.pool;
  return [=, &pool](int k) {
    const View in = x.at(k), out = y.at(k);
    pool.parallel_for(in.rows, 16, [&](int64_t begin, int64_t end, int worker) {
      for (int64_t row = begin; row < end; ++row) {
        store_row(out, row, load(in, row, 0, in.width, scratch + worker * in.width));
      }
    });
  };
}

}  // namespace flashrt::cpu
