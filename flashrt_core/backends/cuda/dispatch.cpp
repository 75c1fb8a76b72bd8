// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "backends/cuda/dispatch.hpp"

#include <algorithm>
#include <map>

#include "kernels/add_norm.cuh"
#include "kernels/embed.cuh"
#include "kernels/quantize.cuh"
#include "kernels/resize.cuh"

namespace flashrt::cuda {
namespace {

// The calls that read a value or a part of its memory.
int reader_count(const Plan& plan, Value value) {
  int count = 0;
  for (const Call& call : plan.calls) {
    for_each_read(call,
                  [&](Value read) { count += plan.storage_of(read) == plan.storage_of(value); });
  }
  return count;
}

// What the patches take of the workspace; what follows them is aligned.
size_t patch_bytes(const Matrix& patches) {
  constexpr size_t kAlignment = 256;
  const size_t bytes = patches.rows * patches.stride * size_of(patches.type);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Whether a value is this third of the columns of another one: q, k or v side by side.
bool is_third(const Plan& plan, Value value, Value whole, int third) {
  const ValueInfo &part = plan[value], &all = plan[whole];
  return plan.storage_of(value) == whole && part.kind == Kind::kView && part.step_stride == 0 &&
         3 * part.shape.width() == all.shape.width() && part.shape.rows() == all.shape.rows() &&
         part.row_stride == all.shape.width() && part.offset == third * part.shape.width();
}

bool is_joinable(const Plan& plan, const Call& first, const Call& second) {
  const auto* linear = std::get_if<Linear>(&first.op);
  if (!linear || plan[linear->y].kind != Kind::kLocal) return false;
  const int readers = reader_count(plan, linear->y);
  if (const auto* op = std::get_if<Attention>(&second.op)) {
    const bool has_keys = plan.storage_of(op->k) == linear->y;
    if (!has_keys) return op->q == linear->y && readers == 1;
    return readers == 3 && is_third(plan, op->q, linear->y, 0) &&
           is_third(plan, op->k, linear->y, 1) && is_third(plan, op->v, linear->y, 2);
  }
  if (readers != 1) return false;
  if (const auto* op = std::get_if<Glu>(&second.op)) return op->gate_up == linear->y;
  if (const auto* op = std::get_if<QkvRope>(&second.op)) return op->qkv == linear->y;
  if (const auto* op = std::get_if<EulerStep>(&second.op))
    return op->velocity == linear->y && !op->previous;
  return false;
}

}  // namespace

std::vector<bool> joinable_calls(const Plan& plan) {
  std::vector<bool> joinable(plan.calls.size(), false);
  for (const Stage& stage : plan.stages) {
    for (int call = stage.first; call + 1 < stage.last; ++call)
      joinable[call] = is_joinable(plan, plan.calls[call], plan.calls[call + 1]);
  }
  return joinable;
}

Dispatch::Dispatch(const Plan& plan, const CudaWeights& weights, const DeviceInfo& device,
                   MatrixOf matrix_of, bool keep_values, LinearTuner& tuner, const Stream& stream)
    : plan_(plan),
      weights_(weights),
      device_(device),
      matrix_of_(std::move(matrix_of)),
      constants_(plan, weights),
      keep_values_(keep_values),
      paired_(joinable_calls(plan)),
      choices_(plan.calls.size()),
      keys_(plan.calls.size()),
      tuner_(tuner),
      kernels_(plan.calls.size()) {
  choose_linears(stream);
}

// ---- binding

const float* Dispatch::vector(const std::string& name) const {
  if (name.empty()) return nullptr;
  const WeightView view = weights_.get(plan_.weight(name));
  FLASHRT_CHECK(view.type == DType::kF32, "weight ", name, " is held as ", view.type,
                ", expected f32");
  return static_cast<const float*>(view.data);
}

const int32_t* Dispatch::integer(Value value, int iteration) const {
  return static_cast<const int32_t*>(matrix_of_(value, iteration).data);
}

const float* Dispatch::number(Value value, int iteration) const {
  return static_cast<const float*>(matrix_of_(value, iteration).data);
}

// Inputs are written before the first launch of a run, which is not dependent.
bool Dispatch::is_settled(Value number) const {
  return !number || plan_[number].kind == Kind::kInput;
}

QkvRopeArgs Dispatch::rope_args(const QkvRope& op, int k) const {
  return {.qkv = matrix_of_(op.qkv, k),
          .heads = op.heads,
          .kv_heads = op.kv_heads,
          .head_dim = op.head_dim,
          .rope = constants_.rope_table(op.rope_base, op.head_dim),
          .position_start = op.position_start,
          .position = integer(op.position, k),
          .position_is_settled = is_settled(op.position),
          .q_norm = vector(op.q_norm),
          .k_norm = vector(op.k_norm),
          .eps = op.eps,
          .q = matrix_of_(op.q, k),
          .k = matrix_of_(op.k, k),
          .v = matrix_of_(op.v, k)};
}

namespace {

EulerArgs euler_args(const EulerStep& op, int k, const Dispatch::MatrixOf& matrix_of) {
  const auto number = [&](Value value) {
    return static_cast<const float*>(matrix_of(value, k).data);
  };
  return {.actions = matrix_of(op.actions, k),
          .velocity = matrix_of(op.velocity, k),
          .step = op.step,
          .time = number(op.time),
          .guidance = number(op.guidance),
          .previous = matrix_of(op.previous, k),
          .weights = number(op.weights),
          .committed_rows = static_cast<const int32_t*>(matrix_of(op.committed_rows, k).data)};
}

GluArgs glu_args(const Glu& op, int k, const Dispatch::MatrixOf& matrix_of) {
  return {
      .activation = op.activation, .gate_up = matrix_of(op.gate_up, k), .y = matrix_of(op.y, k)};
}

}  // namespace

LinearArgs Dispatch::linear_args(int call, int k, bool with_next) const {
  const auto& op = std::get<Linear>(plan_.calls[call].op);
  LinearArgs args{.x = matrix_of_(op.x, k),
                  .weight = weights_.get(plan_.weight(op.weight)),
                  .bias = vector(op.bias),
                  .shift = matrix_of_(op.shift, k),
                  .activation = op.activation,
                  .residual = matrix_of_(op.residual, k),
                  .y = matrix_of_(op.y, k)};
  args.next_weight = next_weight(call);
  if (!with_next) return args;
  const Op& next = plan_.calls[call + 1].op;
  if (const auto* glu = std::get_if<Glu>(&next)) args.glu = glu_args(*glu, k, matrix_of_);
  if (const auto* rope = std::get_if<QkvRope>(&next)) args.rope = rope_args(*rope, k);
  if (const auto* euler = std::get_if<EulerStep>(&next))
    args.euler = euler_args(*euler, k, matrix_of_);
  if (!args.euler) args.y.data = nullptr;
  return args;
}

bool Dispatch::is_projection(int call) const {
  return paired_[call] && std::holds_alternative<Attention>(plan_.calls[call + 1].op);
}

ProjectedAttentionArgs Dispatch::projected_attention_args(int call, int k) const {
  const auto& op = std::get<Attention>(plan_.calls[call + 1].op);
  ProjectedAttentionArgs args{
      .projection = linear_args(call, k, false),
      .attention = attention_args(call + 1, k),
      .has_keys = plan_.storage_of(op.k) == std::get<Linear>(plan_.calls[call].op).y};
  args.projection.y.data = args.attention.q.data = nullptr;
  if (args.has_keys) args.attention.k.data = args.attention.v.data = nullptr;
  return args;
}

// Of the linear behind this one in its stage; where the stage is repeated, of its first one behind
// the last one: in vain after the last time. What follows a stage may be another run of the
// program.
WeightView Dispatch::next_weight(int call) const {
  const Stage& stage = plan_.stage_of(call);
  const auto weight_in = [&](int first, int last) -> WeightView {
    for (int index = first; index < last; ++index) {
      if (const auto* op = std::get_if<Linear>(&plan_.calls[index].op))
        return weights_.get(plan_.weight(op->weight));
    }
    return {};
  };
  const WeightView behind = weight_in(call + 1, stage.last);
  return behind || stage.repeat == 1 ? behind : weight_in(stage.first, call);
}

bool Dispatch::keeps_result(int call) const {
  return !runs_with_next(call) || std::holds_alternative<EulerStep>(plan_.calls[call + 1].op);
}

// The product of a patch embedding: the patches, gathered into the workspace, times the weight,
// plus the positions.
LinearArgs Dispatch::patch_linear_args(const PatchEmbed& op, int k) const {
  const WeightView weight = weights_.get(plan_.weight(op.weight));
  const Matrix y = matrix_of_(op.y, k);
  return {.x = {.data = workspace_.data(),
                .type = weight.type,
                .rows = y.rows,
                .width = weight.width,
                .stride = weight.stride},
          .weight = weight,
          .bias = vector(op.bias),
          .residual = op.positions ? matrix_of_(op.positions, k) : constants_.positions(op),
          .y = y};
}

// Keys of the cache that no call of this repeated stage writes lie at its end: they were there
// before the stage began, with a launch that waits for all before it. Of columns of a value, all or
// none.
int Dispatch::settled_begin(int call) const {
  const auto& op = std::get<Attention>(plan_.calls[call].op);
  const Stage& stage = plan_.stage_of(call);
  const Value cache = plan_.storage_of(op.k), values = plan_.storage_of(op.v);
  if (stage.repeat == 1) return -1;
  int64_t end = 0;
  for (int index = stage.first; index < stage.last; ++index) {
    for_each_write(plan_.calls[index], [&](Value written) {
      if (plan_.storage_of(written) != cache && plan_.storage_of(written) != values) return;
      const ValueInfo& info = plan_[written];
      const int64_t begin = info.kind == Kind::kView ? info.offset / info.row_stride : 0;
      end = std::max(end, begin + info.shape.rows());
    });
  }
  const bool is_part = plan_[op.k].kind == Kind::kView || plan_[op.v].kind == Kind::kView;
  return is_part && end > 0 ? -1 : static_cast<int>(end);
}

AttentionArgs Dispatch::attention_args(int call, int k) const {
  const auto& op = std::get<Attention>(plan_.calls[call].op);
  FLASHRT_CHECK(op.ranges.size() <= AttentionArgs::kMaxRanges, "attention ", plan_.calls[call].name,
                ": ", op.ranges.size(), " key ranges, at most ", AttentionArgs::kMaxRanges);
  AttentionArgs args{.q = matrix_of_(op.q, k),
                     .k = matrix_of_(op.k, k),
                     .v = matrix_of_(op.v, k),
                     .y = matrix_of_(op.y, k),
                     .heads = op.heads,
                     .kv_heads = op.kv_heads,
                     .head_dim = op.head_dim,
                     .scale = op.scale,
                     .is_causal = op.mask == Mask::kCausal,
                     .causal_offset = op.mask == Mask::kCausal ? op.mask_argument : 0,
                     .block = op.mask == Mask::kBlock ? op.mask_argument : 0,
                     .range_count = static_cast<int>(op.ranges.size())};
  for (size_t i = 0; i < op.ranges.size(); ++i) {
    args.ranges[i] = {.begin = op.ranges[i].begin,
                      .count = op.ranges[i].count,
                      .length = integer(op.ranges[i].length, k)};
  }
  args.lengths_are_settled =
      is_settled(plan_[op.q].rows.length) &&
      std::all_of(op.ranges.begin(), op.ranges.end(),
                  [&](const KeyRange& range) { return is_settled(range.length); });
  if (args.lengths_are_settled) args.settled_begin = settled_begin(call);
  return args;
}

// ---- choosing

// Returns the workspace of the choice, or of what may be tried in its place.
size_t Dispatch::choose_linear(int call, const LinearArgs& args, const Stream& stream) {
  choices_[call] = tuner_.choose(args, stream);
  keys_[call] = tuner_.key_of(args);
  size_t bytes = tuner_.workspace_bytes(args, *choices_[call]);
  if (const LinearTuner::Open* open = tuner_.find_open(keys_[call])) {
    for (const LinearChoice& choice : open->choices)
      bytes = std::max(bytes, tuner_.workspace_bytes(args, choice));
  }
  return bytes;
}

void Dispatch::choose_linears(const Stream& stream) {
  size_t bytes = 0;
  for (int call = 0; call < static_cast<int>(plan_.calls.size()); ++call) {
    const Op& op = plan_.calls[call].op;
    if (const auto* patch = std::get_if<PatchEmbed>(&op)) {
      const LinearArgs args = patch_linear_args(*patch, 0);
      bytes = std::max(bytes, patch_bytes(args.x) + choose_linear(call, args, stream));
    } else if (std::holds_alternative<Linear>(op)) {
      if (is_projection(call)) {
        paired_[call] = tuner_.accepts(projected_attention_args(call, 0));
        if (runs_with_next(call)) continue;  // there is one kernel for it
      } else {
        paired_[call] = paired_[call] && tuner_.has_fused(linear_args(call, 0, true));
      }
      const bool with_next = paired_[call] && !is_projection(call);
      bytes = std::max(bytes, choose_linear(call, linear_args(call, 0, with_next), stream));
    }
  }
  workspace_ = DeviceBuffer(bytes);
}

std::vector<Dispatch::OpenLinears> Dispatch::open_linears() const {
  std::map<std::string, OpenLinears> by_key;
  for (const Stage& stage : plan_.stages) {
    for (int call = stage.first; call < stage.last; ++call) {
      const LinearTuner::Open* tuned = tuner_.find_open(keys_[call]);
      if (!tuned) continue;
      OpenLinears& open = by_key[keys_[call]];
      open.key = keys_[call];
      open.calls.push_back(call);
      if (stage.when == When::kInfer)
        open.milliseconds += 1e-3 * stage.repeat * tuned->microseconds;
    }
  }
  std::vector<OpenLinears> all;
  for (auto& [key, open] : by_key) all.push_back(std::move(open));
  return all;
}

void Dispatch::use(const LinearChoice& choice, const std::vector<int>& calls) {
  for (const int call : calls) {
    choices_[call] = choice;
    kernels_[call].clear();
  }
}

// ---- launching

void Dispatch::launch(int call, int iteration, const Launch& launch) {
  const char* kernel = std::visit([&](const auto& op) { return run(op, call, iteration, launch); },
                                  plan_.calls[call].op);
  if (!kernels_[call].empty()) return;  // every launch of a call takes the same way
  if (std::holds_alternative<PatchEmbed>(plan_.calls[call].op)) kernels_[call] = {"patches"};
  constexpr std::string_view kAnd = " + ";  // of a library's product and its finish
  std::string_view names = kernel;
  for (size_t end; (end = names.find(kAnd)) != names.npos; names.remove_prefix(end + kAnd.size()))
    kernels_[call].emplace_back(names.substr(0, end));
  kernels_[call].emplace_back(names);
}

const char* Dispatch::run(const Resize& op, int, int k, const Launch& launch) const {
  const Shape& frames = plan_[op.frames].shape;
  return resize({.frames = static_cast<const uint8_t*>(matrix_of_(op.frames, k).data),
                 .frame_bytes = frames[1],
                 .descriptors = integer(op.descriptors, k),
                 .images = matrix_of_(op.images, k).data,
                 .type = plan_[op.images].type,
                 .cameras = static_cast<int>(frames[0]),
                 .size = static_cast<int>(plan_[op.images].shape[1])},
                launch);
}

const char* Dispatch::run(const PatchEmbed& op, int call, int k, const Launch& launch) const {
  const LinearArgs args = patch_linear_args(op, k);
  const Shape& images = plan_[op.images].shape;
  patches({.images = matrix_of_(op.images, k).data,
           .type = plan_[op.images].type,
           .count = static_cast<int>(images[0]),
           .height = static_cast<int>(images[1]),
           .width = static_cast<int>(images[2]),
           .patch = op.patch,
           .group = op.group,
           .y = args.x},
          launch);
  return tuner_.run(args, *choices_[call], workspace_.data() + patch_bytes(args.x), launch);
}

const char* Dispatch::run(const TokenEmbed& op, int, int k, const Launch& launch) const {
  return token_embed({.tokens = integer(op.tokens, k),
                      .table = weights_.get(plan_.weight(op.table)),
                      .y = matrix_of_(op.y, k)},
                     launch);
}

const char* Dispatch::run(const AddNorm& op, int, int k, const Launch& launch) const {
  return add_norm({.is_layer_norm = op.norm == Norm::kLayer,
                   .eps = op.eps,
                   .residual = matrix_of_(op.residual, k),
                   .delta = matrix_of_(op.delta, k),
                   .gate = matrix_of_(op.gate, k),
                   .scale = matrix_of_(op.scale, k),
                   .shift = matrix_of_(op.shift, k),
                   .committed_gate = matrix_of_(op.committed_gate, k),
                   .committed_scale = matrix_of_(op.committed_scale, k),
                   .committed_shift = matrix_of_(op.committed_shift, k),
                   .committed_rows = integer(op.committed_rows, k),
                   .weight = vector(op.weight),
                   .bias = vector(op.bias),
                   .residual_out = matrix_of_(op.residual_out, k),
                   .y = matrix_of_(op.y, k)},
                  launch);
}

const char* Dispatch::run(const Linear&, int call, int k, const Launch& launch) const {
  if (is_projection(call) && runs_with_next(call))
    return projected_attention(projected_attention_args(call, k), launch);
  const bool with_next = runs_with_next(call);
  return tuner_.run(linear_args(call, k, with_next), *choices_[call], workspace_.data(), launch);
}

const char* Dispatch::run(const QkvRope& op, int, int k, const Launch& launch) const {
  return qkv_rope(rope_args(op, k), launch);
}

const char* Dispatch::run(const Attention&, int call, int k, const Launch& launch) const {
  return attention(attention_args(call, k), launch);
}

const char* Dispatch::run(const Glu& op, int, int k, const Launch& launch) const {
  return glu(glu_args(op, k, matrix_of_), launch);
}

const char* Dispatch::run(const TimeEmbed& op, int, int k, const Launch& launch) const {
  return time_embed({.times = number(op.times, k),
                     .min_period = op.min_period,
                     .max_period = op.max_period,
                     .y = matrix_of_(op.y, k)},
                    launch);
}

const char* Dispatch::run(const EulerStep& op, int, int k, const Launch& launch) const {
  return euler_step(euler_args(op, k, matrix_of_), launch);
}

const char* Dispatch::run(const Quantize& op, int, int k, const Launch& launch) const {
  return quantize({.x = matrix_of_(op.x, k), .y = matrix_of_(op.y, k)}, launch);
}

}  // namespace flashrt::cuda
