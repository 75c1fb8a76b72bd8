// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "quant/pack.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/atomic_file.hpp"
#include "base/fp8.hpp"
#include "base/half.hpp"
#include "checkpoint/tensor_digest.hpp"
#include "plan/checks.hpp"
#include "quant/plan_digest.hpp"
#include "quant/range_estimator.hpp"

namespace flashrt {
namespace {

// Scales that are stored beside the codes; real numbers have none.
int64_t scale_count(const WeightInfo& info) {
  if (is_emulated(info)) return 0;
  return info.scale == WeightScale::kNone     ? 0
         : info.scale == WeightScale::kTensor ? 1
                                              : info.shape.rows();
}

float scale_of(const WeightInfo& info, std::span<const float> values) {
  if (info.range.estimator == RangeEstimator::kMinMax) {  // without a pass over a histogram
    float amax = 0;
    for (const float value : values) amax = std::max(amax, std::abs(value));
    return scale_for(held_format(info), amax);
  }
  const bool is_finite =
      std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
  FLASHRT_CHECK(is_finite, "weight ", info.name, ": not all of it is finite, which its range by ",
                name_of(info.range.estimator), " needs");
  Histogram histogram;
  histogram.add(values);
  const double range =
      range_of(histogram, info.range.estimator, held_format(info), info.range.fraction);
  return scale_for(held_format(info), static_cast<float>(range));
}

void encode_row(DType type, const float* values, float scale, std::byte* to, int64_t n) {
  const auto each = [&](auto&& code) {
    auto* codes = reinterpret_cast<decltype(code(0.0f))*>(to);
    for (int64_t i = 0; i < n; ++i) codes[i] = code(values[i]);
  };
  switch (type) {
    case DType::kF32:
      std::memcpy(to, values, static_cast<size_t>(n) * sizeof(float));
      break;
    case DType::kBF16:
      each([](float value) { return float_to_bf16(value); });
      break;
    case DType::kF16:
      each([](float value) { return float_to_f16(value); });
      break;
    case DType::kE4M3:
      each([scale](float value) { return float_to_e4m3(value / scale); });
      break;
    case DType::kI32:
    case DType::kU8:
      break;  // refused before
  }
}

// ---- the file

struct Place {
  std::string name;
  DType type = DType::kF32;
  Shape shape;
  size_t offset = 0;  // from the end of the header
  size_t bytes() const { return static_cast<size_t>(shape.elements()) * size_of(type); }
};

// Wide elements first, so that each tensor is aligned to its own.
std::vector<Place> places_of(const Plan& plan) {
  std::vector<Place> places;
  for (const WeightInfo& info : plan.weights) {
    places.push_back({.name = info.name, .type = info.type, .shape = info.shape});
    if (const int64_t scales = scale_count(info); scales > 0) {
      places.push_back({.name = info.name + std::string(PackedFile::kScales),
                        .type = DType::kF32,
                        .shape = {scales}});
    }
  }
  std::stable_sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
    return size_of(a.type) > size_of(b.type);
  });
  size_t offset = 0;
  for (Place& place : places) {
    place.offset = offset;
    offset += place.bytes();
  }
  return places;
}

// The length of the header, and the header, padded to the alignment that the format asks for.
std::string file_head(const std::vector<Place>& places, const std::string& metadata) {
  nlohmann::ordered_json header;
  header["__metadata__"] = {{PackedFile::kMetadataKey, metadata}};
  for (const Place& place : places) {
    header[place.name] = {{"dtype", safetensors_name(place.type)},
                          {"shape", place.shape.extents()},
                          {"data_offsets", {place.offset, place.offset + place.bytes()}}};
  }
  std::string json = header.dump();
  constexpr size_t kAlignment = 8;
  json.resize((json.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  const uint64_t length = json.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + json;
}

}  // namespace

RoundedWeight round_weight(const WeightInfo& info, const HostTensor& tensor, ThreadPool& threads) {
  FLASHRT_CHECK(tensor.shape == info.shape, "weight ", info.name, " is ", tensor.shape,
                ", the plan reads ", info.shape);
  const NumberFormat format = held_format(info);
  FLASHRT_CHECK(takes_weight_scale(format) == (info.scale != WeightScale::kNone), "weight ",
                info.name, ": ", type_name(info), " with ", describe(info.scale),
                "; weights in e4m3, e5m2 and int8 have a scale, others have none");
  FLASHRT_CHECK(info.type != DType::kI32 && info.type != DType::kU8, "weight ", info.name,
                ": type ", info.type, ", expected f32, bf16, f16 or e4m3");
  const int64_t rows = info.shape.rows(), width = info.shape.width();
  const auto row_bytes = static_cast<size_t>(width) * size_of(info.type);
  RoundedWeight rounded{.shape = info.shape,
                        .type = info.type,
                        .data = std::vector<std::byte>(static_cast<size_t>(rows) * row_bytes),
                        .scales = std::vector<float>(static_cast<size_t>(scale_count(info)))};
  const std::span<const float> all(tensor.data.data(), static_cast<size_t>(rows * width));
  const bool is_per_row = info.scale == WeightScale::kChannel;
  const float scale_of_all = has_scale(format) && !is_per_row ? scale_of(info, all) : 1.0f;
  if (rounded.scales.size() == 1) rounded.scales[0] = scale_of_all;
  constexpr int64_t kGrain = 64;
  threads.parallel_for(rows, kGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const auto values = all.subspan(static_cast<size_t>(row * width), static_cast<size_t>(width));
      const float scale = is_per_row ? scale_of(info, values) : scale_of_all;
      if (is_per_row && !rounded.scales.empty()) rounded.scales[row] = scale;
      std::byte* to = rounded.data.data() + row * row_bytes;
      encode_row(info.type, values.data(), scale, to, width);
      if (is_emulated(info)) round_to(format, scale, {reinterpret_cast<float*>(to), values.size()});
    }
  });
  return rounded;
}

void check_packed(const WeightInfo& info, const PackedTensor& tensor) {
  FLASHRT_CHECK(!is_emulated(info), "weight ", info.name, " is wanted in ", type_name(info),
                ", which packed files do not hold; open the checkpoint without one");
  FLASHRT_CHECK(tensor.shape == info.shape, "weight ", info.name, " is packed as ", tensor.shape,
                ", the plan reads ", info.shape);
  FLASHRT_CHECK(
      tensor.type == info.type && tensor.scales.size() == static_cast<size_t>(scale_count(info)),
      "weight ", info.name, " is packed as ", tensor.type, " with ", tensor.scales.size(),
      " scales, the recipe reads ", info.type, " with ", describe(info.scale),
      "; pack the checkpoint for this recipe");
}

void write_packed(const std::filesystem::path& path, const Plan& plan, const Weights& weights,
                  const std::string& recipe, ThreadPool& threads) {
  check_not_emulated(
      plan,
      "packed files do not hold it: the CPU backend rounds the checkpoint to it when "
      "it loads that");
  PackedHeader header{.weights_digest = weights.digest(),
                      .plan_digest = plan_digest(plan),
                      .recipe = recipe,
                      .files = {}};
  for (const std::filesystem::path& file : weights.files())
    header.files.push_back(SourceFile::of(file));

  const std::vector<Place> places = places_of(plan);
  const std::string unknown_digest(16, '0');
  const size_t body = file_head(places, packed_metadata(header, unknown_digest)).size();
  AtomicFile file(path);
  const auto place_of = [&](const std::string& name) -> const Place& {
    return *std::find_if(places.begin(), places.end(),
                         [&](const Place& place) { return place.name == name; });
  };
  for (const WeightInfo& info : plan.weights) {
    const RoundedWeight rounded = round_weight(info, weights.load(info.name), threads);
    file.write(body + place_of(info.name).offset, rounded.data);
    if (rounded.scales.empty()) continue;
    const Place& scales = place_of(info.name + std::string(PackedFile::kScales));
    file.write(body + scales.offset, std::as_bytes(std::span(rounded.scales)));
  }
  const auto write_head = [&](const std::string& digest) {
    const std::string head = file_head(places, packed_metadata(header, digest));
    file.write(0, std::as_bytes(std::span(head)));
  };
  write_head(unknown_digest);
  const SafetensorsFile written(file.temporary());
  std::map<std::string, LocatedTensor> located;
  for (const StoredTensor& tensor : written.tensors())
    located.emplace(tensor.name, LocatedTensor{&tensor, &written});
  write_head(digest_of(located, threads));
  file.commit();
}

}  // namespace flashrt
