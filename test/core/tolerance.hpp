// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// How far a backend may be from the double reference: one bound per operation, and the reason for
// it.
#pragma once

#include <string_view>

#include "plan/op.hpp"

namespace flashrt {

// |result - reference| <= absolute + relative * |reference|, and one step of the grid for types
// narrower than float32: a value at a rounding boundary may fall on either side. At most
// max_neighbours of all elements may do so.
struct Tolerance {
  double absolute;
  double relative;
  std::string_view reason;
  // Added to `absolute` for operands of 16 bits on matrix units, which take both factors of every
  // product in that type.
  double matrix_units = 0;
  // The same for e4m3: the sums of FP8 matrix units keep about 14 bits.
  double fp8_units = 0;
};

inline constexpr double kMaxNeighbours = 0.02;

inline Tolerance tolerance_of(const Op& op) {
  constexpr double kUnit = 0x1p-24;  // of float32
  struct Bounds {
    Tolerance operator()(const Resize&) const {
      return {8 * kUnit, 0, "bytes are exact; floats: four products in [0, 1], then [-1, 1]"};
    }
    Tolerance operator()(const PatchEmbed&) const {
      return {2e-5, 2 * kUnit,
              "588 products of order 1 summed in float32, random signs; on matrix units pixels are "
              "rounded to bf16, 2^-9 of each product, five deviations of their sum",
              6e-3};
    }
    Tolerance operator()(const TokenEmbed&) const {
      return {0, kUnit, "a copy; reading a code multiplies it by its scale"};
    }
    Tolerance operator()(const AddNorm&) const {
      return {2e-6, 16 * kUnit, "sums of up to 2048 squares in 16 lanes; values of order 1"};
    }
    Tolerance operator()(const Linear&) const {
      return {3e-5, 8 * kUnit,
              "up to 6144 products of order 1 summed in float32, random signs; in FP8 matrix units "
              "2^-14 of the largest partial sum for each of up to 192 additions",
              0, 1.2e-2};
    }
    Tolerance operator()(const QkvRope&) const {
      return {1e-6, 16 * kUnit, "two products and a sum; cosines rounded once; norm over a head"};
    }
    Tolerance operator()(const Attention&) const {
      return {1e-5, 16 * kUnit,
              "logits of order 10 in float32, then exp: relative error of a weight about 1e-6; on "
              "matrix units 2^-9 where weights are rounded to bf16, for a mean |v| up to 3",
              3 * 0x1p-9};
    }
    Tolerance operator()(const Glu&) const {
      return {4e-6, 16 * kUnit,
              "base/math.hpp: the activation within 1e-6 max(1, |x|), times an up of order 3"};
    }
    Tolerance operator()(const TimeEmbed&) const { return {0, kUnit, "double, rounded once"}; }
    Tolerance operator()(const EulerStep&) const {
      return {1e-6, 4 * kUnit, "six float32 operations of order 10"};
    }
    Tolerance operator()(const Quantize&) const {
      return {0, kUnit, "exact; reading a code multiplies it by its scale"};
    }
  };
  return std::visit(Bounds{}, op);
}

}  // namespace flashrt
