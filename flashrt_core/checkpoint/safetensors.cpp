// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "checkpoint/safetensors.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "base/json.hpp"

namespace flashrt {
namespace {

// Far above real checkpoints (a sharded 7B model: 60 kB, 300 tensors per file), far below what
// hurts.
constexpr uint64_t kMaxHeaderBytes = 16u << 20;
constexpr size_t kMaxRank = 8;
constexpr size_t kPrefixBytes = 8;  // little-endian length of the JSON header

std::optional<uint64_t> bytes_per_element(std::string_view dtype) {
  static constexpr std::array<std::pair<std::string_view, uint64_t>, 15> kSizes{{{"F64", 8},
                                                                                 {"F32", 4},
                                                                                 {"F16", 2},
                                                                                 {"BF16", 2},
                                                                                 {"I64", 8},
                                                                                 {"I32", 4},
                                                                                 {"I16", 2},
                                                                                 {"I8", 1},
                                                                                 {"U64", 8},
                                                                                 {"U32", 4},
                                                                                 {"U16", 2},
                                                                                 {"U8", 1},
                                                                                 {"BOOL", 1},
                                                                                 {"F8_E4M3", 1},
                                                                                 {"F8_E5M2", 1}}};
  const auto found = std::find_if(kSizes.begin(), kSizes.end(),
                                  [&](const auto& size) { return size.first == dtype; });
  if (found == kSizes.end()) return std::nullopt;
  return found->second;
}

// The header's entry of one tensor; offsets count from the end of the header.
struct Entry {
  StoredTensor tensor;
  uint64_t begin = 0, end = 0;
};

uint64_t unsigned_integer(const nlohmann::json& value, const std::string& what) {
  FLASHRT_CHECK(value.is_number_unsigned(), what, " is ",
                value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).substr(0, 80),
                ", expected an integer of at least 0");
  return value.get<uint64_t>();
}

Entry read_entry(const std::string& name, const nlohmann::json& json, const std::string& origin) {
  const std::string where = text(origin, ": tensor ", name, ": ");
  const JsonFields fields(json, where);
  fields.allow_only({"dtype", "shape", "data_offsets"});
  Entry entry;
  entry.tensor.name = name;
  entry.tensor.dtype = fields.string("dtype");
  const auto element_bytes = bytes_per_element(entry.tensor.dtype);
  FLASHRT_CHECK(element_bytes, where, "dtype ", entry.tensor.dtype, " is unknown");

  const nlohmann::json& extents = fields.array("shape");
  FLASHRT_CHECK(extents.size() <= kMaxRank, where, "rank ", extents.size(), ", expected at most ",
                kMaxRank);
  std::vector<int64_t> shape;
  uint64_t bytes = *element_bytes;
  for (const nlohmann::json& extent : extents) {
    const uint64_t value = unsigned_integer(extent, where + "shape");
    FLASHRT_CHECK(
        value <= INT64_MAX && !__builtin_mul_overflow(bytes, value, &bytes) && bytes <= INT64_MAX,
        where, "shape ", extents.dump(), " is too large");
    shape.push_back(static_cast<int64_t>(value));
  }
  entry.tensor.shape = Shape(std::move(shape));

  const nlohmann::json& offsets = fields.array("data_offsets");
  FLASHRT_CHECK(offsets.size() == 2, where, "data_offsets has ", offsets.size(),
                " numbers, expected 2");
  entry.begin = unsigned_integer(offsets[0], where + "data_offsets");
  entry.end = unsigned_integer(offsets[1], where + "data_offsets");
  FLASHRT_CHECK(entry.begin <= entry.end && entry.end - entry.begin == bytes, where,
                "data_offsets [", entry.begin, ", ", entry.end, ") do not hold ",
                entry.tensor.shape, " ", entry.tensor.dtype, ", which has ", bytes, " bytes");
  return entry;
}

}  // namespace

void refuse_lfs_pointer(const std::filesystem::path& path, std::string_view content) {
  constexpr std::string_view kMark = "version https://git-lfs.github.com/spec/v1";
  constexpr std::string_view kSize = "\nsize ";
  constexpr size_t kMaxPointerBytes = 1024;  // by the Git LFS specification
  if (!content.starts_with(kMark)) return;
  const std::string_view head = content.substr(0, kMaxPointerBytes);
  const size_t at = head.find(kSize);
  std::string size = "unknown";
  if (at != std::string_view::npos) {
    const std::string_view digits = head.substr(at + kSize.size());
    size = digits.substr(0, digits.find_first_not_of("0123456789"));
  }
  throw Error(text(path.string(), " is a Git LFS pointer, the file itself was not fetched: found ",
                   content.size(), " bytes, expected ", size,
                   ". Run 'git lfs pull' in its folder"));
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : path_(path), file_(path) {
  const std::string name = path.string();
  const std::span<const std::byte> bytes = file_.bytes();
  const std::string_view content(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  FLASHRT_CHECK(!bytes.empty(), name,
                " is empty: found 0 bytes, a safetensors file needs at least ", kPrefixBytes + 2);
  refuse_lfs_pointer(path, content);
  FLASHRT_CHECK(bytes.size() >= kPrefixBytes + 2, name, " is cut short: found ", bytes.size(),
                " bytes, a safetensors file needs at least ", kPrefixBytes + 2);

  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), sizeof header_bytes);
  FLASHRT_CHECK(header_bytes <= kMaxHeaderBytes, name,
                " is no safetensors file: its header would have ", header_bytes,
                " bytes, expected at most ", kMaxHeaderBytes);
  const uint64_t body = kPrefixBytes + header_bytes;
  FLASHRT_CHECK(body <= bytes.size(), name, " is cut short inside its header: found ", bytes.size(),
                " bytes, the header alone needs ", body);

  const nlohmann::json header =
      parse_json(content.substr(kPrefixBytes, header_bytes), name + ": header");
  FLASHRT_CHECK(header.is_object(), name, ": header is ", header.type_name(),
                ", expected a JSON object");
  std::vector<Entry> entries;
  for (const auto& [key, value] : header.items()) {
    if (key != "__metadata__") {
      entries.push_back(read_entry(key, value, name));
      continue;
    }
    for (const auto& [topic, content_of] : value.items()) {
      if (content_of.is_string()) metadata_.emplace(topic, content_of.get<std::string>());
    }
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });

  const uint64_t body_bytes = bytes.size() - body;
  uint64_t used = 0;
  for (const Entry& entry : entries) {
    FLASHRT_CHECK(entry.begin >= used, name, ": tensor ", entry.tensor.name, " begins at offset ",
                  entry.begin, ", inside the tensor before it, which ends at ", used);
    FLASHRT_CHECK(entry.begin == used, name, ": ", entry.begin - used, " bytes before tensor ",
                  entry.tensor.name, " belong to no tensor");
    used = entry.end;
  }
  for (const Entry& entry : entries) {
    FLASHRT_CHECK(entry.end <= body_bytes, name, ": tensor ", entry.tensor.name, " ends ",
                  entry.end - body_bytes, " bytes past the end of the file: found ", bytes.size(),
                  " bytes, the file needs ", body + used);
  }
  FLASHRT_CHECK(used == body_bytes, name, ": found ", bytes.size(), " bytes, its tensors end at ",
                body + used);

  for (Entry& entry : entries) {
    entry.tensor.bytes = bytes.subspan(body + entry.begin, entry.end - entry.begin);
    tensors_.push_back(std::move(entry.tensor));
  }
}

}  // namespace flashrt
