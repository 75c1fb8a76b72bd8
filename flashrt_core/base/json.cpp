// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "base/json.hpp"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <set>
#include <vector>

#include "base/nearest.hpp"

namespace flashrt {

using nlohmann::json;

namespace {

// Far above every file read here. Printing a value in an error text recurses into it.
constexpr int kMaxDepth = 64;

}  // namespace

std::string read_text_file(const std::filesystem::path& path, size_t max_bytes) {
  // The size of what was opened: the path may name another file by now.
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  FLASHRT_CHECK(file, "cannot read ", path.string(), ": ", std::strerror(errno));
  std::error_code error;
  FLASHRT_CHECK(std::filesystem::is_regular_file(path, error), "cannot read ", path.string(),
                ": it is not a regular file");
  const auto bytes = static_cast<size_t>(file.tellg());
  FLASHRT_CHECK(bytes <= max_bytes, path.string(), " has ", bytes, " bytes, expected at most ",
                max_bytes);
  std::string content(bytes, '\0');
  file.seekg(0);
  file.read(content.data(), static_cast<std::streamsize>(bytes));
  FLASHRT_CHECK(file && file.gcount() == static_cast<std::streamsize>(bytes), "cannot read ",
                path.string(), ": got ", file.gcount(), " of ", bytes, " bytes");
  return content;
}

json parse_json(std::string_view text, const std::string& origin) {
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto check = [&](int depth, json::parse_event_t event, json& parsed) {
    FLASHRT_CHECK(depth <= kMaxDepth, origin, ": nested ", depth, " levels deep, expected at most ",
                  kMaxDepth);
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key) {
      FLASHRT_CHECK(keys.back().insert(parsed.get<std::string>()).second, origin, ": '",
                    parsed.get<std::string>(), "' occurs twice");
    }
    return true;
  };
  try {
    return json::parse(text, check);
  } catch (const json::exception& fault) {
    throw Error(flashrt::text(origin, " is not valid JSON: ", fault.what()));
  }
}

JsonFields::JsonFields(const json& object, std::string where)
    : object_(&object), where_(std::move(where)) {
  FLASHRT_CHECK(object.is_object(), where_, " expected a JSON object, found ", object.type_name());
}

void JsonFields::fail(std::string_view key, const std::string& expected) const {
  constexpr size_t kShown = 80;
  std::string found = "missing";
  if (has(key)) {
    found =
        "is " +
        object_->find(key)->dump(-1, ' ', false, json::error_handler_t::replace).substr(0, kShown);
  }
  throw Error(text(where_, key, " ", found, ", expected ", expected));
}

const json& JsonFields::value(std::string_view key) const {
  if (!has(key)) fail(key, "a value");
  return *object_->find(key);
}

int JsonFields::integer(std::string_view key, int min, int max) const {
  const auto expected = [&] { return text("an integer from ", min, " to ", max); };
  if (!has(key)) fail(key, expected());
  const json& field = value(key);
  // Unsigned numbers beyond int64 would wrap in get<int64_t>().
  const bool fits = field.is_number_integer() &&
                    (!field.is_number_unsigned() || field.get<uint64_t>() <= INT64_MAX);
  if (!fits || field.get<int64_t>() < min || field.get<int64_t>() > max) fail(key, expected());
  return field.get<int>();
}

double JsonFields::number(std::string_view key, double min, double max) const {
  const auto expected = [&] { return text("a number from ", min, " to ", max); };
  if (!has(key) || !value(key).is_number()) fail(key, expected());
  const double number = value(key).get<double>();
  if (!(number >= min && number <= max)) fail(key, expected());
  return number;
}

std::string JsonFields::string(std::string_view key) const {
  if (!has(key) || !value(key).is_string()) fail(key, "a text");
  return value(key).get<std::string>();
}

bool JsonFields::flag(std::string_view key) const {
  if (!has(key) || !value(key).is_boolean()) fail(key, "true or false");
  return value(key).get<bool>();
}

JsonFields JsonFields::object(std::string_view key) const {
  if (!has(key) || !value(key).is_object()) fail(key, "an object");
  return JsonFields(value(key), text(where_, key, "."));
}

const json& JsonFields::array(std::string_view key) const {
  if (!has(key) || !value(key).is_array()) fail(key, "an array");
  return value(key);
}

void JsonFields::allow_only(std::initializer_list<std::string_view> known) const {
  const std::vector<std::string> names(known.begin(), known.end());
  for (const auto& [key, unused] : object_->items()) {
    FLASHRT_CHECK(std::find(names.begin(), names.end(), key) != names.end(), where_, key,
                  " is unknown; nearest: ", nearest(key, names));
  }
}

}  // namespace flashrt
