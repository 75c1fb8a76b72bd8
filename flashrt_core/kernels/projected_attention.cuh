// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// projected_attention: attention of few rows, and the linear that its queries come from (and where
// they come from the same rows, its keys and values), in one kernel.
#pragma once

#include "kernels/attention.cuh"
#include "kernels/linear.cuh"

namespace flashrt::cuda {

struct ProjectedAttentionArgs {
  LinearArgs projection;    // y has no memory, only shape and type: q, or q|k|v side by side
  AttentionArgs attention;  // q has no memory, and with has_keys neither have k and v
  bool has_keys = false;    // k and v are columns of the projection
};

bool projected_attention_accepts(const ProjectedAttentionArgs& args, const DeviceInfo& device);
const char* projected_attention(const ProjectedAttentionArgs& args, const Launch& launch);

}  // namespace flashrt::cuda
