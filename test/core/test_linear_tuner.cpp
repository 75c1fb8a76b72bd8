// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// The implementations of linear at the call of the tuner, and how it chooses among them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <set>

#include "backends/cuda/linear_scratch.hpp"
#include "backends/cuda/linear_tuner.hpp"
#include "cuda_fixture.hpp"
#include "temporary_folder.hpp"

namespace flashrt::cuda {
namespace {

using Family = LinearChoice::Family;
using Route = LibraryChoice::Route;

// The scratch operands take only presence and alignment from an address.
void* const kSomewhere = reinterpret_cast<void*>(uintptr_t{4096});

constexpr int kPairHeadDim = 64;  // of heads that follow a linear

Matrix matrix(int64_t rows, int64_t width, DType type) {
  return {.data = kSomewhere, .type = type, .rows = rows, .width = width, .stride = width};
}

LinearArgs linear(int64_t rows, int64_t depth, int64_t width, DType x, DType y,
                  int64_t scale_count = 0) {
  return {.x = matrix(rows, depth, x),
          .weight = {.data = kSomewhere,
                     .type = x,
                     .rows = width,
                     .width = depth,
                     .stride = depth,
                     .scales = scale_count ? static_cast<const float*>(kSomewhere) : nullptr,
                     .scale_count = scale_count},
          .y = matrix(rows, width, y)};
}

LinearArgs with_epilogue(LinearArgs args, DType residual) {
  args.bias = static_cast<const float*>(kSomewhere);
  args.activation = Activation::kGeluTanh;
  args.residual = matrix(args.y.rows, args.y.width, residual);
  return args;
}

LinearArgs with_residual(LinearArgs args) {
  args.residual = matrix(args.y.rows, args.y.width, args.y.type);
  return args;
}

LinearArgs with_gelu(LinearArgs args) {
  args.bias = static_cast<const float*>(kSomewhere);
  args.activation = Activation::kGeluTanh;
  return args;
}

LinearArgs with_relu(LinearArgs args) {
  args.bias = static_cast<const float*>(kSomewhere);
  args.activation = Activation::kRelu;
  return args;
}

LinearArgs with_shift(LinearArgs args) {
  args.bias = static_cast<const float*>(kSomewhere);
  args.shift = matrix(1, args.y.width, DType::kF32);
  args.activation = Activation::kSilu;
  return args;
}

// Rows that do not touch each other.
LinearArgs with_padding(LinearArgs args) {
  constexpr int64_t kBytes = 16;
  args.x.stride += kBytes / static_cast<int64_t>(size_of(args.x.type));
  args.weight.stride += kBytes / static_cast<int64_t>(size_of(args.weight.type));
  args.y.stride += kBytes / static_cast<int64_t>(size_of(args.y.type));
  return args;
}

LinearArgs with_length(LinearArgs args) {
  args.x.length = args.y.length = static_cast<const int32_t*>(kSomewhere);
  args.x.base = args.y.base = 1;
  return args;
}

LinearArgs with_glu(LinearArgs args, DType y) {
  args.y.data = nullptr;
  args.glu = GluArgs{.gate_up = args.y, .y = matrix(args.y.rows, args.y.width / 2, y)};
  return args;
}

LinearArgs with_rope(LinearArgs args) {
  constexpr int kHeads = 2;
  args.y.data = nullptr;
  args.rope = QkvRopeArgs{.qkv = args.y, .heads = kHeads, .kv_heads = 1, .head_dim = kPairHeadDim};
  args.rope->q = matrix(args.y.rows, kHeads * kPairHeadDim, DType::kBF16);
  args.rope->k = args.rope->v = matrix(args.y.rows, kPairHeadDim, DType::kBF16);
  return args;
}

LinearArgs with_weight(LinearArgs args, DType type) {
  args.weight.type = type;
  return args;
}

LinearArgs with_euler(LinearArgs args) {
  args.euler = EulerArgs{.actions = args.y, .velocity = args.y, .step = -0.1f};
  return args;
}

// Calls of every kind, of which every configuration of our own kernels takes some. The last two
// have more tiles of any size than there are multiprocessors.
std::vector<LinearArgs> calls() {
  constexpr DType kF32 = DType::kF32, kBF16 = DType::kBF16, kF16 = DType::kF16,
                  kE4M3 = DType::kE4M3;
  return {with_glu(linear(10, 4096, 128, kE4M3, kBF16, 128), kE4M3),
          with_glu(linear(50, 4096, 128, kE4M3, kBF16, 128), kE4M3),
          with_glu(with_weight(linear(10, 4096, 128, kF16, kBF16, 128), kE4M3), kF16),
          with_glu(with_weight(linear(50, 4096, 128, kF16, kBF16, 128), kE4M3), kF16),
          with_glu(linear(50, 1024, 128, kE4M3, kBF16, 128), kE4M3),
          with_glu(with_weight(linear(50, 1024, 128, kF16, kBF16, 128), kE4M3), kF16),
          with_rope(linear(33, 1024, 256, kBF16, kBF16)),
          linear(64, 1024, 64, kBF16, kBF16),
          linear(24, 4096, 256, kE4M3, kBF16, 256),
          linear(51, 1536, 192, kE4M3, kE4M3, 192),
          linear(17, 6144, 128, kE4M3, kBF16, 128),
          linear(51, 1536, 192, kBF16, kBF16),
          linear(17, 1536, 192, kBF16, kBF16),
          linear(1, 1024, 192, kE4M3, kBF16, 1),
          with_gelu(linear(51, 1536, 192, kE4M3, kE4M3, 192)),
          with_gelu(linear(51, 4096, 256, kE4M3, kBF16, 256)),
          with_residual(linear(50, 1536, 192, kBF16, kBF16)),
          with_residual(with_length(with_relu(linear(17, 1024, 128, kBF16, kBF16)))),
          with_relu(linear(50, 1536, 192, kBF16, kF32)),
          with_shift(linear(64, 512, 64, kBF16, kF32)),
          with_length(linear(51, 1536, 192, kE4M3, kBF16, 192)),
          with_shift(linear(51, 1024, 192, kE4M3, kE4M3, 192)),
          with_shift(linear(20, 512, 64, kBF16, kBF16)),
          with_padding(linear(51, 1024, 192, kE4M3, kBF16, 192)),
          with_padding(linear(40, 512, 192, kBF16, kBF16)),
          with_glu(linear(51, 1024, 256, kE4M3, kBF16, 256), kE4M3),
          with_glu(linear(33, 512, 384, kE4M3, kBF16, 384), kBF16),
          with_glu(linear(33, 512, 384, kBF16, kBF16), kBF16),
          with_rope(linear(51, 1024, 256, kE4M3, kBF16, 256)),
          with_rope(linear(51, 1024, 256, kE4M3, kF32, 256)),
          with_weight(linear(51, 1536, 192, kF16, kBF16, 192), kE4M3),
          with_glu(linear(10, 4096, 128, kBF16, kBF16), kBF16),
          with_rope(linear(10, 4096, 256, kE4M3, kBF16, 256)),
          with_rope(with_weight(linear(50, 4096, 256, kF16, kBF16, 256), kE4M3)),
          with_euler(linear(10, 1024, 32, DType::kF32, DType::kF32)),
          with_euler(linear(50, 32, 32, DType::kF32, DType::kF32)),
          with_euler(linear(50, 1024, 128, kF32, kF32)),
          with_euler(linear(3, 128, 30, kF32, kF32)),
          with_shift(linear(50, 128, 192, kF32, kBF16)),
          with_residual(linear(64, 1540, 150, kF32, kF32)),
          with_residual(linear(9, 256, 80, kF32, kF16)),
          with_padding(linear(1, 204, 66, kF32, kF32)),
          with_padding(linear(50, 20, 132, kF32, kF32)),
          with_length(linear(64, 32, 96, kF32, kF32)),
          with_length(linear(43, 2600, 40, kF32, kBF16)),
          with_glu(linear(200, 256, 512, kE4M3, kBF16, 512), kE4M3),
          with_glu(with_length(linear(400, 256, 512, kE4M3, kBF16, 512)), kE4M3),
          with_glu(linear(200, 256, 512, kBF16, kBF16), kBF16),
          linear(10, 4096, 64, kBF16, kBF16),
          linear(64, 4096, 64, kF16, kF16),
          linear(10, 1536, 64, kE4M3, kBF16, 64),
          linear(522, 1024, 384, kE4M3, kBF16, 384),
          linear(522, 1024, 384, kBF16, kBF16),
          linear(648, 1024, 1152, kE4M3, kBF16, 1152),
          linear(522, 128, 11392, kBF16, kBF16),
          with_glu(linear(522, 256, 22784, kE4M3, kBF16, 22784), kE4M3)};
}

LinearArgs without_pair(LinearArgs args) {
  args.glu.reset();
  args.rope.reset();
  args.euler.reset();
  args.y.data = kSomewhere;
  return args;
}

class LinearTunerTest : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (!test_device().info) return;
    device_ = device();
    stream_ = std::make_unique<Stream>();
    library_ = std::make_unique<LibraryGemm>(true, !is_racechecked());
  }

  DeviceInfo device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<LibraryGemm> library_;
};

TEST_F(LinearTunerTest, EveryImplementationGivesTheResultOfTheGenericKernel) {
  constexpr DType kF32 = DType::kF32, kBF16 = DType::kBF16, kF16 = DType::kF16,
                  kE4M3 = DType::kE4M3;
  struct Case {
    LinearArgs args;
    Route route;  // of the library
  };
  for (const Case& c :
       {Case{linear(10, 256, 640, kBF16, kBF16), Route::kDirect},
        Case{linear(522, 256, 1024, kBF16, kBF16), Route::kDirect},
        Case{linear(131, 96, 200, kBF16, kF32), Route::kDirect},
        Case{linear(50, 128, 256, kF16, kF16), Route::kDirect},
        Case{linear(50, 128, 256, kF16, kBF16), Route::kFinish},
        Case{linear(33, 72, 60, kF32, kF32), Route::kDirect},
        Case{linear(50, 1024, 256, kE4M3, kBF16, 1), Route::kDirect},
        Case{linear(522, 2048, 512, kE4M3, kBF16, 1), Route::kDirect},
        Case{linear(512, 256, 512, kE4M3, kE4M3, 1), Route::kFinish},
        Case{with_length(linear(200, 256, 512, kE4M3, kBF16, 1)), Route::kDirect},
        Case{with_residual(linear(64, 256, 512, kBF16, kBF16)), Route::kDirect},
        Case{with_residual(linear(64, 256, 512, kE4M3, kBF16, 1)), Route::kDirect},
        Case{with_epilogue(linear(512, 1152, 256, kE4M3, kE4M3, 256), kBF16), Route::kFinish},
        Case{with_epilogue(linear(10, 1024, 256, kBF16, kBF16), kBF16), Route::kFinish},
        Case{with_epilogue(linear(7, 64, 32, kF32, kF32), kF32), Route::kFinish}}) {
    const LinearScratch scratch(c.args, device_, *stream_);
    const LinearArgs args = scratch.args(0);
    int of_library = 0;
    for (const LinearChoice& choice : linear_choices(args, *library_, device_)) {
      const std::string name = name_of(choice);
      SCOPED_TRACE(text("[", args.x.rows, ", ", args.x.width, "] ", args.x.type, " to [",
                        args.y.width, "] ", args.y.type, ": ", describe(choice)));
      const DeviceBuffer workspace(workspace_bytes(args, choice));
      scratch.reset();
      run_linear(args, choice, *library_, workspace.data(),
                 {.stream = stream_->get(), .device = &device_});
      EXPECT_LE(scratch.error(), allowed_error(args));
      if (choice.family == Family::kLibrary) {
        ++of_library;
        EXPECT_EQ(choice.library.route, c.route);
      }
      const auto restored = restore_linear_choice(name, args, *library_, device_);
      ASSERT_TRUE(restored);
      EXPECT_EQ(name_of(*restored), name);
      EXPECT_LE(workspace_bytes(args, *restored), workspace.size());
    }
    EXPECT_GT(of_library, 0) << args.x.type << " to " << args.y.type;
  }
}

// The rotations of a head, fewer than there are rows: those of the others are computed.
class Rotations {
 public:
  explicit Rotations(int head_dim) : memory_((kPositions + 1) * head_dim * sizeof(float)) {
    const int half = head_dim / 2;
    std::vector<float> table((kPositions + 1) * head_dim);
    for (int j = 0; j < half; ++j) {
      const float frequency = std::pow(10000.0f, -static_cast<float>(j) / static_cast<float>(half));
      table[kPositions * head_dim + j] = frequency;
      for (int position = 0; position < kPositions; ++position) {
        const double angle = static_cast<float>(position) * frequency;
        table[position * head_dim + j] = static_cast<float>(std::cos(angle));
        table[position * head_dim + half + j] = static_cast<float>(std::sin(angle));
      }
    }
    check(cudaMemcpy(memory_.data(), table.data(), memory_.size(), cudaMemcpyHostToDevice),
          "uploading rotations");
    view_ = {.table = memory_.as<const float>(),
             .inverse_frequencies = memory_.as<const float>() + kPositions * head_dim,
             .positions = kPositions};
  }

  const RopeTableView& view() const { return view_; }

 private:
  static constexpr int kPositions = 24;
  DeviceBuffer memory_;
  RopeTableView view_;
};

// The linear of a pair by itself, y in memory of its own, and then the operation that follows.
void run_apart(const LinearArgs& pair, const LinearChoice& choice, const LibraryGemm& library,
               const Launch& launch) {
  LinearArgs alone = pair;
  alone.glu.reset();
  alone.rope.reset();
  alone.euler.reset();
  DeviceBuffer kept(pair.y.rows * pair.y.stride * size_of(pair.y.type));
  if (!pair.euler) alone.y.data = kept.data();
  run_linear(alone, choice, library, nullptr, launch);
  if (pair.glu) {
    GluArgs next = *pair.glu;
    next.gate_up = alone.y;
    glu(next, launch);
  } else if (pair.rope) {
    QkvRopeArgs next = *pair.rope;
    next.qkv = alone.y;
    qkv_rope(next, launch);
  } else if (pair.euler) {
    euler_step(*pair.euler, launch);
  }
  check(cudaStreamSynchronize(launch.stream), "running a pair apart");
}

// With what they do as well, which the library does not, and with the bits of the operations one
// after the other. Every configuration takes part.
TEST_F(LinearTunerTest, EveryKernelOfOurOwnDoesWhatFollowsToo) {
  // Much for every block, less than a share for each of them, and rows that do not touch each
  // other. Each ends where its memory ends.
  const auto weight_of = [](const DeviceBuffer& memory, int64_t rows, int64_t stride) {
    const int64_t width = static_cast<int64_t>(memory.size()) - (rows - 1) * stride;
    return WeightView{.data = memory.data(),
                      .type = DType::kE4M3,
                      .rows = rows,
                      .width = width,
                      .stride = stride};
  };
  const DeviceBuffer large(1 << 22), row(4080), padded(2 * 64 + 48);
  const std::array next_weights{weight_of(large, 1 << 12, 1 << 10), weight_of(row, 1, 4080),
                                weight_of(padded, 3, 64)};
  const Launch launch{.stream = stream_->get(), .device = &device_};
  const Rotations rotations(kPairHeadDim);
  std::vector<LinearArgs> cases = calls();
  for (const LinearArgs& call : calls()) {
    if (!call.rope) continue;
    cases.push_back(call);
    cases.back().rope->rope = rotations.view();
  }
  std::set<std::string> seen, checked;
  for (const LinearArgs& call : cases) {
    std::vector<LinearChoice> choices;
    for (const LinearChoice& choice : linear_choices(call, *library_, device_)) {
      if (choice.family == Family::kLibrary || choice.family == Family::kGeneric) continue;
      // Under a checker each configuration runs once for each pair of types and what follows.
      const std::string kind =
          text(name_of(choice), " ", call.x.type, " ", call.weight.type, call.glu ? " glu" : "",
               call.rope ? " rope" : "", call.euler ? " euler" : "");
      if (!is_racechecked() || checked.insert(kind).second) choices.push_back(choice);
    }
    if (choices.empty()) continue;
    const LinearScratch scratch(call, device_, *stream_);
    const LinearArgs args = scratch.args(0);
    for (const LinearChoice& choice : choices) {
      SCOPED_TRACE(text("[", args.x.rows, ", ", args.x.width, "] ", args.x.type, " to [",
                        args.y.width, "] ", args.y.type, ": ", describe(choice)));
      scratch.reset();
      run_linear(args, choice, *library_, nullptr, launch);
      EXPECT_LE(scratch.error(), allowed_error(args));
      const auto results = scratch.results();
      if (args.glu || args.rope || args.euler) {
        scratch.reset();
        run_apart(args, choice, *library_, launch);
        EXPECT_TRUE(scratch.results() == results) << "other bits than those of separate calls";
      }
      for (const WeightView& next : next_weights) {  // changes nothing
        LinearArgs with_next = args;
        with_next.next_weight = next;
        scratch.reset();
        run_linear(with_next, choice, *library_, nullptr, launch);
        EXPECT_EQ(scratch.results(), results);
      }
      seen.insert(name_of(choice));
    }
  }
  if (!device_.is_specialised || device_.compute_capability() != 90) return;
  EXPECT_EQ(seen.size(),
            linear_skinny_configurations().size() + linear_stream_configurations().size() +
                linear_f32_configurations().size() + linear_wgmma_configurations().size());
}

// A program that keeps all values runs the choice for a pair without its second call. This asks the
// kernels of a device that need not be there.
TEST(LinearKernelsTest, WhatIsAcceptedAsAPairIsAcceptedAlone) {
  const DeviceInfo device{.name = "an H200",
                          .major = 9,
                          .minor = 0,
                          .multiprocessors = 132,
                          .l2_bytes = size_t{60} << 20,
                          .shared_bytes_per_block = size_t{227} << 10};
  const auto check = [&](const char* family, std::span<const char* const> configurations,
                         bool (*accepts)(const LinearArgs&, int, const DeviceInfo&)) {
    for (int i = 0; i < static_cast<int>(configurations.size()); ++i) {
      int accepted = 0;
      for (const LinearArgs& call : calls()) {
        if (!accepts(call, i, device)) continue;
        ++accepted;
        EXPECT_TRUE(accepts(without_pair(call), i, device))
            << family << " " << configurations[i] << ": [" << call.x.rows << ", " << call.x.width
            << "] " << call.x.type << " to [" << call.y.width << "] " << call.y.type;
      }
      EXPECT_GT(accepted, 0) << family << " " << configurations[i];
    }
  };
  check("wgmma", linear_wgmma_configurations(), linear_wgmma_accepts);
  check("stream", linear_stream_configurations(), linear_stream_accepts);
  check("skinny", linear_skinny_configurations(), linear_skinny_accepts);
  check("f32", linear_f32_configurations(), linear_f32_accepts);
}

// Products of e4m3 are added up as asked for by whatever kernel computes them.
TEST_F(LinearTunerTest, WithoutFastAccumulationNoKernelOfOurOwnIsFast) {
  const LibraryGemm exact(false);
  const auto count = [&](const LinearArgs& args, Family family) {
    const std::vector<LinearChoice> choices = linear_choices(args, exact, device_);
    return std::count_if(choices.begin(), choices.end(),
                         [&](const LinearChoice& choice) { return choice.family == family; });
  };
  const LinearArgs many = linear(522, 256, 512, DType::kE4M3, DType::kBF16, 1);
  EXPECT_EQ(count(many, Family::kWgmma), 0);
  EXPECT_GT(count(many, Family::kLibrary), 0);
  const LinearArgs few = linear(50, 1024, 512, DType::kE4M3, DType::kBF16, 1);
  EXPECT_EQ(count(few, Family::kStream), 0);
  EXPECT_GT(count(few, Family::kSkinny), 0);
  LinearArgs gated = many;
  gated.y.data = nullptr;
  gated.glu = GluArgs{.gate_up = gated.y, .y = matrix(522, 256, DType::kE4M3)};
  EXPECT_FALSE(has_fused_linear(gated, exact, device_));
}

// The per-channel scales of sm_90 are taken where the library has them; elsewhere it has to finish.
TEST_F(LinearTunerTest, ScalesPerChannelAreRightOnEitherRoute) {
  const LinearScratch scratch(linear(522, 512, 768, DType::kE4M3, DType::kBF16, 768), device_,
                              *stream_);
  const std::vector<LibraryChoice> choices = library_->candidates(scratch.args(0));
  ASSERT_FALSE(choices.empty());
  for (const LibraryChoice& choice : choices) {
    const DeviceBuffer workspace(LibraryGemm::workspace_bytes(scratch.args(0), choice));
    scratch.reset();
    library_->run(scratch.args(0), choice, workspace.data(),
                  {.stream = stream_->get(), .device = &device_});
    EXPECT_LE(scratch.error(), allowed_error(scratch.args(0))) << LibraryGemm::describe(choice);
  }
}

// More than a grid has along its second dimension.
TEST_F(LinearTunerTest, ManyRowsAreFinished) {
  const LinearArgs call =
      with_epilogue(linear(70000, 16, 8, DType::kBF16, DType::kBF16), DType::kBF16);
  const LinearScratch scratch(call, device_, *stream_);
  const LinearArgs args = scratch.args(0);
  const std::vector<LibraryChoice> choices = library_->candidates(args);
  ASSERT_FALSE(choices.empty());
  ASSERT_EQ(choices.front().route, Route::kFinish);
  const DeviceBuffer workspace(LibraryGemm::workspace_bytes(args, choices.front()));
  scratch.reset();
  library_->run(args, choices.front(), workspace.data(),
                {.stream = stream_->get(), .device = &device_});
  EXPECT_LE(scratch.error(), allowed_error(args));
}

TEST_F(LinearTunerTest, TheLibraryTakesNeitherMixedTypesNorAFollowingOperation) {
  LinearArgs mixed = linear(10, 64, 64, DType::kF16, DType::kBF16);
  mixed.weight.type = DType::kE4M3;
  EXPECT_TRUE(library_->candidates(mixed).empty());
  LinearArgs joined = linear(10, 64, 64, DType::kBF16, DType::kBF16);
  joined.glu = GluArgs{.gate_up = joined.y, .y = matrix(10, 32, DType::kBF16)};
  EXPECT_TRUE(library_->candidates(joined).empty());
}

TEST_F(LinearTunerTest, NamesThatMeanNothingAreNotRestored) {
  const LinearArgs args = linear(64, 256, 512, DType::kBF16, DType::kBF16);
  const LibraryChoice choice = library_->candidates(args).at(0);
  const std::string name = text("library ", LibraryGemm::name_of(choice));
  ASSERT_TRUE(restore_linear_choice(name, args, *library_, device_));
  for (const std::string& broken :
       {std::string(), std::string("library"), name + " 0", name + "x",
        name.substr(0, name.rfind(' ')), std::string("library direct zz"),
        std::string("wgmma no such configuration"), std::string("skinny "),
        std::string("generic 2")}) {
    EXPECT_FALSE(restore_linear_choice(broken, args, *library_, device_)) << broken;
  }
  LinearArgs finish = args;
  finish.bias = static_cast<const float*>(kSomewhere);
  EXPECT_FALSE(restore_linear_choice(name, finish, *library_, device_))
      << "the library cannot add this bias";
}

TEST_F(LinearTunerTest, AWrongResultIsSeen) {
  const LinearScratch scratch(linear(200, 256, 512, DType::kE4M3, DType::kBF16, 1), device_,
                              *stream_);
  const Launch launch{.stream = stream_->get(), .device = &device_};
  scratch.reset();
  EXPECT_GT(scratch.error(), 1e30) << "nothing was written";
  ASSERT_GT(scratch.copies(), 1);
  linear_generic(scratch.args(1), launch);
  EXPECT_GT(scratch.error(), 1.0) << "another weight";
  LinearArgs scaled = scratch.args(0);
  scaled.x.scale *= 1.5f;
  linear_generic(scaled, launch);
  EXPECT_GT(scratch.error(), allowed_error(scaled)) << "another scale";
  linear_generic(scratch.args(0), launch);
  EXPECT_LE(scratch.error(), allowed_error(scaled)) << "the reference itself";
}

TEST_F(LinearTunerTest, ACallIsTimedOnceAndFoundInTheFileFromThenOn) {
  const TemporaryFolder folder;
  const BackendOptions options{.tuning = folder.path() / "tuning.json"};
  const LinearArgs args = linear(50, 1024, 512, DType::kBF16, DType::kBF16);
  LinearTuner tuner(device_, options);
  std::string chosen = name_of(tuner.choose(args, *stream_));
  ASSERT_EQ(tuner.reports().size(), 1u);
  const LinearReport report = tuner.reports().front();
  double fastest = 1e9, own = 0;
  for (const LinearCandidate& candidate : report.candidates) {
    EXPECT_EQ(candidate.remark.find("wrong"), std::string::npos)
        << candidate.name << ": " << candidate.remark;
    EXPECT_EQ(candidate.remark.find("refused"), std::string::npos)
        << candidate.name << ": " << candidate.remark;
    if (candidate.microseconds > 0) fastest = std::min(fastest, candidate.microseconds);
    if (candidate.name == report.chosen)  // algorithms may differ in what no attribute tells
      own = own == 0 ? candidate.microseconds : std::min(own, candidate.microseconds);
  }
  EXPECT_GT(own, 0);
  EXPECT_LE(own, 1.25 * fastest) << "of those within 2 % of each other the first";

  EXPECT_EQ(name_of(tuner.choose(args, *stream_)), chosen);
  EXPECT_EQ(tuner.reports().size(), 1u);

  // Where others came close, a program decides, and only then is it in the file.
  const std::string key = tuner.key_of(args);
  if (const LinearTuner::Open* open = tuner.find_open(key)) {
    ASSERT_GT(open->choices.size(), 1u);
    EXPECT_EQ(name_of(open->choices.front()), chosen);
    EXPECT_FALSE(std::filesystem::exists(options.tuning));
    const LinearChoice other = open->choices.back();
    tuner.decide(key, other);
    chosen = name_of(other);
    EXPECT_EQ(tuner.reports().front().chosen, describe(other));
    EXPECT_EQ(name_of(tuner.choose(args, *stream_)), chosen);
  }
  EXPECT_EQ(tuner.find_open(key), nullptr);
  LinearTuner later(device_, options);
  EXPECT_EQ(name_of(later.choose(args, *stream_)), chosen);
  EXPECT_TRUE(later.reports().empty());
  LinearArgs other = args;
  other.bias = static_cast<const float*>(kSomewhere);
  later.choose(other, *stream_);
  EXPECT_EQ(later.reports().size(), 1u) << "another call";

  TuningStore store(options.tuning, {.device = device_.name,
                                     .compute_capability = device_.compute_capability(),
                                     .driver = driver_version(),
                                     .library = LibraryGemm::version(),
                                     .kernels = kLinearKernelsVersion});
  ASSERT_NE(store.find(report.call), nullptr);
  EXPECT_EQ(store.find(report.call)->choice, chosen);
  store.put(report.call, {.choice = "wgmma of another time", .microseconds = 1});
  store.save();
  LinearTuner last(device_, options);
  last.choose(args, *stream_);
  EXPECT_EQ(last.reports().size(), 1u) << "a choice that does not exist is made again";
}

TEST_F(LinearTunerTest, WithoutTimingTheFirstOfTheOrderIsChosen) {
  LinearTuner tuner(device_, {.tune = false});
  const LinearArgs args = linear(50, 1024, 512, DType::kBF16, DType::kBF16);
  const std::vector<LinearChoice> choices = linear_choices(args, *library_, device_);
  EXPECT_EQ(name_of(tuner.choose(args, *stream_)), name_of(choices.front()));
  EXPECT_EQ(choices.back().family, Family::kGeneric);
  EXPECT_TRUE(tuner.reports().empty());
}

}  // namespace
}  // namespace flashrt::cuda
