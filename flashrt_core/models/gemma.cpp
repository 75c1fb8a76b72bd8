// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Gemma: the transformer layer of the language model and of the action expert (Gemma Team 2024,
// arXiv 2403.08295).
#include "models/models.hpp"

namespace flashrt {
namespace {

QkvOptions qkv_options(const GemmaConfig& c, int heads, const Tokens& tokens) {
  return {.heads = heads,
          .kv_heads = c.kv_heads,
          .head_dim = c.head_dim,
          .rope_base = c.rope_base,
          .position_start = tokens.position_start,
          .position = tokens.position};
}

}  // namespace

KvCache kv_cache(PlanBuilder& b, const GemmaConfig& c, int64_t rows) {
  KvCache cache;
  for (int layer = 0; layer < c.layers; ++layer) {
    const std::string name = "cache." + std::to_string(layer);
    const Shape shape{rows, int64_t{c.kv_heads} * c.head_dim};
    cache.k.push_back(b.state(name + ".k", shape));
    cache.v.push_back(b.state(name + ".v", shape));
  }
  return cache;
}

Projected gemma_project(PlanBuilder& b, const GemmaConfig& c, const std::string& stack, int layer,
                        Stream s, const KvCache& cache, const Tokens& tokens,
                        const NormOptions& norm) {
  const std::string at = std::to_string(layer) + ".";
  const int64_t width = int64_t{c.heads + 2 * c.kv_heads} * c.head_dim;
  const Normed attn_norm = b.add_norm(at + "attn_norm", s, norm);
  const Value qkv =
      b.linear(at + "qkv", attn_norm.y, stack + "." + at + "qkv", width);  // [T, (H + 2K)*E]
  const Value q = b.qkv_rope(
      at + "qkv_rope", qkv, b.rows(cache.k[layer], tokens.cache_row, tokens.rows),
      b.rows(cache.v[layer], tokens.cache_row, tokens.rows), qkv_options(c, c.heads, tokens));
  return {.residual = attn_norm.residual, .q = q};
}

void gemma_project_kv(PlanBuilder& b, const GemmaConfig& c, const std::string& stack, int layer,
                      Stream s, const KvCache& cache, const Tokens& tokens) {
  const std::string at = std::to_string(layer) + ".";
  const Normed attn_norm = b.add_norm(at + "attn_norm", s, {.eps = c.eps});
  const Value kv = b.linear(at + "kv", attn_norm.y, stack + "." + at + "kv",
                            2 * int64_t{c.kv_heads} * c.head_dim);  // [T, 2K*E]
  b.qkv_rope(at + "kv_rope", kv, b.rows(cache.k[layer], tokens.cache_row, tokens.rows),
             b.rows(cache.v[layer], tokens.cache_row, tokens.rows), qkv_options(c, 0, tokens));
}

Stream gemma_layer(PlanBuilder& b, const GemmaConfig& c, const std::string& stack, int layer,
                   Stream s, const KvCache& cache, const Tokens& tokens,
                   const LayerStyles& styles) {
  const std::string at = std::to_string(layer) + ".";
  const std::string weights = stack + "." + at;

  const Projected projected = gemma_project(b, c, stack, layer, s, cache, tokens, styles.attn);
  const Value attn = b.attention(
      at + "attn", projected.q, cache.k[layer], cache.v[layer],
      {.heads = c.heads, .kv_heads = c.kv_heads, .head_dim = c.head_dim, .ranges = tokens.keys});
  s = {.residual = projected.residual,
       .delta = b.linear(at + "attn_out", attn, weights + "attn_out", c.width),
       .gate = styles.attn.style.gate,
       .committed_gate = styles.attn.committed_style.gate};

  const Normed mlp_norm = b.add_norm(at + "mlp_norm", s, styles.mlp);
  const Value gate_up =
      b.linear(at + "gate_up", mlp_norm.y, weights + "gate_up", 2 * int64_t{c.mlp_width});
  const Value hidden = b.glu(at + "glu", gate_up, Activation::kGeluTanh);  // [T, F]
  return {.residual = mlp_norm.residual,
          .delta = b.linear(at + "down", hidden, weights + "down", c.width),
          .gate = styles.mlp.style.gate,
          .committed_gate = styles.mlp.committed_style.gate};
}

}  // namespace flashrt
