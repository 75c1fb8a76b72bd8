// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "quant/histogram.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "base/check.hpp"

namespace flashrt {
namespace {

constexpr int kMantissaBits = 7;  // of bfloat16

int bin_of(float value) {
  return static_cast<int>((std::bit_cast<uint32_t>(value) & 0x7fffffffu) >> 16);
}

// The lower edge of a bin. A double, because the upper edge of the last one is beyond float32.
double edge(int bin) {
  constexpr int kPerOctave = 1 << kMantissaBits, kBias = 127;
  const int octave = bin >> kMantissaBits, within = bin & (kPerOctave - 1);
  return octave == 0 ? std::ldexp(within, 1 - kBias - kMantissaBits)
                     : std::ldexp(kPerOctave + within, octave - kBias - kMantissaBits);
}

}  // namespace

// Makes room for a bin: as many lower ones are from now on counted together.
void Histogram::reach(int bin) {
  const int first = std::max(0, bin / kPerOctave + 1 - kOctaves) * kPerOctave;
  if (first <= first_) return;
  const auto kept = counts_.begin() + std::min(first - first_, kBins);
  below_ = std::accumulate(counts_.begin(), kept, below_);
  std::fill(std::move(kept, counts_.end(), counts_.begin()), counts_.end(), 0);
  first_ = first;
}

void Histogram::add(std::span<const float> values) {
  float amax = amax_;
  for (const float value : values) amax = std::max(amax, std::abs(value));
  reach(bin_of(amax));
  amax_ = amax;
  for (const float value : values) {
    const int index = bin_of(value) - first_;
    ++(index < 0 ? below_ : counts_[index]);
  }
}

void Histogram::merge(const Histogram& other) {
  amax_ = std::max(amax_, other.amax_);
  reach(bin_of(amax_));
  below_ += other.below_;
  for (int index = 0; index < kBins; ++index) {
    const int here = other.first_ + index - first_;
    (here < 0 ? below_ : counts_[std::min(here, kBins - 1)]) += other.counts_[index];
  }
}

int64_t Histogram::count() const { return std::accumulate(counts_.begin(), counts_.end(), below_); }

float Histogram::percentile(double fraction) const {
  const auto wanted = static_cast<int64_t>(std::ceil(fraction * static_cast<double>(count())));
  int64_t held = below_;
  int bin = first_;  // under which so many are
  while (held < wanted && bin < first_ + kBins) held += counts_[bin++ - first_];
  return static_cast<float>(std::min(double{amax_}, edge(bin)));
}

std::vector<Histogram::Bin> Histogram::bins() const {
  std::vector<Bin> bins;
  if (below_ > 0) bins.push_back({.low = 0, .high = edge(first_), .count = below_});
  for (int index = 0; index < kBins; ++index) {
    if (counts_[index] == 0) continue;
    const int bin = first_ + index;
    bins.push_back({.low = edge(bin), .high = edge(bin + 1), .count = counts_[index]});
  }
  return bins;
}

Histogram::Content Histogram::content() const {
  const auto is_used = [](int64_t count) { return count > 0; };
  const auto first = std::find_if(counts_.begin(), counts_.end(), is_used);
  const auto last = std::find_if(counts_.rbegin(), counts_.rend(), is_used).base();
  Content content{.amax = amax_, .below = below_};
  if (first == counts_.end()) return content;
  content.first = first_ + static_cast<int>(first - counts_.begin());
  content.counts.assign(first, last);
  return content;
}

Histogram::Histogram(const Content& content) : below_(content.below), amax_(content.amax) {
  constexpr int64_t kMost = int64_t{1} << 53;  // far above what is ever counted
  FLASHRT_CHECK(std::isfinite(amax_) && amax_ >= 0, "histogram: the largest value is ", amax_,
                ", expected finite and not negative");
  const int top = bin_of(amax_);
  reach(top);
  const auto in_range = [](int64_t count) { return 0 <= count && count <= kMost; };
  FLASHRT_CHECK(
      in_range(below_) && std::all_of(content.counts.begin(), content.counts.end(), in_range),
      "histogram: a count is negative or above 2^53");
  const auto size = static_cast<int64_t>(content.counts.size());
  const bool is_empty = amax_ == 0 && size == 0 && below_ == 0;
  FLASHRT_CHECK(
      is_empty ||
          (content.first >= first_ && content.first + size == top + 1 && content.counts.back() > 0),
      "histogram: ", size, " counts from bin ", content.first, " on do not end with the bin ", top,
      " of the largest value ", amax_, " or begin below bin ", first_);
  if (size > 0) std::copy_n(content.counts.begin(), size, &counts_[content.first - first_]);
}

}  // namespace flashrt
