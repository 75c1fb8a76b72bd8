// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Pi0: PaliGemma prefix, a state token, action expert with plain norms, flow matching (Black et al.
// 2024, arXiv 2410.24164).
#include "models/models.hpp"

namespace flashrt {

Plan build_pi0(const ModelConfig& c, const PlanOptions& o) {
  PlanBuilder b("pi0");
  const GemmaConfig& e = c.expert;
  const Value times = b.input("times", {o.steps}, DType::kF32);
  const Value state = b.input("state", {1, c.state_dim}, DType::kF32);
  const Value actions = b.state("actions", {o.horizon, c.action_dim});  // starts as noise
  const GuidanceInputs guidance = guidance_inputs(b, c, o);
  const int suffix_rows = 1 + o.horizon;  // the state token, then the actions
  const KvCache cache =
      kv_cache(b, e, int64_t{suffix_rows} + o.cameras * c.vision.tokens() + o.prompt_capacity);
  const LayerStyles plain{.attn = {.eps = e.eps}, .mlp = {.eps = e.eps}};

  Value time_part;  // [S, D]: what the time adds to the first layer of the action embedding
  b.stage("styles", When::kLoad, 1, [&] {
    const Value time = b.time_embed("time", times, e.width, c.min_period, c.max_period);
    time_part = b.linear("time_part", time, "action_time_in.time", e.width, {.bias = true});
  });

  const Prefix prefix = paligemma_prefix(b, c, o, suffix_rows, cache);

  // The state token sees the prefix and itself, so its keys and values are the same in every
  // denoise step.
  b.stage("state", When::kInfer, 1, [&] {
    const Tokens token{
        .rows = {.capacity = 1},
        .position_start = prefix.image_tokens,
        .position = prefix.prompt_length,
        .keys = {
            {.begin = 0, .count = 1},
            {.begin = suffix_rows, .count = prefix.image_tokens, .length = prefix.prompt_length}}};
    Stream s{.residual =
                 b.linear("state_in", state, "state_in", e.width, {.bias = true})};  // [1, D]
    const int last = e.layers - 1;
    for (int layer = 0; layer < last; ++layer)
      s = gemma_layer(b, e, "expert", layer, s, cache, token, plain);
    gemma_project(b, e, "expert", last, s, cache, token, plain.attn);
  });

  b.stage("denoise", When::kInfer, o.steps, [&] {
    const Tokens suffix{.cache_row = 1,
                        .rows = {.capacity = o.horizon},
                        .position_start = prefix.image_tokens + 1,
                        .position = prefix.prompt_length,
                        .keys = {{.begin = 0,
                                  .count = suffix_rows + prefix.image_tokens,
                                  .length = prefix.prompt_length}}};

    const Value action =
        b.linear("action_in", actions, "action_in", e.width, {.bias = true});  // [N, D]
    const Value hidden = b.linear("action_time_in", action, "action_time_in.action", e.width,
                                  {.shift = b.at_step(time_part), .activation = Activation::kSilu});
    Stream s{.residual =
                 b.linear("action_time_out", hidden, "action_time_out", e.width, {.bias = true})};
    for (int layer = 0; layer < e.layers; ++layer)
      s = gemma_layer(b, e, "expert", layer, s, cache, suffix, plain);
    const Normed norm = b.add_norm("norm", s, {.eps = e.eps, .weight = "expert.norm.weight"});
    const Value velocity =
        b.linear("velocity", norm.y, "action_out", c.action_dim, {.bias = true});  // [N, A]
    euler_step(b, o, actions, velocity, times, guidance);
  });
  return std::move(b).finish();
}

}  // namespace flashrt
