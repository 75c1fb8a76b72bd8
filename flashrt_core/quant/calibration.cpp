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
#include "quant/equalisation_json.hpp"

namespace flashrt {
namespace {

constexpr size_t kMaxFileBytes = 64u << 20;
constexpr std::string_view kFormat = "flashrt_calibration";
constexpr int kVersion = 3;

bool is_scale(float scale) { return std::isfinite(scale) && scale > 0; }

}  // namespace

void Calibration::finish(RangeEstimator estimator, double fraction, bool per_step) {
  FLASHRT_CHECK(!observations.sites().empty(), "calibration: nothing was observed; no inference ",
                "was run, or the recipe quantises no activation");
  FLASHRT_CHECK(!per_step || observations.steps.size() <= 1, "calibration: one scale per step was ",
                "asked for, but the observations have ", *observations.steps.begin(), " and ",
                *observations.steps.rbegin(), " denoise steps");
  std::map<std::string, Site, std::less<>> finished;
  for (const auto& [name, observed] : observations.sites()) {
    Site& site = finished[name];
    site.format = observed.format;
    const auto add = [&](const Histogram& histogram) {
      const double range = range_of(histogram, estimator, observed.format, fraction);
      site.scales.push_back(scale_for(observed.format, static_cast<float>(range)));
    };
    if (per_step && observed.steps.begin()->first >= 0) {
      for (const auto& [step, histogram] : observed.steps) {
        FLASHRT_CHECK(step == static_cast<int>(site.scales.size()), "calibration: site ", name,
                      ": step ", site.scales.size(), " was not observed, step ", step, " was");
        add(histogram);
      }
    } else {
      Histogram all;
      for (const auto& [unused, histogram] : observed.steps) all.merge(histogram);
      add(all);
    }
  }
  sites_ = std::move(finished);
  method = {.estimator = estimator,
            .fraction = estimator == RangeEstimator::kPercentile ? fraction : 1,
            .per_step = per_step};
}

const Calibration::Site& Calibration::at(std::string_view site) const {
  const std::string_view whole = site.substr(0, site.find('['));
  for (const std::string_view name : {site, whole}) {
    if (const auto found = sites_.find(name); found != sites_.end()) return found->second;
  }
  throw Error(text("calibration has no site '", site, "'; nearest: ", nearest(site, sites())));
}

void Calibration::set_scales(std::string site, std::vector<float> scales, NumberFormat format) {
  FLASHRT_CHECK(!scales.empty(), "calibration: site ", site, " has no scale");
  for (const float scale : scales) {
    FLASHRT_CHECK(is_scale(scale), "calibration: site ", site, ": scale ", scale,
                  ", expected finite and above 0");
  }
  sites_[std::move(site)] = {.format = format, .scales = std::move(scales)};
}

std::vector<std::string> Calibration::sites() const {
  std::vector<std::string> names;
  for (const auto& [site, unused] : sites_) names.push_back(site);
  return names;
}

void Calibration::save(const std::filesystem::path& path) const {
  nlohmann::ordered_json json{{"format", kFormat},
                              {"version", kVersion},
                              {"weights_digest", observations.weights_digest},
                              {"plan_digest", observations.plan_digest},
                              {"samples", observations.samples},
                              {"method",
                               {{"estimator", name_of(method.estimator)},
                                {"fraction", method.fraction},
                                {"per_step", method.per_step}}},
                              {"origin", origin},
                              {"sites", nlohmann::ordered_json::object()}};
  write_equalisation(json, observations.equalisation);
  for (const auto& [name, site] : sites_) {
    FLASHRT_CHECK(site.format != NumberFormat::kNone, "calibration: site ", name,
                  " has scales of no format");
    json["sites"][name] = {{"format", name_of(site.format)}, {"scales", site.scales}};
  }
  write_file_atomically(path, json.dump(1) + "\n");
}

Calibration Calibration::load(const std::filesystem::path& path) {
  const std::string where = path.string();
  const nlohmann::json json = parse_json(read_text_file(path, kMaxFileBytes), where);
  const JsonFields fields(json, where + ": ");
  if (!fields.has("format") || fields.string("format") != kFormat)
    fields.fail("format", std::string(kFormat));
  if (fields.integer("version", 0, 1 << 30) != kVersion) {
    fields.fail("version", text(kVersion, ", in which sites have number formats; `flashrt ",
                                "calibrate` makes one"));
  }
  fields.allow_only({"format", "version", "weights_digest", "plan_digest", "samples", "method",
                     "origin", "sites", kEqualisationKey});
  Calibration calibration;
  calibration.observations.weights_digest = fields.string("weights_digest");
  calibration.observations.plan_digest = fields.string("plan_digest");
  calibration.observations.equalisation = read_equalisation(fields, where);
  calibration.observations.samples = fields.integer("samples", 1, std::numeric_limits<int>::max());
  const JsonFields method = fields.object("method");
  method.allow_only({"estimator", "fraction", "per_step"});
  const auto estimator = estimator_named(method.string("estimator"));
  if (!estimator) method.fail("estimator", estimator_names());
  calibration.method = {.estimator = *estimator,
                        .fraction = method.number("fraction", 0, 1),
                        .per_step = method.flag("per_step")};
  calibration.origin = fields.string("origin");
  fields.object("sites");
  for (const auto& [name, value] : fields.value("sites").items()) {
    const JsonFields site(value, where + ": site " + name + ": ");
    site.allow_only({"format", "scales"});
    const auto format = format_named(site.string("format"));
    if (!format || !has_scale(*format)) site.fail("format", "a number format that has a scale");
    const nlohmann::json& scales = site.array("scales");
    const auto is_number = [](const nlohmann::json& scale) { return scale.is_number(); };
    if (!std::all_of(scales.begin(), scales.end(), is_number)) site.fail("scales", "numbers");
    calibration.set_scales(name, scales.get<std::vector<float>>(), *format);
  }
  return calibration;
}

}  // namespace flashrt
