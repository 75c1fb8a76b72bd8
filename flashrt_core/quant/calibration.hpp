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
#include <vector>

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
  // Unknown format versions are refused. Whoever uses the scales calls check_fits().
  static Calibration load(const std::filesystem::path& path);
  void save(const std::filesystem::path& path) const;  // atomically

  // Before the values of an observation: what they are of. Error if others were of something else.
  void begin_observation(const std::string& weights, const std::string& plan);
  // Step -1: a value outside the repeated stage.
  void observe(std::string_view site, int step, std::span<const float> values);
  // Turns what was observed into scales: per site, or per site and step.
  void finish(RangeEstimator estimator, double fraction, bool per_step);

  // real = quantised * scale. One value, or one per step. Unknown site: Error naming it and the
  // nearest known ones.
  const std::vector<float>& scales(std::string_view site) const;
  void set_scales(std::string site, std::vector<float> scales);
  std::vector<std::string> sites() const;

  // Error, with both values, unless it was measured on these weights and this plan. `name` is for
  // the text.
  void check_fits(std::string_view name, std::string_view weights, std::string_view plan) const;

  std::string weights_digest;  // of the checkpoint
  std::string plan_digest;     // quant/plan_digest.hpp
  int samples = 0;             // observations
  CalibrationMethod method;
  std::string origin;  // which observations, for people

 private:
  std::map<std::string, std::vector<float>, std::less<>> scales_;
  std::map<std::string, std::map<int, Histogram>, std::less<>> observed_;
};

}  // namespace flashrt
