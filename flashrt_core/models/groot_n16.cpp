// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// GR00T N1.6: SigLIP 2, Qwen3, and a diffusion transformer that looks at text, at itself, at
// images, at itself, ... (NVIDIA 2025, arXiv 2503.14734, and the source of its version 1.6).
#include <cmath>
#include <numbers>

#include "models/inputs.hpp"

namespace flashrt {
namespace {

constexpr int kSquare = 2;              // patches of a side that are merged into one row
constexpr float kLayerNormEps = 1e-5f;  // where the configuration does not say
constexpr float kOutputNormEps = 1e-6f;
constexpr double kLongestTime = 10000;  // times 2 pi: the longest period of the time features

struct Groot {
  PlanBuilder& b;
  const ModelConfig& c;
  const PlanOptions& o;
  ObservationLayout layout = observation_layout(c, o);

  int64_t width() const { return c.dit.width(); }
  std::string of_view(size_t view) const { return std::to_string(view) + "."; }
};

// ---- load: all that follows from the times and the sizes

struct Loaded {
  std::vector<Value> styles;     // per block [S, 2D]: scale, shift
  Value norm_style;              // [S, 2D]
  Value action_time;             // [S, D]: what the time adds to the first layer of the actions
  Value action_positions;        // [N, D]
  std::vector<Value> positions;  // per tower [N*T, D]
};

Loaded load_stage(const Groot& g, Value times, const std::vector<Value>& position_weights) {
  PlanBuilder& b = g.b;
  constexpr int kTimeWidth = 256;
  constexpr double kShortest = 2 * std::numbers::pi;
  const int64_t width = g.width(), half = width / 2;
  const Value rows = b.input("action_rows", {g.o.horizon}, DType::kI32);
  Loaded loaded;
  b.stage("styles", When::kLoad, 1, [&] {
    const LinearOptions silu{.bias = true, .activation = Activation::kSilu};
    const Value time = b.time_embed("time", times, kTimeWidth, kShortest, kShortest * kLongestTime);
    const Value hidden = b.linear("time_in", time, "time_in", width, silu);
    const Value condition = b.linear("time_out", hidden, "time_out", width, silu);
    for (int layer = 0; layer < g.c.dit.layers; ++layer) {
      const std::string name = std::to_string(layer) + ".style";
      loaded.styles.push_back(b.linear(name, condition, "dit." + name, 2 * width, {.bias = true}));
    }
    loaded.norm_style =
        b.linear("norm_style", condition, "dit.norm_style", 2 * width, {.bias = true});

    // The periods end one step before the longest.
    const double longest = kShortest * std::pow(kLongestTime, static_cast<double>(half - 1) /
                                                                  static_cast<double>(half));
    const Value tau = b.time_embed("action_tau", times, width, kShortest, longest);
    loaded.action_time = b.linear("action_time", tau, "action_time", width, {.bias = true});
    loaded.action_positions = b.token_embed("action_positions", rows, "action_position",
                                            g.c.dit.positions, static_cast<int>(width));
    for (size_t tower = 0; tower < position_weights.size(); ++tower) {
      const std::string at = position_weights.size() > 1 ? g.of_view(tower) : "";
      loaded.positions.push_back(
          b.linear(at + "positions", position_weights[tower], "vision.position", g.c.vision.width));
    }
  });
  return loaded;
}

Style split(const Groot& g, Value row) {
  return {.scale = g.b.columns(row, 0, g.width()), .shift = g.b.columns(row, g.width(), g.width())};
}

// ---- text: everything up to the first image follows from the prompt alone

// Final norm of the language model, then the norm of the action head.
Value context_rows(const Groot& g, Stream s) {
  const Value features =
      g.b.add_norm("norm", s, {.eps = g.c.language.eps, .weight = "language.norm.weight"}).y;
  return g.b
      .add_norm("context_norm", {.residual = features},
                {.norm = Norm::kLayer,
                 .eps = kLayerNormEps,
                 .weight = "context.norm.weight",
                 .bias = "context.norm.bias"})
      .y;
}

// Blocks that look at text, and blocks that look at images.
int text_blocks(const Groot& g) { return (g.c.dit.layers + 3) / 4; }
int image_blocks(const Groot& g) { return (g.c.dit.layers + 1) / 4; }

struct Text {
  Value length;               // of the prompt
  Value kv;                   // [P, text blocks * 2D]
  std::vector<Value> markup;  // per view: embedded tokens behind its image
};

Text prompt_stage(const Groot& g, const KvCache& cache) {
  PlanBuilder& b = g.b;
  const GemmaConfig& l = g.c.language;
  Text text{.length = b.input("prompt_length", {1}, DType::kI32)};
  const Rows rows{.capacity = g.o.prompt_capacity, .length = text.length};
  const Value tokens = b.input("tokens", rows, {}, DType::kI32);
  const Value markup = b.input("markup", {g.layout.markup_rows}, DType::kI32);
  // Rows of the observation come first in the cache, so that all places are fixed.
  const Tokens prompt{.cache_row = g.layout.rows,
                      .rows = rows,
                      .keys = {{.begin = g.layout.rows, .count = 0, .length = text.length}}};
  b.stage("prompt", When::kPrompt, 1, [&] {
    Stream s{.residual = b.token_embed("embed", tokens, "language.embed", g.c.vocab_size, l.width)};
    for (int layer = 0; layer < l.layers; ++layer)
      s = qwen3_layer(b, l, layer, s, cache, prompt, g.layout.rows);
    text.kv = b.linear("text_kv", context_rows(g, s), "dit.text_kv", text_blocks(g) * 2 * g.width(),
                       {.bias = true});
    int64_t begin = 0;
    for (size_t view = 0; view < g.layout.views.size(); ++view) {
      const int64_t count = g.layout.views[view].markup_rows;
      text.markup.push_back(b.token_embed(g.of_view(view) + "markup", b.rows(markup, begin, count),
                                          "language.embed", g.c.vocab_size, l.width));
      begin += count;
    }
  });
  return text;
}

// ---- images

// Per tower [N*T, D]: one for all images of one size, or one per image.
std::vector<Value> vision_stage(const Groot& g, const std::vector<Value>& images,
                                const std::vector<Value>& positions) {
  std::vector<Value> features;
  g.b.stage("vision", When::kInfer, 1, [&] {
    for (size_t tower = 0; tower < images.size(); ++tower) {
      features.push_back(siglip(g.b, g.c.vision, images[tower],
                                {.patch = {.group = kSquare, .positions = positions[tower]},
                                 .prefix = images.size() > 1 ? g.of_view(tower) : ""}));
    }
  });
  return features;
}

// Per view [T/4, D] as the language model takes it.
std::vector<Value> connect(const Groot& g, const std::vector<Value>& features) {
  PlanBuilder& b = g.b;
  const int64_t width = g.c.language.width;
  std::vector<Value> hidden;
  for (size_t tower = 0; tower < features.size(); ++tower) {
    const std::string at = features.size() > 1 ? g.of_view(tower) : "";
    const Value merged = b.merge_rows(features[tower], kSquare * kSquare);  // [N*T/4, 4D]
    const Value y = b.add_norm(at + "connector_norm", {.residual = merged},
                               {.norm = Norm::kLayer,
                                .eps = kLayerNormEps,
                                .weight = "connector.norm.weight",
                                .bias = "connector.norm.bias"})
                        .y;
    hidden.push_back(b.linear(at + "connector_in", y, "connector_in", width,
                              {.bias = true, .activation = Activation::kGeluErf}));
  }
  std::vector<Value> rows;
  int64_t begin = 0;
  for (size_t view = 0; view < g.layout.views.size(); ++view) {
    const int64_t count = g.layout.views[view].image_rows;
    const Value part = features.size() > 1 ? hidden[view] : b.rows(hidden.front(), begin, count);
    rows.push_back(
        b.linear(g.of_view(view) + "connector_out", part, "connector_out", width, {.bias = true}));
    begin += count;
  }
  return rows;
}

// ---- the language model over the observation

// Keys and values of all blocks side by side: of block i of its kind, k in columns from 2 i D on.
struct ContextCache {
  Value text, image;
  std::vector<KeyRange> text_keys, image_keys;

  Context of_block(const Groot& g, int layer) const {
    if (layer % 2 == 1) return {};
    const bool is_text = layer % 4 == 0;
    const Value kv = is_text ? text : image;
    const int64_t first = layer / 4 * 2 * g.width();
    return {.k = g.b.columns(kv, first, g.width()),
            .v = g.b.columns(kv, first + g.width(), g.width()),
            .keys = is_text ? text_keys : image_keys};
  }
};

ContextCache backbone_stage(const Groot& g, const std::vector<Value>& features, const Text& text,
                            const KvCache& cache) {
  PlanBuilder& b = g.b;
  const GemmaConfig& l = g.c.language;
  const int rows = g.layout.rows;
  ContextCache context;
  b.stage("backbone", When::kInfer, 1, [&] {
    const std::vector<Value> images = connect(g, features);
    std::vector<Value> parts;
    for (size_t view = 0; view < images.size(); ++view) {
      parts.push_back(images[view]);
      parts.push_back(text.markup[view]);
    }
    Stream s{.residual = b.concat("backbone.embeds", parts)};  // [M, D]
    const Tokens observation{
        .rows = {.capacity = rows},
        .position = text.length,
        .keys = {{.begin = 0, .count = rows}, {.begin = rows, .count = 0, .length = text.length}}};
    for (int layer = 0; layer < l.layers; ++layer)
      s = qwen3_layer(b, l, layer, s, cache, observation, 0);
    const Value y = context_rows(g, s);
    context.image =
        b.linear("image_kv", y, "dit.image_kv", image_blocks(g) * 2 * g.width(), {.bias = true});
    // Markup is a few rows behind each image. With the images in between it takes one pass over the
    // weights, which cost more than the rows that nobody reads; the scale of its input covers those
    // rows as well. The keys take a range for each camera.
    const auto &first = g.layout.views.front(), &last = g.layout.views.back();
    const int begin = first.markup_begin, end = last.markup_begin + last.markup_rows;
    const Value markup = b.linear("text_kv", b.rows(y, begin, end - begin), "dit.text_kv",
                                  text_blocks(g) * 2 * g.width(), {.bias = true});
    context.text = b.concat("text_kv", {markup, text.kv});
    for (const auto& view : g.layout.views) {
      context.image_keys.push_back({.begin = view.image_begin, .count = view.image_rows});
      context.text_keys.push_back({.begin = view.markup_begin - begin, .count = view.markup_rows});
    }
    context.text_keys.back().length = text.length;  // the prompt comes next
  });
  return context;
}

// ---- the action head

void denoise_stage(const Groot& g, const Loaded& loaded, const ContextCache& context,
                   Value state_tokens, Value actions) {
  PlanBuilder& b = g.b;
  const int64_t width = g.width();
  b.stage("denoise", When::kInfer, g.o.steps, [&] {
    const Value hidden =
        b.linear("action_in", actions, "action_in", width,
                 {.shift = b.at_step(loaded.action_time), .activation = Activation::kSilu});
    const Value action_tokens = b.linear("action_out", hidden, "action_out", width,
                                         {.bias = true, .residual = loaded.action_positions});
    // [R + N, D]
    Stream s{.residual = b.concat("denoise.embeds", {state_tokens, action_tokens})};
    for (int layer = 0; layer < g.c.dit.layers; ++layer) {
      s = dit_block(b, g.c.dit, layer, s, split(g, b.at_step(loaded.styles[layer])),
                    context.of_block(g, layer));
    }
    const Value y = b.add_norm("norm", s,
                               {.norm = Norm::kLayer,
                                .eps = kOutputNormEps,
                                .style = split(g, b.at_step(loaded.norm_style))})
                        .y;
    const Value decoded = b.linear("decoder", b.rows(y, g.o.state_rows, g.o.horizon), "decoder",
                                   g.c.dit.hidden, {.bias = true, .activation = Activation::kRelu});
    const Value velocity =
        b.linear("velocity", decoded, "velocity", g.c.action_dim, {.bias = true});
    b.euler_step(
        "euler_step",
        {.actions = actions, .velocity = velocity, .step = static_cast<float>(1.0 / g.o.steps)});
  });
}

void check(const ModelConfig& c, const PlanOptions& o) {
  FLASHRT_CHECK(!o.guided, "groot_n16 does not continue chunks: guidance is not supported for it");
  FLASHRT_CHECK(o.max_image_bytes == 0,
                "groot_n16 takes images that are resized already, not frames (max_image_bytes)");
  FLASHRT_CHECK(o.horizon <= c.dit.positions, "horizon: ", o.horizon,
                ", the table of action positions has ", c.dit.positions);
}

}  // namespace

Plan build_groot_n16(const ModelConfig& c, const PlanOptions& o) {
  check(c, o);
  PlanBuilder b("groot_n16");
  const Groot g{b, c, o};
  const Value times = b.input("times", {o.steps}, DType::kF32);
  const Value state = b.input("state", {o.state_rows, c.state_dim}, DType::kF32);
  const Value actions = b.state("actions", {o.horizon, c.action_dim});  // starts as noise
  const KvCache cache = kv_cache(b, c.language, int64_t{g.layout.rows} + o.prompt_capacity);

  const int64_t positions = int64_t{c.vision.position_grid} * c.vision.position_grid;
  const DType type = o.float_images ? DType::kF32 : DType::kU8;
  std::vector<Value> images, position_weights;
  for (const auto& [suffix, count, size] : image_inputs(c, o)) {
    const int64_t patches = int64_t{size.height / c.vision.patch} * (size.width / c.vision.patch);
    images.push_back(b.input("images" + suffix, {count, size.height, size.width, 3}, type));
    position_weights.push_back(
        b.input("position_weights" + suffix, {count * patches, positions}, DType::kF32));
  }

  const Loaded loaded = load_stage(g, times, position_weights);
  const Text text = prompt_stage(g, cache);
  const std::vector<Value> features = vision_stage(g, images, loaded.positions);
  const ContextCache context = backbone_stage(g, features, text, cache);
  Value state_tokens;  // [R, D]; unlike those of actions they have no positions
  b.stage("state", When::kInfer, 1, [&] {
    const Value hidden = b.linear("state_in", state, "state_in", c.dit.hidden,
                                  {.bias = true, .activation = Activation::kRelu});
    state_tokens = b.linear("state_out", hidden, "state_out", g.width(), {.bias = true});
  });
  denoise_stage(g, loaded, context, state_tokens, actions);
  return std::move(b).finish();
}

}  // namespace flashrt
