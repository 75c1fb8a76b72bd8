// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Bounds of every dimension of a configuration: generous for any real model, small enough that no
// product of them overflows.
#pragma once

namespace flashrt {

inline constexpr int kMaxLayers = 512, kMaxWidth = 1 << 17, kMaxHeads = 1 << 10;
inline constexpr int kMaxImage = 1 << 13, kMaxVocabulary = 1 << 22, kMaxRows = 1 << 14;

}  // namespace flashrt
