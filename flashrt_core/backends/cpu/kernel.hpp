// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// The seam between the walker and the operations: a call is bound to memory once and becomes a
// Kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cpu/operands.hpp"
#include "base/parallel.hpp"
#include "base/rope.hpp"
#include "plan/plan.hpp"

namespace flashrt::cpu {

// A weight as the kernels read it: float32, holding what its type can hold.
struct Weight {
  Shape shape;
  std::vector<float> values;  // e4m3: the codes, without scale
  std::vector<float> scales;  // e4m3: one, or one per row. real = value * scale. Otherwise empty
};

// Runs one call in an iteration of its stage.
using Kernel = std::function<void(int iteration)>;

// Hands out scratch memory in order. Without a base it only counts.
class Carver {
 public:
  explicit Carver(std::byte* base = nullptr) : base_(base) {}
  float* floats(int64_t n) {
    constexpr size_t kCacheLine = 64;
    std::byte* begin = base_ ? base_ + bytes_ : nullptr;
    bytes_ += (n * sizeof(float) + kCacheLine - 1) / kCacheLine * kCacheLine;
    return reinterpret_cast<float*>(begin);
  }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* base_;
  size_t bytes_ = 0;
};

// What a call may refer to while it is bound. Weights, plan and pool outlive the kernel.
struct Binding {
  const Plan& plan;
  const Call& call;
  ThreadPool& pool;
  std::byte* workspace;
  std::function<Operand(Value)> operand;                  // unset value: an absent operand
  std::function<const Weight&(std::string_view)> weight;  // Error if it was not uploaded
  // Of at least so many positions; shared by the calls of a program.
  std::function<std::shared_ptr<const RopeTable>(double base, int head_dim, int64_t positions)>
      rope_table;

  // The values of an unquantised weight, or null for an empty name.
  const float* vector(const std::string& name) const {
    if (name.empty()) return nullptr;
    const Weight& found = weight(name);
    FLASHRT_CHECK(found.scales.empty(), call.name, ": weight ", name,
                  " is quantised; only those of a linear may be");
    return found.values.data();
  }
};

// Per operation, in the file of its name: scratch bytes, and the bound call.
#define FLASHRT_DECLARE_KERNEL(Op)                                     \
  size_t workspace_bytes(const Op& op, const Plan& plan, int threads); \
  Kernel bind(const Op& op, const Binding& binding)

FLASHRT_DECLARE_KERNEL(Resize);
FLASHRT_DECLARE_KERNEL(PatchEmbed);
FLASHRT_DECLARE_KERNEL(TokenEmbed);
FLASHRT_DECLARE_KERNEL(AddNorm);
FLASHRT_DECLARE_KERNEL(Linear);
FLASHRT_DECLARE_KERNEL(QkvRope);
FLASHRT_DECLARE_KERNEL(Attention);
FLASHRT_DECLARE_KERNEL(Glu);
FLASHRT_DECLARE_KERNEL(TimeEmbed);
FLASHRT_DECLARE_KERNEL(EulerStep);
FLASHRT_DECLARE_KERNEL(Quantize);

#undef FLASHRT_DECLARE_KERNEL

}  // namespace flashrt::cpu
