// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "quant/observations.hpp"

#include <cmath>
#include <limits>
#include <utility>

#include "base/atomic_file.hpp"
#include "base/check.hpp"
#include "base/json.hpp"
#include "quant/equalisation_json.hpp"

namespace flashrt {
namespace {

constexpr size_t kMaxFileBytes = 512u << 20;
constexpr std::string_view kFormat = "flashrt_observations";
constexpr int kVersion = 1;
constexpr size_t kNames = 3;  // of first samples
constexpr int kMaxSteps = 1 << 20;

std::string at_step(int step) { return step >= 0 ? text(", step ", step) : ""; }

nlohmann::ordered_json to_json(int step, const Histogram& histogram) {
  Histogram::Content content = histogram.content();
  return {{"step", step},
          {"amax", content.amax},
          {"below", content.below},
          {"first", content.first},
          {"counts", std::move(content.counts)}};
}

int64_t count_of(const nlohmann::json& json, const std::string& where) {
  FLASHRT_CHECK(json.is_number_unsigned() && json.get<uint64_t>() <= INT64_MAX, where,
                "a count is ", json.dump(), ", expected an integer that is not negative");
  return json.get<int64_t>();
}

Histogram histogram_of(const JsonFields& fields, const std::string& where) {
  fields.allow_only({"step", "amax", "below", "first", "counts"});
  Histogram::Content content{
      .amax = static_cast<float>(fields.number("amax", 0, std::numeric_limits<float>::max())),
      .below = count_of(fields.value("below"), where),
      .first = fields.integer("first", 0, 1 << 15)};
  for (const nlohmann::json& count : fields.array("counts"))
    content.counts.push_back(count_of(count, where));
  try {
    return Histogram(content);
  } catch (const Error& fault) {
    throw Error(where + fault.what());
  }
}

Observations::Site site_of(const JsonFields& fields, const std::string& where) {
  fields.allow_only({"format", "steps"});
  const auto format = format_named(fields.string("format"));
  if (!format) fields.fail("format", "the name of a number format");
  Observations::Site site{.format = *format};
  for (const nlohmann::json& item : fields.array("steps")) {
    const JsonFields histogram(item, where + "steps: ");
    const int step = histogram.integer("step", -1, kMaxSteps);
    const bool is_new = site.steps.emplace(step, histogram_of(histogram, where)).second;
    FLASHRT_CHECK(is_new, where, "step ", step, " occurs twice");
  }
  if (site.steps.empty()) fields.fail("steps", "at least one histogram");
  return site;
}

}  // namespace

void Observations::announce(std::string name, std::string digest) {
  next_sample_ = std::move(name);
  next_digest_ = std::move(digest);
}

void Observations::begin(const std::string& weights, const std::string& plan,
                         const Equalisation& equalised) {
  if (samples > 0) check_fits("in progress", weights, plan);
  FLASHRT_CHECK(samples == 0 || equalisation == equalised, "calibration: the observations so far ",
                "are of a model that is ", describe(equalisation), ", this one is ",
                describe(equalised), "; observe one model");
  equalisation = equalised;
  weights_digest = weights;
  plan_digest = plan;
  is_incomplete_ = true;
}

void Observations::end(int step_count) {
  is_incomplete_ = false;
  ++samples;
  steps.insert(step_count);
  samples_digest = std::exchange(next_digest_, {});
  last_sample = std::exchange(next_sample_, {});
  if (first_samples.size() < kNames) first_samples.push_back(last_sample);
}

void Observations::add(std::string_view site, int step, std::span<const float> values,
                       NumberFormat format) {
  for (size_t index = 0; index < values.size(); ++index) {
    FLASHRT_CHECK(std::isfinite(values[index]), "calibration: site ", site, at_step(step),
                  ": element ", index, " is ", values[index], ", expected finite values");
  }
  auto found = sites_.find(site);
  if (found == sites_.end()) found = sites_.emplace(std::string(site), Site{format, {}}).first;
  FLASHRT_CHECK(found->second.format == format, "calibration: site ", site, " was observed for ",
                found->second.format, ", this recipe wants ", format, " there");
  found->second.steps[step].add(values);
}

void Observations::check_fits(std::string_view name, std::string_view weights,
                              std::string_view plan) const {
  FLASHRT_CHECK(weights_digest == weights, "calibration ", name, " was measured on weights ",
                weights_digest, ", these are ", weights, "; calibrate this checkpoint");
  FLASHRT_CHECK(plan_digest == plan, "calibration ", name, " was measured on plan ", plan_digest,
                ", this is ", plan,
                ": another version of the program computes these weights in other steps; "
                "calibrate again");
}

size_t Observations::bytes() const {
  size_t histograms = 0;
  for (const auto& [unused, site] : sites_) histograms += site.steps.size();
  return histograms * Histogram::bytes();
}

void Observations::save(const std::filesystem::path& path) const {
  FLASHRT_CHECK(!is_incomplete_, "observations ", path.string(),
                ": the last one failed halfway, so its part of the values cannot be told from the "
                "others; nothing is written");
  nlohmann::ordered_json json{{"format", kFormat},
                              {"version", kVersion},
                              {"weights_digest", weights_digest},
                              {"plan_digest", plan_digest},
                              {"recipe", recipe},
                              {"samples", samples},
                              {"samples_digest", samples_digest},
                              {"first_samples", first_samples},
                              {"last_sample", last_sample},
                              {"steps", steps},
                              {"sites", nlohmann::ordered_json::object()}};
  write_equalisation(json, equalisation);
  for (const auto& [name, site] : sites_) {
    nlohmann::ordered_json histograms = nlohmann::ordered_json::array();
    for (const auto& [step, histogram] : site.steps) histograms.push_back(to_json(step, histogram));
    json["sites"][name] = {{"format", name_of(site.format)}, {"steps", std::move(histograms)}};
  }
  write_file_atomically(path, json.dump() + "\n");
}

Observations Observations::load(const std::filesystem::path& path) {
  const std::string where = path.string();
  const nlohmann::json json = parse_json(read_text_file(path, kMaxFileBytes), where);
  const JsonFields fields(json, where + ": ");
  if (!fields.has("format") || fields.string("format") != kFormat)
    fields.fail("format", std::string(kFormat));
  if (fields.integer("version", 0, 1 << 30) != kVersion)
    fields.fail("version", text(kVersion, "; observe again with this version of the program"));
  fields.allow_only({"format", "version", "weights_digest", "plan_digest", "recipe", "samples",
                     "samples_digest", "first_samples", "last_sample", "steps", "sites",
                     kEqualisationKey});
  Observations observations;
  observations.weights_digest = fields.string("weights_digest");
  observations.plan_digest = fields.string("plan_digest");
  observations.equalisation = read_equalisation(fields, where);
  observations.recipe = fields.string("recipe");
  observations.samples = fields.integer("samples", 1, std::numeric_limits<int>::max());
  observations.samples_digest = fields.string("samples_digest");
  for (const nlohmann::json& name : fields.array("first_samples")) {
    FLASHRT_CHECK(name.is_string(), where, ": first_samples: ", name.dump(), " is no name");
    observations.first_samples.push_back(name.get<std::string>());
  }
  observations.last_sample = fields.string("last_sample");
  for (const nlohmann::json& count : fields.array("steps")) {
    FLASHRT_CHECK(count.is_number_unsigned() && count.get<uint64_t>() <= kMaxSteps, where,
                  ": steps: ", count.dump(), " is no number of denoise steps");
    observations.steps.insert(count.get<int>());
  }
  fields.object("sites");
  for (const auto& [name, site] : fields.value("sites").items()) {
    const std::string at = where + ": site " + name + ": ";
    observations.sites_.emplace(name, site_of(JsonFields(site, at), at));
  }
  return observations;
}

}  // namespace flashrt
