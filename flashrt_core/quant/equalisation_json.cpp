// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "quant/equalisation_json.hpp"

#include <algorithm>
#include <cmath>

#include "base/check.hpp"

namespace flashrt {

void write_equalisation(nlohmann::ordered_json& json, const Equalisation& equalisation) {
  if (equalisation.empty()) return;
  json[kEqualisationKey] = {{"strength", equalisation.strength}, {"octaves", equalisation.octaves}};
}

Equalisation read_equalisation(const JsonFields& fields, const std::string& where) {
  if (!fields.has(kEqualisationKey)) return {};
  const JsonFields equalised = fields.object(kEqualisationKey);
  equalised.allow_only({"strength", "octaves"});
  Equalisation equalisation{.strength = equalised.number("strength", 0, 1), .octaves = {}};
  equalised.object("octaves");
  for (const auto& [site, octaves] : equalised.value("octaves").items()) {
    const bool is_list =
        octaves.is_array() && std::all_of(octaves.begin(), octaves.end(), [](const auto& octave) {
          return octave.is_number_integer() &&
                 std::abs(octave.template get<double>()) <= kMostOctaves;
        });
    FLASHRT_CHECK(is_list, where, ": equalisation: site ", site,
                  ", expected a list of integers from -", kMostOctaves, " to ", kMostOctaves);
    equalisation.set(site, octaves.template get<std::vector<int>>());
  }
  if (equalisation.empty()) equalised.fail("octaves", "at least one site");
  return equalisation;
}

}  // namespace flashrt
