// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// bench_linear [--all] [filter]: checks and times every configuration of the linear kernels that
// accepts a layer of Pi0.5 or GR00T, and prints the fastest three of each layer, or all of them.
//
// Each output is compared with a plain float32 product of the same random operands, bit for bit
// with a second run, and starts as NaN, as do the rows of x past the valid ones. Weights take turns
// so that they come from device memory. Ends with 1 if any output is wrong.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/device.hpp"
#include "base/random.hpp"
#include "kernels/common.cuh"
#include "kernels/linear.cuh"

namespace flashrt::cuda {
namespace {

// ---- the layers

constexpr int64_t kPaddingRows = 6;  // few, as kernels are chosen by the rows that there may be

struct Layer {
  const char* name;
  int64_t rows, width, depth;
  DType x_type, weight_type, y_type;
  bool has_bias = false;
  Activation activation = Activation::kNone;
  bool is_gated = false;  // width counts both halves

  // The number of rows of the prefix is known on the device alone; there is room for some more.
  bool has_length() const { return std::string_view(name).starts_with("prefix"); }
  int64_t capacity() const { return rows + (has_length() ? kPaddingRows : 0); }
  int64_t y_width() const { return is_gated ? width / 2 : width; }
  double flops() const { return 2.0 * rows * width * depth; }
  double weight_bytes() const { return static_cast<double>(width) * depth * size_of(weight_type); }
  std::string text() const {
    return flashrt::text(name, " ", rows, " x ", width, " x ", depth, " ", x_type, " * ",
                         weight_type, " -> ", y_type);
  }
};

std::vector<Layer> layers() {
  constexpr DType kF32 = DType::kF32, kBF16 = DType::kBF16, kE4M3 = DType::kE4M3,
                  kF16 = DType::kF16;
  std::vector<Layer> all;
  for (const int64_t t : {10, 50}) {
    all.push_back({"denoise.action_in", t, 1024, 32, kF32, kF32, kBF16, true});
    all.push_back({"denoise.velocity", t, 32, 1024, kF32, kF32, kF32, true});
  }
  for (const int64_t t : {16, 50}) {
    all.push_back(
        {"groot.denoise.action_in", t, 1536, 128, kF32, kF32, kBF16, true, Activation::kSilu});
    all.push_back({"groot.denoise.velocity", t, 128, 1024, kF32, kF32, kF32, true});
  }
  all.push_back(
      {"groot.denoise.decoder", 50, 1024, 1536, kBF16, kBF16, kF32, true, Activation::kRelu});
  all.push_back({"groot.state_in", 1, 1024, 128, kF32, kF32, kBF16, true, Activation::kRelu});
  for (const DType type : {kE4M3, kBF16}) {
    for (const int64_t t : {512, 768}) {
      all.push_back({"vision.qkv", t, 3 * 1152, 1152, type, type, kBF16, true});
      all.push_back({"vision.attn_out", t, 1152, 1152, type, type, kBF16, true});
      all.push_back({"vision.fc1", t, 4304, 1152, type, type, type, true, Activation::kGeluTanh});
      all.push_back({"vision.fc2", t, 1152, 4304, type, type, kBF16, true});
      all.push_back({"projector", t, 2048, 1152, type, type, kBF16, true});
    }
    for (const int64_t t : {522, 778, 968}) {
      all.push_back({"prefix.qkv", t, 2560, 2048, type, type, kBF16});
      all.push_back({"prefix.attn_out", t, 2048, 2048, type, type, kBF16});
      all.push_back({"prefix.gate_up", t, 2 * 16384, 2048, type, type, kBF16});
      all.push_back({"prefix.gate_up+glu", t, 2 * 16384, 2048, type, type, type, false,
                     Activation::kNone, true});
      all.push_back({"prefix.down", t, 2048, 16384, type, type, kBF16});
    }
    all.push_back({"groot.vision.qkv", 648, 3 * 1152, 1152, type, type, kBF16, true});
    all.push_back({"groot.vision.attn_out", 648, 1152, 1152, type, type, kBF16, true});
    all.push_back(
        {"groot.vision.fc1", 648, 4304, 1152, type, type, type, true, Activation::kGeluTanh});
    all.push_back({"groot.vision.fc2", 648, 1152, 4304, type, type, kBF16, true});
    all.push_back({"groot.backbone.qkv", 172, 4096, 2048, type, type, kBF16});
    all.push_back({"groot.backbone.attn_out", 172, 2048, 2048, type, type, kBF16});
    all.push_back({"groot.backbone.gate_up+glu", 172, 2 * 6144, 2048, type, type, type, false,
                   Activation::kNone, true});
    all.push_back({"groot.backbone.down", 172, 2048, 6144, type, type, kBF16});
    all.push_back({"groot.backbone.image_kv", 172, 24576, 2048, type, type, kBF16, true});
    for (const int64_t t : {17, 51}) {
      all.push_back({"groot.denoise.qkv", t, 3 * 1536, 1536, type, type, kBF16, true});
      all.push_back({"groot.denoise.attn_out", t, 1536, 1536, type, type, kBF16, true});
      all.push_back(
          {"groot.denoise.fc1", t, 6144, 1536, type, type, type, true, Activation::kGeluTanh});
      all.push_back({"groot.denoise.fc2", t, 1536, 6144, type, type, kBF16, true});
    }
    for (const DType x_type : {type, kF16}) {
      if (x_type == kF16 && type == kBF16) continue;
      for (const int64_t t : {10, 50}) {
        all.push_back({"denoise.qkv", t, 2560, 1024, x_type, type, kBF16});
        all.push_back({"denoise.attn_out", t, 1024, 2048, x_type, type, kBF16});
        all.push_back({"denoise.gate_up+glu", t, 2 * 4096, 1024, x_type, type, x_type, false,
                       Activation::kNone, true});
        all.push_back({"denoise.down", t, 1024, 4096, x_type, type, kBF16});
      }
    }
  }
  return all;
}

// ---- kernels of the check

constexpr int kThreads = 256;
constexpr int kBlocks = 1024;

template <class T>
__global__ void fill_kernel(T* out, int64_t count, RandomNumbers numbers) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride)
    out[i] = from_float<T>(numbers[i]);
}

constexpr int kTile = 32;
constexpr int kRowsPerThread = 4;

// sums[t, c] = x[t] . w[c], of codes.
__global__ void product_kernel(Matrix x, WeightView w, float* sums) {
  __shared__ float x_tile[kTile][kTile + 1], w_tile[kTile][kTile + 1];
  const int64_t row = int64_t{blockIdx.y} * kTile, channel = int64_t{blockIdx.x} * kTile;
  float sum[kRowsPerThread] = {};
  for (int64_t k = 0; k < x.width; k += kTile) {
    __syncthreads();  // the tiles of the step before have been read
    for (int r = threadIdx.y; r < kTile; r += kTile / kRowsPerThread) {
      const int64_t column = k + threadIdx.x;
      const bool is_inside = column < x.width;
      x_tile[r][threadIdx.x] = is_inside && row + r < x.rows
                                   ? load_element(x.data, x.type, (row + r) * x.stride + column)
                                   : 0;
      w_tile[r][threadIdx.x] = is_inside && channel + r < w.rows
                                   ? load_element(w.data, w.type, (channel + r) * w.stride + column)
                                   : 0;
    }
    __syncthreads();  // and these are complete
    for (int i = 0; i < kTile; ++i) {
#pragma unroll
      for (int r = 0; r < kRowsPerThread; ++r)
        sum[r] += x_tile[threadIdx.y * kRowsPerThread + r][i] * w_tile[threadIdx.x][i];
    }
  }
  for (int r = 0; r < kRowsPerThread; ++r) {
    const int64_t t = row + threadIdx.y * kRowsPerThread + r, c = channel + threadIdx.x;
    if (t < x.rows && c < w.rows) sums[t * w.rows + c] = sum[r];
  }
}

// What y should be, before its rounding.
__device__ float expected_value(const LinearArgs& args, const float* sums, int64_t t, int64_t c) {
  const WeightView& w = args.weight;
  float y = sums[t * w.rows + c] * args.x.scale;
  if (w.scale_count > 0) y *= w.scales[w.scale_count > 1 ? c : 0];
  if (args.bias) y += args.bias[c];
  return activate(args.activation, y);
}

struct Comparison {
  double error, reference;  // sums of squares
  float worst;              // the largest |y - r| / (|r| + rms of r)
  unsigned long long not_finite;
};

__global__ void compare_kernel(LinearArgs args, bool is_gated, Activation gate_activation, Matrix y,
                               int64_t rows, const float* sums, float rms, Comparison* out) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  Comparison own{};  // of this thread
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < rows * y.width;
       i += stride) {
    const int64_t t = i / y.width, c = i % y.width;
    float r = expected_value(args, sums, t, c);
    if (is_gated) {
      const float up = expected_value(args, sums, t, y.width + c);
      r = gated(gate_activation, rounded_to(DType::kBF16, 1, r), rounded_to(DType::kBF16, 1, up));
    }
    if (y.type == DType::kE4M3) {
      const float limit = kE4M3Limit * y.scale;
      r = fminf(fmaxf(r, -limit), limit);
    }
    const float difference = load(y, t, c) - r;
    if (!isfinite(difference)) {
      ++own.not_finite;
      continue;
    }
    own.error += static_cast<double>(difference) * difference;
    own.reference += static_cast<double>(r) * r;
    own.worst = fmaxf(own.worst, fabsf(difference) / (fabsf(r) + rms));
  }
  atomicAdd(&out->error, own.error);
  atomicAdd(&out->reference, own.reference);
  atomicAdd(&out->not_finite, own.not_finite);
  atomicMax(reinterpret_cast<int*>(&out->worst), __float_as_int(own.worst));  // not negative
}

// ---- operands

constexpr double kRotatedBytes = 320e6;                       // more than any L2
constexpr float kXDeviation = 2.0f, kWeightDeviation = 3.0f;  // of codes

void fill(void* data, DType type, int64_t count, uint64_t key, float deviation) {
  const RandomNumbers numbers{
      .key = key, .offset = 0, .unit = static_cast<float>(deviation * kRandomUnit)};
  switch (type) {
    case DType::kE4M3:
      fill_kernel<<<kBlocks, kThreads>>>(static_cast<e4m3*>(data), count, numbers);
      break;
    case DType::kF16:
      fill_kernel<<<kBlocks, kThreads>>>(static_cast<f16*>(data), count, numbers);
      break;
    case DType::kBF16:
      fill_kernel<<<kBlocks, kThreads>>>(static_cast<bf16*>(data), count, numbers);
      break;
    default:
      fill_kernel<<<kBlocks, kThreads>>>(static_cast<float*>(data), count, numbers);
  }
  check(cudaGetLastError(), "fill_kernel");
}

class Operands {
 public:
  Operands(const Layer& layer, uint64_t seed)
      : layer_(layer),
        copies_(std::max<int64_t>(1, static_cast<int64_t>(kRotatedBytes / layer.weight_bytes()))),
        x_(layer.capacity() * layer.depth * size_of(layer.x_type)),
        y_(layer.capacity() * layer.y_width() * size_of(layer.y_type)),
        weights_(copies_ * layer.width * layer.depth * size_of(layer.weight_type)),
        scales_(layer.width * sizeof(float)),
        bias_(layer.width * sizeof(float)),
        length_(sizeof(int32_t)) {
    check(cudaMemset(x_.data(), 0xff, x_.size()), "cudaMemset");  // NaN in every type
    fill(x_.data(), layer.x_type, layer.rows * layer.depth, seed, kXDeviation);
    fill(weights_.data(), layer.weight_type, copies_ * layer.width * layer.depth, seed + 1,
         kWeightDeviation);
    std::vector<float> scales(layer.width), bias(layer.width);
    const RandomNumbers numbers{
        .key = seed + 2, .offset = 0, .unit = static_cast<float>(kRandomUnit)};
    const float unit =
        1 / std::sqrt(static_cast<float>(layer.depth)) / kXDeviation / kWeightDeviation / kXScale;
    for (int64_t i = 0; i < layer.width; ++i) {
      scales[i] = unit * (1 + 0.2f * numbers[i]);
      bias[i] = 0.5f * numbers[layer.width + i];
    }
    copy(scales_, scales.data());
    copy(bias_, bias.data());
    const auto length = static_cast<int32_t>(layer.rows);
    copy(length_, &length);
    poison();
    check(cudaDeviceSynchronize(), "operands");
  }

  void poison() const { check(cudaMemset(y_.data(), 0xff, y_.size()), "cudaMemset"); }

  int64_t copies() const { return copies_; }
  const DeviceBuffer& y_bytes() const { return y_; }
  size_t valid_bytes() const { return layer_.rows * layer_.y_width() * size_of(layer_.y_type); }

  Matrix y() const {
    Matrix y = matrix(y_, layer_.y_type, layer_.y_width());
    if (y.type == DType::kE4M3) y.scale = kYScale;
    return y;
  }
  LinearArgs args(int64_t copy) const {
    const Layer& l = layer_;
    LinearArgs args;
    args.x = matrix(x_, l.x_type, l.depth);
    args.x.scale = kXScale;
    const int64_t bytes = l.width * l.depth * static_cast<int64_t>(size_of(l.weight_type));
    args.weight = {.data = weights_.data() + copy * bytes,
                   .type = l.weight_type,
                   .rows = l.width,
                   .width = l.depth,
                   .stride = l.depth,
                   .scales = scales_.as<float>(),
                   .scale_count = l.width};
    if (l.has_bias) args.bias = bias_.as<float>();
    args.activation = l.activation;
    args.y = y();
    if (l.is_gated) {
      args.y = {.data = nullptr,
                .type = DType::kBF16,
                .rows = args.x.rows,
                .width = l.width,
                .stride = l.width,
                .length = args.x.length};
      args.glu = GluArgs{.activation = Activation::kGeluTanh, .gate_up = args.y, .y = y()};
    }
    return args;
  }

 private:
  // Scales without a short mantissa, as a calibration gives.
  static constexpr float kXScale = 0.013f, kYScale = 0.0717f;

  Matrix matrix(const DeviceBuffer& buffer, DType type, int64_t width) const {
    return {.data = buffer.data(),
            .type = type,
            .rows = layer_.capacity(),
            .width = width,
            .stride = width,
            .length = layer_.has_length() ? length_.as<int32_t>() : nullptr};
  }
  static void copy(const DeviceBuffer& to, const void* from) {
    check(cudaMemcpy(to.data(), from, to.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
  }

  Layer layer_;
  int64_t copies_;
  DeviceBuffer x_, y_, weights_, scales_, bias_, length_;
};

// ---- the check

// float32 sums of the products with one copy of the weights.
DeviceBuffer reference_sums(const LinearArgs& args, int64_t rows) {
  DeviceBuffer sums(rows * args.weight.rows * sizeof(float));
  Matrix x = args.x;
  x.rows = rows;
  const dim3 grid(static_cast<unsigned>((args.weight.rows + kTile - 1) / kTile),
                  static_cast<unsigned>((rows + kTile - 1) / kTile));
  product_kernel<<<grid, dim3(kTile, kTile / kRowsPerThread)>>>(x, args.weight, sums.as<float>());
  check(cudaDeviceSynchronize(), "product_kernel");
  return sums;
}

struct Deviation {
  double error;  // of the whole output, relative
  float worst;   // of one element, relative to itself and the output's root mean square
  bool is_complete;
};

Deviation compare(const LinearArgs& args, const Matrix& y, int64_t rows, const DeviceBuffer& sums) {
  const DeviceBuffer buffer(sizeof(Comparison));
  Comparison result{};
  float rms = 0;
  const Activation gate = args.glu ? args.glu->activation : Activation::kNone;
  for (int pass = 0; pass < 2; ++pass) {  // the first one measures the root mean square
    check(cudaMemset(buffer.data(), 0, buffer.size()), "cudaMemset");
    compare_kernel<<<kBlocks, kThreads>>>(args, args.glu.has_value(), gate, y, rows,
                                          sums.as<float>(), rms, buffer.as<Comparison>());
    check(cudaMemcpy(&result, buffer.data(), sizeof(result), cudaMemcpyDeviceToHost),
          "compare_kernel");
    rms = static_cast<float>(std::sqrt(result.reference / (rows * y.width)));
  }
  return {.error = std::sqrt(result.error / result.reference),
          .worst = result.worst,
          .is_complete = result.not_finite == 0};
}

// Rounding of the output, and sums of limited precision: products of e4m3 are added with about 14
// bits. An element out of place would be 0.5 off.
bool is_right(const Deviation& d, DType y_type) {
  const double error = y_type == DType::kE4M3 ? 0.035 : 0.01;
  const float worst = y_type == DType::kE4M3 ? 0.1f : 0.05f;
  return d.is_complete && d.error <= error && d.worst <= worst;
}

// ---- configurations

struct Family {
  const char* name;
  std::span<const char* const> configurations;
  bool (*accepts)(const LinearArgs&, int, const DeviceInfo&);
  const char* (*run)(const LinearArgs&, int, const Launch&);
};
std::vector<Family> families() {
  return {{.name = "wgmma",
           .configurations = linear_wgmma_configurations(),
           .accepts = linear_wgmma_accepts,
           .run = linear_wgmma},
          {.name = "stream",
           .configurations = linear_stream_configurations(),
           .accepts = linear_stream_accepts,
           .run = linear_stream},
          {.name = "skinny",
           .configurations = linear_skinny_configurations(),
           .accepts = linear_skinny_accepts,
           .run = linear_skinny},
          {.name = "f32",
           .configurations = linear_f32_configurations(),
           .accepts = linear_f32_accepts,
           .run = linear_f32}};
}

struct Result {
  std::string name;
  double us, dependent_us;  // of one launch among many, without and with dependent launch
  Deviation deviation;
  bool is_repeated, is_right;
};

double time_launches(const Operands& operands, const Family& family, int configuration,
                     const Launch& launch, const Stream& stream) {
  constexpr int64_t kLaunches = 24;  // at least
  constexpr int kReplays = 11;
  const int64_t launches = std::max(kLaunches, operands.copies());
  const Graph graph(stream, [&] {
    for (int64_t i = 0; i < launches; ++i)
      family.run(operands.args(i % operands.copies()), configuration, launch);
  });
  const Event begin, end;
  std::vector<double> times;
  for (int replay = -2; replay < kReplays; ++replay) {  // two to warm up
    begin.record(stream);
    graph.launch(stream);
    end.record(stream);
    end.synchronize();
    if (replay >= 0) times.push_back(end.since(begin) * 1e3 / static_cast<double>(launches));
  }
  std::nth_element(times.begin(), times.begin() + kReplays / 2, times.end());
  return times[kReplays / 2];
}

std::vector<std::byte> output_of(const Operands& operands, const Family& family, int configuration,
                                 int64_t copy, const Launch& launch) {
  operands.poison();
  check(cudaDeviceSynchronize(), "poison");  // the stream does not wait for the default one
  family.run(operands.args(copy), configuration, launch);
  check(cudaDeviceSynchronize(), family.name);
  std::vector<std::byte> bytes(operands.valid_bytes());
  check(cudaMemcpy(bytes.data(), operands.y_bytes().data(), bytes.size(), cudaMemcpyDeviceToHost),
        "cudaMemcpy");
  return bytes;
}

Result measure(const Layer& layer, const Operands& operands, const DeviceBuffer& sums,
               const Family& family, int configuration, const DeviceInfo& device,
               const Stream& stream) {
  const int64_t copy = operands.copies() - 1;
  Launch launch{.stream = stream.get(), .device = &device, .is_dependent = false};
  const auto first = output_of(operands, family, configuration, copy, launch);
  Result result{.name = text(family.name, " ", family.configurations[configuration])};
  result.deviation = compare(operands.args(copy), operands.y(), layer.rows, sums);
  launch.is_dependent = true;
  result.is_repeated = first == output_of(operands, family, configuration, copy, launch);
  result.is_right = result.is_repeated && is_right(result.deviation, layer.y_type);
  result.dependent_us = time_launches(operands, family, configuration, launch, stream);
  launch.is_dependent = false;
  result.us = time_launches(operands, family, configuration, launch, stream);
  return result;
}

void print(const Layer& layer, const Result& r) {
  std::printf("  %-36s %8.2f %8.2f %7.0f %7.0f   %.1e  %.1e%s%s%s\n", r.name.c_str(), r.us,
              r.dependent_us, layer.flops() / r.dependent_us * 1e-6,
              layer.weight_bytes() / r.dependent_us * 1e-3, r.deviation.error, r.deviation.worst,
              r.deviation.is_complete ? "" : "  NOT FINITE", r.is_repeated ? "" : "  NOT REPEATED",
              r.is_right ? "" : "  WRONG");
}

int run(const std::string& filter, bool prints_all) {
  constexpr size_t kShown = 3;
  const DeviceInfo device = query_device(0);
  const Stream stream;
  std::printf(
      "%s. us per launch: alone, dependent; of the latter TFLOP/s and GB/s of weights; "
      "error, worst element\n",
      device.name.c_str());
  int wrong = 0;
  uint64_t seed = 1;
  for (const Layer& layer : layers()) {
    if (layer.text().find(filter) == std::string::npos) continue;
    const Operands operands(layer, seed);
    seed += 3;
    const DeviceBuffer sums = reference_sums(operands.args(operands.copies() - 1), layer.rows);
    std::vector<Result> results;
    for (const Family& family : families()) {
      for (int i = 0; i < static_cast<int>(family.configurations.size()); ++i) {
        if (family.accepts(operands.args(0), i, device))
          results.push_back(measure(layer, operands, sums, family, i, device, stream));
      }
    }
    std::sort(results.begin(), results.end(),
              [](const Result& a, const Result& b) { return a.dependent_us < b.dependent_us; });
    std::printf("%s\n", layer.text().c_str());
    for (size_t i = 0; i < results.size(); ++i) {
      wrong += !results[i].is_right;
      if (i < kShown || prints_all || !results[i].is_right) print(layer, results[i]);
    }
    std::fflush(stdout);
  }
  std::printf("%d wrong\n", wrong);
  return wrong > 0;
}

}  // namespace
}  // namespace flashrt::cuda

int main(int argc, char** argv) {
  std::string filter;
  bool prints_all = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--all") == 0)
      prints_all = true;
    else
      filter = argv[i];
  }
  try {
    return flashrt::cuda::run(filter, prints_all);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_linear: %s\n", error.what());
    return 2;
  }
}
