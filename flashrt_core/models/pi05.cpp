// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Pi0.5: PaliGemma prefix, action expert with adaptive norms, flow matching (Physical Intelligence
// 2025, arXiv 2504.16054).
#include "models/models.hpp"

namespace flashrt {
namespace {

// The adaptive operands of one norm, for all times at once; one row per time.
Value style_rows(PlanBuilder& b, const GemmaConfig& c, const std::string& name, Value condition) {
  return b.linear(name, condition, "expert." + name, 3 * int64_t{c.width},
                  {.bias = true});  // [S, 3D]
}

Style split(PlanBuilder& b, const GemmaConfig& c, Value row) {
  return {.scale = b.columns(row, 0, c.width),
          .shift = b.columns(row, c.width, c.width),
          .gate = b.columns(row, 2 * c.width, c.width)};
}

}  // namespace

Plan build_pi05(const ModelConfig& c, const PlanOptions& o) {
  PlanBuilder b("pi05");
  const GemmaConfig& e = c.expert;
  // Time of every step, 1 to 1/S; when guided one more, 0, for rows that are committed.
  const int times_count = o.steps + (o.guided ? 1 : 0);
  const Value times = b.input("times", {times_count}, DType::kF32);
  const Value actions = b.state("actions", {o.horizon, c.action_dim});  // starts as noise
  const GuidanceInputs guidance = guidance_inputs(b, c, o);
  const KvCache cache =
      kv_cache(b, e, int64_t{o.horizon} + o.cameras * c.vision.tokens() + o.prompt_capacity);

  std::vector<Value> attn_styles, mlp_styles;
  Value norm_style;
  b.stage("styles", When::kLoad, 1, [&] {
    const Value time = b.time_embed("time", times, e.width, c.min_period, c.max_period);
    const Value hidden = b.linear("time_in", time, "time_in", e.width,
                                  {.bias = true, .activation = Activation::kSilu});
    const Value condition = b.linear("time_out", hidden, "time_out", e.width,
                                     {.bias = true, .activation = Activation::kSilu});
    for (int layer = 0; layer < e.layers; ++layer) {
      attn_styles.push_back(style_rows(b, e, std::to_string(layer) + ".attn_style", condition));
      mlp_styles.push_back(style_rows(b, e, std::to_string(layer) + ".mlp_style", condition));
    }
    norm_style = style_rows(b, e, "norm_style", condition);
  });

  const Prefix prefix = paligemma_prefix(b, c, o, o.horizon, cache);

  b.stage("denoise", When::kInfer, o.steps, [&] {
    const auto adaptive = [&](Value styles) {
      NormOptions norm{.eps = e.eps, .style = split(b, e, b.at_step(styles))};
      if (o.guided) {
        norm.committed_style = split(b, e, b.rows(styles, o.steps, 1));
        norm.committed_rows = guidance.committed_rows;
      }
      return norm;
    };
    const Tokens suffix{.rows = {.capacity = o.horizon},
                        .position_start = prefix.image_tokens,
                        .position = prefix.prompt_length,
                        .keys = {{.begin = 0,
                                  .count = o.horizon + prefix.image_tokens,
                                  .length = prefix.prompt_length}}};

    Stream s{.residual =
                 b.linear("action_in", actions, "action_in", e.width, {.bias = true})};  // [N, D]
    for (int layer = 0; layer < e.layers; ++layer) {
      const LayerStyles styles{.attn = adaptive(attn_styles[layer]),
                               .mlp = adaptive(mlp_styles[layer])};
      s = gemma_layer(b, e, "expert", layer, s, cache, suffix, styles);
    }
    const Normed norm = b.add_norm("norm", s, adaptive(norm_style));
    const Value velocity =
        b.linear("velocity", norm.y, "action_out", c.action_dim, {.bias = true});  // [N, A]
    euler_step(b, o, actions, velocity, times, guidance);
  });
  return std::move(b).finish();
}

}  // namespace flashrt
