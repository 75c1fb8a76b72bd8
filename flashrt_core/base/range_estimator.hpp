// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// RangeEstimator: how the range that a format is to cover follows from the values.
#pragma once

#include <cstdint>

namespace flashrt {

// The largest magnitude; the bound that holds a fraction of the values; the range whose rounded
// histogram diverges least from the histogram (Kullback-Leibler); the range with the least mean
// square error.
enum class RangeEstimator : uint8_t { kMinMax, kPercentile, kEntropy, kMse };

}  // namespace flashrt
