// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// One pass over the bytes of a checkpoint: are all values finite, and what is their digest.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/parallel.hpp"
#include "checkpoint/tensor_store.hpp"

namespace flashrt {

// The types weights may have: F32, BF16, F16.
bool is_float_dtype(std::string_view dtype);

// Digest of these tensors, by name. It is a hash tree of XXH64, 16 hexadecimal digits:
//   piece  = hash of 4 MiB of a tensor's bytes (the last piece may be shorter)
//   tensor = hash of name, 0, dtype, 0, rank, extents, pieces (numbers as 8 little-endian bytes)
//   digest = hash of the tensors in order of their names
// It tells files apart that were mixed up or damaged; it is no protection against forgery.
std::string digest_of(const std::map<std::string, LocatedTensor>& tensors, ThreadPool& threads);
// The same; throws an Error that names a tensor and the index of a value that is not finite.
std::string digest_of_finite(const std::map<std::string, LocatedTensor>& tensors,
                             ThreadPool& threads);

}  // namespace flashrt
