// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "base/nearest.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace flashrt {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);  // distances of a[:i] to every b[:j]
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::string nearest(std::string_view name, const std::vector<std::string>& known) {
  constexpr size_t kShown = 3;
  std::vector<std::pair<size_t, std::string>> ranked;
  ranked.reserve(known.size());
  for (const std::string& candidate : known)
    ranked.emplace_back(edit_distance(name, candidate), candidate);
  const size_t shown = std::min(kShown, ranked.size());
  std::partial_sort(ranked.begin(), ranked.begin() + static_cast<std::ptrdiff_t>(shown),
                    ranked.end());
  std::string list;
  for (size_t i = 0; i < shown; ++i) list += (i ? ", '" : "'") + ranked[i].second + "'";
  return list.empty() ? "(none)" : list;
}

}  // namespace flashrt
