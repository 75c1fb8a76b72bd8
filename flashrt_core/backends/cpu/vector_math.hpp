// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Loops over contiguous floats and type conversions, compiled for several instruction sets and
// chosen at load time. Every sum has a fixed order. Unless a comment says otherwise, outputs may be
// inputs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/tensor.hpp"
#include "plan/op.hpp"

namespace flashrt::cpu {

// out[i] = in[i] * scale for e4m3, in[i] for the other types.
void decode(DType type, const std::byte* in, float scale, float* out, int64_t n);
// The inverse: in[i] / scale for e4m3; rounded to nearest even, e4m3 saturates.
void encode(DType type, const float* in, float scale, std::byte* out, int64_t n);

float sum(const float* x, int64_t n);
// sum of (x[i] - center)^2
float sum_squares(const float* x, float center, int64_t n);
float max(const float* x, int64_t n);  // n > 0
// x[i] = exp(x[i] - shift); returns the sum.
float exp_and_sum(float* x, float shift, int64_t n);

void scale(float* x, float factor, int64_t n);                        // x *= factor
void scaled_copy(const float* x, float factor, float* y, int64_t n);  // y = x * factor
void multiply(float* x, const float* factor, int64_t n);              // x *= factor
void add(const float* x, const float* d, float* y, int64_t n);        // y = x + d
void add_gated(const float* x, const float* gate, const float* d, float* y,
               int64_t n);  // y = x + gate * d

// y = (x - center) * factor * weight + bias; weight and bias may be null
void normalise(const float* x, float center, float factor, const float* weight, const float* bias,
               float* y, int64_t n);
// y = (x - center) * factor * (1 + scale) + shift
void normalise_adaptive(const float* x, float center, float factor, const float* scale,
                        const float* shift, float* y, int64_t n);
// Half-split rotation of one head of 2 * half elements.
void rotate(const float* x, const float* cosine, const float* sine, float* y, int64_t half);

void activate(Activation activation, float* x, int64_t n);

}  // namespace flashrt::cpu
