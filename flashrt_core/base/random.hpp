// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Random numbers that are a pure function of a key and an index: any element can be made alone, in
// any order, on the host and on the device, with the same bits.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define FLASHRT_HOST_DEVICE __host__ __device__
#else
#define FLASHRT_HOST_DEVICE
#endif

namespace flashrt {

// The finaliser of SplitMix64 (Steele, Lea and Flood 2014): every bit of x changes half of the
// result's.
FLASHRT_HOST_DEVICE constexpr uint64_t mix_bits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Numbers that are nearly normal: (sum of four 16-bit pieces of a hash - its mean + offset) * unit.
// The sum has a standard deviation of 65536 / sqrt(3) and reaches 3.46 of them. Up to the one
// multiplication everything is integer arithmetic below 2^24, so no compiler or device can round
// otherwise.
struct RandomNumbers {
  static constexpr uint64_t kStride = 0x9e3779b97f4a7c15u;  // between keys of neighbours

  uint64_t key = 0;
  int32_t offset = 0;  // mean / unit
  float unit = 0;      // standard deviation * kRandomUnit

  FLASHRT_HOST_DEVICE constexpr float operator[](uint64_t index) const {
    const uint64_t hash = mix_bits(key + (index + 1) * kStride);
    const uint64_t pairs = (hash & 0x0000ffff0000ffffu) + ((hash >> 16) & 0x0000ffff0000ffffu);
    const auto sum = static_cast<int32_t>((pairs & 0xffffffffu) + (pairs >> 32));
    constexpr int32_t kMean = 2 * 0xffff;
    return static_cast<float>(sum - kMean + offset) * unit;
  }

  // Those from this index on: element i is element first + i of these.
  constexpr RandomNumbers from(uint64_t first) const {
    return {.key = key + first * kStride, .offset = offset, .unit = unit};
  }
};

inline constexpr double kRandomUnit = 1.7320508075688772 / 65536;  // sqrt(3) / 2^16

}  // namespace flashrt
