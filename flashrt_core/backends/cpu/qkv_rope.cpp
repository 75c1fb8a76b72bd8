// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// qkv_rope: splits qkv into heads, normalises and rotates q and k, stores k and v in the cache.

#include <cmath>
#include <memory>

#include "backends/cpu/kernel.hpp"
#include "base/rope.hpp"

namespace flashrt::cpu {
namespace {

struct Args {
  View qkv;
  int heads, kv_heads, head_dim;
  const RopeTable* rope;  // null: no rotation
  int64_t first_position;
  const float* q_norm;
  const float* k_norm;
  float eps;
  View q, k, v;
};

constexpr int kHeadsInScratch = 2;  // a head, and a row of cosines and sines

// Head `index` of qkv to head `to` of out.
void store_head(const Args& args, int64_t row, int64_t index, const View& out, int64_t to,
                const float* norm, const float* rope, float* buffer) {
  const int64_t n = args.head_dim;
  const float* x = load(args.qkv, row, index * n, n, buffer);
  float* y = target(out, row, to * n, buffer);
  if (norm) {
    const float mean_square = sum_squares(x, 0.0f, n) / static_cast<float>(n);
    normalise(x, 0.0f, 1.0f / std::sqrt(mean_square + args.eps), norm, nullptr, y, n);
    x = y;
  }
  if (rope) {
    rotate(x, rope, rope + n / 2, y, n / 2);
    x = y;
  }
  store(out, row, to * n, n, x);
}

void qkv_rope(const Args& args, float* scratch, ThreadPool& pool) {
  pool.parallel_for(args.qkv.rows, 8, [&](int64_t begin, int64_t end, int worker) {
    float* head = scratch + worker * kHeadsInScratch * args.head_dim;
    for (int64_t row = begin; row < end; ++row) {
      const float* rope =
          args.rope ? args.rope->at(args.first_position + row, head + args.head_dim) : nullptr;
      for (int h = 0; h < args.heads; ++h)
        store_head(args, row, h, args.q, h, args.q_norm, rope, head);
      for (int h = 0; h < args.kv_heads; ++h) {
        store_head(args, row, args.heads + h, args.k, h, args.k_norm, rope, head);
        store_head(args, row, args.heads + args.kv_heads + h, args.v, h, nullptr, nullptr, head);
      }
    }
  });
}

}  // namespace

size_t workspace_bytes(const QkvRope& op, const Plan&, int threads) {
  Carver carver;
  carver.floats(int64_t{threads} * kHeadsInScratch * op.head_dim);
  return carver.bytes();
}

Kernel bind(const QkvRope& op, const Binding& b) {
  const Operand qkv = b.operand(op.qkv), position = b.operand(op.position), q = b.operand(op.q),
                k = b.operand(op.k), v = b.operand(op.v);
  const int heads = op.heads, kv_heads = op.kv_heads, head_dim = op.head_dim,
            start = op.position_start;
  std::shared_ptr<const RopeTable> rope;
  if (op.rope_base != 0) {
    // A moving start is the number of rows before it in the cache, so the cache bounds it.
    const int64_t largest_start = op.position ? b.plan[b.plan.storage_of(op.k)].shape.rows() : 0;
    rope = b.rope_table(op.rope_base, head_dim, start + largest_start + qkv.capacity);
  }
  const float* q_norm = b.vector(op.q_norm);
  const float* k_norm = b.vector(op.k_norm);
  const float eps = op.eps;
  float* scratch = Carver(b.workspace).floats(0);
  ThreadPool& pool = b.pool;
  return [=, &pool](int i) {
    const int64_t first = start + (position ? position.at(i).integer() : 0);
    qkv_rope({qkv.at(i), heads, kv_heads, head_dim, rope.get(), first, q_norm, k_norm, eps, q.at(i),
              k.at(i), v.at(i)},
             scratch, pool);
  };
}

}  // namespace flashrt::cpu
