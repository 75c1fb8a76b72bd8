// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// The closed list of operations: their operands, shapes and formulas.
//
// Shape letters as everywhere: T rows (tokens), D width, H query heads, K kv heads, E head
// dimension. An operand is a Value, a handle into the plan. operands(v) shows each one to a visitor
// with read(name, value) and write(name, value); passes, printers and backends learn from it what
// an operation touches. An unset operand (id -1) is absent and is shown as well.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/math.hpp"

namespace flashrt {

struct Value {
  int id = -1;
  explicit operator bool() const { return id >= 0; }
  bool operator==(const Value&) const = default;
};

// images[n] = the frame of camera n, turned, brought to RGB, scaled and placed between bars, as its
// descriptor says (base/frame_descriptor.hpp). Horizontal sums come first, then vertical ones. The
// type of images decides the arithmetic:
//   u8   weights and sums are integers over 2^22; each axis is rounded to bytes, halves up
//   f32  of byte / 255, in float32; clamped to [0, 1] and mapped to [-1, 1]
struct Resize {
  Value frames;       // [N, B] u8: pictures as drivers deliver them, each at the start of its row
  Value descriptors;  // [N, words] i32
  Value images;       // [N, S, S, 3] u8 or f32, RGB

  template <class Visitor>
  void operands(Visitor&& v) {
    v.read("frames", frames);
    v.read("descriptors", descriptors);
    v.write("images", images);
  }
};

// y[n*T + t] = W patch(images[n], t) + b + position[t]. Bytes are mapped to u8 / 255 * 2 - 1,
// floats are taken as they are: some checkpoints were trained on pictures that were not rounded
// after resizing. A patch is flattened as (channel, dy, dx). Tokens run row-major over squares of
// group x group patches, and row-major inside a square: with a group of 1 over the whole grid, with
// 2 so that four rows of y in a row are neighbours in the picture.
struct PatchEmbed {
  Value images;          // [N, H, W, 3] u8 or f32, RGB
  Value positions;       // [N*T, D] in the order of y, where a stage computes them; else ...
  Value y;               // [N*T, D]
  std::string weight;    // W [D, 3*patch*patch]
  std::string bias;      // [D]
  std::string position;  // ... [T, D]
  int patch = 0;
  int group = 1;

  template <class Visitor>
  void operands(Visitor&& v) {
    v.read("images", images);
    v.read("positions", positions);
    v.write("y", y);
  }
};

// y[i] = table[tokens[i]].
struct TokenEmbed {
  Value tokens;       // [T] i32
  Value y;            // [T, D]
  std::string table;  // [vocabulary, D]

  template <class Visitor>
  void operands(Visitor&& v) {
    v.read("tokens", tokens);
    v.write("y", y);
  }
};

enum class Norm { kRms, kLayer };

// residual_out = residual + gate * delta              (delta and gate optional; without delta
// nothing is written) y            = norm(residual_out) * weight + bias   (weight and bias
// optional)
//              = norm(residual_out) * (1 + scale) + shift   (adaptive; scale and shift come
//              together)
// Rows below committed_rows take their adaptive operands from the committed_* values: real-time
// chunking gives rows whose actions are already decided the style of time 0.
struct AddNorm {
  Norm norm = Norm::kRms;
  float eps = 1e-6f;
  Value residual;                                          // [T, D]
  Value delta;                                             // [T, D]
  Value gate, scale, shift;                                // [D] each
  Value committed_gate, committed_scale, committed_shift;  // [D] each
  Value committed_rows;                                    // i32 scalar
  std::string weight, bias;                                // [D]
  Value residual_out;                                      // [T, D], may be the storage of residual
  Value y;                                                 // [T, D]

  template <class Visitor>
  void operands(Visitor&& v) {
    v.read("residual", residual);
    v.read("delta", delta);
    v.read("gate", gate);
    v.read("scale", scale);
    v.read("shift", shift);
    v.read("committed_gate", committed_gate);
    v.read("committed_scale", committed_scale);
    v.read("committed_shift", committed_shift);
    v.read("committed_rows", committed_rows);
    v.write("residual_out", residual_out);
    v.write("y", y);
  }
};

// y = activation(x W^T + bias + shift) + residual. A quantised x or W carries its scale: real =
// quantised * scale.
struct Linear {
  Value x;             // [T, D]
  std::string weight;  // W [width, D]
  std::string bias;    // [width], optional
  Value shift;  // [width], optional: a bias that is computed, e.g. the time part of Pi0's action
                // embedding
  Activation activation = Activation::kNone;
  Value residual;  // [T, width], optional
  Value y;         // [T, width]

  template <class Visitor>
  void operands(Visitor&& v) {
    v.read("x", x);
    v.read("shift", shift);
    v.read("residual", residual);
    v.write("y", y);
  }
};

// Splits qkv into heads, normalises q and k per head if asked, rotates q and k, and stores k and v
// in the cache. Column order of qkv: q [H*E] (absent without q), k [K*E], v [K*E]. RoPE,
// half-split: out[j] = x[j] cos - x[j+E/2] sin, out[j+E/2] = x[j+E/2] cos + x[j] sin, angle =
// position * inv_freq[j], inv_freq[j] = 1 / base^(2j/E); position of row i = position_start +
// position + i.
struct QkvRope {
  Value qkv;      // [T, (H + 2K)*E], or [T, 2K*E] without q
  int heads = 0;  // 0: no q (the last prefix layer, cross-attention)
  int kv_heads = 0;
  int head_dim = 0;
  double rope_base = 0;        // 0: no rotation
  int position_start = 0;      // position of row 0 ...
  Value position;              // ... plus this i32 scalar, if given
  std::string q_norm, k_norm;  // [E], optional: RMSNorm of each head before the rotation
  float eps = 1e-6f;
  Value q;     // [T, H*E], written if heads > 0
  Value k, v;  // [T, K*E], rows of the cache

  template <class Visitor>
  void operands(Visitor&& visit) {
    visit.read("qkv", qkv);
    visit.read("position", position);
    visit.write("q", q);
    visit.write("k", k);
    visit.write("v", v);
  }
};

// Rows [begin, begin + count + *length) of the keys; length is an i32 scalar and optional.
struct KeyRange {
  int begin = 0;
  int count = 0;
  Value length;
};

// Full; causal: of the first range, query i sees keys with index <= i + offset, the ranges after it
// are seen whole; block: query i sees the keys of its own block of n rows.
enum class Mask { kNone, kCausal, kBlock };

// y = softmax(q k^T * scale + mask) v, one softmax per query row and head over the keys in the
// ranges; query head h reads kv head h / (H / K). Softmax in float32. Keys outside the ranges are
// never read.
struct Attention {
  Value q;     // [T, H*E]
  Value k, v;  // [S, K*E]
  int heads = 0, kv_heads = 0, head_dim = 0;
  float scale = 0;
  Mask mask = Mask::kNone;
  int mask_argument = 0;         // causal: offset; block: n
  std::vector<KeyRange> ranges;  // at least one, ascending
  Value y;                       // [T, H*E]

  template <class Visitor>
  void operands(Visitor&& visit) {
    visit.read("q", q);
    visit.read("k", k);
    visit.read("v", v);
    for (KeyRange& range : ranges) visit.read("length", range.length);
    visit.write("y", y);
  }
};

// y = activation(gate_up[:, :F]) * gate_up[:, F:]. GEGLU with kGeluTanh, SwiGLU with kSilu.
struct Glu {
  Activation activation = Activation::kGeluTanh;
  Value gate_up;  // [T, 2F]
  Value y;        // [T, F]

  template <class Visitor>
  void operands(Visitor&& v) {
    v.read("gate_up", gate_up);
    v.write("y", y);
  }
};

// y[s] = concat(sin(u), cos(u)), u[i] = 2 pi times[s] / period[i], period[i] = min * (max / min)^(i
// / (D/2 - 1)). Evaluated in double, rounded once (u reaches 1571 rad).
struct TimeEmbed {
  Value times;  // [S] f32
  double min_period = 0, max_period = 0;
  Value y;  // [S, D]

  template <class Visitor>
  void operands(Visitor&& v) {
    v.read("times", times);
    v.write("y", y);
  }
};

// One step of the flow towards the actions, with optional guidance towards the previous chunk:
//   x1       = actions - time * velocity
//   v'       = velocity - guidance * weights[row] * (previous - x1)
//   actions += step * v'          (step = -1/S, rounded once)
// and rows below committed_rows are set to previous. The guidance operands come together or not at
// all; with weights of zero and no committed rows the result has the bits of the unguided step.
struct EulerStep {
  Value actions;   // [N, A] f32 state, read and written
  Value velocity;  // [N, A]
  float step = 0;
  Value time;            // f32 scalar of this step
  Value guidance;        // f32 scalar of this step
  Value previous;        // [N, A] f32
  Value weights;         // [N] f32
  Value committed_rows;  // i32 scalar

  template <class Visitor>
  void operands(Visitor&& v) {
    v.read("actions", actions);
    v.read("velocity", velocity);
    v.read("time", time);
    v.read("guidance", guidance);
    v.read("previous", previous);
    v.read("weights", weights);
    v.read("committed_rows", committed_rows);
    v.write("actions", actions);
  }
};

// y = x in another type, or rounded to the number format of y, blocks counted from the start of
// each row. Only the precision pass adds it, and only where the producer cannot write that itself.
struct Quantize {
  Value x;  // [T, D]
  Value y;  // [T, D]

  template <class Visitor>
  void operands(Visitor&& v) {
    v.read("x", x);
    v.write("y", y);
  }
};

using Op = std::variant<Resize, PatchEmbed, TokenEmbed, AddNorm, Linear, QkvRope, Attention, Glu,
                        TimeEmbed, EulerStep, Quantize>;

// "add_norm", "linear", ...
std::string_view name_of(const Op& op);
std::string_view name_of(Activation activation);

}  // namespace flashrt
