// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "backends/cpu/vector_math.hpp"

#include <algorithm>
#include <cstring>

#include "backends/cpu/versions.hpp"
#include "base/fp8.hpp"
#include "base/half.hpp"
#include "base/math.hpp"

namespace flashrt::cpu {
namespace {

// Sums and maxima run in this many lanes, then over the lanes in order: the same order on every
// instruction set.
constexpr int kLanes = 16;
using Lanes = float __attribute__((vector_size(kLanes * sizeof(float))));

template <class T>
const T* as(const std::byte* data) {
  return reinterpret_cast<const T*>(data);
}
template <class T>
T* as(std::byte* data) {
  return reinterpret_cast<T*>(data);
}

FLASHRT_VERSIONS void decode_bf16(const uint16_t* in, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = bf16_to_float(in[i]);
}
FLASHRT_VERSIONS void decode_f16(const uint16_t* in, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = f16_to_float(in[i]);
}
FLASHRT_VERSIONS void decode_e4m3(const uint8_t* in, float scale, float* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = e4m3_to_float(in[i]) * scale;
}
FLASHRT_VERSIONS void encode_bf16(const float* in, uint16_t* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = float_to_bf16(in[i]);
}
FLASHRT_VERSIONS void encode_f16(const float* in, uint16_t* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = float_to_f16(in[i]);
}
FLASHRT_VERSIONS void encode_e4m3(const float* in, float scale, uint8_t* out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = float_to_e4m3(in[i] / scale);
}

}  // namespace

void decode(DType type, const std::byte* in, float scale, float* out, int64_t n) {
  switch (type) {
    case DType::kF32:
      std::memcpy(out, in, n * sizeof(float));
      return;
    case DType::kBF16:
      return decode_bf16(as<uint16_t>(in), out, n);
    case DType::kF16:
      return decode_f16(as<uint16_t>(in), out, n);
    case DType::kE4M3:
      return decode_e4m3(as<uint8_t>(in), scale, out, n);
    case DType::kI32:
      std::copy_n(as<int32_t>(in), n, out);
      return;
    case DType::kU8:
      std::copy_n(as<uint8_t>(in), n, out);
      return;
  }
}

void encode(DType type, const float* in, float scale, std::byte* out, int64_t n) {
  switch (type) {
    case DType::kF32:
      std::memcpy(out, in, n * sizeof(float));
      return;
    case DType::kBF16:
      return encode_bf16(in, as<uint16_t>(out), n);
    case DType::kF16:
      return encode_f16(in, as<uint16_t>(out), n);
    case DType::kE4M3:
      return encode_e4m3(in, scale, as<uint8_t>(out), n);
    case DType::kI32:
    case DType::kU8:
      throw Error(text("no operation writes ", type));
  }
}

FLASHRT_VERSIONS float sum(const float* x, int64_t n) {
  Lanes lanes{};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Lanes v;
    std::memcpy(&v, x + i, sizeof v);
    lanes += v;
  }
  float total = 0;
  for (int lane = 0; lane < kLanes; ++lane) total += lanes[lane];
  for (; i < n; ++i) total += x[i];
  return total;
}

FLASHRT_VERSIONS float sum_squares(const float* x, float center, int64_t n) {
  Lanes lanes{};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Lanes v;
    std::memcpy(&v, x + i, sizeof v);
    v -= center;
    lanes += v * v;
  }
  float total = 0;
  for (int lane = 0; lane < kLanes; ++lane) total += lanes[lane];
  for (; i < n; ++i) total += (x[i] - center) * (x[i] - center);
  return total;
}

FLASHRT_VERSIONS float max(const float* x, int64_t n) {
  float lanes[kLanes];
  std::fill_n(lanes, kLanes, x[0]);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane)
      lanes[lane] = x[i + lane] > lanes[lane] ? x[i + lane] : lanes[lane];
  }
  float result = x[0];
  for (int lane = 0; lane < kLanes; ++lane) result = lanes[lane] > result ? lanes[lane] : result;
  for (; i < n; ++i) result = x[i] > result ? x[i] : result;
  return result;
}

FLASHRT_VERSIONS float exp_and_sum(float* x, float shift, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = fast_exp(x[i] - shift);
  return sum(x, n);
}

FLASHRT_VERSIONS void scale(float* x, float factor, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] *= factor;
}

FLASHRT_VERSIONS void scaled_copy(const float* x, float factor, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * factor;
}

FLASHRT_VERSIONS void add(const float* x, const float* d, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] + d[i];
}

FLASHRT_VERSIONS void add_gated(const float* x, const float* gate, const float* d, float* y,
                                int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] + gate[i] * d[i];
}

FLASHRT_VERSIONS void multiply(float* x, const float* factor, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] *= factor[i];
}

FLASHRT_VERSIONS void normalise(const float* x, float center, float factor, const float* weight,
                                const float* bias, float* y, int64_t n) {
  if (weight && bias) {
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - center) * factor * weight[i] + bias[i];
  } else if (weight) {
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - center) * factor * weight[i];
  } else if (bias) {
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - center) * factor + bias[i];
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - center) * factor;
  }
}

FLASHRT_VERSIONS void normalise_adaptive(const float* x, float center, float factor,
                                         const float* scale_row, const float* shift, float* y,
                                         int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    y[i] = (x[i] - center) * factor * (1.0f + scale_row[i]) + shift[i];
}

FLASHRT_VERSIONS void rotate(const float* x, const float* cosine, const float* sine, float* y,
                             int64_t half) {
  for (int64_t j = 0; j < half; ++j) {
    const float first = x[j], second = x[j + half];
    y[j] = first * cosine[j] - second * sine[j];
    y[j + half] = second * cosine[j] + first * sine[j];
  }
}

namespace {

FLASHRT_VERSIONS void activate_gelu_tanh(float* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = gelu_tanh(x[i]);
}
FLASHRT_VERSIONS void activate_silu(float* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = silu(x[i]);
}
FLASHRT_VERSIONS void activate_relu(float* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = x[i] < 0.0f ? 0.0f : x[i];
}

}  // namespace

void activate(Activation activation, float* x, int64_t n) {
  switch (activation) {
    case Activation::kNone:
      return;
    case Activation::kGeluTanh:
      return activate_gelu_tanh(x, n);
    case Activation::kGeluErf:
      for (int64_t i = 0; i < n; ++i) x[i] = gelu_erf(x[i]);
      return;
    case Activation::kSilu:
      return activate_silu(x, n);
    case Activation::kRelu:
      return activate_relu(x, n);
  }
}

}  // namespace flashrt::cpu
