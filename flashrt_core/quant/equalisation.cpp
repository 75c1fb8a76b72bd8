// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "quant/equalisation.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/check.hpp"
#include "base/nearest.hpp"
#include "quant/plan_digest.hpp"

namespace flashrt {
namespace {

using Factors = std::vector<float>;

// The norms of a site that have neither weight nor scale share this one.
std::string norm_weight_of(const EqualisationSite& site) { return site.name + ".equalising_norm"; }

bool needs_weight(const AddNorm& op) { return !op.scale && op.weight.empty(); }

bool needs_weight(const Plan& plan, const EqualisationSite& site) {
  return std::any_of(site.norms.begin(), site.norms.end(), [&](int call) {
    return needs_weight(std::get<AddNorm>(plan.calls[call].op));
  });
}

// Shows each site that is named, with its numbers.
template <class Number, class Visit>
void for_each_site(const Plan& plan, const std::map<std::string, std::vector<Number>>& numbers,
                   const Visit& visit) {
  if (numbers.empty()) return;
  const std::vector<EqualisationSite> sites = equalisation_sites(plan).sites;
  for (const auto& [name, channels] : numbers) {
    const auto site = std::find_if(sites.begin(), sites.end(),
                                   [&](const EqualisationSite& s) { return s.name == name; });
    if (site == sites.end()) {
      std::vector<std::string> known;
      for (const EqualisationSite& s : sites) known.push_back(s.name);
      throw Error(text("equalisation: plan ", plan.model, " has no site '", name,
                       "'; nearest: ", nearest(name, known)));
    }
    FLASHRT_CHECK(static_cast<int64_t>(channels.size()) == site->width, "equalisation: site ", name,
                  " has ", site->width, " channels, ", channels.size(), " are given");
    visit(*site, channels);
  }
}

Factors factors_of(const std::vector<int>& octaves) {
  Factors factors;
  for (const int octave : octaves) factors.push_back(std::ldexp(1.0f, octave));
  return factors;
}

std::vector<float> column_maxima(const HostTensor& tensor) {
  const int64_t width = tensor.shape.width();
  std::vector<float> maxima(static_cast<size_t>(width));
  for (int64_t row = 0; row < tensor.shape.rows(); ++row) {
    const float* values = tensor.data.data() + row * width;
    for (int64_t i = 0; i < width; ++i) maxima[i] = std::max(maxima[i], std::abs(values[i]));
  }
  return maxima;
}

// ---- weights

void multiply_columns(HostTensor& tensor, const Factors& factors) {
  const int64_t width = tensor.shape.width();
  for (int64_t row = 0; row < tensor.shape.rows(); ++row) {
    float* values = tensor.data.data() + row * width;
    for (int64_t i = 0; i < width; ++i) values[i] *= factors[i];
  }
}

// From this row on, as many as there are factors. A vector has one element per row.
void divide_rows(HostTensor& tensor, int64_t begin, const Factors& factors) {
  const int64_t width = tensor.shape.rank() == 1 ? 1 : tensor.shape.width();
  for (size_t row = 0; row < factors.size(); ++row) {
    float* values = tensor.data.data() + (begin + static_cast<int64_t>(row)) * width;
    for (int64_t i = 0; i < width; ++i) values[i] /= factors[row];
  }
}

// 1 + value is divided. In double: the difference of two numbers near 1 is rounded once.
void divide_offsets(HostTensor& tensor, int64_t begin, const Factors& factors) {
  for (size_t i = 0; i < factors.size(); ++i) {
    float& value = tensor.data[static_cast<size_t>(begin) + i];
    value = static_cast<float>((1.0 + double{value}) / double{factors[i]} - 1.0);
  }
}

class EqualisedWeights : public Weights::Source {
 public:
  EqualisedWeights(Weights weights, const Plan& plan, const Equalisation& equalisation)
      : weights_(std::move(weights)) {
    for_each_site(
        plan, equalisation.octaves, [&](const EqualisationSite& site, const auto& octaves) {
          const Factors factors = factors_of(octaves);
          for (const std::string& weight : site.weights)
            change(weight, [=](HostTensor& tensor) { multiply_columns(tensor, factors); });
          for (const std::string& vector : site.norm_vectors)
            change(vector, [=](HostTensor& tensor) { divide_rows(tensor, 0, factors); });
          for (const StyleRows& style : site.styles) {
            change(style.weight, [=](HostTensor& tensor) {
              divide_rows(tensor, style.scale, factors);
              divide_rows(tensor, style.shift, factors);
            });
            change(style.bias, [=](HostTensor& tensor) {
              divide_offsets(tensor, style.scale, factors);
              divide_rows(tensor, style.shift, factors);
            });
          }
          if (!needs_weight(plan, site)) return;
          HostTensor ones{{site.width}, std::vector<float>(factors.size(), 1.0f)};
          divide_rows(ones, 0, factors);
          norms_.emplace(norm_weight_of(site), std::move(ones));
        });
  }

  HostTensor load(std::string_view name) const override {
    if (const auto norm = norms_.find(name); norm != norms_.end()) return norm->second;
    HostTensor tensor = weights_.load(name);
    if (const auto changes = changes_.find(name); changes != changes_.end()) {
      for (const Change& apply : changes->second) apply(tensor);
    }
    return tensor;
  }

  std::optional<RandomTensor> random_tensor(std::string_view name) const override {
    if (norms_.contains(name) || changes_.contains(name)) return std::nullopt;
    return weights_.random_tensor(name);
  }

  const std::string& digest() const override { return weights_.digest(); }
  std::vector<std::filesystem::path> files() const override { return weights_.files(); }

 private:
  using Change = std::function<void(HostTensor&)>;

  void change(const std::string& weight, Change apply) {
    changes_[weight].push_back(std::move(apply));
  }

  Weights weights_;
  std::map<std::string, std::vector<Change>, std::less<>> changes_;
  std::map<std::string, HostTensor, std::less<>> norms_;  // that the weights do not have
};

}  // namespace

void Equalisation::set(const std::string& site, std::vector<int> channels) {
  for (size_t channel = 0; channel < channels.size(); ++channel) {
    FLASHRT_CHECK(std::abs(channels[channel]) <= kMostOctaves, "equalisation: site ", site,
                  ": octave ", channels[channel], " of channel ", channel, ", expected -",
                  kMostOctaves, " to ", kMostOctaves);
  }
  octaves[site] = std::move(channels);
}

std::string describe(const Equalisation& equalisation) {
  return equalisation.empty() ? "not equalised"
                              : text("equalised with strength ", equalisation.strength);
}

void ChannelMaxima::begin_observation(const std::string& weights, const std::string& plan) {
  FLASHRT_CHECK(samples == 0 || (weights_digest == weights && plan_digest == plan),
                "equalisation: observations so far are of weights ", weights_digest, " and plan ",
                plan_digest, ", this one is of ", weights, " and ", plan);
  weights_digest = weights;
  plan_digest = plan;
  ++samples;
}

void ChannelMaxima::observe(const std::string& site, int64_t width, std::span<const float> values) {
  std::vector<float>& maxima = maxima_.try_emplace(site, static_cast<size_t>(width)).first->second;
  FLASHRT_CHECK(static_cast<int64_t>(maxima.size()) == width &&
                    static_cast<int64_t>(values.size()) % width == 0,
                "equalisation: site ", site, ": ", values.size(), " values in rows of ", width,
                ", it has ", maxima.size(), " channels");
  for (size_t i = 0; i < values.size(); ++i) {
    FLASHRT_CHECK(std::isfinite(values[i]), "equalisation: site ", site, ": element ", i, " is ",
                  values[i], ", expected finite values");
    float& maximum = maxima[i % static_cast<size_t>(width)];
    maximum = std::max(maximum, std::abs(values[i]));
  }
}

std::vector<int> equalising_octaves(std::span<const float> activation,
                                    std::span<const float> weight, double strength) {
  FLASHRT_CHECK(activation.size() == weight.size(), "equalisation: maxima of ", activation.size(),
                " channels of an activation, and of ", weight.size(), " columns of its weights");
  const auto is_live = [&](size_t i) { return activation[i] > 0 && weight[i] > 0; };
  std::vector<double> exact(activation.size());
  double sum = 0;
  int live = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    if (!is_live(i)) continue;
    exact[i] =
        strength * std::log2(double{activation[i]}) - (1 - strength) * std::log2(double{weight[i]});
    sum += exact[i];
    ++live;
  }
  std::vector<int> octaves(exact.size());
  for (size_t i = 0; i < exact.size(); ++i) {
    if (!is_live(i)) continue;
    const double octave = std::round(exact[i] - sum / live);
    octaves[i] = static_cast<int>(std::clamp<double>(octave, -kMostOctaves, kMostOctaves));
  }
  return octaves;
}

Equalisation equalise(const Plan& plan, const Weights& weights, const ChannelMaxima& maxima,
                      double strength) {
  FLASHRT_CHECK(0 < strength && strength <= 1, "equalisation: strength ", strength,
                ", expected above 0 and at most 1");
  FLASHRT_CHECK(!maxima.sites().empty(),
                "equalisation: nothing was observed: no inference was run, ",
                "or the recipe quantises no activation that a norm writes");
  FLASHRT_CHECK(maxima.weights_digest == weights.digest(),
                "equalisation: channels were observed of weights ", maxima.weights_digest,
                ", these are ", weights.digest());
  const std::string digest = plan_digest(plan);
  FLASHRT_CHECK(maxima.plan_digest == digest, "equalisation: channels were observed of plan ",
                maxima.plan_digest, ", this is ", digest);
  Equalisation equalisation{.strength = strength, .octaves = {}};
  for_each_site(plan, maxima.sites(), [&](const EqualisationSite& site, const auto& activation) {
    std::vector<float> largest(static_cast<size_t>(site.width));
    for (const std::string& weight : site.weights) {
      const std::vector<float> columns = column_maxima(weights.load(weight));
      std::transform(largest.begin(), largest.end(), columns.begin(), largest.begin(),
                     [](float a, float b) { return std::max(a, b); });
    }
    equalisation.octaves[site.name] = equalising_octaves(activation, largest, strength);
  });
  return equalisation;
}

Plan equalised(Plan plan, const Equalisation& equalisation) {
  std::map<int, std::string> weights;  // norm -> the weight it gets
  for_each_site(plan, equalisation.octaves, [&](const EqualisationSite& site, const auto&) {
    for (const int norm : site.norms) {
      if (needs_weight(std::get<AddNorm>(plan.calls[norm].op)))
        weights.emplace(norm, norm_weight_of(site));
    }
  });
  for (const auto& [norm, weight] : weights) {
    auto& op = std::get<AddNorm>(plan.calls[norm].op);
    op.weight = weight;
    const bool is_listed =
        std::any_of(plan.weights.begin(), plan.weights.end(),
                    [&](const WeightInfo& info) { return info.name == op.weight; });
    if (!is_listed) plan.weights.push_back({.name = weight, .shape = {plan[op.y].shape.width()}});
  }
  return plan;
}

Weights equalised(Weights weights, const Plan& plan, const Equalisation& equalisation) {
  if (equalisation.empty()) return weights;
  return Weights(std::make_unique<EqualisedWeights>(std::move(weights), plan, equalisation));
}

}  // namespace flashrt
