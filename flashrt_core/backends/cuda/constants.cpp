// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "backends/cuda/constants.hpp"

#include <algorithm>

#include "base/rope.hpp"

namespace flashrt::cuda {
namespace {

// The largest value that a scalar can have: it counts rows of something.
int64_t bound_of(const Plan& plan, Value scalar) {
  int64_t bound = 0;
  for (const ValueInfo& info : plan.values) {
    if (scalar && info.rows.length == scalar)
      bound = std::max(bound, info.rows.capacity - info.rows.base);
  }
  return bound;
}

}  // namespace

Constants::Constants(const Plan& plan, const CudaWeights& weights) {
  std::map<std::pair<double, int>, int64_t> needed;
  for (const Call& call : plan.calls) {
    if (const auto* op = std::get_if<QkvRope>(&call.op); op && op->rope_base > 0) {
      int64_t& positions = needed[{op->rope_base, op->head_dim}];
      positions = std::max(positions, op->position_start + bound_of(plan, op->position) +
                                          plan[op->qkv].shape.rows());
    }
    if (const auto* op = std::get_if<PatchEmbed>(&call.op); op && !op->position.empty()) {
      const WeightView one = weights.get(plan.weight(op->position));
      const int64_t images = plan[op->images].shape.rows();
      const size_t bytes = one.rows * one.stride * size_of(one.type);
      Repeated& repeated = positions_[op->position];
      if (repeated.memory.size() >= images * bytes) continue;
      repeated.memory = DeviceBuffer(images * bytes);
      for (int64_t image = 0; image < images; ++image) {
        check(cudaMemcpy(repeated.memory.data() + image * bytes, one.data, bytes,
                         cudaMemcpyDeviceToDevice),
              "copying a position embedding");
      }
      repeated.matrix = {.data = repeated.memory.data(),
                         .type = one.type,
                         .rows = images * one.rows,
                         .width = one.width,
                         .stride = one.stride};
    }
  }
  for (const auto& [key, positions] : needed) {
    const RopeTable table(key.first, key.second, positions);
    const size_t bytes = table.table().size() * sizeof(float);
    const size_t frequency_bytes = table.inverse_frequencies().size() * sizeof(float);
    DeviceBuffer memory(bytes + frequency_bytes);
    check(cudaMemcpy(memory.data(), table.table().data(), bytes, cudaMemcpyHostToDevice),
          "copying a RoPE table");
    check(cudaMemcpy(memory.data() + bytes, table.inverse_frequencies().data(), frequency_bytes,
                     cudaMemcpyHostToDevice),
          "copying RoPE frequencies");
    rope_tables_.emplace(key, Table{std::move(memory), static_cast<int>(positions)});
  }
  // These copies may still be under way, and the streams of programs do not wait for theirs.
  check(cudaStreamSynchronize(cudaStreamLegacy), "copying constants");
}

RopeTableView Constants::rope_table(double base, int head_dim) const {
  if (base == 0) return {};
  const Table& found = rope_tables_.at({base, head_dim});
  const auto* table = found.memory.as<const float>();
  return {.table = table,
          .inverse_frequencies = table + int64_t{found.positions} * head_dim,
          .positions = found.positions};
}

Matrix Constants::positions(const PatchEmbed& op) const {
  return positions_.at(op.position).matrix;
}

size_t Constants::bytes() const {
  size_t bytes = 0;
  for (const auto& [key, table] : rope_tables_) bytes += table.memory.size();
  for (const auto& [name, repeated] : positions_) bytes += repeated.memory.size();
  return bytes;
}

}  // namespace flashrt::cuda
