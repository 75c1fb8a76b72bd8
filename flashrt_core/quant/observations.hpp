// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Observations: what the values at calibration sites were, over any number of inferences, in memory
// that does not grow with their number. A file of them goes on later or is calibrated from again.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/number_format.hpp"
#include "quant/equalisation.hpp"
#include "quant/histogram.hpp"

namespace flashrt {

class Observations {
 public:
  struct Site {
    NumberFormat format = NumberFormat::kNone;  // that the recipe wants there
    std::map<int, Histogram> steps;             // -1: outside the repeated stage
  };

  // Error if it is not a file of observations; of another version, too.
  static Observations load(const std::filesystem::path& path);
  // Atomically. Error while an observation is incomplete, because it failed halfway.
  void save(const std::filesystem::path& path) const;

  // What the next observation is: a name for people, and a digest over it and all before it.
  void announce(std::string name, std::string digest);
  // Around the values of one observation: what they are of, and in how many denoise steps. Error if
  // those before were of something else.
  void begin(const std::string& weights, const std::string& plan,
             const Equalisation& equalised = {});
  void end(int steps);
  // Step -1: a value outside the repeated stage. Error naming what is not finite.
  void add(std::string_view site, int step, std::span<const float> values, NumberFormat format);

  // Error, with both values, unless they are of these weights and this plan. `name` is for the
  // text.
  void check_fits(std::string_view name, std::string_view weights, std::string_view plan) const;
  const std::map<std::string, Site, std::less<>>& sites() const { return sites_; }
  // Of all histograms.
  size_t bytes() const;

  std::string weights_digest;  // of the checkpoint
  std::string plan_digest;     // quant/plan_digest.hpp
  Equalisation equalisation;   // of the model that was observed
  std::string recipe;          // that names the sites, as whoever observes writes it
  int samples = 0;             // observations that are complete
  std::string samples_digest;  // over all of them in order; empty where none was announced
  std::vector<std::string> first_samples;  // names of the first few
  std::string last_sample;
  std::set<int> steps;  // numbers of denoise steps

 private:
  std::map<std::string, Site, std::less<>> sites_;
  std::string next_sample_, next_digest_;
  bool is_incomplete_ = false;
};

}  // namespace flashrt
