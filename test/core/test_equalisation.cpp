// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Equalisation: which norms have a site and why others have none, octaves worked out by hand, and
// that a plan computes the same with them and without.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "compile_cpu.hpp"
#include "expect_error.hpp"
#include "models/models.hpp"
#include "quant/equalisation.hpp"
#include "quant/equalisation_json.hpp"
#include "quant/plan_digest.hpp"
#include "quant/precision.hpp"
#include "temporary_folder.hpp"
#include "tiny_models.hpp"

namespace flashrt {
namespace {

using Names = std::vector<std::string>;

constexpr PlanOptions kSizes{.cameras = 2, .prompt_capacity = 7, .horizon = 3, .steps = 2};

Names call_names(const Plan& plan, const std::vector<int>& calls) {
  Names names;
  for (const int call : calls) names.push_back(plan.calls[call].name);
  return names;
}

const EqualisationSite& site_named(const EqualisationSites& found, const std::string& name) {
  for (const EqualisationSite& site : found.sites) {
    if (site.name == name) return site;
  }
  throw Error("no site " + name);
}

// ---- sites of the models

TEST(EqualisationSites, EveryNormOfPi05HasOne) {
  const Plan plan = build_plan(tiny_pi05(), kSizes);
  const EqualisationSites found = equalisation_sites(plan);
  EXPECT_TRUE(found.refused.empty())
      << found.refused.begin()->first << ": " << found.refused.begin()->second;
  // Two layers of vision, and its last norm; one and a half of language; two of the expert, and its
  // last norm.
  EXPECT_EQ(found.sites.size(), 5 + 3 + 5);
  const EqualisationSite& vision = site_named(found, "vision.0.qkv.weight");
  EXPECT_EQ(vision.norm_vectors, (Names{"vision.0.attn_norm.weight", "vision.0.attn_norm.bias"}));
  EXPECT_EQ(vision.width, 12);
  const EqualisationSite& folded = site_named(found, "language.0.gate_up.weight");
  EXPECT_EQ(call_names(plan, folded.norms), Names{"prefix.0.mlp_norm"});
  EXPECT_TRUE(folded.norm_vectors.empty());
  const EqualisationSite& adaptive = site_named(found, "expert.1.qkv.weight");
  EXPECT_EQ(adaptive.styles, (std::vector<StyleRows>{{.weight = "expert.1.attn_style.weight",
                                                      .bias = "expert.1.attn_style.bias",
                                                      .scale = 0,
                                                      .shift = 8}}));
}

TEST(EqualisationSites, RowsThatAreCommittedHaveTheSameStyleRows) {
  PlanOptions sizes = kSizes;
  sizes.guided = true;
  const EqualisationSites found = equalisation_sites(build_plan(tiny_pi05(), sizes));
  EXPECT_TRUE(found.refused.empty());
  EXPECT_EQ(found.sites.size(), 13u);
}

TEST(EqualisationSites, StagesThatShareALayerShareItsFactors) {
  const Plan plan = build_plan(tiny_pi0(), kSizes);
  const EqualisationSites found = equalisation_sites(plan);
  const EqualisationSite& qkv = site_named(found, "expert.1.qkv.weight");
  EXPECT_EQ(call_names(plan, qkv.norms), (Names{"state.1.attn_norm", "denoise.1.attn_norm"}));
  EXPECT_EQ(call_names(plan, qkv.linears), (Names{"state.1.qkv", "denoise.1.qkv"}));
  EXPECT_EQ(site_named(found, "action_out.weight").norm_vectors, Names{"expert.norm.weight"});
  EXPECT_TRUE(found.refused.empty());
}

TEST(EqualisationSites, OfGrootAllButTheNormsThatNoLinearReads) {
  PlanOptions sizes = kSizes;
  sizes.markup_rows = {2, 3};
  const Plan plan = build_plan(tiny_groot(), sizes);
  const EqualisationSites found = equalisation_sites(plan);
  Names refused;
  for (const auto& [call, why] : found.refused) refused.push_back(call);
  // Four rows of the vision tower are merged into one; two norms follow one another.
  EXPECT_EQ(refused, (Names{"backbone.norm", "prompt.norm", "vision.norm"}));
  EXPECT_NE(found.refused.at("vision.norm").find("backbone.connector_norm reads"),
            std::string::npos);
  // The norm of the context feeds three linears over rows of its result, and shares two of them
  // with the norm of the prompt.
  const EqualisationSite& context = site_named(found, "dit.text_kv.weight");
  EXPECT_EQ(call_names(plan, context.norms),
            (Names{"prompt.context_norm", "backbone.context_norm"}));
  EXPECT_EQ(context.weights, (Names{"dit.text_kv.weight", "dit.image_kv.weight"}));
  EXPECT_EQ(site_named(found, "dit.0.q.weight").styles.front().shift, 8);
}

TEST(EqualisationSites, OneForEachLayerHoweverManyTowers) {
  PlanOptions sizes = kSizes;
  sizes.markup_rows = {2, 3};
  const EqualisationSites one = equalisation_sites(build_plan(tiny_groot(), sizes));
  sizes.image_sizes = {{28, 28}, {28, 56}};
  const Plan plan = build_plan(tiny_groot(), sizes);
  const EqualisationSites two = equalisation_sites(plan);
  ASSERT_EQ(one.sites.size(), two.sites.size());
  for (size_t i = 0; i < one.sites.size(); ++i) {
    EXPECT_EQ(one.sites[i].name, two.sites[i].name);
    EXPECT_EQ(one.sites[i].weights, two.sites[i].weights);
    EXPECT_EQ(one.sites[i].norm_vectors, two.sites[i].norm_vectors);
    EXPECT_EQ(one.sites[i].styles, two.sites[i].styles);
  }
  EXPECT_EQ(call_names(plan, site_named(two, "vision.1.fc1.weight").norms),
            (Names{"vision.0.1.mlp_norm", "vision.1.1.mlp_norm"}));
}

// ---- norms without one

// A plan of x [3, 8], a condition [2, 4], and what `body` makes of them.
template <class Body>
EqualisationSites sites_of(const Body& body) {
  PlanBuilder b("small");
  const Value x = b.input("x", {3, 8}, DType::kF32);
  const Value condition = b.input("condition", {2, 4}, DType::kF32);
  Value styles;
  b.stage("load", When::kLoad, 1,
          [&] { styles = b.linear("styles", condition, "styles", 24, {.bias = true}); });
  b.stage("s", When::kInfer, 2, [&] { body(b, x, styles); });
  return equalisation_sites(std::move(b).finish());
}

std::string refusal(const EqualisationSites& found, const std::string& call = "s.norm") {
  const auto why = found.refused.find(call);
  return why == found.refused.end() ? "" : why->second;
}

Style style_at(PlanBuilder& b, Value styles) {
  const Value row = b.at_step(styles);
  return {
      .scale = b.columns(row, 0, 8), .shift = b.columns(row, 8, 8), .gate = b.columns(row, 16, 8)};
}

TEST(EqualisationSites, RefusesOtherReaders) {
  EXPECT_EQ(refusal(sites_of([](PlanBuilder& b, Value x, Value) {
              const Value y = b.add_norm("norm", {.residual = x}, {}).y;
              b.linear("up", y, "up", 6);
              b.glu("glu", y, Activation::kSilu);
            })),
            "s.glu reads s.norm as gate_up, which is not the x of a linear");
  EXPECT_EQ(refusal(sites_of([](PlanBuilder& b, Value x, Value) {
              const Value y = b.add_norm("norm", {.residual = x}, {}).y;
              b.linear("up", y, "up", 8, {.residual = y});
            })),
            "s.up reads s.norm as residual, which is not the x of a linear");
  EXPECT_EQ(refusal(sites_of(
                [](PlanBuilder& b, Value x, Value) { b.add_norm("norm", {.residual = x}, {}); })),
            "nothing reads s.norm");
  EXPECT_EQ(refusal(sites_of([](PlanBuilder& b, Value x, Value) {
              b.linear("up", b.columns(b.add_norm("norm", {.residual = x}, {}).y, 2, 4), "up", 6);
            })),
            "s.up reads s.norm[:, 2:6], which is not whole rows of s.norm");
}

TEST(EqualisationSites, TakesRowsOfAResult) {
  const EqualisationSites found = sites_of([](PlanBuilder& b, Value x, Value) {
    const Value y = b.add_norm("norm", {.residual = x}, {}).y;
    b.linear("up", b.rows(y, 1, 2), "up", 6);
  });
  EXPECT_EQ(site_named(found, "up.weight").width, 8);
}

TEST(EqualisationSites, RefusesPartsOfOtherValues) {
  const EqualisationSites found = sites_of([](PlanBuilder& b, Value x, Value) {
    const Value first = b.add_norm("norm", {.residual = x}, {}).y;
    const Value second = b.add_norm("norm2", {.residual = x}, {}).y;
    b.linear("up", b.concat("both", {first, second}), "up", 6);
  });
  EXPECT_TRUE(found.sites.empty());
  EXPECT_EQ(refusal(found), "s.norm is a part of another value, or written more than once");
}

TEST(EqualisationSites, RefusesAllWhoShareAWeightWithOneThatHasNone) {
  const EqualisationSites found = sites_of([](PlanBuilder& b, Value x, Value) {
    b.linear("up", b.add_norm("norm", {.residual = x}, {.weight = "w"}).y, "up", 6);
    // It shares the norm weight with the one above, and a linear with x itself.
    b.linear("side", b.add_norm("norm2", {.residual = x}, {.weight = "w"}).y, "side", 6);
    b.linear("plain", x, "side", 6);
  });
  EXPECT_TRUE(found.sites.empty());
  EXPECT_EQ(refusal(found), "side.weight is read by s.plain too, which has no site");
  EXPECT_EQ(refusal(found, "s.norm2"), refusal(found));
}

TEST(EqualisationSites, RefusesStylesThatOthersRead) {
  EXPECT_EQ(refusal(sites_of([](PlanBuilder& b, Value x, Value styles) {
              const Style style = style_at(b, styles);
              b.linear("up", b.add_norm("norm", {.residual = x}, {.style = style}).y, "up", 6);
              b.linear("side", x, "side", 8, {.shift = style.shift});
            })),
            "s.side reads load.styles[step][:, 8:16] as shift, columns of the scale or shift");
  EXPECT_EQ(refusal(sites_of([](PlanBuilder& b, Value x, Value styles) {
              const Style style = style_at(b, styles);
              b.linear("up", b.add_norm("norm", {.residual = x}, {.style = style}).y, "up", 6);
              const Normed other = b.add_norm("norm2", {.residual = x}, {.style = style});
              b.glu("glu", other.y, Activation::kSilu);
            })),
            "a style row of styles.weight is read by s.norm2 too, which has no site");
}

TEST(EqualisationSites, LeavesTheGateAlone) {
  const EqualisationSites found = sites_of([](PlanBuilder& b, Value x, Value styles) {
    const Style style = style_at(b, styles);
    const Normed norm = b.add_norm("norm", {.residual = x}, {.style = style});
    const Value up = b.linear("up", norm.y, "up", 8);
    const Normed last = b.add_norm("norm2", {.residual = x, .delta = up, .gate = style.gate}, {});
    b.linear("down", last.y, "down", 6);
  });
  EXPECT_TRUE(found.refused.empty());
  EXPECT_EQ(found.sites.size(), 2u);
}

TEST(EqualisationSites, RefusesStylesThatAreNotALinearWithABias) {
  const auto with_styles = [](const LinearOptions& options, const std::string& also) {
    PlanBuilder b("small");
    const Value x = b.input("x", {3, 8}, DType::kF32);
    const Value condition = b.input("condition", {2, 4}, DType::kF32);
    Value styles;
    b.stage("load", When::kLoad, 1, [&] {
      styles = b.linear("styles", condition, "styles", 24, options);
      if (!also.empty()) b.linear("also", condition, also, 24, options);
    });
    b.stage("s", When::kInfer, 2, [&] {
      const Normed norm = b.add_norm("norm", {.residual = x}, {.style = style_at(b, styles)});
      b.linear("up", norm.y, "up", 6);
    });
    return refusal(equalisation_sites(std::move(b).finish()));
  };
  const std::string not_plain =
      "load.styles is made by load.styles, which is not a linear with a bias alone";
  EXPECT_EQ(with_styles({.bias = true}, ""), "");
  EXPECT_EQ(with_styles({}, ""), not_plain);
  EXPECT_EQ(with_styles({.bias = true, .activation = Activation::kSilu}, ""), not_plain);
  EXPECT_EQ(with_styles({.bias = true}, "styles"),
            "the style weight styles.weight is read by more than one call");
}

// ---- octaves

TEST(EqualisingOctaves, FollowTheirFormula) {
  // sqrt(activation / weight) = 2, 1/2, 4, 1/4: their geometric mean is 1.
  const std::vector<float> activation{4, 1, 16, 1}, weight{1, 4, 1, 16};
  EXPECT_EQ(equalising_octaves(activation, weight, 0.5), (std::vector<int>{1, -1, 2, -2}));
  // The activation alone, in octaves 2, 0, 4, 0: 1.5 is their mean.
  EXPECT_EQ(equalising_octaves(activation, weight, 1), (std::vector<int>{1, -2, 3, -2}))
      << "halves away from zero";
}

TEST(EqualisingOctaves, LeaveDeadChannelsAlone) {
  const std::vector<float> activation{8, 0, 2, 5}, weight{1, 3, 1, 0};
  EXPECT_EQ(equalising_octaves(activation, weight, 1), (std::vector<int>{1, 0, -1, 0}))
      << "the mean is over the two live channels";
  const std::vector<float> none(4, 0.0f);
  EXPECT_EQ(equalising_octaves(none, weight, 0.5), std::vector<int>(4, 0));
  EXPECT_EQ(equalising_octaves(activation, none, 0.5), std::vector<int>(4, 0));
}

TEST(EqualisingOctaves, StayWithinTheirBounds) {
  const std::vector<float> activation{1e30f, 1e-30f}, weight{1, 1};
  EXPECT_EQ(equalising_octaves(activation, weight, 1),
            (std::vector<int>{kMostOctaves, -kMostOctaves}));
}

TEST(ChannelMaxima, KeepTheLargestOfEachChannel) {
  ChannelMaxima maxima;
  maxima.begin_observation("w", "p");
  maxima.observe("site", 3, std::vector<float>{1, -5, 0, -2, 3, 0});
  maxima.observe("site", 3, std::vector<float>{0, 4, 0.5f});
  EXPECT_EQ(maxima.sites().at("site"), (std::vector<float>{2, 5, 0.5f}));
  EXPECT_CONTAINS(error_text([&] {
                    maxima.observe("site", 2, std::vector<float>{1, 2});
                  }),
                  "site site: 2 values in rows of 2, it has 3 channels");
  EXPECT_CONTAINS(error_text([&] {
                    maxima.observe("site", 3, std::vector<float>{1, 2, NAN});
                  }),
                  "element 2 is nan");
  EXPECT_CONTAINS(error_text([&] { maxima.begin_observation("w", "other"); }),
                  "plan p, this one is of w and other");
}

TEST(Equalisation, RefusesOctavesOutOfBounds) {
  Equalisation equalisation;
  EXPECT_CONTAINS(error_text([&] {
                    equalisation.set("a", {1, 13});
                  }),
                  "site a: octave 13 of channel 1, expected -12 to 12");
  EXPECT_CONTAINS(error_text([&] { equalisation.set("a", {-20}); }), "octave -20 of channel 0");
}

TEST(Equalisation, RefusesSitesThatThePlanLacks) {
  const Plan plan = build_plan(tiny_pi05(), kSizes);
  Equalisation equalisation;
  equalisation.set("language.0.qky.weight", std::vector<int>(16, 1));
  EXPECT_CONTAINS(error_text([&] { (void)equalised(plan, equalisation); }),
                  "no site 'language.0.qky.weight'; nearest: 'language.0.qkv.weight'");
  Equalisation narrow;
  narrow.set("language.0.qkv.weight", std::vector<int>(15, 1));
  EXPECT_CONTAINS(error_text([&] { (void)equalised(plan, narrow); }),
                  "has 16 channels, 15 are given");
}

// ---- the same result

HostTensor random_tensor(const Shape& shape, std::mt19937& random) {
  std::uniform_real_distribution<float> number(-1, 1);
  HostTensor tensor{shape, std::vector<float>(static_cast<size_t>(shape.elements()))};
  for (float& value : tensor.data) value = number(random);
  return tensor;
}

class MapWeights : public Weights::Source {
 public:
  explicit MapWeights(HostWeights weights) : weights_(std::move(weights)) {}
  HostTensor load(std::string_view name) const override { return weights_.at(std::string(name)); }
  const std::string& digest() const override { return digest_; }

 private:
  HostWeights weights_;
  std::string digest_ = "map";
};

// One norm of each kind: folded, with weight and bias, adaptive with committed rows; two linears
// behind each.
struct Norms {
  Plan plan;
  HostWeights weights;
  int64_t width;

  Norms(int64_t channels, std::mt19937& random) : width(channels) {
    PlanBuilder b("norms");
    const Value x = b.input("x", {5, width}, DType::kF32);
    const Value condition = b.input("condition", {3, 6}, DType::kF32);
    const Value committed = b.input("committed_rows", {1}, DType::kI32);
    Value styles;
    b.stage("load", When::kLoad, 1,
            [&] { styles = b.linear("styles", condition, "styles", 3 * width, {.bias = true}); });
    b.stage("s", When::kInfer, 2, [&] {
      const auto read = [&](const std::string& name, Value y) {
        b.linear(name + ".a", y, name + ".a", 4, {.bias = true});
        b.linear(name + ".b", b.rows(y, 1, 3), name + ".b", 7);
      };
      read("folded", b.add_norm("folded", {.residual = x}, {}).y);
      read("plain", b.add_norm("plain", {.residual = x}, {.norm = Norm::kLayer}).y);
      read("layer", b.add_norm("layer", {.residual = x},
                               {.norm = Norm::kLayer, .weight = "layer.w", .bias = "layer.b"})
                        .y);
      const auto style = [&](Value row) {
        return Style{.scale = b.columns(row, 0, width), .shift = b.columns(row, width, width)};
      };
      read("adaptive", b.add_norm("adaptive", {.residual = x},
                                  {.style = style(b.at_step(styles)),
                                   .committed_style = style(b.rows(styles, 2, 1)),
                                   .committed_rows = committed})
                           .y);
    });
    plan = std::move(b).finish();
    for (const WeightInfo& info : plan.weights)
      weights[info.name] = random_tensor(info.shape, random);
  }

  // Every value that a linear of stage s makes.
  std::map<std::string, std::vector<float>> run(const Equalisation& equalisation,
                                                std::mt19937 random) const {
    const Plan changed = equalised(plan, equalisation);
    const Weights source =
        equalised(Weights(std::make_unique<MapWeights>(weights)), plan, equalisation);
    HostWeights held;
    for (const WeightInfo& info : changed.weights) held[info.name] = source.load(info.name);
    const auto program = compile_cpu(changed, held, {}, 1, {.keep_values = true});
    const HostTensor x = random_tensor({5, width}, random);
    const HostTensor condition = random_tensor({3, 6}, random);
    const int32_t committed = 2;
    program->write("x", std::as_bytes(std::span(x.data)));
    program->write("condition", std::as_bytes(std::span(condition.data)));
    program->write("committed_rows", std::as_bytes(std::span(&committed, 1)));
    program->run(When::kLoad);
    program->run(When::kInfer);
    std::map<std::string, std::vector<float>> values;
    for (const Call& call : changed.calls) {
      for_each_write(call, [&](Value value) {
        const ValueInfo& info = changed[value];
        std::vector<float>& data = values[info.name];
        data.resize(static_cast<size_t>(info.shape.elements()));
        program->read_float(info.name, data);
      });
    }
    return values;
  }

  Equalisation octaves(std::mt19937& random) const {
    std::uniform_int_distribution<int> octave(-6, 6);
    Equalisation equalisation{.strength = 0.5, .octaves = {}};
    for (const EqualisationSite& site : equalisation_sites(plan).sites) {
      std::vector<int> channels;
      for (int64_t i = 0; i < width; ++i) channels.push_back(octave(random));
      equalisation.set(site.name, channels);
    }
    return equalisation;
  }
};

// No product and no sum is rounded differently, so nothing moves at all.
TEST(Equalisation, KeepsEveryBitBehindPlainNorms) {
  std::mt19937 random(8);
  for (const int64_t width : {1, 2, 8, 33, 64, 257}) {
    const Norms norms(width, random);
    const Equalisation equalisation = norms.octaves(random);
    const auto before = norms.run({}, random), after = norms.run(equalisation, random);
    for (const std::string name : {"s.folded", "s.plain", "s.layer"}) {
      EXPECT_TRUE(width <= 8 || before.at(name) != after.at(name)) << "the factors did something";
      EXPECT_EQ(before.at(name + ".a"), after.at(name + ".a")) << name << " of width " << width;
      EXPECT_EQ(before.at(name + ".b"), after.at(name + ".b")) << name << " of width " << width;
    }
  }
}

constexpr double kUnit = 0x1p-24;  // of rounding in float32

// How far a linear behind an adaptive norm may move. y = n (1 + scale) + shift is held with scale
// and shift as sums over a condition of 6; what it is multiplied by is rounded with scale, to a
// unit of 1 at least, where 1 + scale may be as small as 1 / factor. The sum of the linear follows.
double bound_of(const HostTensor& weight, int64_t row, const float* y, int64_t width,
                const std::vector<int>& octaves) {
  constexpr double kTerms = 2 * (6 + 4);       // two such sums, their bias, 1 + scale, the product
  constexpr double kLargestStyle = 1 + 6 + 1;  // one, six products and a bias below one each
  const double largest_normed = std::sqrt(static_cast<double>(width));  // of an RMSNorm
  double sum = 0;
  for (int64_t i = 0; i < width; ++i) {
    const double style =
        kTerms * kLargestStyle * largest_normed * std::exp2(std::max(0, octaves[i]));
    sum += std::abs(double{weight.data[row * width + i]}) *
           (2.0 * static_cast<double>(width) * std::abs(double{y[i]}) + style);
  }
  return sum * kUnit;
}

TEST(Equalisation, KeepsAllButRoundingBehindAdaptiveNorms) {
  std::mt19937 random(7);
  for (const int64_t width : {1, 2, 8, 33, 64, 257}) {
    const Norms norms(width, random);
    const Equalisation equalisation = norms.octaves(random);
    const auto before = norms.run({}, random), after = norms.run(equalisation, random);
    const std::vector<float>& y = before.at("s.adaptive");
    EXPECT_TRUE(width <= 8 || y != after.at("s.adaptive")) << "the factors did something";
    for (const bool is_first : {true, false}) {
      const std::string linear = is_first ? "adaptive.a" : "adaptive.b";
      const std::vector<float>& a = before.at("s." + linear);
      const std::vector<float>& b = after.at("s." + linear);
      const HostTensor& weight = norms.weights.at(linear + ".weight");
      const int64_t columns = weight.shape.rows();
      for (int64_t i = 0; i < static_cast<int64_t>(a.size()); ++i) {
        const int64_t row = i / columns + (is_first ? 0 : 1);
        const double bound = bound_of(weight, i % columns, y.data() + row * width, width,
                                      equalisation.octaves.at("adaptive.a.weight"));
        EXPECT_LE(std::abs(double{a[i]} - double{b[i]}), bound + 2 * kUnit * std::abs(double{a[i]}))
            << linear << " of width " << width << ", element " << i;
      }
    }
  }
}

TEST(Equalisation, DividesWhatNormsWrite) {
  std::mt19937 random(9);
  const Norms norms(16, random);
  const Equalisation equalisation = norms.octaves(random);
  const auto before = norms.run({}, random), after = norms.run(equalisation, random);
  for (const std::string name : {"folded", "plain", "layer", "adaptive"}) {
    const std::vector<int>& octaves = equalisation.octaves.at(name + ".a.weight");
    const std::vector<float>& a = before.at("s." + name);
    const std::vector<float>& b = after.at("s." + name);
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_NEAR(a[i], std::ldexp(b[i], octaves[i % 16]), name == "adaptive" ? 1e-4 : 0)
          << name << " element " << i;
    }
  }
}

TEST(Equalisation, EvensOutWhatItWasMadeFrom) {
  std::mt19937 random(10);
  Norms norms(16, random);
  for (const char* linear : {"folded.a.weight", "folded.b.weight"}) {
    HostTensor& weight = norms.weights.at(linear);
    for (int64_t row = 0; row < weight.shape.rows(); ++row) weight.data[row * 16 + 3] = 0;
  }
  const auto before = norms.run({}, random);
  ChannelMaxima maxima;
  maxima.begin_observation("map", plan_digest(norms.plan));
  maxima.observe("folded.a.weight", 16, before.at("s.folded"));
  maxima.observe("adaptive.a.weight", 16, before.at("s.adaptive"));
  const Weights weights(std::make_unique<MapWeights>(norms.weights));
  const Equalisation whole = equalise(norms.plan, weights, maxima, 1);
  EXPECT_EQ(whole.octaves.size(), 2u) << "only what was observed";
  const auto after = norms.run(whole, random);
  std::vector<float> largest(16);
  for (size_t i = 0; i < after.at("s.folded").size(); ++i)
    largest[i % 16] = std::max(largest[i % 16], std::abs(after.at("s.folded")[i]));
  largest.erase(largest.begin() + 3);
  const auto [least, most] = std::minmax_element(largest.begin(), largest.end());
  EXPECT_LE(*most / *least, 2.0f + 1e-5f) << "all within one octave";
  EXPECT_EQ(whole.octaves.at("folded.a.weight")[3], 0) << "no linear reads the channel";

  const auto why = [&](const ChannelMaxima& observed, double strength) {
    return error_text([&] { (void)equalise(norms.plan, weights, observed, strength); });
  };
  EXPECT_CONTAINS(why(maxima, 0), "strength 0, expected above 0");
  EXPECT_CONTAINS(why(maxima, 1.5), "strength 1.5");
  EXPECT_CONTAINS(why(ChannelMaxima(), 0.5), "nothing was observed");
  ChannelMaxima others;
  others.begin_observation("other", plan_digest(norms.plan));
  others.observe("folded.a.weight", 16, before.at("s.folded"));
  EXPECT_CONTAINS(why(others, 0.5), "weights other, these are map");
}

TEST(Equalisation, FoldedNormsGetOneWeightPerSite) {
  const Plan plan = build_plan(tiny_pi0(), kSizes);
  Equalisation equalisation;
  equalisation.set("expert.0.qkv.weight", std::vector<int>(8, 1));
  const Plan changed = equalised(plan, equalisation);
  EXPECT_EQ(changed.weights.size(), plan.weights.size() + 1);
  EXPECT_EQ(changed.weights.back().name, "expert.0.qkv.weight.equalising_norm");
  EXPECT_EQ(changed.weights.back().shape, Shape{8});
  int norms = 0;
  for (const Call& call : changed.calls) {
    const auto* op = std::get_if<AddNorm>(&call.op);
    norms += op && op->weight == changed.weights.back().name;
  }
  EXPECT_EQ(norms, 2) << "in the stages state and denoise";
}

TEST(Equalisation, WithoutFactorsChangesNothing) {
  const Plan plan = build_plan(tiny_pi05(), kSizes);
  const Plan same = equalised(plan, {});
  EXPECT_EQ(same.weights.size(), plan.weights.size());
  EXPECT_EQ(plan_digest(same), plan_digest(plan));
}

// ---- files

Equalisation small() {
  Equalisation equalisation{.strength = 0.5, .octaves = {}};
  equalisation.set("a.weight", {0, -3, 12});
  equalisation.set("b.weight", {1});
  return equalisation;
}

TEST(EqualisationFile, GoesWithObservationsAndCalibration) {
  const TemporaryFolder folder;
  Calibration calibration;
  calibration.observations.begin("weights", "plan", small());
  calibration.observe("site", -1, std::vector<float>{1, 2});
  calibration.observations.end(10);
  calibration.observations.save(folder.path() / "observed.json");
  Observations resumed = Observations::load(folder.path() / "observed.json");
  EXPECT_EQ(resumed.equalisation, small());
  EXPECT_CONTAINS(error_text([&] { resumed.begin("weights", "plan"); }),
                  "of a model that is equalised with strength 0.5, this one is not equalised");
  resumed.begin("weights", "plan", small());

  calibration.finish(RangeEstimator::kMinMax, 1, false);
  calibration.save(folder.path() / "calibration.json");
  EXPECT_EQ(Calibration::load(folder.path() / "calibration.json").observations.equalisation,
            small());
}

TEST(EqualisationFile, IsRefusedWhereItIsDamaged) {
  const auto why = [](const nlohmann::json& equalisation) {
    const nlohmann::json json{{"equalisation", equalisation}};
    return error_text([&] { (void)read_equalisation(JsonFields(json, "file: "), "file"); });
  };
  EXPECT_CONTAINS(why({{"strength", 2}, {"octaves", {{"a", {1}}}}}), "strength");
  EXPECT_CONTAINS(why({{"strength", 1}}), "octaves");
  EXPECT_CONTAINS(why({{"strength", 1}, {"octaves", nlohmann::json::object()}}), "octaves");
  const std::string list = "file: equalisation: site a, expected a list of integers from -12 to 12";
  EXPECT_CONTAINS(why({{"strength", 1}, {"octaves", {{"a", 1}}}}), list);
  EXPECT_CONTAINS(why({{"strength", 1}, {"octaves", {{"a", {0.5}}}}}), list);
  EXPECT_CONTAINS(why({{"strength", 1}, {"octaves", {{"a", {13}}}}}), list);
  EXPECT_CONTAINS(why({{"strength", 1}, {"octaves", {{"a", {18446744073709551615u}}}}}), list);
  EXPECT_CONTAINS(why({{"strength", 1}, {"octaves", {{"a", {1}}}}, {"more", 1}}), "more");
}

TEST(QuantisedNorms, AreThoseThatARecipeQuantises) {
  const Plan plan = build_plan(tiny_pi05(), kSizes);
  const auto norms_of = [&](const char* name) {
    return quantised_norms(plan, assign_precision(plan, Recipe::named(name)));
  };
  EXPECT_TRUE(norms_of("f32").empty());
  EXPECT_TRUE(norms_of("bf16").empty());
  const auto fp8 = norms_of("fp8");
  EXPECT_EQ(fp8.size(), 12u) << "all but the norm ahead of the velocity, which is float32";
  EXPECT_FALSE(fp8.contains("denoise.norm"));
  EXPECT_EQ(fp8.at("prefix.0.attn_norm"), "language.0.qkv.weight");
  Recipe observed = Recipe::named("fp8");
  observed.float_activations = true;
  EXPECT_EQ(quantised_norms(plan, assign_precision(plan, observed)), fp8);
}

}  // namespace
}  // namespace flashrt
