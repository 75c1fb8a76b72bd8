// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Number formats of low precision, as real values: what is left of a float32 that is stored in one.
//
//   e4m3    4 exponent bits (bias 7), 3 mantissa bits, no infinity; +-448
//   e5m2    5 exponent bits (bias 15), 2 mantissa bits; +-57344
//   int8    integers -127 .. 127
//   nvfp4   e2m1 (0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives) in blocks of 16 that share an
//           e4m3 scale
//   mxfp4   e2m1 in blocks of 32 that share a power of two
//
// real = code * scale, with one float32 scale per tensor or channel; of nvfp4 code * block scale *
// scale. mxfp4 has block scales only.
#pragma once

#include <cstdint>
#include <optional>
#include <ostream>
#include <span>
#include <string_view>

namespace flashrt {

enum class NumberFormat : uint8_t { kNone, kE4M3, kE5M2, kInt8, kNvFp4, kMxFp4 };

// In the order of this list: for texts that name the choices.
inline constexpr NumberFormat kNumberFormats[] = {NumberFormat::kE4M3, NumberFormat::kE5M2,
                                                  NumberFormat::kInt8, NumberFormat::kNvFp4,
                                                  NumberFormat::kMxFp4};

std::string_view name_of(NumberFormat format);  // "e4m3", ...; "none"
std::optional<NumberFormat> format_named(std::string_view name);
std::ostream& operator<<(std::ostream& out, NumberFormat format);

// The largest magnitude with a scale of 1; 0 for mxfp4, whose range follows its block, and for
// none.
float largest(NumberFormat format);
// Whether the scale is decided before the values are known: all but mxfp4.
inline bool has_scale(NumberFormat format) { return largest(format) > 0; }
// Numbers of a row that share a scale of their own; 1: none do.
int block_of(NumberFormat format);
// Of one number, with its part of the scale of a full block; 0 for none.
double bits_of(NumberFormat format);

// The scale that maps this magnitude to the largest code; 1 for zeros and for formats without one.
// Never subnormal, so that neither it nor a quotient by it is lost.
float scale_for(NumberFormat format, float amax);

// Replaces each value by what the format holds of it, computed in float32. Codes are
// value / scale to nearest, ties to even; they saturate. Blocks are counted from the start of the
// row, the last one may be short:
//   nvfp4   block scale = e4m3(amax / 6 / scale), codes = e2m1(value / (block scale * scale))
//   mxfp4   block scale = 2^(floor(log2(amax)) - 2), at least 2^-127 (the rule of the OCP
//           Microscaling formats: what lies above 6 times it saturates)
// NaN stays NaN, also where the format has none: a finite number in its place would hide it.
void round_to(NumberFormat format, float scale, std::span<float> row);

}  // namespace flashrt
