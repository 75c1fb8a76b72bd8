// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Equalisation in the JSON files of observations and calibrations.
#pragma once

#include <string>

#include "base/json.hpp"
#include "quant/equalisation.hpp"

namespace flashrt {

inline constexpr const char* kEqualisationKey = "equalisation";

// Nothing where nothing is equalised.
void write_equalisation(nlohmann::ordered_json& json, const Equalisation& equalisation);

// Empty where the file has none. `where` is for error texts.
Equalisation read_equalisation(const JsonFields& fields, const std::string& where);

}  // namespace flashrt
