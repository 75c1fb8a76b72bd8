// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Writes safetensors files, correct ones and, from a header made by hand, wrong ones.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/half.hpp"

namespace flashrt {

// What is written: values are rounded to the dtype, one of F32, BF16, F16, I32.
struct WrittenTensor {
  std::vector<int64_t> shape;
  std::vector<float> values;
  std::string dtype = "F32";
};

inline std::string safetensors_file(const std::string& header, const std::string& body) {
  const uint64_t length = header.size();
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  return file + header + body;
}

inline void append_element(std::string& body, float value, const std::string& dtype) {
  const auto append = [&](auto word) {
    body.append(reinterpret_cast<const char*>(&word), sizeof word);
  };
  if (dtype == "F32") {
    append(value);
  } else if (dtype == "BF16") {
    append(float_to_bf16(value));
  } else if (dtype == "F16") {
    append(float_to_f16(value));
  } else if (dtype == "I32") {
    append(static_cast<int32_t>(value));
  } else {
    throw std::runtime_error("the test writer does not know " + dtype);
  }
}

inline std::string safetensors_file(const std::map<std::string, WrittenTensor>& tensors) {
  nlohmann::json header{{"__metadata__", {{"format", "pt"}}}};
  std::string body;
  for (const auto& [name, tensor] : tensors) {
    const size_t begin = body.size();
    for (const float value : tensor.values) append_element(body, value, tensor.dtype);
    header[name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, body.size()}}};
  }
  return safetensors_file(header.dump(), body);
}

}  // namespace flashrt
