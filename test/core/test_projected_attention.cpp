// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// projected_attention at its own call: against the formula in double precision, with everything
// that it must not read or write poisoned.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "cuda_fixture.hpp"
#include "kernels/projected_attention.cuh"
#include "reference.hpp"

namespace flashrt::cuda {
namespace {

constexpr float kXScale = 0.031f;  // without a short mantissa, as a calibration gives
constexpr std::byte kNaN{0xff};    // in every type

struct Case {
  const char* name;
  int rows, heads, head_dim, width;  // width: D
  std::vector<AttentionRange> ranges;
  int key_rows = 0;  // 0: the keys are projected
  DType y_type = DType::kE4M3;
  float y_scale = 0.0117f;
  bool has_bias = true;
  int64_t scale_count = -1;  // of the weight; negative: one for every channel
  int length = -1;           // of the last range and, with projected keys, of x; on the device
  bool is_settled = true;

  bool has_keys() const { return key_rows == 0; }
  int q_width() const { return heads * head_dim; }
  int channels() const { return q_width() * (has_keys() ? 3 : 1); }
  int valid_rows() const { return has_keys() && length >= 0 ? length : rows; }
};

std::vector<Case> cases() {
  const std::vector<AttentionRange> images{{.begin = 0, .count = 81}, {.begin = 86, .count = 81}};
  const std::vector<AttentionRange> text{
      {.begin = 0, .count = 5}, {.begin = 7, .count = 4}, {.begin = 12, .count = 2}};
  const auto first = [](int count) {
    return std::vector<AttentionRange>{{.begin = 0, .count = count}};
  };
  return {
      {"images", 51, 32, 48, 1536, images, 170},
      {"images_one_row", 1, 3, 48, 1536, images, 170},
      {"images_17_rows", 17, 3, 48, 768, images, 170, DType::kBF16, 1},
      {"images_64_rows", 64, 3, 48, 1536, images, 170},
      {"images_written_just_before", 51, 3, 48, 1536, images, 170, DType::kE4M3, 0.0117f, true, -1,
       -1, false},
      {"most_keys", 33, 2, 48, 256, first(256), 256, DType::kBF16, 1},
      {"an_odd_number_of_blocks", 33, 2, 48, 384, first(100), 100, DType::kBF16, 1},
      {"one_key", 32, 2, 48, 256, first(1), 4, DType::kBF16, 1},
      {"no_key", 20, 2, 48, 256, {{.begin = 3, .count = 0}}, 9, DType::kBF16, 1, true, -1, 0},
      {"text", 51, 32, 48, 1536, text, 45, DType::kE4M3, 0.0117f, true, -1, 31},
      {"text_written_just_before", 51, 2, 48, 1536, text, 45, DType::kE4M3, 0.0117f, true, -1, 31,
       false},
      {"one_scale_no_bias", 51, 2, 48, 512, text, 45, DType::kBF16, 1, false, 1},
      {"no_scale", 51, 2, 48, 512, text, 45, DType::kBF16, 1, true, 0},
      {"saturated", 51, 3, 48, 1536, images, 170, DType::kE4M3, 0.0005f},
      {"heads_of_32", 40, 5, 32, 512, images, 170},
      {"heads_of_32_text", 51, 5, 32, 512, text, 45},
      {"self", 51, 32, 48, 1536, first(51)},
      {"self_one_row", 1, 2, 48, 768, first(1), 0, DType::kBF16, 1},
      {"self_17_rows", 17, 3, 48, 1536, first(17)},
      {"self_64_rows", 64, 3, 48, 1536, first(64), 0, DType::kBF16, 1},
      {"self_padded", 64, 3, 48, 1536, first(0), 0, DType::kE4M3, 0.0117f, true, -1, 37},
      {"self_one_scale_no_bias", 51, 2, 48, 512, first(51), 0, DType::kBF16, 1, false, 1},
      {"self_saturated", 51, 3, 48, 1536, first(51), 0, DType::kE4M3, 0.0005f},
      {"self_heads_of_32", 51, 3, 32, 512, first(51)},
      {"self_33_rows", 33, 3, 48, 1152, first(33)},
  };
}

// Numbers on the host and on the device.
struct Operand {
  std::vector<double> values;
  DeviceBuffer buffer;
};

void upload(const DeviceBuffer& to, const void* from) {
  check(cudaMemcpy(to.data(), from, to.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
}

Operand random_operand(DType type, int64_t count, float scale, double deviation, uint64_t key,
                       double mean = 0) {
  const RandomNumbers numbers{
      .key = key, .offset = 0, .unit = static_cast<float>(deviation * kRandomUnit)};
  Operand operand{.values = std::vector<double>(count),
                  .buffer = DeviceBuffer(count * size_of(type))};
  for (int64_t i = 0; i < count; ++i)
    operand.values[i] = reference::stored(type, mean + numbers[i], scale);
  upload(operand.buffer, reference::bytes_of(type, operand.values, scale).data());
  return operand;
}

class World {
 public:
  explicit World(const Case& c)
      : c_(c),
        x_(random_operand(DType::kE4M3, int64_t{c.rows} * c.width, kXScale, 1, 1)),
        weight_(random_operand(DType::kE4M3, int64_t{c.channels()} * c.width, 1,
                               c.scale_count == 0 ? 1 / std::sqrt(c.width) : 3, 2)),
        scales_(random_operand(DType::kF32, c.channels(), 1, 0.1 / std::sqrt(c.width), 3,
                               0.5 / std::sqrt(c.width))),
        bias_(random_operand(DType::kF32, c.channels(), 1, 0.3, 4)),
        k_(random_operand(DType::kBF16, int64_t{std::max(c.key_rows, 1)} * c.q_width(), 1, 1, 5)),
        v_(random_operand(DType::kBF16, int64_t{std::max(c.key_rows, 1)} * c.q_width(), 1, 1, 6)),
        length_(sizeof(int32_t)),
        y_(int64_t{c.rows} * c.q_width() * size_of(c.y_type)) {
    const int32_t length = c.length;
    upload(length_, &length);
    const size_t valid_bytes = static_cast<size_t>(c.valid_rows()) * c.width;
    poison(x_.buffer, valid_bytes, x_.buffer.size() - valid_bytes);
    if (c.has_keys()) return;
    const std::vector<int> keys = key_rows();
    const size_t row_bytes = c.q_width() * size_of(DType::kBF16);
    for (int row = 0; row < c.key_rows; ++row) {
      if (std::find(keys.begin(), keys.end(), row) != keys.end()) continue;
      poison(k_.buffer, row * row_bytes, row_bytes);
      poison(v_.buffer, row * row_bytes, row_bytes);
    }
  }

  ProjectedAttentionArgs args() const {
    const auto matrix = [](const DeviceBuffer* buffer, DType type, int64_t rows, int64_t width,
                           int64_t stride) {
      return Matrix{.data = buffer ? buffer->data() : nullptr,
                    .type = type,
                    .rows = rows,
                    .width = width,
                    .stride = stride};
    };
    const int64_t channels = c_.channels(), width = c_.q_width();
    const int32_t* const length = c_.length >= 0 ? length_.as<int32_t>() : nullptr;
    ProjectedAttentionArgs args;
    args.has_keys = c_.has_keys();
    LinearArgs& p = args.projection;
    p.x = matrix(&x_.buffer, DType::kE4M3, c_.rows, c_.width, c_.width);
    p.x.scale = kXScale;
    p.weight = {.data = weight_.buffer.data(),
                .type = DType::kE4M3,
                .rows = channels,
                .width = c_.width,
                .stride = c_.width,
                .scales = scales_.buffer.as<float>(),
                .scale_count = c_.scale_count < 0 ? channels : c_.scale_count};
    if (c_.has_bias) p.bias = bias_.buffer.as<float>();
    p.y = matrix(nullptr, DType::kBF16, c_.rows, channels, channels);
    AttentionArgs& a = args.attention;
    a.q = matrix(nullptr, DType::kBF16, c_.rows, width, channels);
    a.k = a.v = a.q;
    if (!c_.has_keys()) {
      a.k = matrix(&k_.buffer, DType::kBF16, c_.key_rows, width, width);
      a.v = matrix(&v_.buffer, DType::kBF16, c_.key_rows, width, width);
    }
    a.y = matrix(&y_, c_.y_type, c_.rows, width, width);
    a.y.scale = c_.y_scale;
    a.heads = a.kv_heads = c_.heads;
    a.head_dim = c_.head_dim;
    a.scale = 1 / std::sqrt(static_cast<float>(c_.head_dim));
    std::copy(c_.ranges.begin(), c_.ranges.end(), a.ranges);
    a.range_count = static_cast<int>(c_.ranges.size());
    a.ranges[a.range_count - 1].length = length;
    if (c_.has_keys()) p.x.length = p.y.length = a.q.length = a.y.length = length;
    a.lengths_are_settled = c_.is_settled;
    a.settled_begin = c_.is_settled && !c_.has_keys() ? 0 : -1;
    return args;
  }

  std::vector<std::byte> run(const DeviceInfo& device) const {
    poison(y_, 0, y_.size());
    const Stream stream;
    projected_attention(args(), {.stream = stream.get(), .device = &device});
    check(cudaStreamSynchronize(stream.get()), "projected_attention");
    std::vector<std::byte> y(y_.size());
    check(cudaMemcpy(y.data(), y_.data(), y.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return y;
  }

  std::vector<double> expected() const {
    const int width = c_.q_width(), channels = c_.channels(), e = c_.head_dim;
    std::vector<double> projected(int64_t{c_.rows} * channels);
    for (int t = 0; t < c_.valid_rows(); ++t) {
      for (int n = 0; n < channels; ++n) {
        double sum = 0;
        for (int d = 0; d < c_.width; ++d)
          sum += x_.values[t * c_.width + d] * weight_.values[int64_t{n} * c_.width + d];
        if (c_.scale_count != 0) sum *= scales_.values[c_.scale_count < 0 ? n : 0];
        if (c_.has_bias) sum += bias_.values[n];
        projected[int64_t{t} * channels + n] = reference::stored(DType::kBF16, sum, 1);
      }
    }
    const std::vector<int> keys = key_rows();
    const auto key = [&](int which, int row, int column) {
      if (c_.has_keys()) return projected[int64_t{row} * channels + which * width + column];
      return (which == 1 ? k_ : v_).values[int64_t{row} * width + column];
    };
    std::vector<double> y(int64_t{c_.rows} * width);
    for (int t = 0; t < c_.valid_rows(); ++t) {
      for (int h = 0; h < c_.heads; ++h) {
        std::vector<double> weights;
        for (const int row : keys) {
          double score = 0;
          for (int i = 0; i < e; ++i)
            score += projected[int64_t{t} * channels + h * e + i] * key(1, row, h * e + i);
          weights.push_back(std::exp(score / std::sqrt(e)));
        }
        double total = 0;
        for (const double weight : weights) total += weight;
        for (int i = 0; i < e; ++i) {
          double sum = 0;
          for (size_t j = 0; j < keys.size(); ++j) sum += weights[j] * key(2, keys[j], h * e + i);
          y[int64_t{t} * width + h * e + i] = total > 0 ? sum / total : 0;
        }
      }
    }
    return y;
  }

 private:
  static void poison(const DeviceBuffer& buffer, size_t begin, size_t count) {
    check(cudaMemset(buffer.data() + begin, std::to_integer<int>(kNaN), count), "cudaMemset");
  }
  std::vector<int> key_rows() const {
    std::vector<int> rows;
    for (size_t r = 0; r < c_.ranges.size(); ++r) {
      const int more = r + 1 == c_.ranges.size() ? std::max(c_.length, 0) : 0;
      for (int i = 0; i < c_.ranges[r].count + more; ++i) rows.push_back(c_.ranges[r].begin + i);
    }
    return rows;
  }

  Case c_;
  Operand x_, weight_, scales_, bias_, k_, v_;
  DeviceBuffer length_, y_;
};

double value_of(DType type, const std::byte* bytes, float scale) {
  if (type == DType::kE4M3) return reference::e4m3_value(std::to_integer<int>(*bytes)) * scale;
  uint16_t code;
  std::memcpy(&code, bytes, sizeof code);
  const uint32_t bits = uint32_t{code} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

class ProjectedAttention : public NeedsDevice<testing::TestWithParam<Case>> {};

TEST_P(ProjectedAttention, MatchesTheFormula) {
  const Case& c = GetParam();
  const World world(c);
  const bool is_accepted = projected_attention_accepts(world.args(), device());
  ASSERT_EQ(is_accepted, device().compute_capability() == 90);
  if (!is_accepted) return;
  const std::vector<std::byte> y = world.run(device()), again = world.run(device());
  ASSERT_EQ(y, again) << "not the same in a second run";

  const std::vector<double> expected = world.expected();
  const size_t element = size_of(c.y_type);
  // Values are of about 1, and q of about 2. Sums of FP8 matrix units keep about 14 bits, after
  // which q, k, v and weights are rounded to bf16.
  constexpr double kRounding = 0.03;
  for (size_t i = 0; i < expected.size(); ++i) {
    const bool is_valid = static_cast<int>(i) / c.q_width() < c.valid_rows();
    if (!is_valid) {
      for (size_t byte = 0; byte < element; ++byte)
        ASSERT_EQ(y[i * element + byte], kNaN) << "element " << i << " is past the valid rows";
      continue;
    }
    const double actual = value_of(c.y_type, y.data() + i * element, c.y_scale);
    const double limit = c.y_type == DType::kE4M3 ? 448.0 * c.y_scale : HUGE_VAL;
    const double value = std::clamp(expected[i], -limit, limit);
    ASSERT_NEAR(actual, value, kRounding + reference::step_of(c.y_type, value, c.y_scale))
        << "element " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, ProjectedAttention, testing::ValuesIn(cases()),
                         [](const auto& param) { return std::string(param.param.name); });

using ProjectedAttentionArguments = CudaTest;

TEST_F(ProjectedAttentionArguments, RefusesWhatItCannotDo) {
  const World world({"", 51, 2, 48, 512, {{.begin = 0, .count = 40}}, 40});
  const bool is_accepted = projected_attention_accepts(world.args(), device());
  ASSERT_EQ(is_accepted, device().compute_capability() == 90);
  if (!is_accepted) return;
  const auto accepts = [&](const auto& change) {
    ProjectedAttentionArgs args = world.args();
    change(args);
    return projected_attention_accepts(args, device());
  };
  using Args = ProjectedAttentionArgs;
  EXPECT_FALSE(accepts([](Args& a) { a.attention.is_causal = true; }));
  EXPECT_FALSE(accepts([](Args& a) { a.attention.block = 17; }));
  EXPECT_FALSE(accepts([](Args& a) { a.attention.kv_heads = 1; }));
  EXPECT_FALSE(accepts([](Args& a) { a.attention.y.type = DType::kF32; }));
  EXPECT_FALSE(accepts([](Args& a) { a.attention.k.rows = a.attention.ranges[0].count = 257; }));
  EXPECT_FALSE(accepts([](Args& a) { a.projection.activation = Activation::kSilu; }));
  EXPECT_FALSE(accepts([](Args& a) { a.projection.y.type = DType::kF16; }));
  EXPECT_FALSE(accepts([](Args& a) { a.projection.x.type = DType::kF16; }));
  EXPECT_FALSE(accepts([](Args& a) { a.projection.x.width = a.projection.weight.width = 448; }));
  EXPECT_FALSE(accepts(
      [](Args& a) { a.projection.x.rows = a.projection.y.rows = a.attention.q.rows = 65; }));
  DeviceInfo other = device();
  other.is_specialised = false;
  EXPECT_FALSE(projected_attention_accepts(world.args(), other));
}

}  // namespace
}  // namespace flashrt::cuda
