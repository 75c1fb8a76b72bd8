// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Qwen3: the transformer layer of GR00T's language model (Qwen Team 2025, arXiv 2505.09388).
#include "models/models.hpp"

namespace flashrt {

Stream qwen3_layer(PlanBuilder& b, const GemmaConfig& c, int layer, Stream s, const KvCache& cache,
                   const Tokens& tokens, int causal_offset) {
  const std::string at = std::to_string(layer) + ".";
  const std::string weights = "language." + at;
  const NormOptions norm{.eps = c.eps};

  const Normed attn_norm = b.add_norm(at + "attn_norm", s, norm);
  const Value qkv = b.linear(at + "qkv", attn_norm.y, weights + "qkv",
                             int64_t{c.heads + 2 * c.kv_heads} * c.head_dim);  // [T, (H + 2K)*E]
  const Value q =
      b.qkv_rope(at + "qkv_rope", qkv, b.rows(cache.k[layer], tokens.cache_row, tokens.rows),
                 b.rows(cache.v[layer], tokens.cache_row, tokens.rows),
                 {.heads = c.heads,
                  .kv_heads = c.kv_heads,
                  .head_dim = c.head_dim,
                  .rope_base = c.rope_base,
                  .position_start = tokens.position_start,
                  .position = tokens.position,
                  .q_norm = weights + "q_norm",
                  .k_norm = weights + "k_norm",
                  .eps = c.eps});
  const Value attn = b.attention(at + "attn", q, cache.k[layer], cache.v[layer],
                                 {.heads = c.heads,
                                  .kv_heads = c.kv_heads,
                                  .head_dim = c.head_dim,
                                  .mask = Mask::kCausal,
                                  .mask_argument = causal_offset,
                                  .ranges = tokens.keys});
  s = {.residual = attn_norm.residual,
       .delta = b.linear(at + "attn_out", attn, weights + "attn_out", c.width)};

  const Normed mlp_norm = b.add_norm(at + "mlp_norm", s, norm);
  const Value gate_up =
      b.linear(at + "gate_up", mlp_norm.y, weights + "gate_up", 2 * int64_t{c.mlp_width});
  const Value hidden = b.glu(at + "glu", gate_up, Activation::kSilu);  // [T, F]
  return {.residual = mlp_norm.residual,
          .delta = b.linear(at + "down", hidden, weights + "down", c.width)};
}

}  // namespace flashrt
