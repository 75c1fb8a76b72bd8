// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// fill_random: the numbers of base/random.hpp, made on the device.
#pragma once

#include "base/random.hpp"
#include "kernels/launch.hpp"

namespace flashrt::cuda {

// out[i] = numbers[begin + i] for i in [0, count).
void fill_random(float* out, int64_t begin, int64_t count, const RandomNumbers& numbers,
                 const Launch& launch);

}  // namespace flashrt::cuda
