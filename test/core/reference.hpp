// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// A plan in double precision: every operation as its formula in plan/op.hpp says, without regard to
// speed. It shares no code with a backend but the plan. What a call stores is rounded to the type
// of the value.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numbers>
#include <span>
#include <string>
#include <vector>

#include "base/frame_descriptor.hpp"
#include "checkpoint/weights.hpp"
#include "plan/plan.hpp"

namespace flashrt::reference {

// ---- number formats, by search and by arithmetic on doubles

// Value of an e4m3 code: (-1)^s 2^(e-7) 1.m, or 2^-6 0.m for e = 0.
inline double e4m3_value(int code) {
  const int exponent = (code >> 3) & 15, mantissa = code & 7;
  if ((code & 127) == 127) return std::numeric_limits<double>::quiet_NaN();
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return code & 128 ? -magnitude : magnitude;
}

// The nearest code of the same sign; of two equally near ones the even one.
inline int e4m3_code(double value) {
  static const std::vector<double> magnitudes = [] {  // ascending with the code
    std::vector<double> values;
    for (int code = 0; code <= 126; ++code) values.push_back(e4m3_value(code));
    return values;
  }();
  const int sign = std::signbit(value) ? 128 : 0;
  if (std::isnan(value)) return sign | 127;
  const double magnitude = std::min(std::abs(value), magnitudes.back());
  const auto above = std::lower_bound(magnitudes.begin(), magnitudes.end(), magnitude);
  const int code = static_cast<int>(above - magnitudes.begin());
  if (code == 0) return sign;
  const double up = *above - magnitude, down = magnitude - magnitudes[code - 1];
  return sign | (down < up || (down == up && code % 2 == 1) ? code - 1 : code);
}

// The distance between neighbours around a value in a format of `digits` significant bits.
inline double step_at(double value, int digits, int min_exponent) {
  const int exponent = value == 0 ? min_exponent : std::max(std::ilogb(value), min_exponent);
  return std::ldexp(1.0, exponent - digits + 1);
}

inline double round_digits(double value, int digits, int min_exponent, double largest) {
  if (!std::isfinite(value)) return value;
  const double step = step_at(value, digits, min_exponent);
  const double rounded = std::nearbyint(value / step) * step;  // the default mode: ties to even
  return std::abs(rounded) > largest ? std::copysign(std::numeric_limits<double>::infinity(), value)
                                     : rounded;
}

inline double step_of(DType type, double value, double scale) {
  switch (type) {
    case DType::kBF16:
      return step_at(value, 8, -126);
    case DType::kF16:
      return step_at(value, 11, -14);
    case DType::kE4M3:
      return step_at(value / scale, 4, -6) * scale;
    default:
      return 0;
  }
}

// What a value holds after v is stored in it. The division by the scale is one of float32: that is
// the definition.
inline double stored(DType type, double v, float scale) {
  switch (type) {
    case DType::kF32:
      return static_cast<float>(v);
    case DType::kBF16:
      return round_digits(static_cast<float>(v), 8, -126, 0x1.fep127);
    case DType::kF16:
      return round_digits(static_cast<float>(v), 11, -14, 65504);
    case DType::kE4M3:
      return e4m3_value(e4m3_code(static_cast<float>(v) / scale)) * scale;
    case DType::kI32:
    case DType::kU8:
      return v;
  }
  return 0;
}

// The bytes of a value that is already rounded.
inline std::vector<std::byte> bytes_of(DType type, std::span<const double> values, float scale) {
  std::vector<std::byte> bytes(values.size() * size_of(type));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto put = [&](auto code) {
      std::memcpy(bytes.data() + i * sizeof code, &code, sizeof code);
    };
    const double v = values[i];
    const auto bits = [&] {
      const float f = static_cast<float>(v);
      uint32_t u;
      std::memcpy(&u, &f, 4);
      return u;
    };
    switch (type) {
      case DType::kF32:
        put(static_cast<float>(v));
        break;
      case DType::kBF16:
        put(static_cast<uint16_t>(bits() >> 16));
        break;
      case DType::kF16: {
        const uint16_t sign = std::signbit(v) ? 0x8000 : 0;
        const double magnitude = std::abs(v);
        if (std::isnan(v)) {
          put(static_cast<uint16_t>(sign | 0x7e00));
        } else if (std::isinf(v)) {
          put(static_cast<uint16_t>(sign | 0x7c00));
        } else if (magnitude < 0x1p-14) {
          put(static_cast<uint16_t>(sign | static_cast<int>(magnitude * 0x1p24)));
        } else {
          const int exponent = std::ilogb(magnitude);
          const int mantissa = static_cast<int>((std::ldexp(magnitude, -exponent) - 1) * 1024);
          put(static_cast<uint16_t>(sign | (exponent + 15) << 10 | mantissa));
        }
        break;
      }
      case DType::kE4M3:
        put(static_cast<uint8_t>(e4m3_code(v / scale)));
        break;
      case DType::kI32:
        put(static_cast<int32_t>(v));
        break;
      case DType::kU8:
        put(static_cast<uint8_t>(v));
        break;
    }
  }
  return bytes;
}

// ---- a plan

class Program {
 public:
  Program(const Plan& plan, std::map<std::string, HostTensor> weights,
          std::map<std::string, std::vector<float>> scales)
      : plan_(plan), weights_(std::move(weights)), scales_(std::move(scales)) {
    for (const ValueInfo& info : plan.values) {
      const bool is_view = info.kind == Kind::kView;
      memory_.emplace_back(is_view ? 0 : info.shape.elements(),
                           std::numeric_limits<double>::quiet_NaN());
    }
    for (const WeightInfo& info : plan.weights) round_weight(info);
  }

  // All elements, rounded to the type. For integers: the numbers.
  void write(const std::string& name, std::span<const double> values) {
    const Value value = plan_.find(name);
    for (size_t i = 0; i < values.size(); ++i) {
      memory_[value.id][i] = stored(plan_[value].type, values[i], scale_of(value, 0));
    }
  }
  // Valid rows, or the whole memory of a value that has its own.
  std::vector<double> read(const std::string& name) const {
    const Value value = plan_.find(name);
    std::vector<double> result;
    for (int64_t r = 0; r < rows(value); ++r) {
      for (int64_t c = 0; c < plan_[value].shape.width(); ++c) result.push_back(get(value, r, c));
    }
    return result;
  }

  void run(When when) {
    for (const Stage& stage : plan_.stages) {
      if (stage.when != when) continue;
      for (iteration_ = 0; iteration_ < stage.repeat; ++iteration_) {
        for (int call = stage.first; call < stage.last; ++call) {
          std::visit([&](const auto& op) { evaluate(op); }, plan_.calls[call].op);
        }
      }
      iteration_ = stage.repeat - 1;
    }
  }

 private:
  // ---- values

  float scale_of(Value value, int iteration) const {
    const ValueInfo& info = plan_[plan_.storage_of(value)];
    if (info.type != DType::kE4M3) return 1;
    const std::vector<float>& scales = scales_.at(info.site);
    return scales.size() == 1 ? scales[0] : scales[iteration];
  }
  size_t index(Value value, int64_t row, int64_t column) const {
    const ValueInfo& info = plan_[value];
    if (info.kind != Kind::kView) return row * info.shape.width() + column;
    return info.offset + row * info.row_stride + iteration_ * info.step_stride + column;
  }
  double get(Value value, int64_t row, int64_t column) const {
    return memory_[plan_.storage_of(value).id].at(index(value, row, column));
  }
  double element(Value value, int64_t i) const { return get(value, 0, i); }  // of a [1, D]
  double scalar(Value value) const { return get(value, 0, 0); }
  void set(Value value, int64_t row, int64_t column, double v) {
    memory_[plan_.storage_of(value).id].at(index(value, row, column)) =
        stored(plan_[value].type, v, scale_of(value, iteration_));
  }
  int64_t rows(Value value) const {
    const ValueInfo& info = plan_[value];
    return info.rows.length ? info.rows.base + static_cast<int64_t>(scalar(info.rows.length))
                            : info.shape.rows();
  }
  int64_t width(Value value) const { return plan_[value].shape.width(); }

  // ---- weights

  void round_weight(const WeightInfo& info) {
    const HostTensor& tensor = weights_.at(info.name);
    std::vector<double>& out = rounded_[info.name];
    const int64_t channels = info.scale == WeightScale::kChannel ? tensor.shape.rows() : 1;
    const int64_t n = tensor.shape.elements() / channels;
    for (int64_t channel = 0; channel < channels; ++channel) {
      float amax = 0;
      for (int64_t i = 0; i < n; ++i) amax = std::max(amax, std::abs(tensor.data[channel * n + i]));
      const float scale = info.type == DType::kE4M3 && amax > 0 ? amax / 448 : 1;
      for (int64_t i = 0; i < n; ++i)
        out.push_back(stored(info.type, tensor.data[channel * n + i], scale));
    }
  }
  double weight(const std::string& name, int64_t i) const { return rounded_.at(name).at(i); }

  // ---- operations

  static double activate(Activation activation, double x) {
    const bool is_limit = x == -std::numeric_limits<double>::infinity();
    if (is_limit && activation != Activation::kNone) return 0;
    switch (activation) {
      case Activation::kNone:
        return x;
      case Activation::kGeluTanh:
        return 0.5 * x *
               (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
      case Activation::kGeluErf:
        return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
      case Activation::kSilu:
        return x / (1 + std::exp(-x));
      case Activation::kRelu:
        return x < 0 ? 0 : x;
    }
    return 0;
  }

  void evaluate(const Resize& op) {
    const int64_t size = plan_[op.images].shape[1];
    const FrameDescriptorLayout layout = frame_descriptor_layout(size);
    const bool is_bytes = plan_[op.images].type == DType::kU8;
    for (int64_t n = 0; n < rows(op.images); ++n) {
      const auto bits = [&](int64_t i) { return static_cast<int32_t>(get(op.descriptors, n, i)); };
      FrameGeometry g;
      for (size_t i = 0; i < sizeof g / 4; ++i) {
        const int32_t word = bits(static_cast<int64_t>(i));
        std::memcpy(reinterpret_cast<char*>(&g) + 4 * i, &word, 4);
      }
      const auto weight = [&](int64_t begin, int64_t i) {
        const int32_t word = bits(begin + i);
        float number;
        std::memcpy(&number, &word, 4);
        return is_bytes ? std::ldexp(word, -22) : number;
      };
      const auto rounded = [&](double v) { return is_bytes ? std::floor(v + 0.5) : v; };
      for (int64_t y = 0; y < size; ++y) {
        for (int64_t x = 0; x < size; ++x) {
          const int64_t row = y - g.top, column = x - g.left;
          const bool is_inside =
              g.rows > 0 && 0 <= row && row < g.height && 0 <= column && column < g.width;
          for (int64_t c = 0; c < 3; ++c) {
            double v = 0;
            for (int64_t ky = 0; is_inside && ky < g.vertical_taps; ++ky) {
              double across = 0;
              for (int64_t kx = 0; kx < g.horizontal_taps; ++kx) {
                const int64_t byte = g.origin + (bits(layout.first_row + row) + ky) * g.row_stride +
                                     (bits(layout.first_column + column) + kx) * g.column_stride +
                                     g.channel[c];
                across += weight(layout.horizontal_weights, kx * g.width + column) *
                          get(op.frames, n, byte);
              }
              v += weight(layout.vertical_weights, ky * g.height + row) * rounded(across);
            }
            const double inside = is_bytes ? rounded(v) : v / 255 * 2 - 1;
            set(op.images, n, (y * size + x) * 3 + c,
                is_inside  ? inside
                : is_bytes ? 0
                           : double{g.bars});
          }
        }
      }
    }
  }

  void evaluate(const PatchEmbed& op) {
    const Shape& shape = plan_[op.images].shape;
    const int64_t patch = op.patch, group = op.group;
    const int64_t down = shape[1] / patch, across = shape[2] / patch;
    const std::vector<double>& images = memory_[op.images.id];
    // The patches in the order of the tokens.
    std::vector<std::pair<int64_t, int64_t>> places;
    for (int64_t top = 0; top < down; top += group)
      for (int64_t left = 0; left < across; left += group)
        for (int64_t y = top; y < top + group; ++y)
          for (int64_t x = left; x < left + group; ++x) places.emplace_back(y, x);
    for (int64_t row = 0; row < rows(op.y); ++row) {
      const int64_t image = row / (down * across), token = row % (down * across);
      for (int64_t d = 0; d < width(op.y); ++d) {
        double sum =
            weight(op.bias, d) + (op.positions ? get(op.positions, row, d)
                                               : weight(op.position, token * width(op.y) + d));
        for (int64_t c = 0; c < 3; ++c) {
          for (int64_t dy = 0; dy < patch; ++dy) {
            for (int64_t dx = 0; dx < patch; ++dx) {
              const int64_t y = places[token].first * patch + dy,
                            x = places[token].second * patch + dx;
              const double byte = images.at(((image * shape[1] + y) * shape[2] + x) * 3 + c);
              const double pixel = byte / 255 * 2 - 1;
              sum += pixel * weight(op.weight, ((d * 3 + c) * patch + dy) * patch + dx);
            }
          }
        }
        set(op.y, row, d, sum);
      }
    }
  }

  void evaluate(const TokenEmbed& op) {
    for (int64_t row = 0; row < rows(op.tokens); ++row) {
      const auto id = static_cast<int64_t>(get(op.tokens, row, 0));
      for (int64_t d = 0; d < width(op.y); ++d)
        set(op.y, row, d, weight(op.table, id * width(op.y) + d));
    }
  }

  void evaluate(const AddNorm& op) {
    const int64_t n = width(op.residual);
    const int64_t committed =
        op.committed_rows ? static_cast<int64_t>(scalar(op.committed_rows)) : 0;
    for (int64_t row = 0; row < rows(op.residual); ++row) {
      const bool is_committed = row < committed;
      const Value gate = is_committed ? op.committed_gate : op.gate;
      const Value scale = is_committed ? op.committed_scale : op.scale;
      const Value shift = is_committed ? op.committed_shift : op.shift;
      std::vector<double> x(n);
      for (int64_t i = 0; i < n; ++i) {
        x[i] = get(op.residual, row, i);
        if (op.delta) x[i] += (gate ? element(gate, i) : 1) * get(op.delta, row, i);
      }
      if (op.delta) {
        for (int64_t i = 0; i < n; ++i) set(op.residual_out, row, i, x[i]);
      }
      double mean = 0, mean_square = 0;
      if (op.norm == Norm::kLayer) {
        for (const double v : x) mean += v / n;
      }
      for (const double v : x) mean_square += (v - mean) * (v - mean) / n;
      for (int64_t i = 0; i < n; ++i) {
        double y = (x[i] - mean) / std::sqrt(mean_square + op.eps);
        if (!op.weight.empty()) y *= weight(op.weight, i);
        if (!op.bias.empty()) y += weight(op.bias, i);
        if (scale) y = y * (1 + element(scale, i)) + element(shift, i);
        set(op.y, row, i, y);
      }
    }
  }

  void evaluate(const Linear& op) {
    const int64_t depth = width(op.x);
    for (int64_t row = 0; row < rows(op.x); ++row) {
      for (int64_t c = 0; c < width(op.y); ++c) {
        double sum = 0;
        for (int64_t i = 0; i < depth; ++i)
          sum += get(op.x, row, i) * weight(op.weight, c * depth + i);
        if (!op.bias.empty()) sum += weight(op.bias, c);
        if (op.shift) sum += element(op.shift, c);
        sum = activate(op.activation, sum);
        if (op.residual) sum += get(op.residual, row, c);
        set(op.y, row, c, sum);
      }
    }
  }

  void evaluate(const QkvRope& op) {
    const int64_t e = op.head_dim, half = e / 2;
    for (int64_t row = 0; row < rows(op.qkv); ++row) {
      const double position =
          op.position_start + (op.position ? scalar(op.position) : 0) + static_cast<double>(row);
      const auto head = [&](int64_t from, const std::string& norm, bool rotated) {
        std::vector<double> x(e);
        for (int64_t i = 0; i < e; ++i) x[i] = get(op.qkv, row, from * e + i);
        if (!norm.empty()) {
          double mean_square = 0;
          for (const double v : x) mean_square += v * v / e;
          for (int64_t i = 0; i < e; ++i)
            x[i] = x[i] / std::sqrt(mean_square + op.eps) * weight(norm, i);
        }
        if (!rotated || op.rope_base == 0) return x;
        std::vector<double> y(e);
        for (int64_t j = 0; j < half; ++j) {
          // The angle is one of float32, part of the definition of these models; see RopeTable.
          const float frequency =
              1.0f / static_cast<float>(std::pow(op.rope_base, 2.0 * static_cast<double>(j) / e));
          const float angle = static_cast<float>(position) * frequency;
          const double c = std::cos(static_cast<double>(angle)),
                       s = std::sin(static_cast<double>(angle));
          y[j] = x[j] * c - x[j + half] * s;
          y[j + half] = x[j + half] * c + x[j] * s;
        }
        return y;
      };
      const auto put = [&](Value out, int64_t to, const std::vector<double>& x) {
        for (int64_t i = 0; i < e; ++i) set(out, row, to * e + i, x[i]);
      };
      for (int64_t h = 0; h < op.heads; ++h) put(op.q, h, head(h, op.q_norm, true));
      for (int64_t h = 0; h < op.kv_heads; ++h) put(op.k, h, head(op.heads + h, op.k_norm, true));
      for (int64_t h = 0; h < op.kv_heads; ++h)
        put(op.v, h, head(op.heads + op.kv_heads + h, "", false));
    }
  }

  void evaluate(const Attention& op) {
    const int64_t e = op.head_dim;
    for (int64_t row = 0; row < rows(op.q); ++row) {
      std::vector<int64_t> keys;
      for (const KeyRange& range : op.ranges) {
        const int64_t count =
            range.count + (range.length ? static_cast<int64_t>(scalar(range.length)) : 0);
        for (int64_t key = range.begin; key < range.begin + count; ++key) {
          const bool seen =
              op.mask == Mask::kNone ||
              (op.mask == Mask::kCausal &&
               (&range != op.ranges.data() || key <= row + op.mask_argument)) ||
              (op.mask == Mask::kBlock && key / op.mask_argument == row / op.mask_argument);
          if (seen) keys.push_back(key);
        }
      }
      for (int64_t h = 0; h < op.heads; ++h) {
        const int64_t kv = h / (op.heads / op.kv_heads);
        std::vector<double> logits;
        double largest = -std::numeric_limits<double>::infinity(), total = 0;
        for (const int64_t key : keys) {
          double dot = 0;
          for (int64_t i = 0; i < e; ++i)
            dot += get(op.q, row, h * e + i) * get(op.k, key, kv * e + i);
          logits.push_back(dot * op.scale);
          largest = std::max(largest, logits.back());
        }
        for (double& logit : logits) total += logit = std::exp(logit - largest);
        for (int64_t i = 0; i < e; ++i) {
          double sum = 0;
          for (size_t k = 0; k < keys.size(); ++k)
            sum += logits[k] / total * get(op.v, keys[k], kv * e + i);
          set(op.y, row, h * e + i, sum);
        }
      }
    }
  }

  void evaluate(const Glu& op) {
    const int64_t f = width(op.y);
    for (int64_t row = 0; row < rows(op.gate_up); ++row) {
      for (int64_t i = 0; i < f; ++i) {
        set(op.y, row, i,
            activate(op.activation, get(op.gate_up, row, i)) * get(op.gate_up, row, f + i));
      }
    }
  }

  void evaluate(const TimeEmbed& op) {
    const int64_t half = width(op.y) / 2;
    for (int64_t row = 0; row < rows(op.y); ++row) {
      for (int64_t i = 0; i < half; ++i) {
        const double period = op.min_period * std::pow(op.max_period / op.min_period,
                                                       static_cast<double>(i) / (half - 1));
        const double u = 2 * std::numbers::pi * get(op.times, row, 0) / period;
        set(op.y, row, i, std::sin(u));
        set(op.y, row, half + i, std::cos(u));
      }
    }
  }

  void evaluate(const EulerStep& op) {
    const int64_t committed =
        op.committed_rows ? static_cast<int64_t>(scalar(op.committed_rows)) : 0;
    for (int64_t row = 0; row < rows(op.actions); ++row) {
      for (int64_t i = 0; i < width(op.actions); ++i) {
        const double actions = get(op.actions, row, i);
        double velocity = get(op.velocity, row, i);
        if (op.weights && get(op.weights, row, 0) != 0) {
          const double x1 = actions - scalar(op.time) * velocity;
          velocity -=
              scalar(op.guidance) * get(op.weights, row, 0) * (get(op.previous, row, i) - x1);
        }
        set(op.actions, row, i,
            row < committed ? get(op.previous, row, i) : actions + op.step * velocity);
      }
    }
  }

  void evaluate(const Quantize& op) {
    for (int64_t row = 0; row < rows(op.x); ++row) {
      for (int64_t i = 0; i < width(op.x); ++i) set(op.y, row, i, get(op.x, row, i));
    }
  }

  const Plan& plan_;
  std::map<std::string, HostTensor> weights_;
  std::map<std::string, std::vector<double>> rounded_;
  std::map<std::string, std::vector<float>> scales_;
  std::vector<std::vector<double>> memory_;  // per value; views have none
  int iteration_ = 0;
};

}  // namespace flashrt::reference
