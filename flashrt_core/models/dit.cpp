// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// The block of GR00T's diffusion transformer (Peebles and Xie 2022, arXiv 2212.09748; without its
// gates, and with the time in the norm of the attention alone).
#include "models/models.hpp"

namespace flashrt {

Stream dit_block(PlanBuilder& b, const DitConfig& c, int layer, Stream s, const Style& style,
                 const Context& context) {
  constexpr float kEps = 1e-5f;
  const std::string at = std::to_string(layer) + ".";
  const std::string weights = "dit." + at;
  const int64_t width = c.width();
  AttentionOptions attention{
      .heads = c.heads, .kv_heads = c.heads, .head_dim = c.head_dim, .ranges = context.keys};

  const Normed attn_norm =
      b.add_norm(at + "attn_norm", s, {.norm = Norm::kLayer, .eps = kEps, .style = style});
  Value q, k = context.k, v = context.v;
  if (k) {
    q = b.linear(at + "q", attn_norm.y, weights + "q", width, {.bias = true});
  } else {
    const Value qkv =
        b.linear(at + "qkv", attn_norm.y, weights + "qkv", 3 * width, {.bias = true});  // [T, 3D]
    q = b.columns(qkv, 0, width);
    k = b.columns(qkv, width, width);
    v = b.columns(qkv, 2 * width, width);
    attention.ranges = {{.begin = 0, .count = static_cast<int>(b.shape(qkv).rows())}};
  }
  const Value attn = b.attention(at + "attn", q, k, v, attention);
  s = {.residual = attn_norm.residual,
       .delta = b.linear(at + "attn_out", attn, weights + "attn_out", width, {.bias = true})};

  const Normed mlp_norm = b.add_norm(at + "mlp_norm", s, {.norm = Norm::kLayer, .eps = kEps});
  const Value fc1 = b.linear(at + "fc1", mlp_norm.y, weights + "fc1", c.mlp_width,
                             {.bias = true, .activation = Activation::kGeluTanh});
  return {.residual = mlp_norm.residual,
          .delta = b.linear(at + "fc2", fc1, weights + "fc2", width, {.bias = true})};
}

}  // namespace flashrt
