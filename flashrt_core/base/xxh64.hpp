// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// XXH64 (seed 0), after the specification of xxHash: a fast 64-bit digest that tells accidents
// apart, not forgeries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace flashrt {

uint64_t xxh64(std::span<const std::byte> data);

}  // namespace flashrt
