// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "checkpoint/tensor_digest.hpp"

#include <algorithm>
#include <cstring>
#include <iomanip>
#include <optional>
#include <set>
#include <sstream>
#include <vector>

#include "base/xxh64.hpp"

namespace flashrt {
namespace {

constexpr size_t kPieceBytes = 4u << 20;

// A value is infinite or NaN when all bits of its exponent are set.
struct FloatFormat {
  std::string_view dtype;
  size_t bytes;
  uint32_t exponent;
};
constexpr FloatFormat kFormats[] = {
    {"F32", 4, 0x7f800000}, {"BF16", 2, 0x7f80}, {"F16", 2, 0x7c00}};

template <class Word>
bool is_finite(const std::byte* at, Word exponent) {
  Word word;
  std::memcpy(&word, at, sizeof word);
  return (word & exponent) != exponent;
}

template <class Word>
std::optional<size_t> first_not_finite(std::span<const std::byte> bytes, Word exponent) {
  const size_t count = bytes.size() / sizeof(Word);
  bool all_finite = true;  // without a branch in the loop, which compilers then vectorise
  for (size_t i = 0; i < count; ++i)
    all_finite &= is_finite(bytes.data() + i * sizeof(Word), exponent);
  if (all_finite) return std::nullopt;
  size_t index = 0;
  while (is_finite(bytes.data() + index * sizeof(Word), exponent)) ++index;
  return index;
}

std::optional<size_t> first_not_finite(std::span<const std::byte> bytes,
                                       const FloatFormat& format) {
  return format.bytes == 4 ? first_not_finite(bytes, format.exponent)
                           : first_not_finite(bytes, static_cast<uint16_t>(format.exponent));
}

const FloatFormat& format_of(std::string_view dtype) {
  return *std::find_if(std::begin(kFormats), std::end(kFormats),
                       [&](const FloatFormat& format) { return format.dtype == dtype; });
}

struct Piece {
  const LocatedTensor* located;
  size_t offset;
};

void append(std::string& bytes, uint64_t number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

uint64_t hash(const std::string& bytes) { return xxh64(std::as_bytes(std::span(bytes))); }

}  // namespace

bool is_float_dtype(std::string_view dtype) {
  return std::any_of(std::begin(kFormats), std::end(kFormats),
                     [&](const FloatFormat& format) { return format.dtype == dtype; });
}

namespace {

std::string digest_of(const std::map<std::string, LocatedTensor>& tensors, ThreadPool& threads,
                      bool are_finite) {
  std::set<const SafetensorsFile*> files;
  for (const auto& [unused, located] : tensors) files.insert(located.file);
  for (const SafetensorsFile* file : files) file->read_ahead();
  std::vector<Piece> pieces;
  for (const auto& [unused, located] : tensors) {
    for (size_t offset = 0; offset < located.tensor->bytes.size(); offset += kPieceBytes) {
      pieces.push_back({&located, offset});
    }
  }
  struct Finding {
    uint64_t hash = 0;
    std::optional<size_t> not_finite;  // element of the piece
  };
  std::vector<Finding> findings(pieces.size());
  threads.parallel_for(static_cast<int64_t>(pieces.size()), 1, [&](int64_t index, int64_t, int) {
    const StoredTensor& tensor = *pieces[index].located->tensor;
    const size_t offset = pieces[index].offset;
    const auto bytes =
        tensor.bytes.subspan(offset, std::min(kPieceBytes, tensor.bytes.size() - offset));
    findings[index] = {
        .hash = xxh64(bytes),
        .not_finite = are_finite ? first_not_finite(bytes, format_of(tensor.dtype)) : std::nullopt};
  });
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (!findings[i].not_finite) continue;
    const StoredTensor& tensor = *pieces[i].located->tensor;
    throw Error(text("tensor ", tensor.name, " ", tensor.shape, " in ",
                     pieces[i].located->file->path().string(), " is not finite at element ",
                     pieces[i].offset / format_of(tensor.dtype).bytes + *findings[i].not_finite));
  }

  std::string root;
  size_t piece = 0;
  for (const auto& [name, located] : tensors) {
    const StoredTensor& tensor = *located.tensor;
    std::string leaf = name + '\0' + tensor.dtype + '\0';
    append(leaf, tensor.shape.rank());
    for (const int64_t extent : tensor.shape.extents()) append(leaf, static_cast<uint64_t>(extent));
    for (; piece < pieces.size() && pieces[piece].located == &located; ++piece)
      append(leaf, findings[piece].hash);
    append(root, hash(leaf));
  }
  std::ostringstream hex;
  hex << std::hex << std::setw(16) << std::setfill('0') << hash(root);
  return hex.str();
}

}  // namespace

std::string digest_of(const std::map<std::string, LocatedTensor>& tensors, ThreadPool& threads) {
  return digest_of(tensors, threads, false);
}

std::string digest_of_finite(const std::map<std::string, LocatedTensor>& tensors,
                             ThreadPool& threads) {
  return digest_of(tensors, threads, true);
}

}  // namespace flashrt
