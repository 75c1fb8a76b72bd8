// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "checkpoint/tensor_store.hpp"

#include <memory>
#include <set>

#include "base/json.hpp"

namespace flashrt {
namespace {

constexpr size_t kMaxIndexBytes = 16u << 20;
constexpr size_t kMaxShards = 1000;

// A shard is a plain name beside its index: never a path that leads elsewhere.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
}

}  // namespace

TensorStore::TensorStore(const std::filesystem::path& folder) : folder_(folder) {
  const std::filesystem::path single = folder / "model.safetensors";
  const std::filesystem::path index = folder / "model.safetensors.index.json";
  FLASHRT_CHECK(std::filesystem::is_directory(folder), "checkpoint ", folder.string(),
                " is not a folder");
  const bool has_single = std::filesystem::exists(single),
             has_index = std::filesystem::exists(index);
  FLASHRT_CHECK(has_single || has_index, "checkpoint ", folder.string(),
                " has neither model.safetensors nor model.safetensors.index.json");
  FLASHRT_CHECK(
      !has_single || !has_index, "checkpoint ", folder.string(),
      " has both model.safetensors and model.safetensors.index.json: keep the one that is meant");
  if (has_single) {
    add_file(single);
  } else {
    open_shards(index);
  }
}

void TensorStore::add_file(const std::filesystem::path& path) {
  files_.push_back(std::make_unique<SafetensorsFile>(path));
  const SafetensorsFile& file = *files_.back();
  for (const StoredTensor& tensor : file.tensors()) {
    const auto [other, is_new] = tensors_.try_emplace(tensor.name, LocatedTensor{&tensor, &file});
    FLASHRT_CHECK(is_new, "tensor ", tensor.name, " is in ",
                  other->second.file->path().filename().string(), " and again in ", path.string());
  }
}

void TensorStore::open_shards(const std::filesystem::path& index) {
  const std::string origin = index.string();
  const std::string content = read_text_file(index, kMaxIndexBytes);
  refuse_lfs_pointer(index, content);
  const nlohmann::json parsed = parse_json(content, origin);
  const nlohmann::json weight_map = JsonFields(parsed, origin + ": ").value("weight_map");
  FLASHRT_CHECK(weight_map.is_object() && !weight_map.empty(), origin,
                ": weight_map names no tensors");
  std::map<std::string, std::string> listed;  // tensor -> shard
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : weight_map.items()) {
    FLASHRT_CHECK(shard.is_string() && is_plain_name(shard.get<std::string>()), origin, ": tensor ",
                  tensor, " is said to be in ",
                  shard.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
                  ", expected the name of a file in the same folder");
    listed[tensor] = shard.get<std::string>();
    shards.insert(listed[tensor]);
  }
  FLASHRT_CHECK(shards.size() <= kMaxShards, origin, ": ", shards.size(),
                " shards, expected at most ", kMaxShards);
  for (const std::string& shard : shards) add_file(folder_ / shard);
  for (const auto& [tensor, shard] : listed) {
    const auto found = tensors_.find(tensor);
    FLASHRT_CHECK(found != tensors_.end() && found->second.file->path().filename() == shard, origin,
                  ": tensor ", tensor, " is said to be in ", shard, ", where it is not");
  }
  for (const auto& [tensor, located] : tensors_) {
    FLASHRT_CHECK(listed.contains(tensor), origin, ": tensor ", tensor, " in ",
                  located.file->path().filename().string(), " is not listed");
  }
}

}  // namespace flashrt
