// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Histogram: how often magnitudes of which size occurred, in memory that does not grow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace flashrt {

// Bins are as wide as the distance between neighbours of bfloat16, whose numbers are their edges:
// 128 to an octave, so that small values are told apart as well as large ones beside them. The
// octave of the largest value and the 31 below it have bins; what is smaller is counted together.
// Which bin a value ends in depends on the value and the largest one alone: the order of the values
// does not matter, merging is adding, and a factor that is a power of two moves everything along.
class Histogram {
 public:
  // Counts of |x| in [low, high).
  struct Bin {
    double low = 0, high = 0;
    int64_t count = 0;
  };
  // As a file holds it: counts of consecutive bins, none outside them.
  struct Content {
    float amax = 0;
    int64_t below = 0;  // values, zeros among them, under the lowest octave that has bins
    int first = 0;      // the lower edge of the first bin: the upper 16 bits of its float32
    std::vector<int64_t> counts;
  };

  Histogram() = default;
  // Error unless values could have given it.
  explicit Histogram(const Content& content);

  // Finite values.
  void add(std::span<const float> values);
  void merge(const Histogram& other);

  float amax() const { return amax_; }
  int64_t count() const;
  // Smallest bound that holds this fraction of the values, e.g. 0.9999: the upper edge of a bin, so
  // at most 1/128 above the exact one.
  float percentile(double fraction) const;
  // Those with values, ascending; the first may begin at 0.
  std::vector<Bin> bins() const;
  Content content() const;
  // Memory; always the same.
  static constexpr size_t bytes() { return sizeof(Histogram) + kBins * sizeof(int64_t); }

 private:
  void reach(int bin);

  static constexpr int kPerOctave = 128, kOctaves = 32, kBins = kPerOctave * kOctaves;
  std::vector<int64_t> counts_ = std::vector<int64_t>(kBins, 0);
  int first_ = 0;      // the bin of counts_[0]; follows from amax_
  int64_t below_ = 0;  // values in lower bins
  float amax_ = 0;
};

}  // namespace flashrt
