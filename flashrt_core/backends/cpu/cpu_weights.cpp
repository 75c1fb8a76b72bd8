// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "backends/cpu/cpu_weights.hpp"

#include "backends/cpu/vector_math.hpp"
#include "quant/pack.hpp"

namespace flashrt::cpu {
namespace {

// Codes as numbers, without their scales.
Weight decoded(const PackedTensor& packed, ThreadPool& pool) {
  Weight weight{.shape = packed.shape,
                .values = std::vector<float>(static_cast<size_t>(packed.shape.elements())),
                .scales = {packed.scales.begin(), packed.scales.end()}};
  constexpr int64_t kGrain = 1 << 16;
  pool.parallel_for(packed.shape.elements(), kGrain, [&](int64_t begin, int64_t end, int) {
    decode(packed.type, packed.data.data() + begin * static_cast<int64_t>(size_of(packed.type)),
           1.0f, weight.values.data() + begin, end - begin);
  });
  return weight;
}

}  // namespace

size_t CpuWeights::bytes_for(const Plan& plan) {
  size_t numbers = 0;
  for (const WeightInfo& info : plan.weights) {
    numbers += static_cast<size_t>(info.shape.elements());
    if (is_emulated(info)) continue;  // real values
    if (info.scale == WeightScale::kTensor) numbers += 1;
    if (info.scale == WeightScale::kChannel) numbers += static_cast<size_t>(info.shape.rows());
  }
  return numbers * sizeof(float);
}

CpuWeights::CpuWeights(const Plan& plan, const Load& load, ThreadPool& pool, const Packed& packed,
                       const CpuWeights* like) {
  const auto read = [&](const WeightInfo& info) {
    if (const auto tensor = packed ? packed(info.name) : std::nullopt) {
      check_packed(info, *tensor);
      return decoded(*tensor, pool);
    }
    return decoded(round_weight(info, load(info.name), pool).view(), pool);
  };
  for (const WeightInfo& info : plan.weights) {
    std::shared_ptr<const Held> held = like ? like->find(info) : nullptr;
    if (!held) held = std::make_shared<const Held>(Held{.info = info, .weight = read(info)});
    bytes_ += held->bytes();
    held_.emplace(info.name, std::move(held));
  }
}

std::shared_ptr<const CpuWeights::Held> CpuWeights::find(const WeightInfo& info) const {
  const auto found = held_.find(info.name);
  return found != held_.end() && found->second->info == info ? found->second : nullptr;
}

size_t CpuWeights::shared_bytes(const Plan& plan) const {
  size_t bytes = 0;
  for (const WeightInfo& info : plan.weights) {
    if (const auto held = find(info)) bytes += held->bytes();
  }
  return bytes;
}

const Weight& CpuWeights::get(const WeightInfo& info) const {
  const auto found = held_.find(info.name);
  FLASHRT_CHECK(found != held_.end(), "weight ", info.name,
                " was not uploaded: these weights are of another plan");
  const Held& held = *found->second;
  FLASHRT_CHECK(held.info == info, "weight ", info.name, " is held as ", type_name(held.info),
                " with ", describe(held.info.scale), ", the plan reads ", type_name(info), " with ",
                describe(info.scale));
  return held.weight;
}

}  // namespace flashrt::cpu
