// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// SigLIP So400m: the vision tower of the Pi models (Zhai et al. 2023, arXiv 2303.15343).
#include "models/models.hpp"

namespace flashrt {
namespace {

NormOptions layer_norm(const VisionConfig& c, const std::string& weight) {
  return {
      .norm = Norm::kLayer, .eps = c.eps, .weight = weight + ".weight", .bias = weight + ".bias"};
}

Stream siglip_layer(PlanBuilder& b, const VisionConfig& c, int layer, int64_t tokens, Stream s) {
  const std::string at = std::to_string(layer) + ".";
  const std::string weights = "vision." + at;
  const AttentionOptions within_image{.heads = c.heads,
                                      .kv_heads = c.heads,
                                      .head_dim = c.head_dim(),
                                      .mask = Mask::kBlock,
                                      .mask_argument = c.tokens(),
                                      .ranges = {{.begin = 0, .count = static_cast<int>(tokens)}}};

  const Normed attn_norm = b.add_norm(at + "attn_norm", s, layer_norm(c, weights + "attn_norm"));
  const Value qkv =
      b.linear(at + "qkv", attn_norm.y, weights + "qkv", 3 * c.width, {.bias = true});  // [N*T, 3D]
  const Value attn =
      b.attention(at + "attn", b.columns(qkv, 0, c.width), b.columns(qkv, c.width, c.width),
                  b.columns(qkv, 2 * c.width, c.width), within_image);
  s = {.residual = attn_norm.residual,
       .delta = b.linear(at + "attn_out", attn, weights + "attn_out", c.width, {.bias = true})};

  const Normed mlp_norm = b.add_norm(at + "mlp_norm", s, layer_norm(c, weights + "mlp_norm"));
  const Value fc1 = b.linear(at + "fc1", mlp_norm.y, weights + "fc1", c.mlp_width,
                             {.bias = true, .activation = Activation::kGeluTanh});
  return {.residual = mlp_norm.residual,
          .delta = b.linear(at + "fc2", fc1, weights + "fc2", c.width, {.bias = true})};
}

}  // namespace

Value siglip(PlanBuilder& b, const VisionConfig& c, Value images) {
  Stream s{.residual =
               b.patch_embed("patch", images, "vision.patch", c.width, c.patch)};  // [N*T, D]
  const int64_t tokens = b.shape(s.residual).rows();
  for (int layer = 0; layer < c.layers; ++layer) s = siglip_layer(b, c, layer, tokens, s);
  return b.add_norm("norm", s, layer_norm(c, "vision.norm")).y;
}

}  // namespace flashrt
