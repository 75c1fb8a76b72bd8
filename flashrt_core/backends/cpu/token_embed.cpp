// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// token_embed: y[i] = table[tokens[i]].

#include "backends/cpu/kernel.hpp"

namespace flashrt::cpu {

size_t workspace_bytes(const TokenEmbed&, const Plan&, int) { return 0; }

Kernel bind(const TokenEmbed& op, const Binding& b) {
  const Operand tokens = b.operand(op.tokens), y = b.operand(op.y);
  FLASHRT_CHECK(tokens.type == DType::kI32, "token_embed ", b.call.name, ": tokens are ",
                tokens.type, ", expected i32");
  const float* table = b.vector(op.table);
  const int64_t vocabulary = b.weight(op.table).shape.rows();
  const std::string& name = b.call.name;
  return [=, &name](int k) {
    const View ids = tokens.at(k), out = y.at(k);
    for (int64_t row = 0; row < ids.rows; ++row) {
      const int32_t id = *reinterpret_cast<const int32_t*>(ids.at(row));
      FLASHRT_CHECK(0 <= id && id < vocabulary, "token_embed ", name, ": token ", row, " is ", id,
                    ", the vocabulary has ", vocabulary);
      store(out, row, 0, out.width, table + id * out.width);
    }
  };
}

}  // namespace flashrt::cpu
