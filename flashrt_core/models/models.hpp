// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// The models, and the blocks they share. A model file reads like the paper: inputs, stages in
// order, outputs.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/model_config.hpp"
#include "plan/builder.hpp"

namespace flashrt {

// Pixels.
struct ImageSize {
  int height = 0, width = 0;
  bool operator==(const ImageSize&) const = default;
};

// What a plan is built for. Every size here is fixed in the plan.
struct PlanOptions {
  int cameras = 1;            // views present, 1 or more
  int prompt_capacity = 0;    // most prompt tokens
  int horizon = 0;            // actions in a chunk
  int steps = 0;              // denoise steps
  bool float_images = false;  // images are float32 in [-1, 1], not bytes
  // Bytes that the picture of one camera may have: the plan takes frames and resizes them. 0: it
  // takes images of the model's size.
  int64_t max_image_bytes = 0;
  // Real-time chunking: the plan takes the previous chunk and the rows that are committed.
  bool guided = false;
  // GR00T only. Per camera, where images are not all squares of the model's size.
  std::vector<ImageSize> image_sizes;
  // GR00T only. Per camera: tokens from its image to the next one or to the end; empty: those of
  // the published conversation.
  std::vector<int> markup_rows;
  // GR00T only. Moments whose state the model is given, oldest first.
  int state_rows = 1;
};

Plan build_pi05(const ModelConfig& config, const PlanOptions& options);
Plan build_pi0(const ModelConfig& config, const PlanOptions& options);
Plan build_groot_n16(const ModelConfig& config, const PlanOptions& options);
// The one that the configuration names.
Plan build_plan(const ModelConfig& config, const PlanOptions& options);

// ---- shared blocks

struct SiglipOptions {
  PatchOptions patch;
  std::string prefix;  // of the names of its calls, where a stage has several towers
};
// SigLIP: images [N, H, W, 3] u8 -> tokens [N*T, D] after the final norm. Views do not see each
// other.
Value siglip(PlanBuilder& b, const VisionConfig& config, Value images,
             const SiglipOptions& options = {});

// Keys and values of every layer, [S, K*E] each.
struct KvCache {
  std::vector<Value> k, v;
};
KvCache kv_cache(PlanBuilder& b, const GemmaConfig& config, int64_t rows);

// Where the tokens of a stage stand: the cache rows they write, their positions, the keys they see.
struct Tokens {
  int64_t cache_row = 0;
  Rows rows;
  int position_start = 0;
  Value position;
  std::vector<KeyRange> keys;
};

// Adaptive norms of one layer; unset in plain layers, whose norm weight is folded into the weight
// that follows.
struct LayerStyles {
  NormOptions attn, mlp;
};

// One Gemma layer: calls are named after the layer, weights after the stack ("language", "expert").
Stream gemma_layer(PlanBuilder& b, const GemmaConfig& config, const std::string& stack, int layer,
                   Stream stream, const KvCache& cache, const Tokens& tokens,
                   const LayerStyles& styles);

// The first part of a layer alone, up to its keys and values: all that the last layer of a stack
// owes to others.
struct Projected {
  Value residual;
  Value q;  // [T, H*E]
};
Projected gemma_project(PlanBuilder& b, const GemmaConfig& config, const std::string& stack,
                        int layer, Stream stream, const KvCache& cache, const Tokens& tokens,
                        const NormOptions& norm);
// The same from a weight that holds k and v only.
void gemma_project_kv(PlanBuilder& b, const GemmaConfig& config, const std::string& stack,
                      int layer, Stream stream, const KvCache& cache, const Tokens& tokens);

// One layer of Qwen3: causal among the first keys, norms of heads before the rotation. The norm
// weight is folded into the weight that follows. causal_offset: index of the key that row 0 ends
// with.
Stream qwen3_layer(PlanBuilder& b, const GemmaConfig& config, int layer, Stream stream,
                   const KvCache& cache, const Tokens& tokens, int causal_offset);

// Keys and values that the tokens of a diffusion transformer look at beside themselves.
struct Context {
  Value k, v;  // unset: the block looks at its own tokens
  std::vector<KeyRange> keys;
};
// One block of the diffusion transformer of GR00T: attention in the style of the time, MLP.
Stream dit_block(PlanBuilder& b, const DitConfig& config, int layer, Stream stream,
                 const Style& style, const Context& context);

// Images and prompt as the language model sees them, and its keys and values in the cache, after
// the suffix rows.
struct Prefix {
  Value prompt_length;  // i32 scalar input
  int image_tokens = 0;
};
Prefix paligemma_prefix(PlanBuilder& b, const ModelConfig& config, const PlanOptions& options,
                        int suffix_rows, const KvCache& cache);

// What the sampler adds to an Euler step when chunks are guided: inputs of the previous chunk.
struct GuidanceInputs {
  Value committed_rows, previous, weights, guidance;
};
GuidanceInputs guidance_inputs(PlanBuilder& b, const ModelConfig& config,
                               const PlanOptions& options);
// actions += -1/S * velocity, guided if asked.
void euler_step(PlanBuilder& b, const PlanOptions& options, Value actions, Value velocity,
                Value times, const GuidanceInputs& guidance);

}  // namespace flashrt
