// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Plan rewrites: each takes one fusion back out of a plan whose types are assigned. The rewritten
// plan computes what the plan computes, up to the rounding of what it stores in between. They are
// for bench_ladder, which measures what the fusions save.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "checkpoint/weights.hpp"
#include "plan/plan.hpp"

namespace flashrt {

// A weight that only rewritten plans read: rows [begin, begin + rows) of another, or so many ones.
struct DerivedWeight {
  std::string whole;  // empty: ones
  int64_t begin = 0, rows = 0;
};
using DerivedWeights = std::map<std::string, DerivedWeight, std::less<>>;

// Operations that `is_producer` accepts, other than quantize, write `type` in place of e4m3: every
// linear that reads the result has a quantize call of its own, which stands before it.
void quantize_apart(Plan& plan, DType type, const std::function<bool(const Op&)>& is_producer);

// residual + gate * delta is a call before the norm. No operation only adds: the call is an
// add_norm whose norm nobody reads.
void add_apart(Plan& plan);

// q, k and v, and gate and up, are linears of their own, each with its rows of the weight. They
// write columns of the value that the merged linear writes.
void split_linears(Plan& plan, DerivedWeights& derived);

// The styles are computed in every denoise step, for its time alone. Not for guided plans, whose
// committed rows have the style of another time.
void styles_in_loop(Plan& plan);

// RMSNorms without a weight, because it is folded into the linear after them, multiply by one: it
// is (1 + w) with the folded w taken as zero.
void norms_apart(Plan& plan, DerivedWeights& derived);

// The rows of all residuals are one element longer than what is used of them, so that they do not
// start at multiples of 16 bytes and add_norm cannot move vectors.
void misalign_residuals(Plan& plan);

// A linear and the glu, qkv_rope or euler_step that follows it cannot be done by one kernel: what
// they pass on is a part of another value, which has to be kept.
void pairs_apart(Plan& plan);

// The weights of a rewritten plan: `weights`, and what is derived from them.
Weights with_derived(Weights weights, DerivedWeights derived);

}  // namespace flashrt
