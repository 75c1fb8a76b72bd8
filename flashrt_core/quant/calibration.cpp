// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "quant/calibration.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/atomic_file.hpp"
#include "base/check.hpp"
#include "base/json.hpp"
#include "base/nearest.hpp"

namespace flashrt {
namespace {

constexpr size_t kMaxFileBytes = 64u << 20;
constexpr std::string_view kFormat = "flashrt_calibration";
constexpr int kVersion = 2;

bool is_scale(float scale) { return std::isfinite(scale) && scale > 0; }

}  // namespace

void Calibration::begin_observation(const std::string& weights, const std::string& plan) {
  if (samples > 0) check_fits("in progress", weights, plan);
  weights_digest = weights;
  plan_digest = plan;
  ++samples;
}

void Calibration::check_fits(std::string_view name, std::string_view weights,
                             std::string_view plan) const {
  FLASHRT_CHECK(weights_digest == weights, "calibration ", name, " was measured on weights ",
                weights_digest, ", these are ", weights, "; calibrate this checkpoint");
  FLASHRT_CHECK(plan_digest == plan, "calibration ", name, " was measured on plan ", plan_digest,
                ", this is ", plan,
                ": another version of the program computes these weights in other steps; "
                "calibrate again");
}

void Calibration::observe(std::string_view site, int step, std::span<const float> values) {
  for (size_t index = 0; index < values.size(); ++index) {
    FLASHRT_CHECK(std::isfinite(values[index]), "calibration: site ", site,
                  step >= 0 ? text(", step ", step) : "", ": element ", index, " is ",
                  values[index], ", expected finite values");
  }
  auto steps = observed_.find(site);
  if (steps == observed_.end())
    steps = observed_.emplace(std::string(site), std::map<int, Histogram>()).first;
  steps->second[step].add(values);
}

void Calibration::finish(RangeEstimator estimator, double fraction, bool per_step) {
  FLASHRT_CHECK(!observed_.empty(), "calibration: nothing was observed; no inference was run, ",
                "or the recipe quantises no activation");
  const auto scale = [&](const Histogram& histogram) {
    return scale_for(
        NumberFormat::kE4M3,
        static_cast<float>(range_of(histogram, estimator, NumberFormat::kE4M3, fraction)));
  };
  for (const auto& [site, steps] : observed_) {
    std::vector<float> scales;
    if (per_step && steps.begin()->first >= 0) {
      for (const auto& [step, histogram] : steps) {
        FLASHRT_CHECK(step == static_cast<int>(scales.size()), "calibration: site ", site,
                      ": step ", scales.size(), " was not observed, step ", step, " was");
        scales.push_back(scale(histogram));
      }
    } else {
      Histogram all;
      for (const auto& [unused, histogram] : steps) all.merge(histogram);
      scales.push_back(scale(all));
    }
    scales_[site] = std::move(scales);
  }
  method = {.estimator = estimator,
            .fraction = estimator == RangeEstimator::kPercentile ? fraction : 1,
            .per_step = per_step};
}

const std::vector<float>& Calibration::scales(std::string_view site) const {
  if (const auto found = scales_.find(site); found != scales_.end()) return found->second;
  throw Error(text("calibration has no site '", site, "'; nearest: ", nearest(site, sites())));
}

void Calibration::set_scales(std::string site, std::vector<float> scales) {
  FLASHRT_CHECK(!scales.empty(), "calibration: site ", site, " has no scale");
  for (const float scale : scales) {
    FLASHRT_CHECK(is_scale(scale), "calibration: site ", site, ": scale ", scale,
                  ", expected finite and above 0");
  }
  scales_[std::move(site)] = std::move(scales);
}

std::vector<std::string> Calibration::sites() const {
  std::vector<std::string> names;
  for (const auto& [site, unused] : scales_) names.push_back(site);
  return names;
}

void Calibration::save(const std::filesystem::path& path) const {
  const nlohmann::ordered_json json{{"format", kFormat},
                                    {"version", kVersion},
                                    {"weights_digest", weights_digest},
                                    {"plan_digest", plan_digest},
                                    {"samples", samples},
                                    {"method",
                                     {{"estimator", name_of(method.estimator)},
                                      {"fraction", method.fraction},
                                      {"per_step", method.per_step}}},
                                    {"origin", origin},
                                    {"scales", scales_}};
  write_file_atomically(path, json.dump(1) + "\n");
}

Calibration Calibration::load(const std::filesystem::path& path) {
  const std::string where = path.string();
  const nlohmann::json json = parse_json(read_text_file(path, kMaxFileBytes), where);
  const JsonFields fields(json, where + ": ");
  if (!fields.has("format") || fields.string("format") != kFormat)
    fields.fail("format", std::string(kFormat));
  if (fields.integer("version", 0, 1 << 30) != kVersion) fields.fail("version", text(kVersion));
  fields.allow_only({"format", "version", "weights_digest", "plan_digest", "samples", "method",
                     "origin", "scales"});
  Calibration calibration;
  calibration.weights_digest = fields.string("weights_digest");
  calibration.plan_digest = fields.string("plan_digest");
  calibration.samples = fields.integer("samples", 1, std::numeric_limits<int>::max());
  const JsonFields method = fields.object("method");
  method.allow_only({"estimator", "fraction", "per_step"});
  const auto estimator = estimator_named(method.string("estimator"));
  if (!estimator) method.fail("estimator", estimator_names());
  calibration.method = {.estimator = *estimator,
                        .fraction = method.number("fraction", 0, 1),
                        .per_step = method.flag("per_step")};
  calibration.origin = fields.string("origin");
  fields.object("scales");
  for (const auto& [site, scales] : fields.value("scales").items()) {
    const bool is_list =
        scales.is_array() && std::all_of(scales.begin(), scales.end(),
                                         [](const auto& scale) { return scale.is_number(); });
    FLASHRT_CHECK(is_list, where, ": site ", site, ", expected a list of numbers");
    calibration.set_scales(site, scales.get<std::vector<float>>());
  }
  return calibration;
}

}  // namespace flashrt
