// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "checkpoint/random_weights.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iomanip>
#include <map>
#include <sstream>

#include "base/nearest.hpp"
#include "base/parallel.hpp"
#include "base/xxh64.hpp"
#include "checkpoint/plan_weights.hpp"
#include "checkpoint/weights.hpp"

namespace flashrt {
namespace {

// Mean and standard deviation of some rows.
struct Spread {
  double mean = 0, deviation = 0;
};

// A linear's deviation is 1 / sqrt(D): it passes on the magnitude of its input. A branch is then
// about as large as the residual it is added to, and 36 of them raise the residual two- to
// fourfold. What conditions the styles has a magnitude of 0.2 (two SiLUs after sines and cosines).
constexpr Spread kBias{.deviation = 0.05};
constexpr Spread kNormWeight{.mean = 1, .deviation = 0.1};
constexpr Spread kPosition{.deviation = 0.3};
constexpr Spread kEmbedding{.deviation = 1};  // with Gemma's factor sqrt(D) folded in
constexpr double kScaleGain = 1, kShiftGain = 0.5, kGateGain = 1;
constexpr Spread kGateBias{.mean = 0.5, .deviation = 0.1};

uint64_t hash(std::string_view bytes) { return xxh64(std::as_bytes(std::span(bytes))); }

// Whether its rows make channels of the residual stream of the vision or language model.
bool feeds_residual(std::string_view weight) {
  if (weight == "vision.patch.weight" || weight == "vision.patch.bias") return true;
  if (weight.starts_with("projector.") || weight.starts_with("connector_out.")) return true;
  if (!weight.starts_with("vision.") && !weight.starts_with("language.")) return false;
  constexpr std::string_view kLast[] = {".attn_out.", ".fc2.", ".down."};
  return std::any_of(std::begin(kLast), std::end(kLast), [&](std::string_view linear) {
    return weight.find(linear) != std::string_view::npos;
  });
}

class Table {
 public:
  Table(uint64_t seed, double outliers) : seed_(seed), outliers_(outliers) {}

  RandomTensor tensor(const PlanWeight& weight) const {
    RandomTensor result{.name = weight.name, .shape = weight.shape, .parts = {}};
    const std::vector<Spread> spreads = spreads_of(weight);
    const auto parts = static_cast<int64_t>(spreads.size());
    for (const Spread& spread : spreads) add(result, weight.shape.rows() / parts, spread);
    if (outliers_ != 1) add_outliers(result);
    return result;
  }

 private:
  // Equal shares of the rows.
  static std::vector<Spread> spreads_of(const PlanWeight& weight) {
    const double linear = 1 / std::sqrt(static_cast<double>(weight.shape.width()));
    const bool is_bias = weight.name.ends_with(".bias");
    if (weight.name.starts_with("dit.") && weight.name.find("style.") != std::string::npos) {
      if (is_bias) return {kBias, kBias};  // scale, shift
      return {{.deviation = kScaleGain * linear}, {.deviation = kShiftGain * linear}};
    }
    if (weight.name.find("style.") != std::string::npos) {  // scale, shift, gate
      if (is_bias) return {kBias, kBias, kGateBias};
      return {{.deviation = kScaleGain * linear},
              {.deviation = kShiftGain * linear},
              {.deviation = kGateGain * linear}};
    }
    if (is_bias) return {kBias};
    if (weight.name == "language.embed") return {kEmbedding};
    if (weight.name == "vision.patch.position" || weight.name == "vision.position.weight" ||
        weight.name == "action_position")
      return {kPosition};
    if (weight.shape.rank() == 1) return {kNormWeight};
    return {{.deviation = linear}};
  }

  void add(RandomTensor& tensor, int64_t rows, const Spread& spread) const {
    const double unit = spread.deviation * kRandomUnit;
    const std::string place = text(tensor.name, '\0', tensor.parts.size());
    tensor.parts.push_back(
        {.rows = rows,
         .numbers = {.key = mix_bits(seed_) ^ hash(place),
                     .offset = static_cast<int32_t>(std::lround(spread.mean / unit)),
                     .unit = static_cast<float>(unit)}});
  }

  void add_outliers(RandomTensor& tensor) const {
    if (tensor.name == "language.embed") scale_row(tensor, kOutlierToken);
    if (!feeds_residual(tensor.name)) return;
    for (const int64_t quarter : {1, 2, 3}) scale_row(tensor, quarter * tensor.shape.rows() / 4);
  }

  // Takes the row out of its part; the others keep their numbers.
  void scale_row(RandomTensor& tensor, int64_t row) const {
    const int64_t width = tensor.shape.width();
    std::vector<RandomRows> parts;
    int64_t begin = 0;
    for (const RandomRows& part : tensor.parts) {
      const int64_t before = row - begin;
      if (before < 0 || before >= part.rows) {
        parts.push_back(part);
      } else {
        RandomNumbers scaled = part.numbers.from(before * width);
        scaled.unit = static_cast<float>(scaled.unit * outliers_);
        const RandomNumbers rest = part.numbers.from((before + 1) * width);
        if (before > 0) parts.push_back({before, part.numbers});
        parts.push_back({1, scaled});
        if (part.rows > before + 1) parts.push_back({part.rows - before - 1, rest});
      }
      begin += part.rows;
    }
    tensor.parts = std::move(parts);
  }

  uint64_t seed_;
  double outliers_;
};

// Everything the numbers follow from, and the first of each tensor, so that another way of making
// them has another digest.
std::string digest_of(const std::map<std::string, RandomTensor, std::less<>>& tensors,
                      const ModelConfig& config, uint64_t seed, double outliers) {
  std::ostringstream all;
  for (const auto& [name, tensor] : tensors) {
    all << name << ' ' << tensor.shape;
    for (const auto& [rows, numbers] : tensor.parts) {
      all << ' ' << rows << ' ' << numbers.key << ' ' << numbers.offset << ' '
          << std::bit_cast<uint32_t>(numbers.unit) << ' ' << std::bit_cast<uint32_t>(numbers[0]);
    }
    all << '\n';
  }
  std::ostringstream digest;
  digest << "random " << name_of(config.type) << " seed " << seed;
  if (outliers != 1) digest << " outliers " << outliers;
  digest << ' ' << std::hex << std::setw(16) << std::setfill('0') << hash(all.str());
  return digest.str();
}

class RandomWeights : public Weights::Source {
 public:
  RandomWeights(const ModelConfig& config, uint64_t seed, int threads, double outliers)
      : pool_(std::make_unique<ThreadPool>(threads)) {
    for (RandomTensor& tensor : random_tensors(config, seed, outliers)) {
      std::string name = tensor.name;
      tensors_.emplace(std::move(name), std::move(tensor));
    }
    digest_ = digest_of(tensors_, config, seed, outliers);
  }

  HostTensor load(std::string_view name) const override {
    const RandomTensor& tensor = find(name);
    HostTensor result{tensor.shape,
                      std::vector<float>(static_cast<size_t>(tensor.shape.elements()))};
    float* to = result.data.data();
    for (const auto& [rows, numbers] : tensor.parts) {
      const int64_t count = rows * tensor.shape.width();
      constexpr int64_t kGrain = 1 << 16;
      pool_->parallel_for(count, kGrain, [to, &numbers](int64_t begin, int64_t end, int) {
        const RandomNumbers local = numbers;
        for (int64_t i = begin; i < end; ++i) to[i] = local[static_cast<uint64_t>(i)];
      });
      to += count;
    }
    return result;
  }

  std::optional<RandomTensor> random_tensor(std::string_view name) const override {
    return find(name);
  }

  const std::string& digest() const override { return digest_; }

 private:
  const RandomTensor& find(std::string_view name) const {
    if (const auto found = tensors_.find(name); found != tensors_.end()) return found->second;
    std::vector<std::string> known;
    for (const auto& [known_name, unused] : tensors_) known.push_back(known_name);
    throw Error(text("random weights: no weight '", name, "'; nearest: ", nearest(name, known)));
  }

  std::map<std::string, RandomTensor, std::less<>> tensors_;
  std::string digest_;
  std::unique_ptr<ThreadPool> pool_;
};

}  // namespace

std::vector<RandomTensor> random_tensors(const ModelConfig& config, uint64_t seed,
                                         double outliers) {
  FLASHRT_CHECK(std::isfinite(outliers) && outliers > 0, "random weights: outliers of ", outliers,
                ", expected a factor above 0, 1 for none");
  FLASHRT_CHECK(outliers == 1 || config.vocab_size > kOutlierToken,
                "random weights: outliers need token ", kOutlierToken, ", the vocabulary has ",
                config.vocab_size);
  const Table table(seed, outliers);
  std::vector<RandomTensor> tensors;
  for (const PlanWeight& weight : plan_weights(config)) tensors.push_back(table.tensor(weight));
  return tensors;
}

Weights Weights::random(const ModelConfig& config, uint64_t seed, int threads, double outliers) {
  return Weights(std::make_unique<RandomWeights>(config, seed, threads, outliers));
}

}  // namespace flashrt
