// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// From a histogram to the range that a number format is to cover.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/number_format.hpp"
#include "base/range_estimator.hpp"
#include "quant/histogram.hpp"

namespace flashrt {

std::string_view name_of(RangeEstimator estimator);  // "min_max", "percentile", "entropy", "mse"
std::optional<RangeEstimator> estimator_named(std::string_view name);
// "min_max, percentile, entropy, mse": for texts that name the choices.
std::string estimator_names();

// The magnitude that becomes the largest code: scale_for(format, range). What is larger is cut off.
//
//   min_max     the largest value
//   percentile  the smallest bound that holds `fraction` of the values (0 < fraction <= 1)
//   entropy     the range with the least Kullback-Leibler divergence of the values from what is
//               left of them, after Migacz, "8-bit Inference with TensorRT" (GTC 2017):
//                   KL(P || Q) = sum over bins b within the range of p_b ln(p_b / q_b)
//               p_b is the share of values in b; those beyond the range are added to the highest
//               bin within. q_b is the share of its code's values, those beyond the range left
//               out, that falls to b by its width among the bins of the code that hold values. A
//               bin belongs to the code that its centre is rounded to, so formats whose codes are
//               not equally far apart are told apart as they are. Zeros are exact in every format
//               and not counted. Ranges that cut off more than half of the values are not looked
//               at.
//   mse         the range with the least expected squared error of the rounded values
//
// entropy and mse look at the largest value and at 16 ranges per octave below it, 16 octaves down,
// and prefer the larger of two that are equal: the best range is missed by at most 2.2%, which can
// leave a mean square error a few percent above the least one where codes are floating-point. All
// see the histogram alone, within whose bins (1/128 of their value wide) they take values as spread
// evenly. Of nvfp4, whose scale places the scales of its blocks, the codes are those of e4m3. A
// format without a scale has no range to choose: the largest value.
double range_of(const Histogram& histogram, RangeEstimator estimator, NumberFormat format,
                double fraction);

// What mse minimises: of one value, on average. 0 without values.
double expected_squared_error(const Histogram& histogram, NumberFormat format, double range);

}  // namespace flashrt
