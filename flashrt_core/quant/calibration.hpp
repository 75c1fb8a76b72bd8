// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Calibration: scales by site, measured once on real observations and tied to the checkpoint they
// were measured on.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quant/observations.hpp"
#include "quant/range_estimator.hpp"

namespace flashrt {

// How scales followed from what was observed.
struct CalibrationMethod {
  RangeEstimator estimator = RangeEstimator::kMinMax;
  double fraction = 1;  // of the values inside the range, for the percentile
  bool per_step = false;

  bool operator==(const CalibrationMethod&) const = default;
};

class Calibration {
 public:
  Calibration() = default;
  // What finish() is to turn into scales.
  explicit Calibration(Observations observed) : observations(std::move(observed)) {}

  // Other versions of the format are refused. Whoever uses the scales calls check_fits().
  static Calibration load(const std::filesystem::path& path);
  void save(const std::filesystem::path& path) const;  // atomically

  // Step -1: a value outside the repeated stage.
  void observe(std::string_view site, int step, std::span<const float> values,
               NumberFormat format = NumberFormat::kE4M3) {
    observations.add(site, step, values, format);
  }
  // Turns the observations into scales: per site, or per site and step. May be called again.
  void finish(RangeEstimator estimator, double fraction, bool per_step);

  // real = quantised * scale. One value, or one per step. A part of a value, 'x[6:11]', that was
  // not measured by itself has the scales of the whole, 'x': where other readers of x stay in
  // float, the part is quantised alone. Unknown site: Error naming it and the nearest known ones.
  const std::vector<float>& scales(std::string_view site) const { return at(site).scales; }
  // What the scales are for. kNone: set by hand, for whatever has them.
  NumberFormat format(std::string_view site) const { return at(site).format; }
  void set_scales(std::string site, std::vector<float> scales,
                  NumberFormat format = NumberFormat::kNone);
  std::vector<std::string> sites() const;

  // Error, with both values, unless it was measured on these weights and this plan. `name` is for
  // the text.
  void check_fits(std::string_view name, std::string_view weights, std::string_view plan) const {
    observations.check_fits(name, weights, plan);
  }

  Observations observations;  // of a file: what they were of and how many, without the values
  CalibrationMethod method;
  std::string origin;  // which observations, for people

 private:
  struct Site {
    NumberFormat format = NumberFormat::kNone;
    std::vector<float> scales;
  };

  const Site& at(std::string_view site) const;

  std::map<std::string, Site, std::less<>> sites_;
};

}  // namespace flashrt
