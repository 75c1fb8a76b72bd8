// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// The file reader: robot-side cases R-54 to R-56, and every way a header can lie.
#include <gtest/gtest.h>

#include "checkpoint/safetensors.hpp"
#include "expect_error.hpp"
#include "safetensors_writer.hpp"
#include "temporary_folder.hpp"

namespace flashrt {
namespace {

std::string refusal_of_case(const std::string& name) {
  const std::filesystem::path path =
      std::filesystem::path(FLASHRT_TEST_CASES) / "checkpoints" / name;
  const std::string text = error_text([&] { SafetensorsFile file(path); });
  EXPECT_CONTAINS(text, name);
  return text;
}

TEST(Safetensors, ReadsShapesTypesAndBytes) {
  const SafetensorsFile file(std::filesystem::path(FLASHRT_TEST_CASES) / "checkpoints" /
                             "ok.safetensors");
  ASSERT_EQ(file.tensors().size(), 2u);
  const StoredTensor& a = file.tensors()[0];
  const StoredTensor& b = file.tensors()[1];
  EXPECT_EQ(a.name, "a.weight");
  EXPECT_EQ(a.shape, (Shape{2, 4}));
  EXPECT_EQ(a.dtype, "F32");
  EXPECT_EQ(b.shape, (Shape{4, 4}));
  ASSERT_EQ(b.bytes.size(), 64u);
  EXPECT_EQ(a.bytes.data() + a.bytes.size(), b.bytes.data());
  float second = 0;
  std::memcpy(&second, a.bytes.data() + 4, sizeof second);
  EXPECT_EQ(second, 1.0f);
}

TEST(Safetensors, R54NamesAGitLfsPointerAndTheSizeOfTheFile) {
  const std::string text = refusal_of_case("git_lfs_pointer.safetensors");
  EXPECT_CONTAINS(text, "is a Git LFS pointer, the file itself was not fetched");
  EXPECT_CONTAINS(text, "found 135 bytes, expected 7473096344");
  EXPECT_EQ(text.find("JSON"), std::string::npos);
}

TEST(Safetensors, R55NamesFoundAndNeededSizeOfATruncatedFile) {
  EXPECT_CONTAINS(refusal_of_case("zero_bytes.safetensors"),
                  "is empty: found 0 bytes, a safetensors file needs at least 10");
  EXPECT_CONTAINS(refusal_of_case("seven_bytes.safetensors"),
                  "found 7 bytes, a safetensors file needs at least 10");
  EXPECT_CONTAINS(refusal_of_case("truncated_header.safetensors"),
                  "found 40 bytes, the header alone needs 136");
  const std::string body = refusal_of_case("truncated_body.safetensors");
  EXPECT_CONTAINS(body, "tensor b.weight ends 20 bytes past the end");
  EXPECT_CONTAINS(body, "found 212 bytes, the file needs 232");
}

TEST(Safetensors, R56NamesTheTensorWhoseOffsetsAreOutside) {
  EXPECT_CONTAINS(refusal_of_case("offsets_past_end.safetensors"),
                  "tensor b.weight ends 4000 bytes past the end");
}

struct BadHeader {
  std::string name;
  std::string header;
  size_t body;
  std::string expected;
};

// One tensor "w" of two floats, with one thing changed.
std::string entry(const std::string& shape, const std::string& offsets,
                  const std::string& dtype = "F32") {
  return R"({"w":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}}";
}

const BadHeader kBadHeaders[] = {
    {"not_json", "{]", 0, "is not valid JSON"},
    {"not_utf8", "{\"\xff\":1}", 0, "is not valid JSON"},
    {"array", "[1]", 0, "header is array, expected a JSON object"},
    {"entry_is_no_object", R"({"w":[1]})", 8, "tensor w"},
    {"no_dtype", R"({"w":{"shape":[2],"data_offsets":[0,8]}})", 8, "dtype missing"},
    {"no_shape", R"({"w":{"dtype":"F32","data_offsets":[0,8]}})", 8, "shape missing"},
    {"no_offsets", R"({"w":{"dtype":"F32","shape":[2]}})", 8, "data_offsets missing"},
    {"extra_key", R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"stride":1}})", 8,
     "stride is unknown"},
    {"same_name_twice",
     R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
     8, "'w' occurs twice"},
    {"unknown_dtype", entry("[2]", "[0,8]", "F31"), 8, "dtype F31 is unknown"},
    {"negative_extent", entry("[-2]", "[0,8]"), 8,
     "shape is -2, expected an integer of at least 0"},
    {"fractional_extent", entry("[2.0]", "[0,8]"), 8, "shape is 2.0"},
    {"rank_9", entry("[2,1,1,1,1,1,1,1,1]", "[0,8]"), 8, "rank 9, expected at most 8"},
    {"product_overflows", entry("[4294967296,4294967296]", "[0,0]"), 8, "is too large"},
    {"product_wraps_to_fit", entry("[4611686018427387905,4]", "[0,16]"), 16, "is too large"},
    {"offsets_reversed", entry("[2]", "[8,0]"), 8, "data_offsets [8, 0) do not hold [2] F32"},
    {"offsets_too_small", entry("[2]", "[0,4]"), 4, "which has 8 bytes"},
    {"offset_negative", entry("[2]", "[-8,0]"), 8, "data_offsets is -8"},
    {"offset_huge", entry("[2]", "[18446744073709551608,18446744073709551616]"), 8, "data_offsets"},
    {"offsets_three", entry("[2]", "[0,8,8]"), 8, "has 3 numbers, expected 2"},
    {"hole_before", entry("[2]", "[8,16]"), 16, "8 bytes before tensor w belong to no tensor"},
    {"bytes_after", entry("[2]", "[0,8]"), 12, "its tensors end at"},
    {"overlap",
     R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
     12, "tensor b begins at offset 4, inside the tensor before it"},
};

class SafetensorsHeader : public testing::TestWithParam<BadHeader> {};

TEST_P(SafetensorsHeader, IsRefused) {
  const TemporaryFolder folder;
  const auto path = folder.write(
      "bad.safetensors", safetensors_file(GetParam().header, std::string(GetParam().body, '\0')));
  const std::string text = error_text([&] { SafetensorsFile file(path); });
  EXPECT_CONTAINS(text, "bad.safetensors");
  EXPECT_CONTAINS(text, GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(All, SafetensorsHeader, testing::ValuesIn(kBadHeaders),
                         [](const auto& header) { return header.param.name; });

TEST(Safetensors, LimitsTheHeaderBeforeReadingIt) {
  const TemporaryFolder folder;
  std::string file = safetensors_file("{}", "");
  file[7] = '\x7f';  // a header of 9e18 bytes
  const auto path = folder.write("model.safetensors", file);
  EXPECT_CONTAINS(error_text([&] { SafetensorsFile opened(path); }),
                  "is no safetensors file: its header would have");
}

TEST(Safetensors, LimitsTheNumberOfTensors) {
  const TemporaryFolder folder;
  nlohmann::json header;
  for (int i = 0; i <= 100'000; ++i)
    header[text("w", i)] = {{"dtype", "F32"}, {"shape", {0}}, {"data_offsets", {0, 0}}};
  const auto path = folder.write("model.safetensors", safetensors_file(header.dump(), ""));
  EXPECT_CONTAINS(error_text([&] { SafetensorsFile opened(path); }),
                  "header: more than 100000 members in one object or array");
}

TEST(Safetensors, AcceptsTensorsWithoutElementsAndPaddedHeaders) {
  const TemporaryFolder folder;
  const std::string header = R"({"e":{"dtype":"F32","shape":[0,4],"data_offsets":[0,0]}}      )";
  const SafetensorsFile file(folder.write("empty.safetensors", safetensors_file(header, "")));
  EXPECT_EQ(file.tensors().at(0).bytes.size(), 0u);
}

TEST(Safetensors, NamesAFileThatIsMissingOrAFolder) {
  const TemporaryFolder folder;
  EXPECT_CONTAINS(error_text([&] { SafetensorsFile file(folder.path() / "none.safetensors"); }),
                  "none.safetensors: No such file");
  EXPECT_CONTAINS(error_text([&] { SafetensorsFile file(folder.path()); }),
                  "is not a regular file");
}

}  // namespace
}  // namespace flashrt
