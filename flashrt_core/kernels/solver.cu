// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// euler_step: actions += step * velocity, with optional guidance towards the previous chunk.
//
// Layout    actions, velocity, previous: [N, A]; weights: [N].
// Work      one thread per element, any shape and type of velocity.
// Traffic   a few kilobytes; only the launch counts.
// Numerics  float32; a weight of zero takes the unguided path and so has its bits, which are also
//           those of the linear that does the step itself.
// Reference backends/cpu/solver.cpp
#include "kernels/common.cuh"
#include "kernels/solver.cuh"

namespace flashrt::cuda {
namespace {

constexpr int kThreads = 128;

__global__ void __launch_bounds__(kThreads)
    euler_step_kernel(const __grid_constant__ EulerArgs args) {
  wait_for_previous();
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int64_t row = index / args.actions.width, column = index % args.actions.width;
  if (row >= valid_rows(args.actions)) return;
  if (args.committed_rows && row < *args.committed_rows) {
    store(args.actions, row, column, load(args.previous, row, column));
    return;
  }
  const float action = load(args.actions, row, column);
  float velocity = load(args.velocity, row, column);
  const float weight = args.weights ? args.weights[row] : 0.0f;
  if (weight != 0.0f) {
    const float x1 = action - *args.time * velocity;
    velocity -= *args.guidance * weight * (load(args.previous, row, column) - x1);
  }
  store(args.actions, row, column, euler_advanced(action, args.step, velocity));
}

}  // namespace

const char* euler_step(const EulerArgs& args, const Launch& launch) {
  constexpr const char* kName = "euler_step";
  const int64_t rows = args.actions.rows, width = args.actions.width;
  check_operand(kName, "actions", args.actions, rows, width);
  check_operand(kName, "velocity", args.velocity, rows, width);
  const bool is_guided{args.previous};
  FLASHRT_CHECK(is_guided == bool(args.time) && is_guided == bool(args.guidance) &&
                    is_guided == bool(args.weights) && is_guided == bool(args.committed_rows),
                kName, ": time, guidance, previous, weights and committed_rows come together");
  if (is_guided) check_operand(kName, "previous", args.previous, rows, width);
  for (const Matrix* m : {&args.actions, &args.previous}) {
    FLASHRT_CHECK(!*m || m->type == DType::kF32, kName, ": ",
                  m == &args.actions ? "actions" : "previous", " is ", m->type, ", expected f32");
  }
  launch_kernel(kName, euler_step_kernel,
                dim3(static_cast<unsigned>((rows * width + kThreads - 1) / kThreads)), kThreads, 0,
                launch, 1, args);
  return kName;
}

}  // namespace flashrt::cuda
