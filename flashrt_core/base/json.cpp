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
constexpr size_t kMaxDepth = 64;
constexpr size_t kMaxMembers = 100'000;  // of one object or array

// Reads a text without keeping it: what is refused takes no memory. Apart from building the value
// because nlohmann's parser, given a callback, looks at all members again after each one.
class Checker : public nlohmann::json_sax<json> {
 public:
  explicit Checker(const std::string& origin) : origin_(origin) {}

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t) override { return value(); }
  bool number_unsigned(number_unsigned_t) override { return value(); }
  bool number_float(number_float_t, const string_t&) override { return value(); }
  bool string(string_t&) override { return value(); }
  bool binary(binary_t&) override { return value(); }
  bool start_object(size_t) override { return open(true); }
  bool start_array(size_t) override { return open(false); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& key) override {
    count();
    FLASHRT_CHECK(open_.back().keys.insert(key).second, origin_, ": '", key, "' occurs twice");
    return true;
  }

  bool parse_error(size_t, const std::string&, const json::exception& fault) override {
    throw Error(text(origin_, " is not valid JSON: ", fault.what()));
  }

 private:
  struct Container {
    bool is_object;
    size_t members = 0;
    std::set<std::string> keys;
  };

  void count() {
    FLASHRT_CHECK(++open_.back().members <= kMaxMembers, origin_, ": more than ", kMaxMembers,
                  " members in one object or array");
  }

  bool value() {
    if (!open_.empty() && !open_.back().is_object) count();
    return true;
  }

  bool open(bool is_object) {
    value();
    open_.push_back({.is_object = is_object});
    FLASHRT_CHECK(open_.size() <= kMaxDepth, origin_, ": nested ", open_.size(),
                  " levels deep, expected at most ", kMaxDepth);
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  const std::string& origin_;
  std::vector<Container> open_;
};

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
  Checker checker(origin);
  json::sax_parse(text, &checker);
  return json::parse(text);
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
