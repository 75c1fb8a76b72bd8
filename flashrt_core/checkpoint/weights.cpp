// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "checkpoint/weights.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/half.hpp"
#include "base/nearest.hpp"
#include "base/parallel.hpp"
#include "checkpoint/groot_weights.hpp"
#include "checkpoint/pi_names.hpp"
#include "checkpoint/plan_weights.hpp"
#include "checkpoint/tensor_digest.hpp"
#include "checkpoint/tensor_store.hpp"

namespace flashrt {
namespace {

using Located = std::map<std::string, LocatedTensor, std::less<>>;  // by canonical name

std::string where(const LocatedTensor& located) {
  return text("tensor ", located.tensor->name, " in ", located.file->path().string());
}

Located by_canonical_name(const TensorStore& store) {
  Located tensors;
  for (const auto& [name, located] : store.tensors()) {
    FLASHRT_CHECK(
        name.find("lora_A") == std::string::npos && name.find("lora_B") == std::string::npos,
        where(located), " is a LoRA adapter: merge the adapters into the weights before loading");
    const auto [other, is_new] = tensors.try_emplace(canonical_name(name), located);
    FLASHRT_CHECK(is_new, where(located), " is the same weight as ", where(other->second));
  }
  return tensors;
}

const LocatedTensor* find(const Located& tensors, const SourceTensor& source) {
  for (const std::string& name : source.names) {
    if (const auto found = tensors.find(name); found != tensors.end()) return &found->second;
  }
  return nullptr;
}

template <class Visit>
void for_each_source(const std::vector<PlanWeight>& table, const Visit& visit) {
  for (const PlanWeight& weight : table) {
    for (const SourceTensor& part : weight.parts) visit(part);
    for (const SourceTensor& norm : weight.norm) visit(norm);
  }
}

// Every tensor the model needs is there, and no tensor is there that means something else.
void check_presence(const TensorStore& store, const Located& tensors,
                    const std::vector<PlanWeight>& table, const ModelConfig& config) {
  std::set<std::string> missing, known;
  for_each_source(table, [&](const SourceTensor& source) {
    known.insert(source.names.begin(), source.names.end());
    if (!find(tensors, source)) missing.insert(source.names.front());
  });
  std::vector<std::string> unknown;
  for (const auto& [canonical, located] : tensors) {
    if (!known.contains(canonical) && !is_unused_tensor(canonical, config))
      unknown.push_back(located.tensor->name);
  }
  if (missing.empty() && unknown.empty()) return;
  const auto list = [](const auto& names) {
    constexpr size_t kShown = 4;
    std::string shown;
    size_t count = 0;
    for (const std::string& name : names) {
      if (count++ < kShown) shown += (count > 1 ? ", " : "") + name;
    }
    return count > kShown ? text(shown, " and ", count - kShown, " more") : shown;
  };
  std::string fault =
      text("checkpoint ", store.folder().string(), ", read as ", name_of(config.type), ":");
  if (!missing.empty()) fault += " missing tensors: " + list(missing);
  if (!unknown.empty())
    fault += text(missing.empty() ? "" : ";", " unknown tensors: ", list(unknown));
  throw Error(fault);
}

void check_shape_and_type(const LocatedTensor& located, const Shape& expected) {
  const StoredTensor& tensor = *located.tensor;
  FLASHRT_CHECK(tensor.shape == expected, where(located), " is ", tensor.shape,
                ", config.json makes it ", expected);
  FLASHRT_CHECK(is_float_dtype(tensor.dtype), where(located), " has dtype ", tensor.dtype,
                ", expected F32, BF16 or F16");
}

// Reads any of the accepted types as float, which holds all of them exactly.
class Elements {
 public:
  explicit Elements(const StoredTensor& tensor)
      : data_(tensor.bytes.data()),
        kind_(tensor.dtype == "F32"    ? Kind::kF32
              : tensor.dtype == "BF16" ? Kind::kBF16
                                       : Kind::kF16) {}

  // Elements [first, first + to.size()).
  void read(int64_t first, std::span<float> to) const {
    if (kind_ == Kind::kF32) {
      std::memcpy(to.data(), data_ + first * 4, to.size_bytes());
      return;
    }
    const std::byte* from = data_ + first * 2;
    for (float& value : to) {
      uint16_t bits;
      std::memcpy(&bits, from, sizeof bits);
      from += sizeof bits;
      value = kind_ == Kind::kBF16 ? bf16_to_float(bits) : f16_to_float(bits);
    }
  }

 private:
  enum class Kind { kF32, kBF16, kF16 };
  const std::byte* data_;
  Kind kind_;
};

// A mapped checkpoint in which every tensor that the model needs is there once, with its shape and
// type. Their numbers have not been read.
struct CheckedCheckpoint {
  CheckedCheckpoint(const std::filesystem::path& checkpoint, const ModelConfig& config)
      : store(checkpoint), tensors(by_canonical_name(store)), table(plan_weights(config)) {
    const ModelType family = family_of(store);
    FLASHRT_CHECK(family == config.type, "checkpoint ", checkpoint.string(), ": config.json says ",
                  name_of(config.type), ", its tensors are those of ", name_of(family));
    check_presence(store, tensors, table, config);
    for_each_source(table, [&](const SourceTensor& source) {
      const LocatedTensor& located = *find(tensors, source);
      check_shape_and_type(located, source.shape);
      used.emplace(source.names.front(), located);
    });
  }

  TensorStore store;
  Located tensors;
  std::vector<PlanWeight> table;
  std::map<std::string, LocatedTensor> used;  // by canonical name
};

class CheckpointWeights : public Weights::Source {
 public:
  CheckpointWeights(const std::filesystem::path& checkpoint, const ModelConfig& config, int threads)
      : checkpoint_(checkpoint, config),
        pool_(std::make_unique<ThreadPool>(threads)),
        digest_(digest_of_finite(checkpoint_.used, *pool_)) {
    if (config.type != ModelType::kGrootN16) return;
    check_embodiment(config);
    digest_ += slot_suffix(config.embodiment);  // the same tensors, but other weights
  }

  HostTensor load(std::string_view name) const override;
  const std::string& digest() const override { return digest_; }
  std::vector<std::filesystem::path> files() const override { return checkpoint_.store.files(); }

 private:
  void check_embodiment(const ModelConfig& config) const;
  HostTensor read(const SourceTensor& source) const;
  const PlanWeight& weight(std::string_view name) const {
    const std::vector<PlanWeight>& table = checkpoint_.table;
    const auto found = std::find_if(table.begin(), table.end(),
                                    [&](const PlanWeight& weight) { return weight.name == name; });
    if (found != table.end()) return *found;
    std::vector<std::string> known;
    for (const PlanWeight& weight : table) known.push_back(weight.name);
    throw Error(text("checkpoint ", checkpoint_.store.folder().string(), " has no weight '", name,
                     "'; nearest: ", nearest(name, known)));
  }

  CheckedCheckpoint checkpoint_;
  std::unique_ptr<ThreadPool> pool_;
  std::string digest_;
};

// Slots that no data were there for hold the numbers that training began with.
void CheckpointWeights::check_embodiment(const ModelConfig& config) const {
  const auto& [slot, allow_untrained] = config.embodiment;
  const std::string where = "checkpoint " + checkpoint_.store.folder().string();
  FLASHRT_CHECK(0 <= slot && slot < config.dit.embodiments, where, ": embodiment slot ", slot,
                ", it has slots 0 to ", config.dit.embodiments - 1,
                slot < 0 ? "; name the one of the robot" : "");
  SourceTensor encoder{.names = {std::string(kGrootActionEncoder)}, .shape = {}, .slot = slot};
  encoder.shape = find(checkpoint_.tensors, encoder)->tensor->shape;
  const HostTensor numbers = read(encoder);
  double sum = 0, squares = 0;
  for (const float number : numbers.data) {
    sum += number;
    squares += double{number} * number;
  }
  const auto count = static_cast<double>(numbers.data.size());
  const double deviation = std::sqrt(std::max(0.0, squares / count - sum / count * (sum / count)));
  FLASHRT_CHECK(allow_untrained || std::abs(deviation - kUntrainedDeviation) > kUntrainedMargin,
                where, ": embodiment slot ", slot,
                " looks as if it was never trained: the numbers of ", kGrootActionEncoder,
                " have the deviation they are initialised with, ", deviation,
                "; its actions would mean nothing. Choose another slot, or allow untrained ones");
}

HostTensor CheckpointWeights::read(const SourceTensor& source) const {
  HostTensor result{source.read_shape(), {}};
  const int64_t count = result.shape.elements();
  result.data.resize(static_cast<size_t>(count));
  Elements(*find(checkpoint_.tensors, source)->tensor)
      .read(std::max<int64_t>(0, source.slot) * count, result.data);
  return result;
}

HostTensor CheckpointWeights::load(std::string_view name) const {
  const PlanWeight& weight = this->weight(name);
  if (weight.compute) {
    std::vector<HostTensor> parts;
    for (const SourceTensor& part : weight.parts) parts.push_back(read(part));
    return {weight.shape, weight.compute(parts)};
  }
  const int64_t width = weight.shape.width();
  std::vector<double> factors(static_cast<size_t>(width), weight.factor);
  for (const SourceTensor& norm : weight.norm) {
    std::vector<float> scale(static_cast<size_t>(width));
    Elements(*find(checkpoint_.tensors, norm)->tensor).read(0, scale);
    for (size_t column = 0; column < scale.size(); ++column)
      factors[column] *= weight.norm_offset + double{scale[column]};
  }

  HostTensor result{weight.shape, std::vector<float>(static_cast<size_t>(weight.shape.elements()))};
  constexpr int64_t kBlockElements = 1 << 20;
  const int64_t rows_per_block = std::max<int64_t>(1, kBlockElements / std::max<int64_t>(1, width));
  int64_t first_row = 0;
  for (const SourceTensor& part : weight.parts) {
    const Elements elements(*find(checkpoint_.tensors, part)->tensor);
    const Shape shape = part.read_shape();
    const int64_t rows = shape.rows(), stride = shape.width();
    const int64_t first = std::max<int64_t>(0, part.slot) * shape.elements();
    pool_->parallel_for(rows, rows_per_block, [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        const std::span<float> to(result.data.data() + (first_row + row) * width,
                                  static_cast<size_t>(width));
        elements.read(first + row * stride + weight.first_column, to);
        for (size_t column = 0; column < to.size(); ++column) {
          to[column] = static_cast<float>((double{to[column]} + weight.offset) * factors[column]);
        }
      }
    });
    first_row += rows;
  }
  return result;
}

class PackedWeights : public Weights::Source {
 public:
  explicit PackedWeights(PackedFile file) : file_(std::move(file)) {}

  HostTensor load(std::string_view name) const override {
    throw Error(text(file_.path().string(), ": weight ", name,
                     " is packed: this backend cannot read it; open the checkpoint itself"));
  }
  std::optional<PackedTensor> packed_tensor(std::string_view name) const override {
    return file_.tensor(name);
  }
  const std::string& digest() const override { return file_.header().weights_digest; }

 private:
  PackedFile file_;
};

}  // namespace

std::string slot_suffix(const Embodiment& embodiment) { return text(" slot ", embodiment.slot); }

Weights Weights::packed(PackedFile file) {
  return Weights(std::make_unique<PackedWeights>(std::move(file)));
}

Weights Weights::open(const std::filesystem::path& checkpoint, const ModelConfig& config,
                      int threads) {
  return Weights(std::make_unique<CheckpointWeights>(checkpoint, config, threads));
}

WeightFiles check_weight_files(const std::filesystem::path& checkpoint, const ModelConfig& config) {
  const CheckedCheckpoint checked(checkpoint, config);
  WeightFiles result{.files = checked.store.files()};
  for (const auto& [name, located] : checked.used) {
    ++result.tensors;
    result.elements += located.tensor->shape.elements();
    result.bytes += static_cast<int64_t>(located.tensor->bytes.size());
  }
  return result;
}

}  // namespace flashrt
