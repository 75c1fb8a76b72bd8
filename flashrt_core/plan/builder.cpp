// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "plan/builder.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/frame_descriptor.hpp"

namespace flashrt {
namespace {

std::vector<int64_t> with_rows(int64_t rows, const std::vector<int64_t>& row_shape) {
  std::vector<int64_t> extents{rows};
  extents.insert(extents.end(), row_shape.begin(), row_shape.end());
  return extents;
}

int64_t row_stride_of(const ValueInfo& info) {
  return info.kind == Kind::kView ? info.row_stride : info.shape.width();
}

bool is_same_part(const ValueInfo& a, const ValueInfo& b) {
  return a.kind == b.kind && a.storage == b.storage && a.offset == b.offset &&
         a.row_stride == b.row_stride && a.step_stride == b.step_stride && a.shape == b.shape &&
         a.rows.length == b.rows.length && a.rows.base == b.rows.base;
}

}  // namespace

PlanBuilder::PlanBuilder(std::string model) { plan_.model = std::move(model); }

// ---- values

Value PlanBuilder::add_value(ValueInfo info) {
  const Value value{static_cast<int>(plan_.values.size())};
  const bool is_new = by_name_.try_emplace(info.name, value).second;
  FLASHRT_CHECK(is_new, "plan ", plan_.model, ": value '", info.name, "' exists already");
  plan_.values.push_back(std::move(info));
  return value;
}

Value PlanBuilder::input(std::string name, Shape shape, DType type) {
  const Rows rows{.capacity = shape.rows()};
  return add_value(
      {.name = std::move(name), .kind = Kind::kInput, .type = type, .shape = shape, .rows = rows});
}

Value PlanBuilder::input(std::string name, Rows rows, std::vector<int64_t> row_shape, DType type) {
  return add_value({.name = std::move(name),
                    .kind = Kind::kInput,
                    .type = type,
                    .shape = Shape(with_rows(rows.capacity, row_shape)),
                    .rows = rows});
}

Value PlanBuilder::state(std::string name, Shape shape, DType type) {
  const Rows rows{.capacity = shape.rows()};
  return add_value(
      {.name = std::move(name), .kind = Kind::kState, .type = type, .shape = shape, .rows = rows});
}

Value PlanBuilder::add_local(std::string name, Rows rows, std::vector<int64_t> row_shape) {
  return add_value(
      {.name = std::move(name), .shape = Shape(with_rows(rows.capacity, row_shape)), .rows = rows});
}

Value PlanBuilder::add_view(Value of, std::string name, Shape shape, Rows rows, int64_t offset,
                            int64_t row_stride, int64_t step_stride) {
  const ValueInfo& base = plan_[of];
  const bool is_view = base.kind == Kind::kView;
  ValueInfo view{.name = std::move(name),
                 .kind = Kind::kView,
                 .type = base.type,
                 .shape = std::move(shape),
                 .rows = rows,
                 .storage = is_view ? base.storage : of,
                 .offset = offset + (is_view ? base.offset : 0),
                 .row_stride = row_stride,
                 .step_stride = step_stride + (is_view ? base.step_stride : 0)};
  // The same part has one name and one handle.
  if (const auto known = by_name_.find(view.name); known != by_name_.end()) {
    FLASHRT_CHECK(is_same_part(plan_[known->second], view), "plan ", plan_.model, ": ", view.name,
                  " exists already with another length or place");
    return known->second;
  }
  return add_value(std::move(view));
}

Value PlanBuilder::rows(Value value, int64_t begin, Rows rows) {
  const ValueInfo& info = plan_[value];
  FLASHRT_CHECK(begin >= 0 && begin + rows.capacity <= info.shape.rows(), "rows [", begin, ", ",
                begin + rows.capacity, ") of ", info.name, ": it has ", info.shape.rows());
  std::vector<int64_t> extents = info.shape.extents();
  extents[0] = rows.capacity;
  const int64_t stride = row_stride_of(info);
  return add_view(value, text(info.name, "[", begin, ":", begin + rows.capacity, "]"),
                  Shape(extents), rows, begin * stride, stride, 0);
}

Value PlanBuilder::rows(Value value, int64_t begin, int64_t count) {
  FLASHRT_CHECK(!plan_[value].rows.length, "rows of ", plan_[value].name,
                ": its length is dynamic, give the length");
  return rows(value, begin, Rows{.capacity = count});
}

Value PlanBuilder::columns(Value value, int64_t begin, int64_t count) {
  const ValueInfo& info = plan_[value];
  FLASHRT_CHECK(info.shape.rank() == 2 && begin >= 0 && begin + count <= info.shape[1], "columns [",
                begin, ", ", begin + count, ") of ", info.name, " ", info.shape);
  return add_view(value, text(info.name, "[:, ", begin, ":", begin + count, "]"),
                  Shape{info.shape[0], count}, info.rows, begin, row_stride_of(info), 0);
}

Value PlanBuilder::merge_rows(Value value, int64_t count) {
  const ValueInfo& info = plan_[value];
  const bool is_whole = info.shape.rank() == 2 && row_stride_of(info) == info.shape[1];
  FLASHRT_CHECK(is_whole && !info.rows.length && count > 0 && info.shape[0] % count == 0,
                "merge_rows of ", info.name, " ", info.shape,
                ": expected whole rows, a multiple of ", count, " of them");
  const Shape shape{info.shape[0] / count, count * info.shape[1]};
  return add_view(value, text(info.name, "[", count, " rows in one]"), shape,
                  Rows{.capacity = shape[0]}, 0, shape[1], 0);
}

Value PlanBuilder::at_step(Value value) {
  const ValueInfo& info = plan_[value];
  FLASHRT_CHECK(in_stage_, "at_step(", info.name, ") is in no stage");
  const Stage& stage = plan_.stages.back();
  FLASHRT_CHECK(info.shape.rows() >= stage.repeat, "at_step(", info.name, "): ", info.shape.rows(),
                " rows, stage ", stage.name, " runs ", stage.repeat, " times");
  std::vector<int64_t> extents = info.shape.extents();
  extents[0] = 1;
  const int64_t stride = row_stride_of(info);
  return add_view(value, info.name + "[step]", Shape(extents), Rows{.capacity = 1}, 0, stride,
                  stride);
}

Value PlanBuilder::concat(std::string name, const std::vector<Value>& parts) {
  FLASHRT_CHECK(!parts.empty(), "concat ", name, ": no parts");
  const Shape first = plan_[parts.front()].shape;
  Rows rows;
  for (const Value part : parts) {
    const ValueInfo& info = plan_[part];
    FLASHRT_CHECK(info.kind == Kind::kLocal, "concat ", name, ": ", info.name,
                  " cannot be placed: it is an input, a state, or a part of another value");
    FLASHRT_CHECK(info.shape.width() == first.width() && info.type == plan_[parts.front()].type,
                  "concat ", name, ": ", info.name, " is ", info.shape, " ", info.type,
                  ", the first part is ", first, " ", plan_[parts.front()].type);
    FLASHRT_CHECK(!rows.length, "concat ", name, ": only the last part may have a dynamic length");
    for (const ValueInfo& other : plan_.values) {
      FLASHRT_CHECK(other.kind != Kind::kView || other.storage != part, "concat ", name, ": ",
                    info.name, " cannot be placed: ", other.name, " is a part of it");
    }
    rows.length = info.rows.length;
    rows.base = rows.capacity + info.rows.base;
    rows.capacity += info.rows.capacity;
  }
  std::vector<int64_t> extents = first.extents();
  extents[0] = rows.capacity;
  const Value whole = add_value({.name = std::move(name),
                                 .type = plan_[parts.front()].type,
                                 .shape = Shape(extents),
                                 .rows = rows});
  int64_t row = 0;
  for (const Value part : parts) {
    ValueInfo& info = plan_[part];
    info.kind = Kind::kView;
    info.storage = whole;
    info.row_stride = first.width();
    info.offset = row * info.row_stride;
    row += info.rows.capacity;
  }
  return whole;
}

// ---- calls

std::string PlanBuilder::scoped(const std::string& name) const {
  FLASHRT_CHECK(in_stage_, "plan ", plan_.model, ": call ", name, " is in no stage");
  return plan_.stages.back().name + "." + name;
}

void PlanBuilder::add_call(std::string name, Op op) {
  plan_.calls.push_back({std::move(name), std::move(op)});
  plan_.stages.back().last = static_cast<int>(plan_.calls.size());
}

void PlanBuilder::use_weight(const std::string& name, Shape shape) {
  if (name.empty()) return;
  for (const WeightInfo& info : plan_.weights) {
    if (info.name != name) continue;
    FLASHRT_CHECK(info.shape == shape, "weight ", name, " is used as ", info.shape, " and as ",
                  shape);
    return;
  }
  plan_.weights.push_back({.name = name, .shape = std::move(shape)});
}

void PlanBuilder::stage(std::string name, When when, int repeat,
                        const std::function<void()>& body) {
  FLASHRT_CHECK(!in_stage_, "stage ", name, ": stages do not nest");
  FLASHRT_CHECK(repeat >= 1, "stage ", name, ": repeated ", repeat, " times");
  const int first = static_cast<int>(plan_.calls.size());
  plan_.stages.push_back(
      {.name = std::move(name), .when = when, .repeat = repeat, .first = first, .last = first});
  in_stage_ = true;
  body();
  in_stage_ = false;
}

Value PlanBuilder::resize(std::string name, Value frames, Value descriptors, int size, DType type) {
  name = scoped(name);
  const ValueInfo pictures = plan_[frames], words = plan_[descriptors];
  const int64_t cameras = pictures.shape.rows();
  FLASHRT_CHECK(pictures.shape.rank() == 2 && pictures.type == DType::kU8, "resize ", name,
                ": frames are ", pictures.shape, " ", pictures.type, ", expected [N, B] u8");
  const Shape expected{cameras, frame_descriptor_layout(size).words};
  FLASHRT_CHECK(words.shape == expected && words.type == DType::kI32, "resize ", name,
                ": descriptors are ", words.shape, " ", words.type, ", expected ", expected,
                " i32");
  FLASHRT_CHECK(type == DType::kU8 || type == DType::kF32, "resize ", name, ": images of type ",
                type, ", expected u8 or f32");
  Resize op{.frames = frames, .descriptors = descriptors};
  op.images = add_local(name, {.capacity = cameras}, {size, size, 3});
  plan_[op.images].type = type;
  add_call(name, op);
  return op.images;
}

Value PlanBuilder::patch_embed(std::string name, Value images, std::string weight, int width,
                               int patch, const PatchOptions& options) {
  name = scoped(name);
  const Shape shape = plan_[images].shape;
  const int64_t square = int64_t{patch} * options.group;  // pixels that the order of tokens needs
  FLASHRT_CHECK(shape.rank() == 4 && shape[3] == 3 && square > 0 && shape[1] % square == 0 &&
                    shape[2] % square == 0,
                "patch_embed ", name, ": images are ", shape,
                ", expected [N, H, W, 3] with H and W multiples of ", square);
  const int64_t tokens = (shape[1] / patch) * (shape[2] / patch);
  PatchEmbed op{.images = images,
                .positions = options.positions,
                .weight = weight + ".weight",
                .bias = weight + ".bias",
                .position = options.positions ? "" : weight + ".position",
                .patch = patch,
                .group = options.group};
  if (op.positions) {
    const Shape expected{shape[0] * tokens, width};
    FLASHRT_CHECK(plan_[op.positions].shape == expected, "patch_embed ", name, ": positions are ",
                  plan_[op.positions].shape, ", expected ", expected);
  }
  use_weight(op.weight, {width, int64_t{3} * patch * patch});
  use_weight(op.bias, {width});
  use_weight(op.position, {tokens, width});
  op.y = add_local(name, {.capacity = shape[0] * tokens}, {width});
  add_call(name, op);
  return op.y;
}

Value PlanBuilder::token_embed(std::string name, Value tokens, std::string table, int vocabulary,
                               int width) {
  name = scoped(name);
  const ValueInfo& info = plan_[tokens];
  FLASHRT_CHECK(info.shape.rank() == 1 && info.type == DType::kI32, "token_embed ", name,
                ": tokens are ", info.shape, " ", info.type, ", expected [T] i32");
  TokenEmbed op{.tokens = tokens, .table = std::move(table)};
  use_weight(op.table, {vocabulary, width});
  op.y = add_local(name, info.rows, {width});
  add_call(name, op);
  return op.y;
}

Normed PlanBuilder::add_norm(std::string name, Stream stream, const NormOptions& options) {
  name = scoped(name);
  const ValueInfo residual = plan_[stream.residual];
  const int64_t width = residual.shape.width();
  AddNorm op{.norm = options.norm,
             .eps = options.eps,
             .residual = stream.residual,
             .delta = stream.delta,
             .gate = stream.gate,
             .scale = options.style.scale,
             .shift = options.style.shift,
             .committed_gate = stream.committed_gate,
             .committed_scale = options.committed_style.scale,
             .committed_shift = options.committed_style.shift,
             .committed_rows = options.committed_rows,
             .weight = options.weight,
             .bias = options.bias};
  if (stream.delta) {
    FLASHRT_CHECK(plan_[stream.delta].shape == residual.shape, "add_norm ", name, ": residual is ",
                  residual.shape, ", delta is ", plan_[stream.delta].shape);
  }
  FLASHRT_CHECK(!stream.gate || stream.delta, "add_norm ", name, ": a gate without a delta");
  FLASHRT_CHECK(bool(op.scale) == bool(op.shift), "add_norm ", name,
                ": scale and shift come together");
  FLASHRT_CHECK(!op.scale || op.weight.empty(), "add_norm ", name,
                ": a weight and an adaptive scale");
  const bool committed{op.committed_rows};
  FLASHRT_CHECK(bool(op.committed_scale) == (committed && op.scale) &&
                    bool(op.committed_shift) == (committed && op.scale),
                "add_norm ", name,
                ": committed rows need a committed scale and shift, and nothing else does");
  FLASHRT_CHECK(bool(op.committed_gate) == (committed && op.gate), "add_norm ", name,
                ": committed rows need a committed gate, and nothing else does");
  for (const Value vector :
       {op.gate, op.scale, op.shift, op.committed_gate, op.committed_scale, op.committed_shift}) {
    FLASHRT_CHECK(!vector || plan_[vector].shape == (Shape{1, width}), "add_norm ", name, ": ",
                  vector ? plan_[vector].name : "", " is ", vector ? plan_[vector].shape : Shape{},
                  ", expected [1, ", width, "]");
  }
  use_weight(op.weight, {width});
  use_weight(op.bias, {width});
  if (stream.delta) op.residual_out = add_local(name + ".residual", residual.rows, {width});
  op.y = add_local(name, residual.rows, {width});
  add_call(name, op);
  return {op.residual_out ? op.residual_out : stream.residual, op.y};
}

Value PlanBuilder::linear(std::string name, Value x, std::string weight, int64_t width,
                          const LinearOptions& options) {
  name = scoped(name);
  const ValueInfo info = plan_[x];
  FLASHRT_CHECK(info.shape.rank() == 2, "linear ", name, ": input is ", info.shape,
                ", expected [T, D]");
  Linear op{.x = x,
            .weight = weight + ".weight",
            .bias = options.bias ? weight + ".bias" : "",
            .shift = options.shift,
            .activation = options.activation,
            .residual = options.residual};
  if (op.shift) {
    FLASHRT_CHECK(plan_[op.shift].shape == (Shape{1, width}), "linear ", name, ": shift is ",
                  plan_[op.shift].shape, ", expected [1, ", width, "]");
  }
  if (op.residual) {
    FLASHRT_CHECK(plan_[op.residual].shape == (Shape{info.shape[0], width}), "linear ", name,
                  ": residual is ", plan_[op.residual].shape, ", the output is [", info.shape[0],
                  ", ", width, "]");
  }
  use_weight(op.weight, {width, info.shape[1]});
  use_weight(op.bias, {width});
  op.y = add_local(name, info.rows, {width});
  add_call(name, op);
  return op.y;
}

Value PlanBuilder::qkv_rope(std::string name, Value qkv, Value k, Value v,
                            const QkvOptions& options) {
  name = scoped(name);
  const ValueInfo info = plan_[qkv];
  const int64_t width = int64_t{options.heads + 2 * options.kv_heads} * options.head_dim;
  FLASHRT_CHECK(info.shape.rank() == 2 && info.shape[1] == width, "qkv_rope ", name, ": qkv is ",
                info.shape, ", expected width (", options.heads, " + 2 x ", options.kv_heads,
                ") x ", options.head_dim, " = ", width);
  FLASHRT_CHECK(options.rope_base == 0 || options.head_dim % 2 == 0, "qkv_rope ", name,
                ": head dimension ", options.head_dim, " is odd");
  const Shape cache{info.shape[0], int64_t{options.kv_heads} * options.head_dim};
  for (const Value value : {k, v}) {
    FLASHRT_CHECK(plan_[value].shape == cache, "qkv_rope ", name, ": ", plan_[value].name, " is ",
                  plan_[value].shape, ", expected ", cache);
  }
  QkvRope op{.qkv = qkv,
             .heads = options.heads,
             .kv_heads = options.kv_heads,
             .head_dim = options.head_dim,
             .rope_base = options.rope_base,
             .position_start = options.position_start,
             .position = options.position,
             .q_norm = options.q_norm,
             .k_norm = options.k_norm,
             .eps = options.eps,
             .k = k,
             .v = v};
  use_weight(op.q_norm, {options.head_dim});
  use_weight(op.k_norm, {options.head_dim});
  if (options.heads > 0)
    op.q = add_local(name + ".q", info.rows, {int64_t{options.heads} * options.head_dim});
  add_call(name, op);
  return op.q;
}

Value PlanBuilder::attention(std::string name, Value q, Value k, Value v,
                             const AttentionOptions& options) {
  name = scoped(name);
  const ValueInfo info = plan_[q];
  const Shape keys = plan_[k].shape;
  FLASHRT_CHECK(options.kv_heads > 0 && options.heads % options.kv_heads == 0, "attention ", name,
                ": ", options.heads, " query heads on ", options.kv_heads, " kv heads");
  FLASHRT_CHECK(
      info.shape.rank() == 2 && info.shape[1] == int64_t{options.heads} * options.head_dim,
      "attention ", name, ": q is ", info.shape, ", expected width ", options.heads, " x ",
      options.head_dim);
  FLASHRT_CHECK(keys == plan_[v].shape && keys[1] == int64_t{options.kv_heads} * options.head_dim,
                "attention ", name, ": k is ", keys, ", v is ", plan_[v].shape, ", expected width ",
                options.kv_heads, " x ", options.head_dim);
  FLASHRT_CHECK(!options.ranges.empty(), "attention ", name, ": no key range");
  int64_t end = 0;
  for (const KeyRange& range : options.ranges) {
    // The end of a dynamic range is known at run time only; whoever writes the length bounds it.
    FLASHRT_CHECK(range.begin >= end && range.begin + range.count <= keys[0], "attention ", name,
                  ": key range [", range.begin, ", ", range.begin + range.count, ") after ", end,
                  " of ", keys[0], " keys");
    end = range.begin + range.count;
  }
  FLASHRT_CHECK(options.mask != Mask::kBlock ||
                    (options.mask_argument > 0 && keys[0] % options.mask_argument == 0),
                "attention ", name, ": blocks of ", options.mask_argument, " in ", keys[0],
                " keys");
  Attention op{.q = q,
               .k = k,
               .v = v,
               .heads = options.heads,
               .kv_heads = options.kv_heads,
               .head_dim = options.head_dim,
               .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(options.head_dim))),
               .mask = options.mask,
               .mask_argument = options.mask_argument,
               .ranges = options.ranges};
  op.y = add_local(name, info.rows, {info.shape[1]});
  add_call(name, op);
  return op.y;
}

Value PlanBuilder::glu(std::string name, Value gate_up, Activation activation) {
  name = scoped(name);
  const ValueInfo info = plan_[gate_up];
  FLASHRT_CHECK(info.shape.rank() == 2 && info.shape[1] % 2 == 0, "glu ", name, ": input is ",
                info.shape, ", expected [T, 2F]");
  Glu op{.activation = activation, .gate_up = gate_up};
  op.y = add_local(name, info.rows, {info.shape[1] / 2});
  add_call(name, op);
  return op.y;
}

Value PlanBuilder::time_embed(std::string name, Value times, int64_t width, double min_period,
                              double max_period) {
  name = scoped(name);
  const ValueInfo info = plan_[times];
  FLASHRT_CHECK(info.shape.rank() == 1 && width % 2 == 0 && width >= 4, "time_embed ", name,
                ": times are ", info.shape, ", width is ", width,
                ", expected [S] and an even width of at least 4");
  FLASHRT_CHECK(0 < min_period && min_period < max_period, "time_embed ", name, ": periods ",
                min_period, " to ", max_period);
  TimeEmbed op{.times = times, .min_period = min_period, .max_period = max_period};
  op.y = add_local(name, info.rows, {width});
  add_call(name, op);
  return op.y;
}

void PlanBuilder::euler_step(std::string name, EulerStep op) {
  name = scoped(name);
  const Shape shape = plan_[op.actions].shape;
  FLASHRT_CHECK(plan_[op.velocity].shape == shape, "euler_step ", name, ": actions are ", shape,
                ", velocity is ", plan_[op.velocity].shape);
  const bool guided{op.previous};
  for (const Value value : {op.guidance, op.time, op.weights, op.committed_rows}) {
    FLASHRT_CHECK(bool(value) == guided, "euler_step ", name,
                  ": time, guidance, previous, weights and committed_rows come together");
  }
  if (guided) {
    FLASHRT_CHECK(plan_[op.previous].shape == shape && plan_[op.weights].shape == (Shape{shape[0]}),
                  "euler_step ", name, ": actions are ", shape, ", previous is ",
                  plan_[op.previous].shape, ", weights are ", plan_[op.weights].shape);
  }
  add_call(name, op);
}

// ---- finish

namespace {

// Whether everything in this value has been written, directly, through the whole, or through its
// parts, which are whole rows.
bool is_written(const Plan& plan, Value value, const std::set<int>& written) {
  const ValueInfo& info = plan[value];
  const Value storage = plan.storage_of(value);
  if (plan[storage].kind != Kind::kLocal || written.contains(storage.id)) return true;
  if (written.contains(value.id)) return true;
  std::vector<const ValueInfo*> parts;
  for (const int id : written) {
    const ValueInfo& part = plan.values[id];
    if (part.kind == Kind::kView && part.storage == storage) parts.push_back(&part);
  }
  std::sort(parts.begin(), parts.end(),
            [](const auto* a, const auto* b) { return a->offset < b->offset; });
  const int64_t begin = info.kind == Kind::kView ? info.offset : 0;
  int64_t end = begin;  // of what is known to be written
  for (const ValueInfo* part : parts) {
    if (part->offset <= end) end = std::max(end, part->offset + part->shape.elements());
  }
  return end >= begin + info.shape.elements();
}

}  // namespace

Plan PlanBuilder::finish() && {
  std::set<int> written;
  for (const Call& call : plan_.calls) {
    for_each_read(call, [&](Value value) {
      FLASHRT_CHECK(is_written(plan_, value, written), "call ", call.name, " reads ",
                    plan_[value].name, " before it is written");
    });
    for_each_write(call, [&](Value value) {
      const ValueInfo& info = plan_[value];
      FLASHRT_CHECK(info.kind != Kind::kView || plan_[info.storage].kind != Kind::kLocal ||
                        info.shape.width() == plan_[info.storage].shape.width(),
                    "call ", call.name, " writes ", info.name, ", a part of the columns of ",
                    plan_[info.storage].name, "; parts that are written are whole rows");
      written.insert(value.id);
    });
  }
  return std::move(plan_);
}

}  // namespace flashrt
