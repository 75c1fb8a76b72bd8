// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Where the channels of an activation can be scaled without a change of what the plan computes:
// what a norm writes and only linears read.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace flashrt {

// Rows of the linear that makes the styles of an adaptive norm; as many as the norm has channels.
struct StyleRows {
  std::string weight, bias;
  int64_t scale = 0, shift = 0;  // first row of each

  bool operator==(const StyleRows&) const = default;
};

// Norms and linears that take the same factor per channel, because a linear reads what a norm
// writes, or because two of them share a weight: towers, and stages that run one layer on other
// rows.
struct EqualisationSite {
  std::string name;   // the weight of its first linear; the same whatever a plan is built for
  int64_t width = 0;  // channels
  std::vector<int> norms, linears;        // calls, ascending
  std::vector<std::string> weights;       // of the linears: their columns are the channels
  std::vector<std::string> norm_vectors;  // weights and biases of the norms
  std::vector<StyleRows> styles;          // of the adaptive norms
};

struct EqualisationSites {
  std::vector<EqualisationSite> sites;         // in the order of their first norm
  std::map<std::string, std::string> refused;  // every other add_norm, and why it has no site
};

// Of a plan without types. A norm has a site if
//   - its result is no part of another value, and all that reads it are linears that take whole
//   rows
//   - it has scale and shift, or none of them; those are rows of a linear that only adds a bias and
//     is the only one with its weights, and nothing but norms of the site reads those rows
//   - everything else that reads one of its weights, or of the weights of its linears, is in the
//   site
EqualisationSites equalisation_sites(const Plan& plan);

// The norms, by call name, of those sites whose activation a linear reads in quantised form, each
// with the name of its site. `typed` is the same plan with types.
std::map<std::string, std::string> quantised_norms(const Plan& plan, const Plan& typed);

}  // namespace flashrt
