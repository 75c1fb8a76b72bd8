// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "quant/range_estimator.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "base/check.hpp"

namespace flashrt {
namespace {

using Bins = std::vector<Histogram::Bin>;

constexpr int kRangesPerOctave = 16, kOctaves = 16;

constexpr std::array kEstimators{RangeEstimator::kMinMax, RangeEstimator::kPercentile,
                                 RangeEstimator::kEntropy, RangeEstimator::kMse};

// ---- codes

// The codes of a format that are not negative, and where rounding changes from one to the next.
class Codes {
 public:
  explicit Codes(NumberFormat format) {
    switch (format) {
      case NumberFormat::kE4M3:
      case NumberFormat::kNvFp4:
        list(3, -6, 448);
        break;
      case NumberFormat::kE5M2:
        list(2, -14, 57344);
        break;
      case NumberFormat::kInt8:
        list(7, 7, 127);
        break;
      case NumberFormat::kNone:
      case NumberFormat::kMxFp4:
        throw Error(text("format ", format, " has no scale, so its codes lie nowhere"));
    }
    double before = 0;
    for (size_t code = 0; code + 1 < codes_.size(); ++code) {
      middles_.push_back((codes_[code] + codes_[code + 1]) / 2);
      errors_.push_back(before);
      before += cubes(code, middles_[code]);
    }
    errors_.push_back(before);
  }

  double largest() const { return codes_.back(); }
  size_t nearest(double value) const {
    return std::upper_bound(middles_.begin(), middles_.end(), value) - middles_.begin();
  }
  // Of one value; of all values from 0 to this one (the integral).
  double squared_error(double value) const {
    const double error = value - codes_[nearest(value)];
    return error * error;
  }
  double squared_error_until(double value) const {
    const size_t code = nearest(value);
    return errors_[code] + cubes(code, value);
  }

 private:
  // Those of a binary format: its codes double their distance with every octave above 2^exponent.
  void list(int mantissa_bits, int exponent, double largest) {
    double distance = std::ldexp(1.0, exponent - mantissa_bits), octave = std::ldexp(2.0, exponent);
    for (double code = 0; code <= largest; code += distance) {
      if (code == octave) {
        distance *= 2;
        octave *= 2;
      }
      codes_.push_back(code);
    }
  }

  // The integral of (x - code)^2 from where the code begins.
  double cubes(size_t code, double until) const {
    const double from = (code == 0 ? 0.0 : middles_[code - 1]) - codes_[code];
    until -= codes_[code];
    return (until * until * until - from * from * from) / 3;
  }

  std::vector<double> codes_, middles_;
  std::vector<double> errors_;  // the integral up to where each code begins
};

const Codes& codes_of(NumberFormat format) {
  static const Codes e4m3(NumberFormat::kE4M3), e5m2(NumberFormat::kE5M2),
      int8(NumberFormat::kInt8);
  return format == NumberFormat::kE5M2 ? e5m2 : format == NumberFormat::kInt8 ? int8 : e4m3;
}

// ---- what is minimised

// Values beyond amax there are none.
double squared_error(const Bins& bins, double amax, const Codes& codes, double range) {
  const double scale = range / codes.largest();
  double sum = 0;
  for (const Histogram::Bin& bin : bins) {
    const double low = bin.low / scale, high = std::min(bin.high, amax) / scale;
    const double error =
        high > low
            ? (codes.squared_error_until(high) - codes.squared_error_until(low)) / (high - low)
            : codes.squared_error(low);
    sum += static_cast<double>(bin.count) * error;
  }
  return sum * scale * scale;
}

// The part of it that comes from cutting off.
double cut_error(const Bins& bins, double amax, double range) {
  double sum = 0;
  for (auto bin = bins.rbegin(); bin != bins.rend() && bin->high > range; ++bin) {
    const double low = std::max(bin->low, range) - range, high = std::min(bin->high, amax) - range;
    sum += static_cast<double>(bin->count) * (low * low + low * high + high * high) / 3;
  }
  return sum;
}

// Infinite where more than half of the values are beyond the range. Bins without zeros.
double divergence(const Bins& bins, double amax, const Codes& codes, double range) {
  const double scale = range / codes.largest();
  const auto centre = [&](const Histogram::Bin& bin) {
    return (bin.low + std::min(bin.high, amax)) / 2;
  };
  size_t within = 0;
  double inside = 0, outside = 0;
  for (const Histogram::Bin& bin : bins) {
    const bool is_inside = centre(bin) <= range;
    within += is_inside;
    (is_inside ? inside : outside) += static_cast<double>(bin.count);
  }
  if (outside > inside) return std::numeric_limits<double>::infinity();

  double sum = 0;
  for (size_t begin = 0, end = 0; begin < within; begin = end) {
    const size_t code = codes.nearest(centre(bins[begin]) / scale);
    double count = 0, width = 0;  // of the code
    for (; end < within && codes.nearest(centre(bins[end]) / scale) == code; ++end) {
      count += static_cast<double>(bins[end].count);
      width += bins[end].high - bins[end].low;
    }
    for (size_t b = begin; b < end; ++b) {
      const double held = static_cast<double>(bins[b].count) + (b + 1 == within ? outside : 0);
      const double p = held / (inside + outside);
      const double q = count * ((bins[b].high - bins[b].low) / width) / inside;
      sum += p * std::log(p / q);
    }
  }
  return sum;
}

// ---- ranges

double candidate(double amax, int index) {
  return amax * std::exp2(-static_cast<double>(index) / kRangesPerOctave);
}

double least_error(const Bins& bins, double amax, const Codes& codes) {
  double best = amax, least = squared_error(bins, amax, codes, amax);
  for (int index = 1; index <= kRangesPerOctave * kOctaves; ++index) {
    const double range = candidate(amax, index);
    if (cut_error(bins, amax, range) >= least) break;  // it grows as the range shrinks
    const double error = squared_error(bins, amax, codes, range);
    if (error < least) {
      best = range;
      least = error;
    }
  }
  return best;
}

double least_divergence(Bins bins, double amax, const Codes& codes) {
  if (bins.front().low == 0) bins.erase(bins.begin());
  double best = amax, least = std::numeric_limits<double>::infinity();
  for (int index = 0; index <= kRangesPerOctave * kOctaves; ++index) {
    const double range = candidate(amax, index), found = divergence(bins, amax, codes, range);
    if (std::isinf(found)) break;  // so are those of all smaller ranges
    if (found < least) {
      best = range;
      least = found;
    }
  }
  return best;
}

}  // namespace

std::string_view name_of(RangeEstimator estimator) {
  switch (estimator) {
    case RangeEstimator::kMinMax:
      return "min_max";
    case RangeEstimator::kPercentile:
      return "percentile";
    case RangeEstimator::kEntropy:
      return "entropy";
    case RangeEstimator::kMse:
      return "mse";
  }
  return "?";
}

std::optional<RangeEstimator> estimator_named(std::string_view name) {
  for (const RangeEstimator estimator : kEstimators) {
    if (name == name_of(estimator)) return estimator;
  }
  return std::nullopt;
}

std::string estimator_names() {
  std::string names;
  for (const RangeEstimator estimator : kEstimators)
    names += text(names.empty() ? "" : ", ", name_of(estimator));
  return names;
}

double range_of(const Histogram& histogram, RangeEstimator estimator, NumberFormat format,
                double fraction) {
  const double amax = histogram.amax();
  if (amax == 0 || !has_scale(format)) return amax;
  switch (estimator) {
    case RangeEstimator::kMinMax:
      return amax;
    case RangeEstimator::kPercentile:
      FLASHRT_CHECK(fraction > 0 && fraction <= 1, "percentile: fraction ", fraction,
                    ", expected above 0 and at most 1, e.g. 0.9999");
      return histogram.percentile(fraction);
    case RangeEstimator::kEntropy:
      return least_divergence(histogram.bins(), amax, codes_of(format));
    case RangeEstimator::kMse:
      return least_error(histogram.bins(), amax, codes_of(format));
  }
  throw Error("an estimator of no name");
}

double expected_squared_error(const Histogram& histogram, NumberFormat format, double range) {
  FLASHRT_CHECK(has_scale(format) && range > 0, "expected error: format ", format, " and range ",
                range, ", expected one with a scale, and a range above 0");
  const int64_t count = histogram.count();
  if (count == 0) return 0;
  return squared_error(histogram.bins(), histogram.amax(), codes_of(format), range) /
         static_cast<double>(count);
}

}  // namespace flashrt
