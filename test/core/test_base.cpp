// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Helpers of the core: names that are nearly right, the digest, strict JSON, files that are never
// half written.
#include <gtest/gtest.h>

#include "base/atomic_file.hpp"
#include "base/json.hpp"
#include "base/nearest.hpp"
#include "base/xxh64.hpp"
#include "expect_error.hpp"
#include "temporary_folder.hpp"

namespace flashrt {
namespace {

TEST(Nearest, CountsEdits) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("prefix.3.qkv", "prefix.4.qkv"), 1u);
}

TEST(Nearest, ListsThreeNearestFirst) {
  EXPECT_EQ(nearest("prefix.3.qkw",
                    {"denoise.velocity", "prefix.4.qkv", "prefix.3.qkv", "prefix.13.qkv"}),
            "'prefix.3.qkv', 'prefix.13.qkv', 'prefix.4.qkv'");
  EXPECT_EQ(nearest("x", {"y"}), "'y'");
  EXPECT_EQ(nearest("x", {}), "(none)");
}

// Values of the reference implementation of xxHash.
TEST(Xxh64, HasTheValuesOfTheReference) {
  const auto hash = [](std::string_view text) { return xxh64(std::as_bytes(std::span(text))); };
  EXPECT_EQ(hash(""), 0xef46db3751d8e999u);
  EXPECT_EQ(hash("a"), 0xd24ec4f1a98c6e5bu);
  EXPECT_EQ(hash("abc"), 0x44bc2cf5ad770999u);
  std::string bytes;
  for (int i = 0; i < 1000; ++i) bytes.push_back(static_cast<char>(i % 251));
  EXPECT_EQ(hash(bytes), 0xf306f04aa88b54d3u);
  EXPECT_EQ(hash(std::string_view(bytes).substr(0, 100)), 0x6ac1e58032166597u);
}

TEST(Json, RefusesTheSameKeyTwiceAtAnyDepth) {
  EXPECT_CONTAINS(error_text([] { parse_json(R"({"a":{"b":1,"b":2}})", "file.json"); }),
                  "file.json: 'b' occurs twice");
  EXPECT_EQ(parse_json(R"({"a":{"b":1},"b":[{"b":2},{"b":3}]})", "file.json")["b"][1]["b"], 3);
}

TEST(Json, RefusesDeepNesting) {
  const auto nested = [](size_t levels) {
    return std::string(levels, '[') + std::string(levels, ']');
  };
  EXPECT_NO_THROW(parse_json(nested(64), "file.json"));
  EXPECT_CONTAINS(error_text([&] { parse_json(nested(1'000'000), "file.json"); }),
                  "file.json: nested 65 levels deep, expected at most 64");
}

// In time that grows with their number: with its square, this test would not end today.
TEST(Json, RefusesMoreMembersThanAnyFileHas) {
  const auto members = [](int count) {
    std::string object = "{", array = "[";
    for (int i = 0; i < count; ++i) {
      const std::string comma = i > 0 ? "," : "";
      object += text(comma, "\"", i, "\":{}");
      array += comma + "{}";
    }
    return std::pair(object + "}", array + "]");
  };
  const auto [object, array] = members(100'000);
  EXPECT_EQ(parse_json(object, "file.json").size(), 100'000u);
  EXPECT_EQ(parse_json(array, "file.json").size(), 100'000u);
  const auto [large_object, large_array] = members(100'001);
  for (const std::string& large : {large_object, large_array})
    EXPECT_EQ(error_text([&] { parse_json(large, "file.json"); }),
              "file.json: more than 100000 members in one object or array");
}

TEST(Json, NamesWhereItIsNoJson) {
  EXPECT_CONTAINS(error_text([] { parse_json("{\"a\": }", "file.json"); }),
                  "file.json is not valid JSON: ");
  EXPECT_CONTAINS(error_text([] { parse_json("[1e999]", "file.json"); }), "number overflow");
  EXPECT_CONTAINS(error_text([] { parse_json("{} {}", "file.json"); }), "is not valid JSON");
}

TEST(Json, FieldsNameWhatIsWrong) {
  const nlohmann::json json =
      parse_json(R"({"count": 3, "part": {"name": 5}, "list": [], "on": "yes"})", "f");
  const JsonFields fields(json, "f: ");
  EXPECT_EQ(fields.integer("count", 1, 3), 3);
  EXPECT_EQ(fields.number("count", 0, 9), 3.0);
  EXPECT_CONTAINS(error_text([&] { fields.integer("count", 4, 9); }),
                  "f: count is 3, expected an integer from 4 to 9");
  EXPECT_CONTAINS(error_text([&] { fields.object("part").string("name"); }),
                  "f: part.name is 5, expected a text");
  EXPECT_CONTAINS(error_text([&] { fields.flag("on"); }),
                  "f: on is \"yes\", expected true or false");
  EXPECT_CONTAINS(error_text([&] { fields.object("list"); }), "f: list is [], expected an object");
  EXPECT_CONTAINS(error_text([&] { fields.array("gone"); }), "f: gone missing, expected an array");
  EXPECT_CONTAINS(error_text([&] {
                    fields.allow_only({"counts", "part", "list", "on"});
                  }),
                  "f: count is unknown; nearest: 'counts'");
}

TEST(AtomicFile, ReplacesTheContentAndLeavesNothingElse) {
  const TemporaryFolder folder;
  const auto path = folder.write("file", "old");
  write_file_atomically(path, "new content");
  EXPECT_EQ(read_text_file(path, 100), "new content");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  EXPECT_CONTAINS(error_text([&] { write_file_atomically(folder.path() / "none" / "file", "x"); }),
                  "none/file: No such file");
  std::filesystem::create_directory(folder.path() / "taken");
  EXPECT_CONTAINS(error_text([&] { write_file_atomically(folder.path() / "taken", "x"); }),
                  "cannot write");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 2)
      << "no temporary file stays";
}

}  // namespace
}  // namespace flashrt
