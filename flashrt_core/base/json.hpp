// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Strict reading of JSON files: limited size, depth and number of members, no duplicate keys, and
// fields whose faults are named with their value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/check.hpp"

namespace flashrt {

// The whole file. Larger files are refused by name.
std::string read_text_file(const std::filesystem::path& path, size_t max_bytes);

// origin names the text in errors.
nlohmann::json parse_json(std::string_view text, const std::string& origin);

// The members of a JSON object. Each getter requires its field and throws an Error that names
// field, value and what was expected.
class JsonFields {
 public:
  // where names the object in errors: "config.json: " or "config.json: vision.".
  JsonFields(const nlohmann::json& object, std::string where);

  bool has(std::string_view key) const { return object_->contains(key); }
  int integer(std::string_view key, int min, int max) const;
  double number(std::string_view key, double min, double max) const;
  std::string string(std::string_view key) const;
  bool flag(std::string_view key) const;
  JsonFields object(std::string_view key) const;
  const nlohmann::json& array(std::string_view key) const;
  const nlohmann::json& value(std::string_view key) const;

  // Refuses members with any other name.
  void allow_only(std::initializer_list<std::string_view> known) const;
  // Throws: "config.json: vision.layers is 3, expected ...".
  [[noreturn]] void fail(std::string_view key, const std::string& expected) const;

 private:
  const nlohmann::json* object_;
  std::string where_;
};

}  // namespace flashrt
