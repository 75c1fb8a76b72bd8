// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <string>

#include "kernels/launch.hpp"
#include "kernels/tensor_map.hpp"

namespace flashrt::cuda {
namespace {

constexpr int kBoxBytes = 128;  // of a row of a box

// From the driver itself, so that nothing is linked against it.
using Encode = decltype(&cuTensorMapEncodeTiled);
Encode driver_encode() {
  constexpr unsigned kSince = 12000;  // the version of CUDA that brought it
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found;
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, kSince,
                                         cudaEnableDefault, &found),
        "cuTensorMapEncodeTiled");
  FLASHRT_CHECK(found == cudaDriverEntryPointSuccess,
                "the driver has no cuTensorMapEncodeTiled: update it to one for CUDA 12 or newer");
  return reinterpret_cast<Encode>(entry);
}

CUtensorMapDataType map_type(DType type) {
  switch (type) {
    case DType::kF32:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    case DType::kBF16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case DType::kF16:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::kI32:
      return CU_TENSOR_MAP_DATA_TYPE_INT32;
    case DType::kE4M3:
    case DType::kU8:
      break;
  }
  return CU_TENSOR_MAP_DATA_TYPE_UINT8;
}

// A map of N dimensions, whose boxes arrive swizzled by 128 bytes. Strides are in bytes.
template <size_t N>
CUtensorMap encoded(const void* data, DType type, const std::array<int64_t, N>& extents,
                    const std::array<int64_t, N - 1>& strides, const std::array<int64_t, N>& box) {
  static const Encode encode = driver_encode();
  std::array<cuuint64_t, N> sizes, steps;
  std::array<cuuint32_t, N> boxes, every;
  std::copy(extents.begin(), extents.end(), sizes.begin());
  std::copy(strides.begin(), strides.end(), steps.begin());
  std::copy(box.begin(), box.end(), boxes.begin());
  every.fill(1);
  CUtensorMap map;
  const CUresult status =
      encode(&map, map_type(type), N, const_cast<void*>(data), sizes.data(), steps.data(),
             boxes.data(), every.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status == CUDA_SUCCESS) return map;
  const auto list = [](const auto& numbers) {
    std::string all;
    for (const int64_t number : numbers) all += text(all.empty() ? "" : ", ", number);
    return text("[", all, "]");
  };
  throw Error(text("cuTensorMapEncodeTiled: error ", static_cast<int>(status), " for ", type,
                   " at ", data, ", extents ", list(extents), ", strides ", list(strides),
                   " bytes, boxes of ", list(box)));
}

}  // namespace

CUtensorMap swizzled_tensor_map(const void* data, DType type, int64_t rows, int64_t width,
                                int64_t stride, int box_rows) {
  const auto element = static_cast<int64_t>(size_of(type));
  return encoded<2>(data, type, {width, rows}, {stride * element}, {kBoxBytes / element, box_rows});
}

CUtensorMap blocked_tensor_map(const void* data, DType type, int64_t group_rows, int64_t groups,
                               int64_t width, int64_t stride, const BlockedBox& box) {
  const auto element = static_cast<int64_t>(size_of(type));
  const int64_t block = kBoxBytes / element;
  return encoded<4>(data, type, {block, group_rows, groups, width / block},
                    {stride * element, group_rows * stride * element, kBoxBytes},
                    {block, box.rows, box.groups, box.blocks});
}

CUtensorMap heads_tensor_map(const void* data, DType type, const HeadRows& all, int64_t stride,
                             int box_rows) {
  const auto element = static_cast<int64_t>(size_of(type));
  return encoded<4>(data, type, {all.head_dim, all.heads, all.block_rows, all.blocks},
                    {all.head_dim * element, stride * element, all.block_rows * stride * element},
                    {kBoxBytes / element, 1, box_rows, 1});
}

}  // namespace flashrt::cuda
