// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// A recipe as the text of a recipe file: what Recipe::parse() reads.
#pragma once

#include <string>

#include "quant/recipe.hpp"

namespace flashrt {

// Rules of built-in recipes are written as optional: each of them is for several models.
std::string recipe_json(const Recipe& recipe);

}  // namespace flashrt
