// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// linear for many rows on sm_90: y = activation(x W^T + bias + shift), or the gated product of its
// two halves.
//
// Layout    x: [T, D], W: [width, D], both e4m3 or both bf16, rows on multiples of 16 bytes.
//           y: bf16 or e4m3.
// Work      a block multiplies a tile of 128 or 256 channels by 64 to 256 tokens: channels on the m
//           of the matrix instructions, tokens on their n, which may be any multiple of 8. Two warp
//           groups multiply, another keeps the copy engine going. Blocks of a cluster share what
//           they read, and may split D and add their sums through each other's shared memory.
// Traffic   W once from device memory. What limits a tile is shared memory: of 128 bytes of D its
//           instructions take 4 channels / 64 * tokens / 2 clocks, and reading their operands and
//           writing what the copy engine brings 4 channels / 64 * (16 + tokens / 4) + channels +
//           tokens: 352 and 520 for 128 x 88, 1024 and 1024 for 128 x 256. All blocks together read
//           (channels / cluster tokens + tokens / cluster channels) * 128 bytes from the second
//           level, which gives 9 TB/s, or 5 TB/s where rows are on no multiples of 32 bytes: unless
//           clusters share, that is the limit of a small tile.
// Numerics  e4m3: the fast accumulation of the instructions, exact products in float32 sums of
//           limited precision; where their activation becomes e4m3 again, it is within 2^-11
//           max(1, |x|) before its scale. Where there is no gate, the scale of e4m3 is a factor,
//           its reciprocal: at the border of two codes that may be another one than by division,
//           which gated products have, as glu() has. A fixed order per configuration, so results
//           repeat bit for bit.
// Reference backends/cpu/linear.cpp
#include <algorithm>
#include <array>
#include <bit>

#include "kernels/common.cuh"
#include "kernels/linear_epilogue.cuh"
#include "kernels/sm90.cuh"
#include "kernels/tensor_map.hpp"

#if !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#pragma nv_diag_suppress 177  // for other architectures the kernel is empty, and its parts are
                              // unused
#endif

namespace flashrt::cuda {
namespace {

constexpr const char* kName = "linear_wgmma";

constexpr int kConsumers = 2;  // warp groups that multiply, side by side along the channels
constexpr int kConsumerThreads = kConsumers * sm90::kWarpGroup;
constexpr int kThreads = kConsumerThreads + sm90::kWarpGroup;
constexpr int kBlockChannels = 64;  // the m of an instruction
constexpr int kStepTokens = 8;      // tokens come in groups of so many
constexpr int kMaxStages = 8;

// The epilogue works on chunks of so many tokens.
constexpr int kChunkTokens = 4 * kStepTokens;

// Finished values wait in shared memory to be stored as rows. What the four matrices of one
// stmatrix of each warp hold is a chunk of e4m3 or half a chunk of 16 bits.
constexpr int kMatrixBytes = 4 * 4 * 8 * 16;  // warps, matrices, rows

// Blocks of a cluster: `channels` (1 or 2) x `tokens` (a power of two) neighbouring tiles, each
// computed by `splits` blocks.
struct Cluster {
  int channel_bits = 0, token_bits = 0, splits = 1;

  constexpr Cluster() = default;
  constexpr Cluster(unsigned channels, unsigned tokens, int parts)
      : channel_bits(std::countr_zero(channels)),
        token_bits(std::countr_zero(tokens)),
        splits(parts) {}
  __host__ __device__ int channels() const { return 1 << channel_bits; }
  __host__ __device__ int tokens() const { return 1 << token_bits; }
  __host__ __device__ int size() const { return splits << (channel_bits + token_bits); }
};
// Of a block in its cluster.
struct Place {
  int channel, token, split;
};
__device__ __forceinline__ int rank_of(const Cluster& c, const Place& at) {
  return at.channel + (at.token << c.channel_bits) + (at.split << (c.channel_bits + c.token_bits));
}
__device__ __forceinline__ Place place_of(const Cluster& c, int rank) {
  return {rank & (c.channels() - 1), rank >> c.channel_bits & (c.tokens() - 1),
          rank >> (c.channel_bits + c.token_bits)};
}

struct Problem {
  CUtensorMap weight, x;
  LinearEpilogue epilogue;
  Divisor divisor;  // of what is stored
  Matrix rows;      // x; says how many rows are valid
  Cluster cluster;
  int width = 0;                // of what is stored
  int up = 0;                   // the row of W where the second half starts; 0: not gated
  int k_blocks = 0;             // of 128 bytes of a row
  unsigned channel_groups = 0;  // tiles along the channels, in clusters
  unsigned clusters = 0;        // of the grid
  bool is_one_wave = false;     // every cluster has one tile, whatever the number of valid rows
  int box_channels = 0, box_tokens = 0;
  uint32_t stage_bytes = 0;  // that arrive
};

template <class Element_, int kBlocks_, int kTokens_>
struct Tile {
  using Element = Element_;
  static constexpr int kBlocks = kBlocks_;  // of channels, per warp group
  static constexpr int kTokens = kTokens_;
  static constexpr int kChannels = kConsumers * kBlocks * kBlockChannels;
  // Two blocks may share the rows of x, each half a whole number of swizzle patterns.
  static constexpr int kTokenRows = (kTokens + 15) / 16 * 16;

  static constexpr int kWeightBytes = kChannels * sm90::kSwizzleBytes;
  static constexpr int kStageBytes = kWeightBytes + kTokenRows * sm90::kSwizzleBytes;
  static constexpr int kBarrierBytes = 2 * sizeof(uint64_t);  // of a stage: full, empty
  static constexpr int stages_beside(int staging_bytes) {
    return std::min<int>(kMaxStages, (sm90::kSharedBytes - 2 * kConsumers * staging_bytes) /
                                         (kStageBytes + kBarrierBytes));
  }
  // A buffer is as long as a chunk of 16 bits, unless a stage would not fit for that.
  static constexpr int kStagingBytes =
      stages_beside(2 * kMatrixBytes) == stages_beside(kMatrixBytes) ? 2 * kMatrixBytes
                                                                     : kMatrixBytes;
  static constexpr int kAllStagingBytes = 2 * kConsumers * kStagingBytes;
  static constexpr int kStages = stages_beside(kStagingBytes);
  static constexpr int kStagingOffset = kStages * kStageBytes;
  static constexpr int kBarrierOffset = kStagingOffset + kAllStagingBytes;
  static constexpr int kSharedBytes = kBarrierOffset + kStages * kBarrierBytes;

  // Gating holds two chunks of sums beside all of them.
  static constexpr bool kCanGate = kBlocks == 2 && kTokens <= 176;
  // The sums of a split wait in the stages. Large tiles need none.
  static constexpr bool kCanSplit =
      kBlocks == 1 && kChannels * kTokens * sizeof(float) <= kStagingOffset;
};

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

constexpr int kProducerRegisters = 24, kConsumerRegisters = 240;  // of the 168 each starts with
constexpr int kStepBytes = 32;                                    // of a row, per instruction

template <class T>
constexpr int kChunks = (T::kTokens + kChunkTokens - 1) / kChunkTokens;  // of a block

// The tiles of a cluster. Neighbours along the tokens come first: they read the same weights. In a
// single wave all run side by side, and the channels come first: those of a tile do not depend on
// the number of valid rows.
template <class T>
struct Walk {
  unsigned count, tile, stride;
  unsigned inner;  // groups along what comes first

  __device__ Walk(const Problem& p, unsigned first, int rows) {
    tile = first;
    stride = p.clusters;
    if (p.is_one_wave) {  // does not wait for the number of rows
      count = p.clusters;
      inner = p.channel_groups;
    } else {
      inner = whole_clusters((rows + T::kTokens - 1) / T::kTokens, p.cluster.token_bits);
      count = inner * p.channel_groups;
    }
  }
  static __device__ unsigned whole_clusters(unsigned tiles, int bits) {
    return (tiles + (1u << bits) - 1) >> bits;
  }
  __device__ bool has_tile() const { return tile < count; }
  __device__ void advance() { tile += stride; }
  // Numbers of the tile of this block; it may lie outside y.
  __device__ int channel_tile(const Problem& p, const Place& at) const {
    const unsigned outer = tile / inner;
    const unsigned group = p.is_one_wave ? tile - outer * inner : outer;
    return (group << p.cluster.channel_bits) + at.channel;
  }
  __device__ int token_tile(const Problem& p, const Place& at) const {
    const unsigned outer = tile / inner;
    const unsigned group = p.is_one_wave ? outer : tile - outer * inner;
    return (group << p.cluster.token_bits) + at.token;
  }
};

// The row of W where block `block` of the channels of a tile starts. In a gated tile every warp
// group has 64 channels of the first half and the same ones of the second, so that a thread holds
// both factors.
template <class T>
__device__ __forceinline__ int weight_row(const Problem& p, int channel_tile, unsigned block) {
  const int first = channel_tile * T::kChannels;
  return p.up ? first / 2 + static_cast<int>(block % 2 * p.up + block / 2 * kBlockChannels)
              : first + static_cast<int>(block * kBlockChannels);
}

// A position in the ring of stages, and the parity of the phase in which it is filled.
template <class T>
struct Ring {
  int stage = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ void advance() {
    if (++stage == T::kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

template <class T>
struct Shared {
  uint32_t base;

  __device__ uint32_t weight(int stage) const { return base + stage * T::kStageBytes; }
  __device__ uint32_t x(int stage) const { return weight(stage) + T::kWeightBytes; }
  __device__ uint32_t staging(int consumer) const {
    return base + T::kStagingOffset + consumer * 2 * T::kStagingBytes;
  }
  __device__ uint32_t full(int stage) const {
    return base + T::kBarrierOffset + stage * T::kBarrierBytes;
  }
  __device__ uint32_t empty(int stage) const { return full(stage) + sizeof(uint64_t); }
};

struct Range {
  int begin, end;

  __device__ bool overlaps(int from, int to) const { return from < end && begin < to; }
};

// The blocks that need the same tile of x as this one, and those that need the same weights.
struct Masks {
  uint16_t x, weight;
};
__device__ __forceinline__ Masks masks_of(const Cluster& c, const Place& at) {
  // One bit for each tile along the channels, and for each along the tokens.
  const unsigned channels = (1u << c.channels()) - 1;
  const unsigned every = c.channel_bits == 0 ? 0xffff : 0x5555;
  const unsigned tokens = every & ((1u << (c.tokens() << c.channel_bits)) - 1);
  return {static_cast<uint16_t>(channels << rank_of(c, {0, at.token, at.split})),
          static_cast<uint16_t>(tokens << rank_of(c, {at.channel, 0, at.split}))};
}

__device__ __forceinline__ Range k_range(const Problem& p, const Place& at) {
  if (p.cluster.splits == 1) return {0, p.k_blocks};
  const unsigned blocks = p.k_blocks, splits = p.cluster.splits;
  return {static_cast<int>(blocks * at.split / splits),
          static_cast<int>(blocks * (at.split + 1) / splits)};
}

// ---- the producer

// Copies k blocks into stages. What several blocks need each of them brings a part of, for all.
template <class T>
class Loader {
 public:
  __device__ Loader(const Problem& p, const Place& at, const Masks& masks, const Shared<T>& shared)
      : p_(p), at_(at), masks_(masks), shared_(shared) {}

  // Both parts of a stage report to its barrier.
  __device__ __forceinline__ void expect(int stage) const {
    arrive_expecting(shared_.full(stage), p_.stage_bytes);
  }
  __device__ __forceinline__ void copy_weight(int channel_tile, int block, int stage) const {
    const unsigned part = T::kChannels >> p_.cluster.token_bits, first = at_.token * part;
    for (unsigned r = first; r < first + part; r += p_.box_channels) {
      const int row = weight_row<T>(p_, channel_tile, r / kBlockChannels) +
                      static_cast<int>(r % kBlockChannels);
      copy(p_.weight, block, row, shared_.weight(stage) + r * sm90::kSwizzleBytes, stage,
           masks_.weight);
    }
  }
  __device__ __forceinline__ void copy_x(int token_tile, int block, int stage) const {
    const int row = at_.channel * p_.box_tokens;
    copy(p_.x, block, token_tile * T::kTokens + row, shared_.x(stage) + row * sm90::kSwizzleBytes,
         stage, masks_.x);
  }

 private:
  __device__ __forceinline__ void copy(const CUtensorMap& map, int block, int row, uint32_t to,
                                       int stage, uint16_t mask) const {
    constexpr int kElements = sm90::kSwizzleBytes / sizeof(typename T::Element);
    const bool is_shared = p_.cluster.channels() * p_.cluster.tokens() > 1;
    if (is_shared)
      sm90::copy_box(map, block * kElements, row, to, shared_.full(stage), mask);
    else
      sm90::copy_box(map, block * kElements, row, to, shared_.full(stage));
  }

  const Problem& p_;
  const Place& at_;
  const Masks& masks_;
  const Shared<T>& shared_;
};

// One thread: fills the stages with the k blocks of a tile, of which the first `begun` have their
// weights already.
template <class T>
__device__ __forceinline__ void fill(const Loader<T>& loader, const Range& k, int begun,
                                     const Shared<T>& shared, int channel_tile, int token_tile,
                                     Ring<T>& ring) {
  for (int block = k.begin; block < k.end; ++block, ring.advance()) {
    if (block - k.begin >= begun) {
      wait_barrier(shared.empty(ring.stage), ring.parity ^ 1);
      loader.expect(ring.stage);
      loader.copy_weight(channel_tile, block, ring.stage);
    }
    loader.copy_x(token_tile, block, ring.stage);
  }
}

// The warp of the producer that does something, in all its lanes.
__device__ __forceinline__ bool is_first_producer() {
  return __shfl_sync(kAllLanes, threadIdx.x, 0) == kConsumerThreads;
}

// Once the kernel ahead has ended, the valid rows of x.
__device__ __forceinline__ int rows_after_previous(const Problem& p) {
  wait_for_previous();
  return static_cast<int>(min(valid_rows(p.rows), p.rows.rows));
}

// By the warp that copies, so that it may begin before the others know.
template <class T>
__device__ __forceinline__ void prepare(const Problem& p, const Shared<T>& shared) {
  if (is_first_producer() && sm90::is_elected()) {
    sm90::prefetch_map(p.weight);
    sm90::prefetch_map(p.x);
    const int readers = kConsumerThreads / kWarp * (p.cluster.channels() + p.cluster.tokens() - 1);
    for (int stage = 0; stage < T::kStages; ++stage) {
      init_barrier(shared.full(stage), 1);
      init_barrier(shared.empty(stage), readers);
    }
    publish_barriers();
    sm90::fence_shared();
  }
  __syncwarp();
}

// Before wait_for_previous(): copies the first weights of a block that has one tile, as far as
// there are stages. Returns how many k blocks of them.
template <class T>
__device__ __forceinline__ int begin(const Problem& p, const Place& at, const Range& k,
                                     const Loader<T>& loader, unsigned cluster) {
  if (!p.is_one_wave) return 0;
  const int begun = min(T::kStages, k.end - k.begin);
  if (is_first_producer() && sm90::is_elected()) {
    const int channel_tile = Walk<T>(p, cluster, 0).channel_tile(p, at);
    for (int stage = 0; stage < begun; ++stage) {
      loader.expect(stage);
      loader.copy_weight(channel_tile, k.begin + stage, stage);
    }
  }
  __syncwarp();
  return begun;
}

template <class T>
__device__ __forceinline__ void produce(const Problem& p, const Place& at, const Range& k,
                                        const Loader<T>& loader, int begun, const Shared<T>& shared,
                                        Walk<T> walk) {
  const bool is_first_warp = is_first_producer();
  Ring<T> ring;
  for (; walk.has_tile(); walk.advance(), begun = 0) {
    if (is_first_warp && sm90::is_elected()) {
      fill(loader, k, begun, shared, walk.channel_tile(p, at), walk.token_tile(p, at), ring);
    }
    __syncwarp();
    if (p.cluster.splits > 1) {  // the two of add_splits(), with nothing to show
      sm90::cluster_start();
      sm90::cluster_start();
    }
  }
  // No block ends while others still tell it what they have read.
  if (is_first_warp && sm90::is_elected()) {
    for (int stage = 0; stage < T::kStages; ++stage, ring.advance())
      wait_barrier(shared.empty(ring.stage), ring.parity ^ 1);
  }
}

// ---- the consumers

template <class T>
using Sums = float[T::kBlocks][T::kTokens / 2];

// What a thread of a consumer is among its warp group.
struct Consumer {
  int group;   // 0 or 1
  int thread;  // of the group
  int warp, lane;
};

// Where this lane tells that stages have been read: every warp tells all blocks that fill them, one
// lane each.
template <class T>
struct Release {
  bool is_teller;
  uint32_t empty;  // the barrier of stage 0 in the block that is told

  __device__ Release(const Cluster& c, const Place& at, const Shared<T>& shared, int lane) {
    Place to = at;
    if (lane < c.channels()) {
      to.channel = lane;
    } else {
      const int other = lane - c.channels();
      to.token = other + (other >= at.token);
    }
    is_teller = lane < c.channels() + c.tokens() - 1;
    empty = is_teller ? address_in_block(shared.empty(0), rank_of(c, to)) : 0;
  }
  __device__ __forceinline__ void operator()(int stage) const {
    if (is_teller) sm90::arrive_in_cluster(empty + stage * T::kBarrierBytes);
  }
};

enum NamedBarrier { kGroups = 1, kBothConsumers = kGroups + kConsumers, kLead };

// The first consumer runs ahead of the second by so many k blocks, so that one can multiply while
// the other finishes its tile.
constexpr int kLeadBlocks = 2;

// `lead` is the k block after which the second consumer may start; -1: it does not wait.
template <class T>
__device__ __forceinline__ void multiply(const Range& k, const Shared<T>& shared,
                                         const Consumer& me, const Release<T>& release, int lead,
                                         Ring<T>& ring, Sums<T>& sums) {
  using Product = sm90::Product<typename T::Element, T::kTokens>;
  constexpr int kBlockBytes = kBlockChannels * sm90::kSwizzleBytes;
  if (lead >= 0 && me.group == 1) sync_threads(kLead, kConsumerThreads);
  int previous = -1;
  uint32_t is_sum = 0;
  for (int block = k.begin; block < k.end; ++block, ring.advance()) {
    const uint64_t weight =
        sm90::tile_descriptor(shared.weight(ring.stage) + me.group * T::kBlocks * kBlockBytes);
    const uint64_t x = sm90::tile_descriptor(shared.x(ring.stage));
    wait_barrier(shared.full(ring.stage), ring.parity);
    sm90::begin_products();
#pragma unroll
    for (int step = 0; step < sm90::kSwizzleBytes / kStepBytes; ++step) {
      const uint64_t along = sm90::descriptor_step(step * kStepBytes);
#pragma unroll
      for (int b = 0; b < T::kBlocks; ++b) {
        Product::add(sums[b], weight + along + sm90::descriptor_step(b * kBlockBytes), x + along,
                     is_sum);
      }
      is_sum = 1;
    }
    sm90::commit_products();
    sm90::wait_for_products<1>();  // those of the previous stage are done
    if (previous >= 0) release(previous);
    previous = ring.stage;
    if (block == lead && me.group == 0) {
      arrive_threads(kLead, kConsumerThreads);
    }
  }
  sm90::wait_for_products<0>();
#pragma unroll
  for (int b = 0; b < T::kBlocks; ++b) sm90::settle(sums[b]);
  release(previous);
}

// The tokens of a tile that this block finishes: a share of them, if the sums are split. Whole
// chunks of the epilogue, unless there are too few of them for all.
template <class T>
__device__ __forceinline__ Range own_tokens(const Problem& p, const Place& at) {
  const int splits = p.cluster.splits;
  if (splits == 1) return {0, T::kTokens};
  const int unit = splits <= kChunks<T> ? kChunkTokens : kStepTokens;
  const int units = splits <= kChunks<T> ? kChunks<T> : T::kTokens / kStepTokens;
  return {units * at.split / splits * unit,
          min(units * (at.split + 1) / splits * unit, T::kTokens)};
}

// Adds the sums of the blocks that computed other parts of D, for the tokens that this block
// finishes, in an order that depends on the place alone. Before the next tile cluster_wait() is
// due.
template <class T>
__device__ __forceinline__ void add_splits(const Problem& p, const Place& at,
                                           const Shared<T>& shared, const Consumer& me,
                                           const Range& own, Sums<T>& sums) {
  static_assert(T::kBlocks == 1);
  constexpr int kSteps = T::kTokens / kStepTokens;
  constexpr int kTogether = kChunkTokens / kStepTokens;  // steps that are asked for at once
  const auto slot = [&](int step) -> uint32_t {
    const int index = me.group * kSteps + step;
    return shared.base + (index * sm90::kWarpGroup + me.thread) * sizeof(float4);
  };
  const auto is_own = [&](int step) {
    return own.overlaps(step * kStepTokens, (step + 1) * kStepTokens);
  };
  // Both consumers have read the last stage before either overwrites it with sums.
  sync_threads(kBothConsumers, kConsumerThreads);
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    if (is_own(step)) continue;
    const float* s = sums[0] + 4 * step;
    sm90::store_shared(slot(step), make_float4(s[0], s[1], s[2], s[3]));
  }
  sm90::cluster_sync();  // the sums of all blocks are written before they are read
  const int splits = p.cluster.splits;
  for (int i = 1; i < splits; ++i) {
    const int split = at.split + i - (at.split + i < splits ? 0 : splits);
    const uint32_t from =
        address_in_block(shared.base, rank_of(p.cluster, {at.channel, at.token, split})) -
        shared.base;
#pragma unroll
    for (int first = 0; first < kSteps; first += kTogether) {
      if (!own.overlaps(first * kStepTokens, (first + kTogether) * kStepTokens)) continue;
      float4 parts[kTogether];
#pragma unroll
      for (int j = 0; j < kTogether; ++j) {
        if (first + j < kSteps && is_own(first + j))
          parts[j] = sm90::load_from_cluster(from + slot(first + j));
      }
#pragma unroll
      for (int j = 0; j < kTogether; ++j) {
        if (first + j < kSteps && is_own(first + j)) {
          float* s = sums[0] + 4 * (first + j);
          s[0] += parts[j].x, s[1] += parts[j].y, s[2] += parts[j].z, s[3] += parts[j].w;
        }
      }
    }
  }
  // They are read before the copy engine fills the stages again, and before a block ends. That
  // orders no data: what has been added has been read.
  sm90::settle(sums[0]);
  sm90::fence_shared();
  cluster_started();
}

// ---- the epilogue

// For the rows of W whose sums a thread holds: row l/4 + 8h of each block. Read before the products
// and not used until after them, as they take long to arrive.
template <class T>
struct Operands {
  float scale[T::kBlocks][2], bias[T::kBlocks][2], shift[T::kBlocks][2];
};
template <class T>
__device__ __forceinline__ Operands<T> operands_of(const Problem& p, const Consumer& me,
                                                   int channel_tile) {
  const LinearEpilogue& e = p.epilogue;
  const float* shift = static_cast<const float*>(e.shift.data);
  Operands<T> operands;
#pragma unroll
  for (int b = 0; b < T::kBlocks; ++b) {
    const int first = weight_row<T>(p, channel_tile, me.group * T::kBlocks + b);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = first + me.warp * 16 + me.lane / 4 + 8 * h;
      const bool is_inside = row < static_cast<int>(e.y.width);
      operands.scale[b][h] = e.scales && is_inside ? e.scales[e.is_per_channel ? row : 0] : 1;
      operands.bias[b][h] = e.bias && is_inside ? e.bias[row] : 0;
      operands.shift[b][h] = shift && is_inside ? shift[row] : 0;
    }
  }
  return operands;
}

// y = sum * factor + offset.
template <class T>
struct Terms {
  float factor[T::kBlocks][2], offset[T::kBlocks][2];
};
template <class T>
__device__ __forceinline__ Terms<T> terms_of(const Problem& p, const Operands<T>& operands) {
  Terms<T> terms;
#pragma unroll
  for (int b = 0; b < T::kBlocks; ++b) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      terms.factor[b][h] = __fmul_rn(operands.scale[b][h], p.epilogue.x_scale);
      terms.offset[b][h] = __fadd_rn(operands.bias[b][h], operands.shift[b][h]);
    }
  }
  return terms;
}

// The sums of a chunk of tokens in one block of channels: those of step j are 4j to 4j + 3.
constexpr int kChunkSums = kChunkTokens / 2;
using Chunk = float[kChunkSums];

// Takes a chunk out: y in float32, but for the activation.
template <class T, int kBlock, int kChunk>
__device__ __forceinline__ void take(const Sums<T>& sums, const Terms<T>& terms, Chunk& out) {
#pragma unroll
  for (int i = 0; i < kChunkSums; ++i) {
    constexpr int kFirst = kChunk * kChunkSums;
    const int h = i / 2 % 2;
    out[i] = 0;
    // Instructions that the compiler leaves in their branch: it would index memory instead.
    if (kFirst + i < T::kTokens / 2) {
      asm volatile("fma.rn.f32 %0, %1, %2, %3;"
                   : "=f"(out[i])
                   : "f"(sums[kBlock][kFirst + i]), "f"(terms.factor[kBlock][h]),
                     "f"(terms.offset[kBlock][h]));
    }
  }
}

// Calls f<index>(), where kBegin <= index < kEnd. Registers have no indices at run time, so a tree
// of branches leads to the instructions that name them, and all the rest of the epilogue is a loop:
// unrolled, it would wait for its own instructions.
template <int kBegin, int kEnd, class F>
__device__ __forceinline__ void call_with(int index, const F& f) {
  if constexpr (kEnd - kBegin == 1) {
    f.template operator()<kBegin>();
  } else {
    constexpr int kMiddle = (kBegin + kEnd) / 2;
    if (index < kMiddle)
      call_with<kBegin, kMiddle>(index, f);
    else
      call_with<kMiddle, kEnd>(index, f);
  }
}

// activate() times `unit`. The short form is within 2^-11 max(1, |x|) of it, has half as many
// special functions, and is for finite x: sums of e4m3 are, and biases ought to be.
template <Activation kActivation, bool kIsShort>
__device__ __forceinline__ float activated(float x, float unit) {
  if constexpr (!kIsShort || kActivation == Activation::kNone) {
    return activate(kActivation, x) * unit;  // nothing if that is 1
  } else {
    constexpr double kRoot = 0.7978845608028654;  // sqrt(2 / pi)
    constexpr auto kLinear = static_cast<float>(kRoot);
    constexpr auto kCubic = static_cast<float>(0.044715 * kRoot);
    const float half = __fmul_rn(x, __fmul_rn(0.5f, unit));
    float t = kActivation == Activation::kGeluTanh
                  ? __fmul_rn(x, __fmaf_rn(kCubic, __fmul_rn(x, x), kLinear))
                  : __fmul_rn(0.5f, x);
    asm("tanh.approx.f32 %0, %0;" : "+f"(t));
    return __fmaf_rn(half, t, half);
  }
}

template <Activation kActivation, bool kIsShort>
__device__ __forceinline__ void activate(Chunk& x, float unit) {
#pragma unroll
  for (int i = 0; i < kChunkSums; ++i) x[i] = activated<kActivation, kIsShort>(x[i], unit);
}

// The product of the gate in the first block and the second, both rounded as y would have been,
// takes the place of the gate. It has the bits of glu().
template <Activation kActivation, class Out>
__device__ __forceinline__ void gate(Chunk& x, const Chunk& up, const Divisor& divisor) {
  const auto low = [](uint32_t pair) { return __uint_as_float(pair << 16); };
  const auto high = [](uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); };
  const auto stored = [&](float y) {
    if constexpr (std::is_same_v<Out, e4m3>)
      return quotient(y, divisor);
    else
      return y;
  };
#pragma unroll
  for (int i = 0; i < kChunkSums; i += 2) {
    const uint32_t gates = packed_bf16(x[i], x[i + 1]), ups = packed_bf16(up[i], up[i + 1]);
    x[i] = stored(gated(kActivation, low(gates), low(ups)));
    x[i + 1] = stored(gated(kActivation, high(gates), high(ups)));
  }
}

// Writes the chunks of a block of channels: through shared memory, so that neighbouring threads
// write neighbouring channels. Two buffers take turns: one barrier orders the writes of a buffer
// before its reads, and the reads before it before the writes after it.
//
// In a matrix of 16-bit values row l/4 is a channel; of e4m3 two are paired, 8 channels apart.
template <class T, class Out>
class Writer {
 public:
  __device__ Writer(const Problem& p, const Matrix& y, const Consumer& me, const Range& tokens,
                    int first_token, int first_channel)
      : me_(me),
        first_(tokens.begin - row_of(me)),
        end_(tokens.end - row_of(me)),
        columns_(p.width - first_channel - me.thread % kPieces * 16 / kElement),
        from_(place(row_of(me), me.thread % kPieces)),
        to_(target(me)),
        row_bytes_(static_cast<uint32_t>(y.stride) * kElement),
        out_(static_cast<std::byte*>(y.data) + (first_token + row_of(me)) * y.stride * kElement +
             first_channel * kElement + me.thread % kPieces * 16) {}

  __device__ __forceinline__ void operator()(const Chunk& x, int chunk, int block, uint32_t buffers,
                                             uint32_t& buffer) const {
    const bool is_inside = block * kBlockChannels < columns_;
    std::byte* const out = out_ + block * kRowBytes;
#pragma unroll
    for (int step = 0; step < kChunkTokens / kStepTokens; step += kTogether * kSteps) {
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        uint32_t matrices[4];
#pragma unroll
        for (int m = 0; m < 4; ++m) matrices[m] = matrix(x, step + i * kSteps, m);
        sm90::store_transposed(buffer + i * kMatrixBytes + to_, matrices);
      }
      sync_threads(kGroups + me_.group, sm90::kWarpGroup);
      uint4 values[kTogether];
#pragma unroll
      for (int i = 0; i < kTogether; ++i)
        values[i] = ordered(sm90::load_shared(buffer + i * kMatrixBytes + from_));
      buffer = 2 * buffers + T::kStagingBytes - buffer;  // the other one
#pragma unroll
      for (int i = 0; i < kTogether; ++i) {
        const int token = chunk * kChunkTokens + (step + i * kSteps) * kStepTokens;
        if (is_inside && first_ <= token && token < end_)
          *reinterpret_cast<uint4*>(out + static_cast<uint64_t>(token) * row_bytes_) = values[i];
      }
    }
  }

 private:
  static constexpr int kElement = sizeof(Out);
  static constexpr bool kIsWide = kElement == 2;
  static constexpr int kMatrices = kIsWide ? 2 : 1;  // of eight tokens
  static constexpr int kSteps = 4 / kMatrices;       // of eight tokens, for four matrices
  static constexpr int kTogether = kIsWide ? T::kStagingBytes / kMatrixBytes : 1;  // in a buffer
  static constexpr int kRowBytes = kBlockChannels * kElement;
  static constexpr int kPieces = kRowBytes / 16;
  static_assert(kSteps * kStepTokens * kRowBytes == kMatrixBytes);
  static_assert(kSteps * kStepTokens * kPieces == sm90::kWarpGroup);

  static __device__ __forceinline__ int row_of(const Consumer& me) { return me.thread / kPieces; }

  // Of 16 bytes of a row in a buffer: turned so that the same piece of eight rows has all banks.
  static __device__ __forceinline__ uint32_t place(int row, int piece) {
    return row * kRowBytes + (piece ^ (row / (8 / kPieces) & (kPieces - 1))) * 16;
  }

  // Where lane l points: at row l%8 of matrix l/8.
  static __device__ __forceinline__ uint32_t target(const Consumer& me) {
    const int matrix = me.lane / 8;
    const int token = matrix / kMatrices * kStepTokens + me.lane % 8;
    return place(token, me.warp * kMatrices + matrix % kMatrices);
  }
  // The values of this lane in one of the four matrices that start at this step.
  static __device__ __forceinline__ uint32_t matrix(const Chunk& x, int first_step, int m) {
    const float* v = x + 4 * (first_step + m / kMatrices) + m % kMatrices * 2;
    if constexpr (kIsWide)
      return packed_bf16(v[0], v[1]);
    else
      return packed_e4m3(v[0], v[2]) | packed_e4m3(v[1], v[3]) << 16;
  }
  // Sixteen bytes of a row, in the order of the channels.
  static __device__ __forceinline__ uint4 ordered(uint4 x) {
    if constexpr (kIsWide) return x;
    constexpr uint32_t kEven = 0x6420, kOdd = 0x7531;  // bytes of a pair of words
    return {__byte_perm(x.x, x.y, kEven), __byte_perm(x.z, x.w, kEven), __byte_perm(x.x, x.y, kOdd),
            __byte_perm(x.z, x.w, kOdd)};
  }

  const Consumer& me_;
  const int first_, end_;     // tokens to be written, as seen from row 0
  const int columns_;         // of y from this thread's on
  const uint32_t from_, to_;  // of this thread in a buffer
  const uint32_t row_bytes_;
  std::byte* const out_;
};

template <class T, class Out, Activation kActivation, bool kIsGated>
__device__ __forceinline__ void store_as(const Problem& p, const Matrix& y, const Consumer& me,
                                         const Terms<T>& terms, const Range& tokens,
                                         int channel_tile, int first_token, uint32_t buffers,
                                         uint32_t& buffer, const Sums<T>& sums) {
  constexpr int kBlocks = kIsGated ? 1 : T::kBlocks;
  // Both the sums and what is stored are coarser than the short form.
  constexpr bool kIsShort = std::is_same_v<typename T::Element, e4m3> && std::is_same_v<Out, e4m3>;
  const float unit = std::is_same_v<Out, e4m3> ? p.divisor.reciprocal : 1.0f;
  const Writer<T, Out> write(p, y, me, tokens, first_token,
                             (channel_tile * kConsumers + me.group) * kBlocks * kBlockChannels);
#pragma unroll 1
  for (int chunk = tokens.begin / kChunkTokens; chunk * kChunkTokens < tokens.end; ++chunk) {
#pragma unroll 1
    for (int block = 0; block < kBlocks; ++block) {
      Chunk x;
      if constexpr (kIsGated) {
        Chunk up;
        call_with<0, kChunks<T>>(chunk, [&]<int kChunk>() {
          take<T, 0, kChunk>(sums, terms, x);
          take<T, 1, kChunk>(sums, terms, up);
        });
        gate<kActivation, Out>(x, up, p.divisor);
      } else {
        call_with<0, kBlocks * kChunks<T>>(block * kChunks<T> + chunk, [&]<int kIndex>() {
          take<T, kIndex / kChunks<T>, kIndex % kChunks<T>>(sums, terms, x);
        });
        activate<kActivation, kIsShort>(x, unit);
      }
      write(x, chunk, block, buffers, buffer);
    }
  }
}

template <class T>
__device__ __forceinline__ void store(const Problem& p, const Consumer& me, const Terms<T>& terms,
                                      const Range& tokens, int channel_tile, int first_token,
                                      uint32_t buffers, uint32_t& buffer, const Sums<T>& sums) {
  const LinearEpilogue& e = p.epilogue;
  const auto store_to = [&]<Activation kActivation, bool kIsGated>(const Matrix& y) {
    const auto store_type = [&]<class Out>() {
      store_as<T, Out, kActivation, kIsGated>(p, y, me, terms, tokens, channel_tile, first_token,
                                              buffers, buffer, sums);
    };
    if (y.type == DType::kE4M3)
      store_type.template operator()<e4m3>();
    else
      store_type.template operator()<bf16>();
  };
  if constexpr (T::kCanGate) {
    if (p.up && e.gate_activation == Activation::kGeluTanh)
      return store_to.template operator()<Activation::kGeluTanh, true>(e.out);
    if (p.up) return store_to.template operator()<Activation::kSilu, true>(e.out);
  }
  if (e.activation == Activation::kGeluTanh)
    store_to.template operator()<Activation::kGeluTanh, false>(e.y);
  else if (e.activation == Activation::kSilu)
    store_to.template operator()<Activation::kSilu, false>(e.y);
  else
    store_to.template operator()<Activation::kNone, false>(e.y);
}

template <class T>
__device__ __forceinline__ void consume(const Problem& p, const Place& at, const Range& k,
                                        const Shared<T>& shared, int rows, Walk<T> walk) {
  const int thread = threadIdx.x % sm90::kWarpGroup;
  // The same in all lanes, which the compiler learns from the shuffle.
  const int group = __shfl_sync(kAllLanes, threadIdx.x / sm90::kWarpGroup, 0);
  const Consumer me{
      .group = group, .thread = thread, .warp = thread / kWarp, .lane = thread % kWarp};
  const uint32_t buffers = shared.staging(me.group);
  uint32_t buffer = buffers;
  const Release<T> release(p.cluster, at, shared, me.lane);
  const bool has_more_tiles = walk.count > walk.stride && p.cluster.splits == 1;
  int lead = has_more_tiles && k.end > kLeadBlocks ? kLeadBlocks - 1 : -1;
  Ring<T> ring;
  for (; walk.has_tile(); walk.advance()) {
    const int channel_tile = walk.channel_tile(p, at);
    const int first_token = walk.token_tile(p, at) * T::kTokens;
    const Operands<T> operands = operands_of<T>(p, me, channel_tile);
    Sums<T> sums;
    multiply<T>(k, shared, me, release, lead, ring, sums);
    lead = -1;
    Range tokens = own_tokens<T>(p, at);
    if constexpr (T::kCanSplit) {
      if (p.cluster.splits > 1) add_splits<T>(p, at, shared, me, tokens, sums);
    }
    tokens.end = min(tokens.end, rows - first_token);
    store<T>(p, me, terms_of<T>(p, operands), tokens, channel_tile, first_token, buffers, buffer,
             sums);
    if (p.cluster.splits > 1) cluster_wait();
  }
}

#endif  // __CUDA_ARCH_FEAT_SM90_ALL

template <class T>
__global__ void __launch_bounds__(kThreads, 1)
    linear_wgmma_kernel(const __grid_constant__ Problem p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(sm90::kTileAlignment) uint8_t memory[];
  const Shared<T> shared{shared_address(memory)};
  const Place at = place_of(p.cluster, sm90::cluster_rank());
  const unsigned cluster = blockIdx.x / static_cast<unsigned>(p.cluster.size());
  const Range k = k_range(p, at);
  const Masks masks = masks_of(p.cluster, at);
  const Loader<T> loader(p, at, masks, shared);
  const bool is_producer = threadIdx.x >= kConsumerThreads;
  const bool is_alone = p.cluster.size() == 1;
  int begun = 0;
  if (is_producer) {
    prepare(p, shared);
    if (is_alone) begun = begin(p, at, k, loader, cluster);
  }
  // The barriers of all blocks are initialised before anyone else uses them.
  if (is_alone)
    __syncthreads();
  else
    sm90::cluster_start();
  if (is_producer) {
    sm90::give_registers<kProducerRegisters>();
    if (!is_alone) begun = begin(p, at, k, loader, cluster);
    const int rows = rows_after_previous(p);
    produce<T>(p, at, k, loader, begun, shared, Walk<T>(p, cluster, rows));
  } else {
    sm90::take_registers<kConsumerRegisters>();
    const int rows = rows_after_previous(p);
    consume<T>(p, at, k, shared, rows, Walk<T>(p, cluster, rows));
  }
#endif
}

// ---- host

struct TileKernel {
  void (*kernel)(Problem);
  size_t shared_bytes;
  int channels, tokens;
  bool can_split, can_gate;
};
template <class T>
constexpr TileKernel kernel_of_tile() {
  return {.kernel = linear_wgmma_kernel<T>,
          .shared_bytes = T::kSharedBytes,
          .channels = T::kChannels,
          .tokens = T::kTokens,
          .can_split = T::kCanSplit,
          .can_gate = T::kCanGate};
}

enum TileShape {
  k128x64,
  k128x88,
  k128x112,
  k128x128,
  k128x136,
  k128x176,
  k128x200,
  k128x216,
  k128x256,
  k256x88,
  k256x128,
  k256x176
};
template <class Element>
constexpr TileKernel kTileKernels[] = {
    kernel_of_tile<Tile<Element, 1, 64>>(),  kernel_of_tile<Tile<Element, 1, 88>>(),
    kernel_of_tile<Tile<Element, 1, 112>>(), kernel_of_tile<Tile<Element, 1, 128>>(),
    kernel_of_tile<Tile<Element, 1, 136>>(), kernel_of_tile<Tile<Element, 1, 176>>(),
    kernel_of_tile<Tile<Element, 1, 200>>(), kernel_of_tile<Tile<Element, 1, 216>>(),
    kernel_of_tile<Tile<Element, 1, 256>>(), kernel_of_tile<Tile<Element, 2, 88>>(),
    kernel_of_tile<Tile<Element, 2, 128>>(), kernel_of_tile<Tile<Element, 2, 176>>(),
};

// Channels x tokens of a tile; tiles along both that share what they read; parts of D.
struct Configuration {
  const char* name;
  TileShape shape;
  Cluster cluster;
};
constexpr Configuration kConfigurations[] = {
    {"256x176", k256x176, {1, 1, 1}},
    {"256x128", k256x128, {1, 1, 1}},
    {"256x128 cluster 1x2", k256x128, {1, 2, 1}},
    {"256x88", k256x88, {1, 1, 1}},
    {"256x88 cluster 1x2", k256x88, {1, 2, 1}},
    {"128x256 split 2", k128x256, {1, 1, 2}},
    {"128x216", k128x216, {1, 1, 1}},
    {"128x216 split 4", k128x216, {1, 1, 4}},
    {"128x200", k128x200, {1, 1, 1}},
    {"128x200 split 2", k128x200, {1, 1, 2}},
    {"128x176", k128x176, {1, 1, 1}},
    {"128x136", k128x136, {1, 1, 1}},
    {"128x136 split 2", k128x136, {1, 1, 2}},
    {"128x128", k128x128, {1, 1, 1}},
    {"128x128 cluster 2x2", k128x128, {2, 2, 1}},
    {"128x128 split 2", k128x128, {1, 1, 2}},
    {"128x128 cluster 2x2 split 2", k128x128, {2, 2, 2}},
    {"128x112 cluster 2x2 split 2", k128x112, {2, 2, 2}},
    {"128x88", k128x88, {1, 1, 1}},
    {"128x88 cluster 1x2", k128x88, {1, 2, 1}},
    {"128x88 cluster 2x2", k128x88, {2, 2, 1}},
    {"128x88 split 2", k128x88, {1, 1, 2}},
    {"128x88 cluster 1x2 split 3", k128x88, {1, 2, 3}},
    {"128x88 cluster 2x2 split 2", k128x88, {2, 2, 2}},
    {"128x64", k128x64, {1, 1, 1}},
    {"128x64 cluster 1x2", k128x64, {1, 2, 1}},
    {"128x64 cluster 1x4", k128x64, {1, 4, 1}},
    {"128x64 split 2", k128x64, {1, 1, 2}},
    {"128x64 split 3", k128x64, {1, 1, 3}},
    {"128x64 split 6", k128x64, {1, 1, 6}},
};
constexpr auto kNames = [] {
  std::array<const char*, std::size(kConfigurations)> names{};
  for (size_t i = 0; i < names.size(); ++i) names[i] = kConfigurations[i].name;
  return names;
}();

const TileKernel& tile_kernel(const LinearArgs& args, const Configuration& c) {
  return args.x.type == DType::kE4M3 ? kTileKernels<e4m3>[c.shape] : kTileKernels<bf16>[c.shape];
}

int64_t divided_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The tiles of y along channels and tokens, in whole clusters.
struct Grid {
  int64_t channels, tokens;

  int64_t clusters() const { return channels * tokens; }
};
Grid grid_of(const LinearArgs& args, const Configuration& c, const TileKernel& tile) {
  const int64_t width = args.glu ? args.glu->y.width : args.y.width;
  const int64_t channels = args.glu ? tile.channels / 2 : tile.channels;
  return {divided_up(width, channels * c.cluster.channels()),
          divided_up(args.x.rows, int64_t{tile.tokens} * c.cluster.tokens())};
}

constexpr int kAlignment = 16;  // of rows: what the copy engine and vector stores ask for

bool accepts_operands(const LinearArgs& args) {
  const Matrix& x = args.x;
  if (x.type != args.weight.type || (x.type != DType::kE4M3 && x.type != DType::kBF16))
    return false;
  if (!is_aligned(x, kAlignment) || !is_aligned(args.weight, kAlignment)) return false;
  if (args.shift && args.shift.type != DType::kF32) return false;
  if (args.residual || args.rope || args.euler || !has_short_formula(args.activation)) return false;
  if (args.glu) return can_gate(args) && is_aligned(args.glu->y, kAlignment);
  return is_packed(args.y) && is_aligned(args.y, kAlignment);
}

}  // namespace

std::span<const char* const> linear_wgmma_configurations() { return kNames; }

bool linear_wgmma_accepts(const LinearArgs& args, int configuration, const DeviceInfo& device) {
  constexpr int kMinRows = 17;  // fewer are for linear_skinny and linear_stream
  if (device.compute_capability() != 90 || !device.is_specialised) return false;
  if (args.x.rows < kMinRows || !accepts_operands(args)) return false;
  const Configuration& c = kConfigurations[configuration];
  const TileKernel& tile = tile_kernel(args, c);
  if (tile.shared_bytes > device.shared_bytes_per_block || (args.glu && !tile.can_gate))
    return false;
  // A tile is no larger than what it computes by far, unless few rows need it for their gate (then
  // it takes them without the gate as well), nor a cluster at all, and D is split only to occupy
  // the device.
  if (!tile.can_gate && args.x.rows * 4 < tile.tokens) return false;
  const int64_t width = args.glu ? args.glu->y.width : args.y.width;
  const int64_t channels = args.glu ? tile.channels / 2 : tile.channels;
  if (divided_up(width, channels) < c.cluster.channels()) return false;
  if (divided_up(args.x.rows, tile.tokens) < c.cluster.tokens()) return false;
  if (c.cluster.splits == 1) return true;
  const int64_t row_bytes = args.x.width * static_cast<int64_t>(size_of(args.x.type));
  return tile.can_split && divided_up(row_bytes, sm90::kSwizzleBytes) >= c.cluster.splits &&
         grid_of(args, c, tile).clusters() * c.cluster.size() <= device.multiprocessors;
}

const char* linear_wgmma(const LinearArgs& args, int configuration, const Launch& launch) {
  check_linear(kName, args);
  const Configuration& c = kConfigurations[configuration];
  check_accepted(linear_wgmma_accepts(args, configuration, *launch.device), kName, c.name, args);
  const TileKernel& tile = tile_kernel(args, c);
  const Matrix& y = args.glu ? args.glu->y : args.y;
  const WeightView& w = args.weight;
  const auto element = static_cast<int64_t>(size_of(args.x.type));

  Problem p;
  // Both halves of a gated tile come in blocks; else few large boxes are asked for sooner.
  p.box_channels =
      std::min(args.glu ? kBlockChannels : tile.channels, tile.channels / c.cluster.tokens());
  const int unit = sm90::kSwizzleRows * c.cluster.channels();
  p.box_tokens = (tile.tokens + unit - 1) / unit * sm90::kSwizzleRows;
  p.stage_bytes = (tile.channels + p.box_tokens * c.cluster.channels()) * sm90::kSwizzleBytes;
  p.weight = swizzled_tensor_map(w.data, w.type, w.rows, w.width, w.stride, p.box_channels);
  p.x = swizzled_tensor_map(args.x.data, args.x.type, args.x.rows, args.x.width, args.x.stride,
                            p.box_tokens);
  p.epilogue = epilogue_of(args);
  p.divisor = divisor_of(y);
  p.rows = args.x;
  p.cluster = c.cluster;
  p.width = static_cast<int>(y.width);
  p.up = args.glu ? static_cast<int>(y.width) : 0;
  p.channel_groups = static_cast<unsigned>(grid_of(args, c, tile).channels);
  p.k_blocks = static_cast<int>(divided_up(args.x.width * element, sm90::kSwizzleBytes));

  const int size = c.cluster.size();
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {static_cast<unsigned>(size), 1, 1};
  const cudaLaunchConfig_t config{.gridDim = dim3(size),
                                  .blockDim = dim3(kThreads),
                                  .dynamicSmemBytes = tile.shared_bytes,
                                  .attrs = &attribute,
                                  .numAttrs = 1};
  check(cudaFuncSetAttribute(tile.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(tile.shared_bytes)),
        kName);
  int resident = 0;  // clusters
  check(cudaOccupancyMaxActiveClusters(&resident, tile.kernel, &config), kName);
  FLASHRT_CHECK(resident > 0, kName, ": no cluster of ", size, " blocks with ", tile.shared_bytes,
                " bytes of shared memory fits on ", launch.device->name);
  const int64_t clusters = std::min<int64_t>(grid_of(args, c, tile).clusters(), resident);
  const int64_t blocks = clusters * size;
  p.clusters = static_cast<unsigned>(clusters);
  p.is_one_wave = clusters == grid_of(args, c, tile).clusters();
  launch_kernel(kName, tile.kernel, dim3(static_cast<unsigned>(blocks)), dim3(kThreads),
                tile.shared_bytes, launch, size, p);
  return kName;
}

}  // namespace flashrt::cuda
