// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "backends/cuda/linear_scratch.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "base/convert.hpp"

namespace flashrt::cuda {
namespace {

constexpr uintptr_t kAlignment = 256;
// Random numbers repeat after this. In units of 16 bytes it is a prime, so that no row or tile of
// an operand equals the one beside it.
constexpr size_t kPatternBytes = size_t{16} * 16411;
// Of the rows that are compared: some milliseconds of the generic kernel, and one of the host.
constexpr double kComparedFlops = 4e9;
constexpr double kComparedElements = 1 << 18;

// Weights of this size give sums of order 1 at the depths of models, 32 to 16384.
constexpr float kWeight = 1.0f / 16;
// y spreads over codes that are neither subnormal nor saturated.
constexpr float kResultScale = 1.0f / 16;
constexpr float kInputScale = 0.5f;

size_t round_up(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

size_t bytes_of(const Matrix& m) { return m.rows * m.stride * size_of(m.type); }

std::vector<float> decode(const Matrix& matrix, const std::vector<std::byte>& bytes) {
  std::vector<float> values(matrix.rows * matrix.width);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = float_of(matrix.type, bytes.data(), i) * matrix.scale;
  return values;
}

// The distance of neighbouring values of a type, relative to them: two sound results may be rounded
// to either side.
double relative_step(DType type) {
  switch (type) {
    case DType::kBF16:
      return 0x1p-7;
    case DType::kF16:
      return 0x1p-10;
    case DType::kE4M3:
      return 0x1p-3;
    default:
      return 0;
  }
}

}  // namespace

LinearScratch::LinearScratch(const LinearArgs& args, const DeviceInfo& device, const Stream& stream)
    : stream_(stream), args_(args) {
  const WeightView& w = args.weight;
  copy_bytes_ = round_up(w.rows * w.stride * size_of(w.type));
  copies_ =
      static_cast<int>(std::clamp<size_t>(2 * device.l2_bytes / copy_bytes_ + 1, 1, kMaxCopies));
  make_operands(args);
  choose_rows();
  compute_reference(device);
}

// ---- memory

// As far from a multiple of kAlignment as `like` is.
void* LinearScratch::take(size_t bytes, const void* like) {
  buffers_.emplace_back(bytes + kAlignment);
  return buffers_.back().data() + reinterpret_cast<uintptr_t>(like) % kAlignment;
}

void LinearScratch::fill(void* data, size_t bytes, DType type, float low, float high) {
  std::vector<std::byte> pattern(std::min(bytes, kPatternBytes));
  std::minstd_rand random(static_cast<unsigned>(buffers_.size()));
  std::uniform_real_distribution<float> uniform(low, high);
  for (size_t i = 0; i < pattern.size() / size_of(type); ++i)
    put_float(type, uniform(random), pattern.data(), i);
  auto* begin = static_cast<std::byte*>(data);
  check(
      cudaMemcpyAsync(begin, pattern.data(), pattern.size(), cudaMemcpyHostToDevice, stream_.get()),
      "uploading random numbers");
  for (size_t filled = pattern.size(); filled < bytes;) {
    const size_t count = std::min(filled, bytes - filled);
    check(cudaMemcpyAsync(begin + filled, begin, count, cudaMemcpyDeviceToDevice, stream_.get()),
          "repeating random numbers");
    filled += count;
  }
  stream_.synchronize();  // the pattern is read until then
}

Matrix LinearScratch::random_matrix(const Matrix& like, float low, float high) {
  Matrix m = empty_matrix(like);
  if (m.type == DType::kE4M3) m.scale = kInputScale;
  fill(m.data, bytes_of(m), m.type, low, high);
  return m;
}

Matrix LinearScratch::empty_matrix(const Matrix& like) {
  Matrix m = like;
  m.data = take(bytes_of(like), like.data);
  if (like.length) m.length = integer(static_cast<int32_t>(like.rows - like.base));
  return m;
}

const int32_t* LinearScratch::integer(int32_t value) {
  void* data = take(sizeof(value), nullptr);
  check(cudaMemcpyAsync(data, &value, sizeof(value), cudaMemcpyHostToDevice, stream_.get()),
        "uploading an integer");
  stream_.synchronize();
  return static_cast<const int32_t*>(data);
}

// ---- operands

void LinearScratch::make_operands(const LinearArgs& like) {
  const auto result = [&](const Matrix& m) {
    if (!m) return m;  // rope without q
    Matrix made = empty_matrix(m);
    if (m.type == DType::kE4M3) made.scale = kResultScale;
    results_.push_back({.matrix = made});
    return made;
  };
  args_.x = random_matrix(like.x, -1, 1);
  args_.next_weight = {};  // there is none behind a linear alone

  const bool is_scaled = like.weight.scale_count > 0;
  const float most = is_scaled ? 1 : kWeight;
  args_.weight.data = take(copies_ * copy_bytes_, like.weight.data);
  fill(const_cast<void*>(args_.weight.data), copies_ * copy_bytes_, like.weight.type, -most, most);
  if (is_scaled) {
    const size_t bytes = like.weight.scale_count * sizeof(float);
    void* scales = take(bytes, like.weight.scales);
    fill(scales, bytes, DType::kF32, 0.5f * kWeight, 1.5f * kWeight);
    args_.weight.scales = static_cast<const float*>(scales);
  }
  if (like.bias) {
    void* bias = take(like.y.width * sizeof(float), like.bias);
    fill(bias, like.y.width * sizeof(float), DType::kF32, -1, 1);
    args_.bias = static_cast<const float*>(bias);
  }
  if (like.shift) args_.shift = random_matrix(like.shift, -1, 1);
  if (like.residual) args_.residual = random_matrix(like.residual, -1, 1);

  if (like.y) {
    args_.y = result(like.y);
  } else if (like.y.type == DType::kE4M3) {
    args_.y.scale = kResultScale;
  }
  if (args_.glu) {
    args_.glu->gate_up = args_.y;
    args_.glu->y = result(like.glu->y);
  }
  if (args_.rope) {  // its tables and norms are constants and are taken as they are
    args_.rope->qkv = args_.y;
    args_.rope->q = result(like.rope->q);
    args_.rope->k = result(like.rope->k);
    args_.rope->v = result(like.rope->v);
    if (like.rope->position) args_.rope->position = integer(0);
  }
  if (args_.euler) {
    args_.euler->velocity = args_.y;
    args_.euler->actions = random_matrix(like.euler->actions, -1, 1);
    if (like.euler->time) args_.euler->time = reinterpret_cast<const float*>(integer(0));
    const Matrix& actions = args_.euler->actions;
    results_.push_back({.matrix = actions});
    initial_actions_ = DeviceBuffer(bytes_of(actions));
    check(cudaMemcpyAsync(initial_actions_.data(), actions.data, initial_actions_.size(),
                          cudaMemcpyDeviceToDevice, stream_.get()),
          "keeping the actions");
  }
}

LinearArgs LinearScratch::args(int copy) const {
  LinearArgs args = args_;
  args.weight.data = static_cast<const std::byte*>(args.weight.data) + copy * copy_bytes_;
  return args;
}

// ---- reference

// All rows of small calls. An odd step visits each row of a tile and of a fragment in turn.
void LinearScratch::choose_rows() {
  const double elements = static_cast<double>(args_.y.rows) * static_cast<double>(args_.y.width);
  const double flops = 2 * elements * static_cast<double>(args_.x.width);
  const double step = std::max(elements / kComparedElements, flops / kComparedFlops);
  row_step_ = std::min(static_cast<int64_t>(step) | 1, args_.x.rows);
}

Matrix LinearScratch::sampled(const Matrix& matrix) const {
  Matrix m = matrix;
  const int64_t first = (m.rows - 1) % row_step_;
  if (m) m.data = static_cast<std::byte*>(m.data) + first * m.stride * size_of(m.type);
  m.rows = (m.rows - 1) / row_step_ + 1;
  m.stride *= row_step_;
  m.length = nullptr;
  return m;
}

void LinearScratch::compute_reference(const DeviceInfo& device) {
  const Launch launch{.stream = stream_.get(), .device = &device};
  // A rotation depends on the row, so all rows go through it.
  const bool is_whole = args_.rope || args_.euler;
  const auto rows_of = [&](const Matrix& m) { return is_whole || !m ? m : sampled(m); };
  std::vector<Matrix> references;
  const auto packed = [&](const Matrix& like) {
    Matrix m = like;
    m.rows = is_whole ? like.rows : (like.rows - 1) / row_step_ + 1;
    m.stride = m.width;
    m.length = nullptr;
    m.data = take(bytes_of(m), nullptr);
    return m;
  };
  const auto reference_of = [&](const Matrix& result) {
    if (!result) return result;
    return references.emplace_back(packed(result));
  };
  LinearArgs args = args_;
  args.glu.reset();
  args.rope.reset();
  args.euler.reset();
  args.x = rows_of(args_.x);
  args.residual = rows_of(args_.residual);
  args.y = args_.y ? reference_of(args_.y) : packed(args_.y);
  linear_generic(args, launch);
  if (args_.glu) {
    GluArgs next = *args_.glu;
    next.gate_up = args.y;
    next.y = reference_of(next.y);
    glu(next, launch);
  }
  if (args_.rope) {
    QkvRopeArgs next = *args_.rope;
    next.qkv = args.y;
    next.q = reference_of(next.q);
    next.k = reference_of(next.k);
    next.v = reference_of(next.v);
    qkv_rope(next, launch);
  }
  if (args_.euler) {
    EulerArgs next = *args_.euler;
    next.velocity = args.y;
    euler_step(next, launch);
    references.push_back(next.actions);  // until the next reset
  }
  for (size_t i = 0; i < results_.size(); ++i) {
    const Matrix compared = is_whole ? sampled(references[i]) : references[i];
    results_[i].expected = decode(compared, download(compared));
  }
}

// ---- results

void LinearScratch::reset() const {
  for (const Matrix& m :
       {args_.y, args_.glu ? args_.glu->y : Matrix{}, args_.rope ? args_.rope->q : Matrix{},
        args_.rope ? args_.rope->k : Matrix{}, args_.rope ? args_.rope->v : Matrix{}}) {
    if (!m) continue;
    check(cudaMemsetAsync(m.data, 0xff, bytes_of(m), stream_.get()), "poisoning results");
  }
  if (!args_.euler) return;
  check(cudaMemcpyAsync(args_.euler->actions.data, initial_actions_.data(), initial_actions_.size(),
                        cudaMemcpyDeviceToDevice, stream_.get()),
        "restoring the actions");
}

std::vector<std::byte> LinearScratch::download(const Matrix& m) const {
  const size_t element = size_of(m.type), row_bytes = m.width * element;
  std::vector<std::byte> bytes(m.rows * row_bytes);
  check(cudaMemcpy2DAsync(bytes.data(), row_bytes, m.data, m.stride * element, row_bytes, m.rows,
                          cudaMemcpyDeviceToHost, stream_.get()),
        "reading results");
  stream_.synchronize();
  return bytes;
}

std::vector<std::vector<std::byte>> LinearScratch::results() const {
  std::vector<std::vector<std::byte>> bytes;
  for (const Result& result : results_) bytes.push_back(download(sampled(result.matrix)));
  return bytes;
}

double LinearScratch::error() const {
  double largest = 0;
  for (const Result& result : results_) {
    const Matrix compared = sampled(result.matrix);
    const std::vector<float> values = decode(compared, download(compared));
    double squares = 0;
    for (const float expected : result.expected) squares += double{expected} * expected;
    const double rms = std::sqrt(squares / static_cast<double>(values.size()));
    for (size_t i = 0; i < values.size(); ++i) {
      const double expected = result.expected[i];
      const double error = std::abs(values[i] - expected) / (std::abs(expected) + rms);
      if (!(error <= std::numeric_limits<double>::max()))  // also NaN
        return std::numeric_limits<double>::infinity();
      largest = std::max(largest, error);
    }
  }
  return largest;
}

double allowed_error(const LinearArgs& args) {
  // Of the sum. Products of e4m3 are added with 14 bits and cut off, at a depth of 16384 512 times:
  // 2 %. Other products are added as float32, in any order: 2^-24 for each of up to 16384, where
  // matrix instructions cut off instead of rounding.
  const bool is_e4m3 = args.x.type == DType::kE4M3 && args.weight.type == DType::kE4M3;
  const double sum = is_e4m3 ? 0.05 : 1e-3;
  const double y = sum + relative_step(args.y.type);
  // A gate that is off is multiplied by an up of several times its rms, or the other way around.
  if (args.glu) return 4 * y + relative_step(args.glu->y.type);
  // A rotation adds two products.
  if (args.rope) return 2 * y + relative_step(args.rope->k.type);
  return y;
}

}  // namespace flashrt::cuda
