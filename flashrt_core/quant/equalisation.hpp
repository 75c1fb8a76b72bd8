// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Equalisation: moves channels that are far larger than the others from an activation into the
// weights that read it, through the norm that writes it (SmoothQuant, Xiao et al. 2023, arXiv
// 2211.10438). A plan computes the same with and without it: bit for bit behind norms that do not
// adapt, up to rounding in float32 behind those that do.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/weights.hpp"
#include "quant/equalisation_sites.hpp"

namespace flashrt {

// Largest magnitude per channel of what norms write: one float per channel and site, however many
// observations.
class ChannelMaxima {
 public:
  // Before the values of an observation: what they are of. Error if others were of something else.
  void begin_observation(const std::string& weights, const std::string& plan);
  // Rows of `width` finite values each.
  void observe(const std::string& site, int64_t width, std::span<const float> values);

  const std::map<std::string, std::vector<float>>& sites() const { return maxima_; }

  std::string weights_digest, plan_digest;
  int samples = 0;  // observations

 private:
  std::map<std::string, std::vector<float>> maxima_;
};

// Factors are powers of two, 2^octave: the activation is divided by them, the columns of the
// weights are multiplied by them, and no bit of a float32, bfloat16 or float16 is lost on the way.
struct Equalisation {
  double strength = 0;
  std::map<std::string, std::vector<int>> octaves;  // by site and channel; empty: not equalised

  // Error naming the channel if an octave is out of bounds.
  void set(const std::string& site, std::vector<int> channels);
  bool empty() const { return octaves.empty(); }
  bool operator==(const Equalisation&) const = default;
};

// "not equalised", or with what strength: for error texts.
std::string describe(const Equalisation& equalisation);

// Octaves are within +-this, so that 1 + scale of an adaptive norm keeps twelve bits (see below).
inline constexpr int kMostOctaves = 12;

// activation^strength / weight^(1 - strength), over the geometric mean of that, rounded to an
// octave: one per channel. Strength 1 makes all channels of the activation about equally large,
// towards 0 those of the weights. Channels whose activation or weight is always 0 have nothing to
// move: they stay as they are, and they do not count in the mean.
std::vector<int> equalising_octaves(std::span<const float> activation,
                                    std::span<const float> weight, double strength);

// Factors of the sites that were observed. Strength above 0 and at most 1. The largest magnitudes
// of the weights are over all linears of a site.
Equalisation equalise(const Plan& plan, const Weights& weights, const ChannelMaxima& maxima,
                      double strength);

// The plan without types, with a weight for those norms of equalised sites that have none: theirs
// is folded into the linears behind them, or they are plain. Error if the plan lacks a site, or a
// site has other channels.
Plan equalised(Plan plan, const Equalisation& equalisation);

// The weights that the equalised plan reads; `plan` is the one before. Columns of linears are
// multiplied, weights and biases of norms divided. The scale and shift of an adaptive norm are made
// by a linear, whose rows are divided, so that 1 + scale becomes (1 + scale) / factor and shift
// becomes shift / factor; its bias becomes (1 + bias) / factor - 1 for the scale.
Weights equalised(Weights weights, const Plan& plan, const Equalisation& equalisation);

}  // namespace flashrt
