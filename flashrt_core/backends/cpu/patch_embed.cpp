// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// patch_embed: y[n*T + t] = W patch(images[n], t) + b + position[t]; bytes are mapped to
// u8 / 255 * 2 - 1, floats are taken as they are.

#include <array>

#include "backends/cpu/gemm.hpp"
#include "backends/cpu/kernel.hpp"

namespace flashrt::cpu {
namespace {

constexpr int kChannels = 3;

struct Scratch {
  float* patches;  // [N*T, 3*patch*patch]
  float* tiles;    // one per thread
};

Scratch carve(Carver& carver, const PatchEmbed& op, const Plan& plan, int threads) {
  const int64_t depth = int64_t{kChannels} * op.patch * op.patch;
  return {.patches = carver.floats(plan[op.y].shape.rows() * depth),
          .tiles = carver.floats(threads * kTileFloats)};
}

// In float32, as the models do it on whole images.
class BytePixels {
 public:
  using Type = uint8_t;
  BytePixels() {
    for (int byte = 0; byte < 256; ++byte)
      values_[byte] = static_cast<float>(byte) / 255.0f * 2.0f - 1.0f;
  }
  float operator()(uint8_t byte) const { return values_[byte]; }

 private:
  std::array<float, 256> values_;
};

struct FloatPixels {
  using Type = float;
  float operator()(float value) const { return value; }
};

template <class Pixels>
struct Args {
  const typename Pixels::Type* images;  // [N, side, side, 3]
  int64_t side;
  int64_t patch;
  const Weight& weight;
  const float* bias;
  const float* position;
  View y;
};

template <class Pixels>
void gather_patch(const Args<Pixels>& args, const Pixels& pixels, int64_t row, float* out) {
  const int64_t grid = args.side / args.patch;
  const int64_t image = row / (grid * grid), token = row % (grid * grid);
  const int64_t top = token / grid * args.patch, left = token % grid * args.patch;
  for (int channel = 0; channel < kChannels; ++channel) {
    for (int64_t dy = 0; dy < args.patch; ++dy) {
      const typename Pixels::Type* line =
          args.images + (((image * args.side + top + dy) * args.side + left) * kChannels + channel);
      for (int64_t dx = 0; dx < args.patch; ++dx) *out++ = pixels(line[dx * kChannels]);
    }
  }
}

template <class Pixels>
void patch_embed(const Args<Pixels>& args, const Pixels& pixels, const Scratch& scratch,
                 ThreadPool& pool) {
  const int64_t depth = kChannels * args.patch * args.patch;
  const int64_t grid = args.side / args.patch;
  pool.parallel_for(args.y.rows, 16, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row)
      gather_patch(args, pixels, row, scratch.patches + row * depth);
  });
  const MatrixProduct product{.rows = args.y.rows,
                              .columns = args.y.width,
                              .depth = depth,
                              .a = scratch.patches,
                              .a_stride = depth,
                              .b = args.weight.values.data(),
                              .b_stride = depth};
  multiply_tiles(pool, product, scratch.tiles, [&](const Tile& tile, int) {
    for (int64_t r = 0; r < tile.rows; ++r) {
      float* y = tile.at(r);
      const float* position = args.position + (tile.row + r) % (grid * grid) * args.y.width;
      if (args.weight.scales.size() > 1)
        multiply(y, args.weight.scales.data() + tile.column, tile.columns);
      if (args.weight.scales.size() == 1) scale(y, args.weight.scales[0], tile.columns);
      add(y, args.bias + tile.column, y, tile.columns);
      add(y, position + tile.column, y, tile.columns);
      store(args.y, tile.row + r, tile.column, tile.columns, y);
    }
  });
}

template <class Pixels>
Kernel bind_pixels(const PatchEmbed& op, const Binding& b) {
  Carver carver(b.workspace);
  const Scratch scratch = carve(carver, op, b.plan, b.pool.threads());
  const Operand images = b.operand(op.images), y = b.operand(op.y);
  const int64_t side = b.plan[op.images].shape[1];
  const int64_t patch = op.patch;
  const Weight& weight = b.weight(op.weight);
  const float* bias = b.vector(op.bias);
  const float* position = b.vector(op.position);
  ThreadPool& pool = b.pool;
  return [=, pixels = Pixels(), &weight, &pool](int k) {
    const auto* data = reinterpret_cast<const typename Pixels::Type*>(images.at(k).data);
    patch_embed<Pixels>({data, side, patch, weight, bias, position, y.at(k)}, pixels, scratch,
                        pool);
  };
}

}  // namespace

size_t workspace_bytes(const PatchEmbed& op, const Plan& plan, int threads) {
  Carver carver;
  carve(carver, op, plan, threads);
  return carver.bytes();
}

Kernel bind(const PatchEmbed& op, const Binding& b) {
  const DType type = b.plan[op.images].type;
  FLASHRT_CHECK(type == DType::kU8 || type == DType::kF32, "patch_embed ", b.call.name,
                ": images are ", type, ", expected u8 or f32");
  return type == DType::kU8 ? bind_pixels<BytePixels>(op, b) : bind_pixels<FloatPixels>(op, b);
}

}  // namespace flashrt::cpu
