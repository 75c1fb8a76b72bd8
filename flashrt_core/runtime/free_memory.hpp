// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Whether a model fits into the memory that is free, before any of it is taken.
#pragma once

#include "backends/backend.hpp"

namespace flashrt {

// Error if the weights of the plan and the memory of a program for it are more than what is free;
// names both. What libraries and the driver take beside them is not known before, so a model that
// passes may still be refused by an allocation. `shared`: bytes of the weights that are there
// already.
void check_free_memory(const Backend& backend, const Plan& plan, bool keep_values,
                       size_t shared = 0);

}  // namespace flashrt
