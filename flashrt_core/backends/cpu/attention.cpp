// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// attention: y = softmax(q k^T * scale + mask) v over the keys in the ranges.
//
// Work      one task per kv head and block of tokens. The query heads that share a kv head are
// folded into the rows of
//           one matrix, so both products are GEMMs.
// Memory    keys are taken in blocks with a running maximum and sum (Milakov and Gimelshein, 2018;
// Dao et al., 2022):
//           scratch does not grow with the number of keys.
// Numerics  float32; blocks depend on the shapes alone. A row that sees no key gives zeros.

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/gemm.hpp"
#include "backends/cpu/kernel.hpp"

namespace flashrt::cpu {
namespace {

constexpr int64_t kKeys = 512;       // of one block
constexpr int64_t kFoldedRows = 64;  // of one task, about: tokens times query heads of a kv head

struct Scratch {
  float* q;        // [rows, E], scaled
  float* scores;   // [rows, kKeys]
  float* sums;     // [rows, E]
  float* maxima;   // [rows]
  float* weights;  // [rows]: sum of exponentials
  float* keys;     // [kKeys, E] if k is not float32
  float* values;   // [kKeys, E] if v is not float32
};

int64_t tokens_per_task(int64_t group) { return std::max<int64_t>(1, kFoldedRows / group); }

Scratch carve(Carver& carver, const Attention& op, const Plan& plan) {
  const int64_t group = op.heads / op.kv_heads;
  const int64_t rows = tokens_per_task(group) * group;
  const int64_t width = op.head_dim;
  const auto decoded = [&](Value value) {
    return plan[value].type == DType::kF32 ? nullptr : carver.floats(kKeys * width);
  };
  Scratch scratch;
  scratch.q = carver.floats(rows * width);
  scratch.scores = carver.floats(rows * kKeys);
  scratch.sums = carver.floats(rows * width);
  scratch.maxima = carver.floats(rows);
  scratch.weights = carver.floats(rows);
  scratch.keys = decoded(op.k);
  scratch.values = decoded(op.v);
  return scratch;
}

struct Range {
  int64_t begin = 0, end = 0;
};
Range intersect(Range a, Range b) { return {std::max(a.begin, b.begin), std::min(a.end, b.end)}; }

struct Args {
  View q, k, v, y;
  int64_t group;  // query heads of one kv head
  int64_t kv_heads;
  int64_t head_dim;
  float scale;
  Mask mask;
  int64_t mask_argument;
};

// Keys that the mask leaves to a token, of the first range or of a later one.
Range visible(const Args& args, int64_t token, bool is_first) {
  switch (args.mask) {
    case Mask::kNone:
      break;
    case Mask::kCausal:
      if (is_first) return {0, token + args.mask_argument + 1};
      break;
    case Mask::kBlock: {
      const int64_t block = token / args.mask_argument;
      return {block * args.mask_argument, (block + 1) * args.mask_argument};
    }
  }
  return {0, std::numeric_limits<int64_t>::max()};
}

struct Task {
  int64_t kv_head;
  int64_t token, tokens;
};

// One head of the keys [begin, end), in place or decoded.
struct Operand32 {
  const float* data;
  int64_t stride;
};
Operand32 head_rows(const View& view, Range keys, int64_t column, int64_t width, float* buffer) {
  if (view.type == DType::kF32) return {view.floats(keys.begin, column), view.stride};
  for (int64_t key = keys.begin; key < keys.end; ++key) {
    decode(view.type, view.at(key, column), view.scale, buffer + (key - keys.begin) * width, width);
  }
  return {buffer, width};
}

void start(const Args& args, const Task& task, const Scratch& s) {
  for (int64_t t = 0; t < task.tokens; ++t) {
    for (int64_t g = 0; g < args.group; ++g) {
      const int64_t row = t * args.group + g;
      float* q = s.q + row * args.head_dim;
      const int64_t column = (task.kv_head * args.group + g) * args.head_dim;
      scaled_copy(load(args.q, task.token + t, column, args.head_dim, q), args.scale, q,
                  args.head_dim);
      std::fill_n(s.sums + row * args.head_dim, args.head_dim, 0.0f);
      s.maxima[row] = -std::numeric_limits<float>::infinity();
      s.weights[row] = 0.0f;
    }
  }
}

// Turns the scores of one row into exponentials against its running maximum.
void exponentiate(const Args& args, const Task& task, Range keys, bool is_first, int64_t row,
                  const Scratch& s) {
  float* scores = s.scores + row * kKeys;
  const Range seen = intersect(visible(args, task.token + row / args.group, is_first), keys);
  const int64_t first = std::max<int64_t>(0, seen.begin - keys.begin);
  const int64_t count = std::max<int64_t>(0, seen.end - seen.begin);
  const int64_t all = keys.end - keys.begin;
  if (count == 0) {
    std::fill_n(scores, all, 0.0f);
    return;
  }
  const float maximum = std::max(s.maxima[row], max(scores + first, count));
  const float shrink = std::exp(s.maxima[row] - maximum);
  if (shrink != 1.0f) scale(s.sums + row * args.head_dim, shrink, args.head_dim);
  s.weights[row] = s.weights[row] * shrink + exp_and_sum(scores + first, maximum, count);
  s.maxima[row] = maximum;
  std::fill_n(scores, first, 0.0f);
  std::fill_n(scores + first + count, all - first - count, 0.0f);
}

void add_keys(const Args& args, const Task& task, Range keys, bool is_first, const Scratch& s) {
  const int64_t rows = task.tokens * args.group, width = args.head_dim,
                count = keys.end - keys.begin;
  const Operand32 k = head_rows(args.k, keys, task.kv_head * width, width, s.keys);
  multiply({.rows = rows,
            .columns = count,
            .depth = width,
            .a = s.q,
            .a_stride = width,
            .b = k.data,
            .b_stride = k.stride},
           s.scores, kKeys);
  for (int64_t row = 0; row < rows; ++row) exponentiate(args, task, keys, is_first, row, s);
  const Operand32 v = head_rows(args.v, keys, task.kv_head * width, width, s.values);
  multiply({.rows = rows,
            .columns = width,
            .depth = count,
            .a = s.scores,
            .a_stride = kKeys,
            .b = v.data,
            .b_stride = v.stride,
            .b_transposed = false},
           s.sums, width, 1.0f);
}

void finish(const Args& args, const Task& task, const Scratch& s) {
  for (int64_t t = 0; t < task.tokens; ++t) {
    for (int64_t g = 0; g < args.group; ++g) {
      const int64_t row = t * args.group + g;
      float* sums = s.sums + row * args.head_dim;
      if (s.weights[row] != 0.0f) scale(sums, 1.0f / s.weights[row], args.head_dim);
      store(args.y, task.token + t, (task.kv_head * args.group + g) * args.head_dim, args.head_dim,
            sums);
    }
  }
}

void attend(const Args& args, std::span<const Range> ranges, const Task& task,
            const Scratch& scratch) {
  start(args, task, scratch);
  for (size_t r = 0; r < ranges.size(); ++r) {
    const bool is_first = r == 0;
    const Range seen{visible(args, task.token, is_first).begin,
                     visible(args, task.token + task.tokens - 1, is_first).end};
    const Range keys = intersect(ranges[r], seen);
    for (int64_t begin = keys.begin; begin < keys.end; begin += kKeys) {
      add_keys(args, task, {begin, std::min(begin + kKeys, keys.end)}, is_first, scratch);
    }
  }
  finish(args, task, scratch);
}

void attention(const Args& args, std::span<const Range> ranges, std::span<const Scratch> scratch,
               ThreadPool& pool) {
  if (args.q.rows == 0) return;
  // Equal blocks of tokens. Under a block mask they do not cross its blocks, so no key outside is
  // multiplied.
  const int64_t segment =
      args.mask == Mask::kBlock ? std::min(args.mask_argument, args.q.rows) : args.q.rows;
  const int64_t segments = (args.q.rows + segment - 1) / segment;
  const int64_t blocks = (segment + tokens_per_task(args.group) - 1) / tokens_per_task(args.group);
  const int64_t tokens = (segment + blocks - 1) / blocks;
  pool.parallel_for(args.kv_heads * segments * blocks, 1, [&](int64_t index, int64_t, int worker) {
    const int64_t segment_begin = index / blocks % segments * segment;
    const int64_t segment_end = std::min(segment_begin + segment, args.q.rows);
    const int64_t begin = segment_begin + index % blocks * tokens;
    const int64_t end = std::min(begin + tokens, segment_end);
    if (begin < end) {
      attend(args, ranges,
             {.kv_head = index / (blocks * segments), .token = begin, .tokens = end - begin},
             scratch[worker]);
    }
  });
}

}  // namespace

size_t workspace_bytes(const Attention& op, const Plan& plan, int threads) {
  Carver carver;
  for (int thread = 0; thread < threads; ++thread) carve(carver, op, plan);
  return carver.bytes();
}

Kernel bind(const Attention& op, const Binding& b) {
  Carver carver(b.workspace);
  std::vector<Scratch> scratch;
  for (int thread = 0; thread < b.pool.threads(); ++thread)
    scratch.push_back(carve(carver, op, b.plan));
  std::vector<Operand> lengths;
  for (const KeyRange& range : op.ranges) lengths.push_back(b.operand(range.length));
  const Operand q = b.operand(op.q), k = b.operand(op.k), v = b.operand(op.v), y = b.operand(op.y);
  ThreadPool& pool = b.pool;
  return [=, call = b.call.name, op = op, ranges = std::vector<Range>(op.ranges.size()),
          &pool](int i) mutable {
    const Args args{.q = q.at(i),
                    .k = k.at(i),
                    .v = v.at(i),
                    .y = y.at(i),
                    .group = op.heads / op.kv_heads,
                    .kv_heads = op.kv_heads,
                    .head_dim = op.head_dim,
                    .scale = op.scale,
                    .mask = op.mask,
                    .mask_argument = op.mask_argument};
    for (size_t r = 0; r < ranges.size(); ++r) {
      const int64_t count = op.ranges[r].count + (lengths[r] ? lengths[r].at(i).integer() : 0);
      ranges[r] = {op.ranges[r].begin, op.ranges[r].begin + count};
      FLASHRT_CHECK(0 <= count && ranges[r].end <= k.capacity, "attention ", call, ": key range [",
                    ranges[r].begin, ", ", ranges[r].end, ") of ", k.capacity, " keys");
    }
    attention(args, ranges, scratch, pool);
  };
}

}  // namespace flashrt::cpu
