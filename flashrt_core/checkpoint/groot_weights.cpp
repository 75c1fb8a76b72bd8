// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "checkpoint/groot_weights.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace flashrt {
namespace {

const std::string kVision = "backbone.model.vision_model.vision_model.";
const std::string kLanguage = "backbone.model.language_model.model.";
const std::string kConnector = "backbone.model.mlp1.";
const std::string kHead = "action_head.";
const std::string kDit = "action_head.model.";

constexpr int kChannels = 3, kSquare = 2;  // patches of a side that the connector merges

using Parts = std::span<const HostTensor>;

SourceTensor source(std::string name, Shape shape) { return {{std::move(name)}, std::move(shape)}; }

// out[r][i] = in[r][from(i)].
template <class From>
std::vector<float> permute_columns(const HostTensor& in, int64_t rows, const From& from) {
  const int64_t width = in.shape.elements() / rows;
  std::vector<float> out(in.data.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < width; ++i) out[r * width + i] = in.data[r * width + from(i)];
  }
  return out;
}

// a b of [n, k] and [k, m], or its transpose [m, n]; in double, rounded once.
std::vector<float> product(const HostTensor& a, const float* b, int64_t columns, bool transposed) {
  const int64_t rows = a.shape[0], depth = a.shape[1];
  std::vector<float> out(static_cast<size_t>(rows * columns));
  std::vector<double> sums(static_cast<size_t>(columns));
  for (int64_t r = 0; r < rows; ++r) {
    std::fill(sums.begin(), sums.end(), 0.0);
    for (int64_t k = 0; k < depth; ++k) {
      const double factor = a.data[r * depth + k];
      for (int64_t c = 0; c < columns; ++c) sums[c] += factor * b[k * columns + c];
    }
    for (int64_t c = 0; c < columns; ++c)
      out[transposed ? c * rows + r : r * columns + c] = static_cast<float>(sums[c]);
  }
  return out;
}

std::vector<float> transpose(const float* in, int64_t rows, int64_t columns) {
  std::vector<float> out(static_cast<size_t>(rows * columns));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) out[c * rows + r] = in[r * columns + c];
  }
  return out;
}

std::vector<float> sum(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> out(a.size());
  for (size_t i = 0; i < a.size(); ++i) out[i] = a[i] + b[i];
  return out;
}

class Table {
 public:
  explicit Table(const ModelConfig& config)
      : config_(config), slot_(std::max(0, config.embodiment.slot)) {}

  std::vector<PlanWeight> build() && {
    vision();
    connector();
    language();
    transformer();
    embodiment();
    return std::move(weights_);
  }

 private:
  using Compute = decltype(PlanWeight::compute);

  PlanWeight& add(std::string name, Shape shape, std::vector<SourceTensor> parts,
                  Compute compute = {}) {
    PlanWeight& weight = weights_.emplace_back();
    weight.name = std::move(name);
    weight.shape = std::move(shape);
    weight.parts = std::move(parts);
    weight.compute = std::move(compute);
    return weight;
  }

  // The tensor as it is.
  void copy(const std::string& name, const std::string& from, Shape shape) {
    add(name, shape, {source(from, shape)});
  }

  void linear(const std::string& name, const std::string& from, int64_t rows, int64_t columns) {
    copy(name + ".weight", from + ".weight", {rows, columns});
    copy(name + ".bias", from + ".bias", {rows});
  }

  // Linears [rows, columns] on the same input, stacked.
  void stacked(const std::string& name, const std::vector<std::string>& from, int64_t rows,
               int64_t columns) {
    std::vector<SourceTensor> weights, biases;
    for (const std::string& linear : from) {
      weights.push_back(source(linear + ".weight", {rows, columns}));
      biases.push_back(source(linear + ".bias", {rows}));
    }
    const auto all = static_cast<int64_t>(from.size()) * rows;
    add(name + ".weight", {all, columns}, weights);
    add(name + ".bias", {all}, biases);
  }

  void layer_norm(const std::string& name, const std::string& from, int64_t width) {
    copy(name + ".weight", from + ".weight", {width});
    copy(name + ".bias", from + ".bias", {width});
  }

  // ---- backbone

  void vision() {
    const VisionConfig& c = config_.vision;
    const int64_t width = c.width, patch = c.patch, positions = c.position_grid * c.position_grid;
    const std::string embeddings = kVision + "embeddings.";
    // Stored as (dy, dx, channel).
    add("vision.patch.weight", {width, kChannels * patch * patch},
        {source(embeddings + "patch_embedding.weight", {width, kChannels * patch * patch})},
        [=](Parts parts) {
          return permute_columns(parts[0], width, [=](int64_t i) {
            return i % (patch * patch) * kChannels + i / (patch * patch);
          });
        });
    copy("vision.patch.bias", embeddings + "patch_embedding.bias", {width});
    // A linear that reads the weights of the resize.
    add("vision.position.weight", {width, positions},
        {source(embeddings + "position_embedding.weight", {positions, width})},
        [=](Parts parts) { return transpose(parts[0].data.data(), positions, width); });
    for (int layer = 0; layer < c.layers; ++layer) {
      const std::string to = text("vision.", layer, "."),
                        from = text(kVision, "encoder.layers.", layer, "."),
                        attention = from + "self_attn.";
      layer_norm(to + "attn_norm", from + "layer_norm1", width);
      stacked(to + "qkv", {attention + "q_proj", attention + "k_proj", attention + "v_proj"}, width,
              width);
      linear(to + "attn_out", attention + "out_proj", width, width);
      layer_norm(to + "mlp_norm", from + "layer_norm2", width);
      linear(to + "fc1", from + "mlp.fc1", c.mlp_width, width);
      linear(to + "fc2", from + "mlp.fc2", width, c.mlp_width);
    }
    layer_norm("vision.norm", kVision + "post_layernorm", width);
  }

  // The checkpoint merges a square as (channel, dy, dx), the plan as (dy, dx, channel): four rows
  // side by side.
  void connector() {
    const int64_t channels = config_.vision.width, width = config_.language.width;
    constexpr int64_t kPatches = kSquare * kSquare;
    const int64_t merged = kPatches * channels;
    const auto from = [=](int64_t i) { return i % channels * kPatches + i / channels; };
    for (const char* part : {".weight", ".bias"}) {
      add(text("connector.norm", part), {merged}, {source(text(kConnector, "0", part), {merged})},
          [=](Parts parts) { return permute_columns(parts[0], 1, from); });
    }
    add("connector_in.weight", {width, merged}, {source(kConnector + "1.weight", {width, merged})},
        [=](Parts parts) { return permute_columns(parts[0], width, from); });
    copy("connector_in.bias", kConnector + "1.bias", {width});
    linear("connector_out", kConnector + "3", width, width);
  }

  void language() {
    const GemmaConfig& c = config_.language;
    const int64_t width = c.width, mlp = c.mlp_width;
    const int64_t q = int64_t{c.heads} * c.head_dim, kv = int64_t{c.kv_heads} * c.head_dim;
    copy("language.embed", kLanguage + "embed_tokens.weight", {config_.vocab_size, width});
    for (int layer = 0; layer < c.layers; ++layer) {
      const std::string to = text("language.", layer, "."),
                        from = text(kLanguage, "layers.", layer, "."),
                        attention = from + "self_attn.";
      const auto fold = [&](PlanWeight& weight, const std::string& norm) {
        weight.norm = {source(from + norm, {width})};
        weight.norm_offset = 0;
      };
      fold(add(to + "qkv.weight", {q + 2 * kv, width},
               {source(attention + "q_proj.weight", {q, width}),
                source(attention + "k_proj.weight", {kv, width}),
                source(attention + "v_proj.weight", {kv, width})}),
           "input_layernorm.weight");
      copy(to + "q_norm", attention + "q_norm.weight", {c.head_dim});
      copy(to + "k_norm", attention + "k_norm.weight", {c.head_dim});
      copy(to + "attn_out.weight", attention + "o_proj.weight", {width, q});
      fold(add(to + "gate_up.weight", {2 * mlp, width},
               {source(from + "mlp.gate_proj.weight", {mlp, width}),
                source(from + "mlp.up_proj.weight", {mlp, width})}),
           "post_attention_layernorm.weight");
      copy(to + "down.weight", from + "mlp.down_proj.weight", {width, mlp});
    }
    copy("language.norm.weight", kLanguage + "norm.weight", {width});
    layer_norm("context.norm", kHead + "vlln", width);
  }

  // ---- action head

  void transformer() {
    const DitConfig& c = config_.dit;
    const int64_t width = c.width(), context = config_.language.width;
    const std::string embedder = kDit + "timestep_encoder.timestep_embedder.";
    constexpr int64_t kTimeWidth = 256;
    // The plan's time features are sines, then cosines; here cosines come first.
    add("time_in.weight", {width, kTimeWidth},
        {source(embedder + "linear_1.weight", {width, kTimeWidth})}, [=](Parts parts) {
          return permute_columns(parts[0], width,
                                 [](int64_t i) { return (i + kTimeWidth / 2) % kTimeWidth; });
        });
    copy("time_in.bias", embedder + "linear_1.bias", {width});
    linear("time_out", embedder + "linear_2", width, width);

    std::vector<std::string> text_kv, image_kv;
    for (int layer = 0; layer < c.layers; ++layer) {
      const std::string to = text("dit.", layer, "."),
                        from = text(kDit, "transformer_blocks.", layer, "."),
                        attention = from + "attn1.";
      linear(to + "style", from + "norm1.linear", 2 * width, width);
      if (layer % 2 == 1) {
        stacked(to + "qkv", {attention + "to_q", attention + "to_k", attention + "to_v"}, width,
                width);
      } else {
        linear(to + "q", attention + "to_q", width, width);
        std::vector<std::string>& kv = layer % 4 == 0 ? text_kv : image_kv;
        kv.insert(kv.end(), {attention + "to_k", attention + "to_v"});
      }
      linear(to + "attn_out", attention + "to_out.0", width, width);
      linear(to + "fc1", from + "ff.net.0.proj", c.mlp_width, width);
      linear(to + "fc2", from + "ff.net.2", width, c.mlp_width);
    }
    stacked("dit.text_kv", text_kv, width, context);
    stacked("dit.image_kv", image_kv, width, context);

    // Stored as shift, scale; styles are scale, shift.
    const auto swap_halves = [=](Parts parts) {
      std::vector<float> out = parts[0].data;
      std::rotate(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(out.size() / 2),
                  out.end());
      return out;
    };
    add("dit.norm_style.weight", {2 * width, width},
        {source(kDit + "proj_out_1.weight", {2 * width, width})}, swap_halves);
    add("dit.norm_style.bias", {2 * width}, {source(kDit + "proj_out_1.bias", {2 * width})},
        swap_halves);
  }

  // Of the small networks, which are stored as [slots, in, out].
  SourceTensor own(const std::string& name, Shape shape) const {
    std::vector<int64_t> extents{config_.dit.embodiments};
    extents.insert(extents.end(), shape.extents().begin(), shape.extents().end());
    SourceTensor tensor = source(kHead + name, Shape(extents));
    tensor.slot = slot_;
    return tensor;
  }

  void own_linear(const std::string& name, const std::string& from, int64_t rows, int64_t columns) {
    add(name + ".weight", {rows, columns}, {own(from + ".W", {columns, rows})},
        [=](Parts parts) { return transpose(parts[0].data.data(), columns, rows); });
    add(name + ".bias", {rows}, {own(from + ".b", {rows})});
  }

  void embodiment() {
    const DitConfig& c = config_.dit;
    const int64_t width = c.width(), hidden = c.hidden, output = c.output;
    const int64_t actions = config_.action_dim;
    own_linear("state_in", "state_encoder.layer1", hidden, config_.state_dim);
    own_linear("state_out", "state_encoder.layer2", width, hidden);

    // concat(a W1 + b1, tau) W2 + b2 = a (W1 upper) + tau lower + (b1 upper + b2), with the upper
    // and lower half of W2's rows.
    const std::string encoder = "action_encoder.";
    const SourceTensor both = own(encoder + "W2.W", {2 * width, width});
    add("action_in.weight", {width, actions}, {own(encoder + "W1.W", {actions, width}), both},
        [=](Parts parts) { return product(parts[0], parts[1].data.data(), width, true); });
    add("action_time.weight", {width, width}, {both},
        [=](Parts parts) { return transpose(parts[0].data.data() + width * width, width, width); });
    add("action_time.bias", {width},
        {own(encoder + "W1.b", {width}), both, own(encoder + "W2.b", {width})}, [=](Parts parts) {
          const HostTensor row{{1, width}, parts[0].data};
          return sum(product(row, parts[1].data.data(), width, false), parts[2].data);
        });
    own_linear("action_out", encoder + "W3", width, width);
    copy("action_position", kHead + "position_embedding.weight", {c.positions, width});

    // relu((n P^T + p) W + b) = relu(n (P^T W) + (p W + b)).
    const std::string first = "action_decoder.layer1";
    add("decoder.weight", {hidden, width},
        {source(kDit + "proj_out_2.weight", {output, width}), own(first + ".W", {output, hidden})},
        [=](Parts parts) {
          const HostTensor transposed{{hidden, output},
                                      transpose(parts[1].data.data(), output, hidden)};
          return product(transposed, parts[0].data.data(), width, false);
        });
    add("decoder.bias", {hidden},
        {source(kDit + "proj_out_2.bias", {output}), own(first + ".W", {output, hidden}),
         own(first + ".b", {hidden})},
        [=](Parts parts) {
          const HostTensor row{{1, output}, parts[0].data};
          return sum(product(row, parts[1].data.data(), hidden, false), parts[2].data);
        });
    own_linear("velocity", "action_decoder.layer2", actions, hidden);
  }

  const ModelConfig& config_;
  const int slot_;
  std::vector<PlanWeight> weights_;
};

}  // namespace

std::vector<PlanWeight> groot_weights(const ModelConfig& config) { return Table(config).build(); }

bool is_unused_groot_tensor(std::string_view name) {
  // An attention pool of the vision tower; and text is read, not written.
  return name.starts_with(kVision + "head.") ||
         name == "backbone.model.language_model.lm_head.weight";
}

}  // namespace flashrt
