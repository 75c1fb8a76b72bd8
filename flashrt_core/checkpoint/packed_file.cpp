// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "checkpoint/packed_file.hpp"

#include <limits>

#include "base/json.hpp"
#include "base/nearest.hpp"
#include "checkpoint/tensor_digest.hpp"
#include "checkpoint/tensor_store.hpp"

namespace flashrt {
namespace {

constexpr std::string_view kFormat = "flashrt_packed";
constexpr int kVersion = 1;
constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kF16, DType::kE4M3};

DType type_of(const StoredTensor& tensor, const std::string& where) {
  for (const DType type : kTypes) {
    if (tensor.dtype == safetensors_name(type)) return type;
  }
  throw Error(text(where, ": tensor ", tensor.name, " has dtype ", tensor.dtype,
                   ", expected F32, BF16, F16 or F8_E4M3"));
}

uint64_t whole_number(const JsonFields& fields, std::string_view key) {
  const nlohmann::json& value = fields.value(key);
  if (!value.is_number_unsigned()) fields.fail(key, "an integer of at least 0");
  return value.get<uint64_t>();
}

std::vector<SourceFile> source_files(const JsonFields& fields, const std::string& where) {
  std::vector<SourceFile> files;
  for (const nlohmann::json& entry : fields.array("files")) {
    const JsonFields file(entry, where + "files: ");
    file.allow_only({"name", "bytes", "modified"});
    if (!file.value("modified").is_number_integer()) file.fail("modified", "an integer");
    files.push_back({.name = file.string("name"),
                     .bytes = whole_number(file, "bytes"),
                     .modified = file.value("modified").get<int64_t>()});
  }
  return files;
}

}  // namespace

std::string_view safetensors_name(DType type) {
  switch (type) {
    case DType::kF32:
      return "F32";
    case DType::kBF16:
      return "BF16";
    case DType::kF16:
      return "F16";
    case DType::kE4M3:
      return "F8_E4M3";
    case DType::kI32:
      return "I32";
    case DType::kU8:
      return "U8";
  }
  return "?";
}

SourceFile SourceFile::of(const std::filesystem::path& path) {
  const auto modified = std::filesystem::last_write_time(path).time_since_epoch();
  return {.name = path.filename().string(),
          .bytes = std::filesystem::file_size(path),
          .modified = std::chrono::duration_cast<std::chrono::nanoseconds>(modified).count()};
}

std::string packed_metadata(const PackedHeader& header, const std::string& digest) {
  nlohmann::ordered_json files = nlohmann::ordered_json::array();
  for (const SourceFile& file : header.files)
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"modified", file.modified}});
  return nlohmann::ordered_json{{"format", kFormat},
                                {"version", kVersion},
                                {"digest", digest},
                                {"weights_digest", header.weights_digest},
                                {"plan_digest", header.plan_digest},
                                {"recipe", header.recipe},
                                {"files", files}}
      .dump();
}

PackedFile::PackedFile(const std::filesystem::path& path, ThreadPool& threads)
    : file_(std::make_unique<SafetensorsFile>(path)) {
  const std::string where = path.string() + ": ";
  const auto metadata = file_->metadata().find(kMetadataKey);
  FLASHRT_CHECK(metadata != file_->metadata().end(), where,
                "no packed weights: their metadata are missing; `flashrt pack` makes them");
  const nlohmann::json json = parse_json(metadata->second, where + "metadata");
  const JsonFields fields(json, where);
  if (fields.string("format") != kFormat) fields.fail("format", std::string(kFormat));
  if (fields.integer("version", 0, std::numeric_limits<int>::max()) != kVersion)
    fields.fail("version", text(kVersion));
  fields.allow_only(
      {"format", "version", "digest", "weights_digest", "plan_digest", "recipe", "files"});
  header_ = {.weights_digest = fields.string("weights_digest"),
             .plan_digest = fields.string("plan_digest"),
             .recipe = fields.string("recipe"),
             .files = source_files(fields, where)};

  std::map<std::string, LocatedTensor> located;
  for (const StoredTensor& tensor : file_->tensors()) {
    located.emplace(tensor.name, LocatedTensor{&tensor, file_.get()});
    tensors_.emplace(tensor.name, &tensor);
  }
  const std::string digest = digest_of(located, threads);
  FLASHRT_CHECK(digest == fields.string("digest"), where, "damaged: its tensors have digest ",
                digest, ", written was ", fields.string("digest"), "; pack the checkpoint again");
}

PackedTensor PackedFile::tensor(std::string_view weight) const {
  const auto found = tensors_.find(weight);
  if (found == tensors_.end()) {
    std::vector<std::string> known;
    for (const auto& [name, unused] : tensors_) known.push_back(name);
    throw Error(
        text(path().string(), " has no weight '", weight, "'; nearest: ", nearest(weight, known)));
  }
  const StoredTensor& stored = *found->second;
  PackedTensor tensor{.shape = stored.shape,
                      .type = type_of(stored, path().string()),
                      .data = stored.bytes,
                      .scales = {}};
  const auto scales = tensors_.find(text(weight, kScales));
  FLASHRT_CHECK((scales != tensors_.end()) == (tensor.type == DType::kE4M3), path().string(),
                ": weight ", weight, " is ", tensor.type,
                "; e4m3 weights have scales, others have none");
  if (scales == tensors_.end()) return tensor;
  const StoredTensor& values = *scales->second;
  const auto address = reinterpret_cast<uintptr_t>(values.bytes.data());
  FLASHRT_CHECK(values.dtype == "F32" && address % alignof(float) == 0, path().string(),
                ": scales of ", weight, " are ", values.dtype, " at an address ending in ",
                address % alignof(float), ", expected F32, aligned");
  tensor.scales = {reinterpret_cast<const float*>(values.bytes.data()),
                   values.bytes.size() / sizeof(float)};
  return tensor;
}

}  // namespace flashrt
