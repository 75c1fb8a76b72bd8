// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// patch_embed: y[n*T + t] = W patch(images[n], t) + b + position[t]; bytes are mapped to
// u8 / 255 * 2 - 1, floats are taken as they are. Tokens run over squares of group x group patches.

#include <array>

#include "backends/cpu/gemm.hpp"
#include "backends/cpu/kernel.hpp"

namespace flashrt::cpu {
namespace {

constexpr int kChannels = 3;

struct Scratch {
  float* patches;  // [N*T, 3*patch*patch]
  float* tiles;    // one per thread
  float* rows;     // one tile row per thread: positions of another type than float32
};

Scratch carve(Carver& carver, const PatchEmbed& op, const Plan& plan, int threads) {
  const int64_t depth = int64_t{kChannels} * op.patch * op.patch;
  return {.patches = carver.floats(plan[op.y].shape.rows() * depth),
          .tiles = carver.floats(threads * kTileFloats),
          .rows = carver.floats(threads * kTileColumns)};
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
  const typename Pixels::Type* images;  // [N, height, width, 3]
  int64_t height, width;
  int64_t patch, group;
  const Weight& weight;
  const float* bias;
  const float* position;  // [T, D], or null: positions
  View positions, y;

  int64_t tokens() const { return (height / patch) * (width / patch); }  // of one image
};

template <class Pixels>
void gather_patch(const Args<Pixels>& args, const Pixels& pixels, int64_t row, float* out) {
  const int64_t group = args.group, across = args.width / args.patch / group;  // squares in a row
  const int64_t image = row / args.tokens(), token = row % args.tokens();
  const int64_t square = token / (group * group), inside = token % (group * group);
  const int64_t top = (square / across * group + inside / group) * args.patch;
  const int64_t left = (square % across * group + inside % group) * args.patch;
  for (int channel = 0; channel < kChannels; ++channel) {
    for (int64_t dy = 0; dy < args.patch; ++dy) {
      const typename Pixels::Type* line =
          args.images +
          (((image * args.height + top + dy) * args.width + left) * kChannels + channel);
      for (int64_t dx = 0; dx < args.patch; ++dx) *out++ = pixels(line[dx * kChannels]);
    }
  }
}

template <class Pixels>
void patch_embed(const Args<Pixels>& args, const Pixels& pixels, const Scratch& scratch,
                 ThreadPool& pool) {
  const int64_t depth = kChannels * args.patch * args.patch;
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
  multiply_tiles(pool, product, scratch.tiles, [&](const Tile& tile, int worker) {
    for (int64_t r = 0; r < tile.rows; ++r) {
      float* y = tile.at(r);
      const float* position =
          args.position
              ? args.position + (tile.row + r) % args.tokens() * args.y.width + tile.column
              : load(args.positions, tile.row + r, tile.column, tile.columns,
                     scratch.rows + worker * kTileColumns);
      if (args.weight.scales.size() > 1)
        multiply(y, args.weight.scales.data() + tile.column, tile.columns);
      if (args.weight.scales.size() == 1) scale(y, args.weight.scales[0], tile.columns);
      add(y, args.bias + tile.column, y, tile.columns);
      add(y, position, y, tile.columns);
      store(args.y, tile.row + r, tile.column, tile.columns, y);
    }
  });
}

template <class Pixels>
Kernel bind_pixels(const PatchEmbed& op, const Binding& b) {
  Carver carver(b.workspace);
  const Scratch scratch = carve(carver, op, b.plan, b.pool.threads());
  const Operand images = b.operand(op.images), positions = b.operand(op.positions),
                y = b.operand(op.y);
  const int64_t height = b.plan[op.images].shape[1], width = b.plan[op.images].shape[2];
  const int64_t patch = op.patch, group = op.group;
  const Weight& weight = b.weight(op.weight);
  const float* bias = b.vector(op.bias);
  const float* position = b.vector(op.position);
  ThreadPool& pool = b.pool;
  return [=, pixels = Pixels(), &weight, &pool](int k) {
    const auto* data = reinterpret_cast<const typename Pixels::Type*>(images.at(k).data);
    patch_embed<Pixels>(
        {data, height, width, patch, group, weight, bias, position, positions.at(k), y.at(k)},
        pixels, scratch, pool);
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
