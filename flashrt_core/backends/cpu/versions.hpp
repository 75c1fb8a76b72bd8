// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// FLASHRT_VERSIONS: one version of a function per x86-64 level, chosen by the loader. Elsewhere the
// baseline has vectors already.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define FLASHRT_VERSIONS \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FLASHRT_VERSIONS
#endif
