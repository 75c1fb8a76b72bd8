// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// SigLIP So400m: the vision tower of the Pi models and of GR00T (Zhai et al. 2023, arXiv
// 2303.15343).
#include "models/models.hpp"

namespace flashrt {
namespace {

NormOptions layer_norm(const VisionConfig& c, const std::string& weight) {
  return {
      .norm = Norm::kLayer, .eps = c.eps, .weight = weight + ".weight", .bias = weight + ".bias"};
}

Stream siglip_layer(PlanBuilder& b, const VisionConfig& c, const std::string& prefix, int layer,
                    int64_t tokens, int64_t tokens_per_image, Stream s) {
  const std::string at = prefix + std::to_string(layer) + ".";
  const std::string weights = "vision." + std::to_string(layer) + ".";
  const AttentionOptions within_image{.heads = c.heads,
                                      .kv_heads = c.heads,
                                      .head_dim = c.head_dim(),
                                      .mask = Mask::kBlock,
                                      .mask_argument = static_cast<int>(tokens_per_image),
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

Value siglip(PlanBuilder& b, const VisionConfig& c, Value images, const SiglipOptions& options) {
  const std::string& at = options.prefix;
  Stream s{.residual = b.patch_embed(at + "patch", images, "vision.patch", c.width, c.patch,
                                     options.patch)};  // [N*T, D]
  const int64_t tokens = b.shape(s.residual).rows();
  const int64_t tokens_per_image = tokens / b.shape(images).rows();
  for (int layer = 0; layer < c.layers; ++layer)
    s = siglip_layer(b, c, at, layer, tokens, tokens_per_image, s);
  return b.add_norm(at + "norm", s, layer_norm(c, "vision.norm")).y;
}

}  // namespace flashrt
