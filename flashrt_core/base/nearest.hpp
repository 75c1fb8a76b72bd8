// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Suggestions for a misspelled name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace flashrt {

// Insertions, deletions and substitutions that turn one text into the other (Levenshtein).
size_t edit_distance(std::string_view a, std::string_view b);

// The known names nearest to this one, at most three, nearest first: "'prefix.3.qkv',
// 'prefix.4.qkv'".
// "(none)" if nothing is known.
std::string nearest(std::string_view name, const std::vector<std::string>& known);

}  // namespace flashrt
