// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include <cuda_runtime.h>

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

}  // namespace

CUtensorMap swizzled_tensor_map(const void* data, DType type, int64_t rows, int64_t width,
                                int64_t stride, int box_rows) {
  static const Encode encode = driver_encode();
  const auto element = static_cast<int64_t>(size_of(type));
  const cuuint64_t extents[] = {static_cast<cuuint64_t>(width), static_cast<cuuint64_t>(rows)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(stride * element)};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(kBoxBytes / element),
                            static_cast<cuuint32_t>(box_rows)};
  const cuuint32_t steps[] = {1, 1};
  CUtensorMap map;
  const CUresult status =
      encode(&map, map_type(type), 2, const_cast<void*>(data), extents, strides, box, steps,
             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  FLASHRT_CHECK(status == CUDA_SUCCESS, "cuTensorMapEncodeTiled: error ", static_cast<int>(status),
                " for [", rows, ", ", width, "] ", type, " with a row every ", stride,
                " elements at ", data, ", boxes of ", box_rows, " rows");
  return map;
}

CUtensorMap blocked_tensor_map(const void* data, DType type, int64_t group_rows, int64_t groups,
                               int64_t width, int64_t stride, const BlockedBox& box) {
  static const Encode encode = driver_encode();
  const auto element = static_cast<int64_t>(size_of(type));
  const int64_t block = kBoxBytes / element;
  const cuuint64_t extents[] = {static_cast<cuuint64_t>(block), static_cast<cuuint64_t>(group_rows),
                                static_cast<cuuint64_t>(groups),
                                static_cast<cuuint64_t>(width / block)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(stride * element),
                                static_cast<cuuint64_t>(group_rows * stride * element), kBoxBytes};
  const cuuint32_t boxes[] = {static_cast<cuuint32_t>(block), static_cast<cuuint32_t>(box.rows),
                              static_cast<cuuint32_t>(box.groups),
                              static_cast<cuuint32_t>(box.blocks)};
  const cuuint32_t steps[] = {1, 1, 1, 1};
  CUtensorMap map;
  const CUresult status =
      encode(&map, map_type(type), 4, const_cast<void*>(data), extents, strides, boxes, steps,
             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  FLASHRT_CHECK(status == CUDA_SUCCESS, "cuTensorMapEncodeTiled: error ", static_cast<int>(status),
                " for ", groups, " x [", group_rows, ", ", width, "] ", type, " with a row every ",
                stride, " elements at ", data, ", boxes of ", box.groups, " x ", box.rows,
                " rows and ", box.blocks, " blocks");
  return map;
}

}  // namespace flashrt::cuda
