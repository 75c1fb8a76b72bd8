// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "backends/cuda/cuda_weights.hpp"

#include <algorithm>
#include <set>

#include "kernels/quantize.cuh"
#include "kernels/random.cuh"
#include "quant/pack.hpp"

namespace flashrt::cuda {
namespace {

constexpr size_t kAlignment = 256;
// Weights pass through float32 in pieces of this size, so that loading needs little more memory
// than the weights themselves.
constexpr int64_t kPieceElements = int64_t{1} << 26;

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::set<std::string_view> patch_weights(const Plan& plan) {
  std::set<std::string_view> names;
  for (const Call& call : plan.calls) {
    if (const auto* op = std::get_if<PatchEmbed>(&call.op)) names.insert(op->weight);
  }
  return names;
}

WeightView described(const WeightInfo& info, bool is_patch) {
  FLASHRT_CHECK((info.type == DType::kE4M3) == (info.scale != WeightScale::kNone), "weight ",
                info.name, ": ", info.type,
                "; e4m3 weights have a scale per tensor or channel, others have none");
  FLASHRT_CHECK(info.type != DType::kI32 && info.type != DType::kU8, "weight ", info.name,
                ": type ", info.type, ", expected f32, bf16, f16 or e4m3");
  WeightView view{.type = info.type,
                  .rows = info.shape.rows(),
                  .width = info.shape.width(),
                  .stride = info.shape.width()};
  // Long rows start on lines of the cache: tiles of them would read parts of some lines twice.
  constexpr int64_t kLongRow = 1024, kLine = 128;  // bytes
  const auto element = static_cast<int64_t>(size_of(view.type));
  if (is_patch) {
    constexpr int64_t kStep = CudaWeights::kPatchAlignment;
    view.stride = view.width = (view.width + kStep - 1) / kStep * kStep;
  } else if (view.width * element >= kLongRow) {
    view.stride = (view.width * element + kLine - 1) / kLine * kLine / element;
  }
  if (info.scale == WeightScale::kTensor) view.scale_count = 1;
  if (info.scale == WeightScale::kChannel) view.scale_count = view.rows;
  return view;
}

size_t data_bytes(const WeightView& view) {
  return aligned(view.rows * view.stride * size_of(view.type));
}

size_t scale_bytes(const WeightView& view) { return aligned(view.scale_count * sizeof(float)); }

// Rows [begin, begin + rows) of a random tensor, in float32.
void fill_rows(const RandomTensor& tensor, int64_t width, int64_t begin, int64_t rows, float* out,
               const Launch& launch) {
  int64_t part_begin = 0;
  for (const RandomRows& part : tensor.parts) {
    const int64_t first = std::max(begin, part_begin);
    const int64_t last = std::min(begin + rows, part_begin + part.rows);
    if (first < last) {
      fill_random(out + (first - begin) * width, (first - part_begin) * width,
                  (last - first) * width, part.numbers, launch);
    }
    part_begin += part.rows;
  }
}

// Rows as they are stored, and zeros after them where the device's are longer.
void copy_packed(const PackedTensor& packed, const WeightView& view, const Stream& stream) {
  const auto rows = static_cast<size_t>(view.rows);
  const size_t row = packed.data.size() / std::max<size_t>(rows, 1);
  const size_t pitch = static_cast<size_t>(view.stride) * size_of(view.type);
  void* const data = const_cast<void*>(view.data);
  if (pitch == row) {
    check(cudaMemcpyAsync(data, packed.data.data(), packed.data.size(), cudaMemcpyHostToDevice,
                          stream.get()),
          "copying a packed weight");
  } else {
    check(cudaMemsetAsync(data, 0, rows * pitch, stream.get()), "clearing a weight");
    check(cudaMemcpy2DAsync(data, pitch, packed.data.data(), row, row, rows, cudaMemcpyHostToDevice,
                            stream.get()),
          "copying a packed weight");
  }
  check(cudaMemcpyAsync(const_cast<float*>(view.scales), packed.scales.data(),
                        packed.scales.size_bytes(), cudaMemcpyHostToDevice, stream.get()),
        "copying the scales of a packed weight");
}

}  // namespace

size_t CudaWeights::bytes_for(const Plan& plan) {
  const std::set<std::string_view> patches = patch_weights(plan);
  size_t bytes = 0;
  for (const WeightInfo& info : plan.weights) {
    const WeightView view = described(info, patches.contains(info.name));
    bytes += data_bytes(view) + scale_bytes(view);
  }
  return bytes;
}

CudaWeights::CudaWeights(const Plan& plan, const Load& load, const Describe& describe,
                         const DeviceInfo& device, const Packed& packed) {
  const std::set<std::string_view> patches = patch_weights(plan);
  size_t bytes = 0;
  int64_t piece = 0;  // elements
  for (const WeightInfo& info : plan.weights) {
    WeightView view = described(info, patches.contains(info.name));
    // Offsets for now: the memory is taken once all sizes are known.
    view.data = reinterpret_cast<const void*>(bytes);
    bytes += data_bytes(view);
    view.scales = reinterpret_cast<const float*>(bytes);
    bytes += scale_bytes(view);
    held_.emplace(info.name, Held{view, info.scale});
    const int64_t width = std::max<int64_t>(info.shape.width(), 1);
    const int64_t whole = info.shape.elements();
    piece = std::max(piece, info.scale == WeightScale::kTensor
                                ? whole
                                : std::min(whole, std::max(width, kPieceElements)));
  }
  memory_ = DeviceBuffer(bytes);
  const DeviceBuffer staging(piece * sizeof(float));
  const Stream stream;
  const Launch launch{.stream = stream.get(), .device = &device};
  for (const WeightInfo& info : plan.weights) {
    WeightView& view = held_.at(info.name).view;
    view.data = memory_.data() + reinterpret_cast<size_t>(view.data);
    view.scales =
        view.scale_count > 0
            ? reinterpret_cast<const float*>(memory_.data() + reinterpret_cast<size_t>(view.scales))
            : nullptr;
    if (const auto stored = packed ? packed(info.name) : std::nullopt) {
      check_packed(info, *stored);
      copy_packed(*stored, view, stream);
      stream.synchronize();
      continue;
    }
    const auto random = describe ? describe(info.name) : std::nullopt;
    const HostTensor tensor = random ? HostTensor{random->shape, {}} : load(info.name);
    FLASHRT_CHECK(tensor.shape == info.shape, "weight ", info.name, " is ", tensor.shape,
                  ", the plan reads ", info.shape);
    const int64_t width = info.shape.width();
    const int64_t step =
        std::max<int64_t>(1, static_cast<int64_t>(piece) / std::max<int64_t>(width, 1));
    for (int64_t row = 0; row < view.rows; row += step) {
      const int64_t rows = std::min(step, view.rows - row);
      if (random) {
        fill_rows(*random, width, row, rows, staging.as<float>(), launch);
      } else {
        check(cudaMemcpyAsync(staging.data(), tensor.data.data() + row * width,
                              rows * width * sizeof(float), cudaMemcpyHostToDevice, stream.get()),
              "copying a weight");
      }
      const auto element = static_cast<int64_t>(size_of(view.type));
      auto* data = static_cast<std::byte*>(const_cast<void*>(view.data));
      auto* scales = const_cast<float*>(view.scales);
      const bool is_channel = info.scale == WeightScale::kChannel;
      quantize_weight({.x = staging.as<float>(),
                       .y = data + row * view.stride * element,
                       .type = view.type,
                       .rows = rows,
                       .width = width,
                       .stride = view.stride,
                       .scales = is_channel ? scales + row : scales,
                       .scale_count = is_channel ? rows : view.scale_count},
                      launch);
    }
    stream.synchronize();  // before the host tensor goes
  }
}

WeightView CudaWeights::get(const WeightInfo& info) const {
  const auto found = held_.find(info.name);
  FLASHRT_CHECK(found != held_.end(), "weight ", info.name,
                " was not uploaded: these weights are of another plan");
  FLASHRT_CHECK(found->second.view.type == info.type && found->second.scale == info.scale,
                "weight ", info.name, " is held as ", found->second.view.type, ", the plan reads ",
                info.type, ", or their scales differ");
  return found->second.view;
}

}  // namespace flashrt::cuda
