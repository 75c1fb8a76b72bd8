// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// PaliGemma as the Pi models use it: image tokens and prompt in one bidirectional prefix (Beyer et
// al. 2024, arXiv 2407.07726). Absent cameras and prompt padding are not part of the sequence, so
// it needs no mask.
#include "base/frame_descriptor.hpp"
#include "models/models.hpp"

namespace flashrt {
namespace {

// [cameras, size, size, 3]: an input, or what a stage makes of the frames of the cameras.
Value model_images(PlanBuilder& b, int size, const PlanOptions& o) {
  const DType type = o.float_images ? DType::kF32 : DType::kU8;
  if (o.max_image_bytes == 0) return b.input("images", {o.cameras, size, size, 3}, type);
  constexpr int64_t kAlignment = 16;  // of each camera's memory
  const int64_t bytes = (o.max_image_bytes + kAlignment - 1) / kAlignment * kAlignment;
  const Value frames = b.input("frames", {o.cameras, bytes}, DType::kU8);
  const Value descriptors =
      b.input("frame_descriptors", {o.cameras, frame_descriptor_layout(size).words}, DType::kI32);
  Value images;
  b.stage("input", When::kInfer, 1,
          [&] { images = b.resize("images", frames, descriptors, size, type); });
  return images;
}

}  // namespace

Prefix paligemma_prefix(PlanBuilder& b, const ModelConfig& c, const PlanOptions& o, int suffix_rows,
                        const KvCache& cache) {
  const Value images = model_images(b, c.vision.image_size, o);
  const Value prompt_length = b.input("prompt_length", {1}, DType::kI32);
  const Value tokens = b.input(
      "tokens", Rows{.capacity = o.prompt_capacity, .length = prompt_length}, {}, DType::kI32);
  const int image_tokens = o.cameras * c.vision.tokens();

  Value text, image;
  b.stage("prompt", When::kPrompt, 1, [&] {
    text =
        b.token_embed("embed", tokens, "language.embed", c.vocab_size, c.language.width);  // [L, D]
  });
  b.stage("vision", When::kInfer, 1, [&] {
    const Value features = siglip(b, c.vision, images);
    image =
        b.linear("projector", features, "projector", c.language.width, {.bias = true});  // [N*T, D]
  });
  b.stage("prefix", When::kInfer, 1, [&] {
    Stream s{.residual = b.concat("prefix.embeds", {image, text})};  // [P, D]
    // Keys of the suffix come first in the cache, so that one bound ends them all.
    const Tokens prefix{
        .cache_row = suffix_rows,
        .rows = {.capacity = image_tokens + o.prompt_capacity,
                 .length = prompt_length,
                 .base = image_tokens},
        .keys = {{.begin = suffix_rows, .count = image_tokens, .length = prompt_length}}};
    const LayerStyles plain{.attn = {.eps = c.language.eps}, .mlp = {.eps = c.language.eps}};
    const int last = c.language.layers - 1;
    for (int layer = 0; layer < last; ++layer)
      s = gemma_layer(b, c.language, "language", layer, s, cache, prefix, plain);
    gemma_project_kv(b, c.language, "language", last, s, cache, prefix);
  });
  return {.prompt_length = prompt_length, .image_tokens = image_tokens};
}

}  // namespace flashrt
