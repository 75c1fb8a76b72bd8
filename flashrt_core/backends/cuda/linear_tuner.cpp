// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "backends/cuda/linear_tuner.hpp"

#include <algorithm>
#include <chrono>
#include <sstream>

#include "backends/cuda/linear_scratch.hpp"
#include "plan/op.hpp"

namespace flashrt::cuda {
namespace {

using Clock = std::chrono::steady_clock;
using Family = LinearChoice::Family;

constexpr std::chrono::milliseconds kBudget{600};  // per call; candidates come in order of hope
constexpr int kMinLaunches = 8;                    // in a graph, which is what is timed
constexpr int kReplays = 5;                        // of those that may win; the others run once
constexpr double kMayWin = 1.25;                   // times the fastest of the first round
constexpr double kCloseBy = 1.12;                  // times the fastest: may win in a program
constexpr size_t kMostContenders = 3;
constexpr double kTie = 0.98;             // a later candidate has to be faster than this
constexpr double kGenericFlops = 2e7;     // up to which the generic kernel may win
constexpr uintptr_t kPlaceholder = 4096;  // an aligned address, for the absent x

double flops(const LinearArgs& args) {
  return 2.0 * static_cast<double>(args.x.rows) * static_cast<double>(args.x.width) *
         static_cast<double>(args.y.width);
}

// The largest power of two up to 256 that every row of every operand is a multiple of.
uintptr_t alignment_of(const LinearArgs& args) {
  uintptr_t all = 256;
  const auto add = [&](const void* data, DType type, int64_t stride) {
    all |= reinterpret_cast<uintptr_t>(data);
    all |= static_cast<uintptr_t>(stride) * size_of(type);
  };
  std::vector<Matrix> matrices{args.x, args.shift, args.residual, args.y};
  if (args.glu) matrices.push_back(args.glu->y);
  if (args.rope) matrices.insert(matrices.end(), {args.rope->q, args.rope->k, args.rope->v});
  if (args.euler) matrices.push_back(args.euler->actions);
  for (const Matrix& m : matrices) {
    if (m) add(m.data, m.type, m.stride);
  }
  add(args.weight.data, args.weight.type, args.weight.stride);
  add(args.bias, DType::kF32, 0);
  return all & -all;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

TuningEnvironment environment_of(const DeviceInfo& device) {
  return {.device = device.name,
          .compute_capability = device.compute_capability(),
          .driver = driver_version(),
          .library = LibraryGemm::version(),
          .kernels = kLinearKernelsVersion};
}

}  // namespace

// The candidates for one call, run against each other on scratch operands.
class LinearTuner::Contest {
 public:
  Contest(const LinearTuner& tuner, const LinearArgs& args, const Stream& stream)
      : tuner_(tuner),
        stream_(stream),
        launch_{.stream = stream.get(),
                .device = &tuner.device_,
                .is_dependent =
                    tuner.options_.dependent_launch && tuner.device_.compute_capability() >= 90},
        scratch_(args, tuner.device_, stream) {
    for (const LinearChoice& choice :
         linear_choices(scratch_.args(0), tuner.library_, tuner.device_)) {
      entrants_.push_back({.choice = choice, .report = {.name = describe(choice)}});
      workspace_bytes_ =
          std::max(workspace_bytes_, tuner.workspace_bytes(scratch_.args(0), choice));
    }
    workspace_ = DeviceBuffer(workspace_bytes_);
  }

  // The winner; null: nothing computes the call.
  const LinearChoice* hold() {
    const auto end = Clock::now() + kBudget;
    for (Entrant& entrant : entrants_) {
      if (best() && Clock::now() > end) {
        entrant.report.remark = "not timed: the time for this call was used up";
      } else if (entrant.choice.family == Family::kGeneric && best() &&
                 flops(scratch_.args(0)) > kGenericFlops) {
        entrant.report.remark = "not timed: known to be slow at this size";
      } else if (can_run(entrant) && is_sound(entrant)) {
        entrant.graph.launch(stream_);  // warms it up
        time(entrant);
      }
    }
    if (!best()) return nullptr;
    const double limit = kMayWin * best()->report.microseconds;
    for (int replay = 1; replay < kReplays; ++replay) {  // in turn: clocks drift
      for (Entrant& entrant : entrants_) {
        if (!entrant.times.empty() && entrant.times.front() < limit) time(entrant);
      }
    }
    return &best()->choice;
  }

  double microseconds() const { return best()->report.microseconds; }
  // The winner, and those that came close, the closest first.
  std::vector<LinearChoice> contenders() const {
    const double limit = kCloseBy * best()->report.microseconds;
    std::vector<const Entrant*> close;
    for (const Entrant& entrant : entrants_) {
      if (&entrant != best() && !entrant.times.empty() && entrant.report.microseconds < limit)
        close.push_back(&entrant);
    }
    std::sort(close.begin(), close.end(), [](const Entrant* a, const Entrant* b) {
      return a->report.microseconds < b->report.microseconds;
    });
    std::vector<LinearChoice> choices{best()->choice};
    for (const Entrant* entrant : close) {
      if (choices.size() < kMostContenders) choices.push_back(entrant->choice);
    }
    return choices;
  }
  std::vector<LinearCandidate> candidates() const {
    std::vector<LinearCandidate> reports;
    for (const Entrant& entrant : entrants_) reports.push_back(entrant.report);
    return reports;
  }

 private:
  struct Entrant {
    LinearChoice choice;
    LinearCandidate report;
    Graph graph;
    std::vector<double> times;
  };

  void run(const Entrant& entrant, int copy) const {
    tuner_.run(scratch_.args(copy), entrant.choice, workspace_.data(), launch_);
  }

  // Runs it once, which may load code, and records what is timed.
  bool can_run(Entrant& entrant) const {
    try {
      scratch_.reset();
      run(entrant, 0);
      entrant.graph = Graph(stream_, [&] {
        for (int i = 0; i < launches(); ++i) run(entrant, i % scratch_.copies());
      });
      return true;
    } catch (const Error& refusal) {
      cudaGetLastError();  // it is in the text
      entrant.report.remark = text("refused: ", refusal.what());
      return false;
    }
  }

  // After a run: right, and the same again.
  bool is_sound(Entrant& entrant) const {
    entrant.report.error = scratch_.error();
    const double allowed = allowed_error(scratch_.args(0));
    if (!(entrant.report.error <= allowed)) {
      entrant.report.remark =
          text("wrong: its relative error is ", entrant.report.error, ", allowed ", allowed);
      return false;
    }
    const auto results = scratch_.results();
    scratch_.reset();
    run(entrant, 0);
    if (scratch_.results() == results) return true;
    entrant.report.remark = "wrong: its results do not repeat";
    return false;
  }

  void time(Entrant& entrant) const {
    begin_.record(stream_);
    entrant.graph.launch(stream_);
    end_.record(stream_);
    end_.synchronize();
    entrant.times.push_back(1e3 * end_.since(begin_) / launches());
    entrant.report.microseconds = median(entrant.times);
  }

  int launches() const { return std::max(kMinLaunches, scratch_.copies()); }

  const Entrant* best() const {
    const Entrant* best = nullptr;
    for (const Entrant& entrant : entrants_) {
      if (entrant.times.empty()) continue;
      if (!best || entrant.report.microseconds < kTie * best->report.microseconds) best = &entrant;
    }
    return best;
  }

  const LinearTuner& tuner_;
  const Stream& stream_;
  const Launch launch_;
  const LinearScratch scratch_;
  std::vector<Entrant> entrants_;
  size_t workspace_bytes_ = 0;
  DeviceBuffer workspace_;
  const Event begin_, end_;
};

LinearTuner::LinearTuner(const DeviceInfo& device, const BackendOptions& options)
    : device_(device),
      options_(options),
      library_(options.fast_accumulation, options.library_products),
      store_(options.tuning, environment_of(device)) {}

std::string LinearTuner::library_version() const {
  const int version = LibraryGemm::version();
  return text("cuBLASLt ", version / 10000, ".", version / 100 % 100, ".", version % 100);
}

// It accumulates as linears are to.
bool LinearTuner::accepts(const ProjectedAttentionArgs& args) const {
  const bool is_fast = args.projection.x.type == DType::kE4M3;
  return (!is_fast || library_.fast_accumulation()) && projected_attention_accepts(args, device_);
}

namespace {

LinearArgs with_memory(LinearArgs args) {
  if (!args.x) args.x.data = reinterpret_cast<void*>(kPlaceholder);
  return args;
}

}  // namespace

LinearChoice LinearTuner::choose(const LinearArgs& call, const Stream& stream) {
  const LinearArgs args = with_memory(call);
  const std::string key = key_of(args);
  if (const auto open = open_.find(key); open != open_.end()) return open->second.choices.front();
  if (const TunedCall* tuned = store_.find(key)) {
    if (const auto choice = restore_linear_choice(tuned->choice, args, library_, device_))
      return *choice;
  }
  const std::vector<LinearChoice> choices = linear_choices(args, library_, device_);
  FLASHRT_CHECK(!choices.empty(), "nothing computes ", key);
  if (!options_.tune || choices.front().family == Family::kGeneric) return choices.front();

  Contest contest(*this, args, stream);
  const LinearChoice* winner = contest.hold();
  LinearReport& report = reports_.emplace_back();
  report.call = key;
  report.candidates = contest.candidates();
  if (!winner) {
    std::ostringstream reasons;
    for (const LinearCandidate& c : report.candidates)
      reasons << "\n  " << c.name << ": " << c.remark;
    throw Error(text("no implementation is left for ", key, reasons.str()));
  }
  report.chosen = describe(*winner);
  const LinearChoice chosen = *winner;
  open_[key] = {.choices = contest.contenders(), .microseconds = contest.microseconds()};
  if (open_[key].choices.size() == 1) decide(key, chosen);
  return chosen;
}

const LinearTuner::Open* LinearTuner::find_open(const std::string& key) const {
  const auto found = open_.find(key);
  return found == open_.end() || closed_.contains(key) ? nullptr : &found->second;
}

void LinearTuner::decide(const std::string& key, const LinearChoice& choice) {
  const auto open = open_.find(key);
  FLASHRT_CHECK(open != open_.end(), "nothing is open for ", key);
  store_.put(key, {.choice = name_of(choice), .microseconds = open->second.microseconds});
  store_.save();
  for (LinearReport& report : reports_) {
    if (report.call == key) report.chosen = describe(choice);
  }
  open_.erase(open);
}

std::string LinearTuner::key_of(const LinearArgs& call) const {
  const LinearArgs args = with_memory(call);
  std::ostringstream key;
  const WeightView& w = args.weight;
  key << "linear [" << args.x.rows << ", " << args.x.width << "] " << args.x.type << " x ["
      << w.rows << "] " << w.type;
  if (w.scale_count > 0) key << (w.scale_count == 1 ? " per tensor" : " per channel");
  key << " to " << args.y.type;
  if (args.x.length) key << ", rows by length";
  if (args.bias) key << ", bias";
  if (args.shift) key << ", shift " << args.shift.type;
  if (args.activation != Activation::kNone) key << ", " << flashrt::name_of(args.activation);
  if (args.residual) key << ", residual " << args.residual.type;
  if (args.glu) {
    key << ", glu " << flashrt::name_of(args.glu->activation) << " to " << args.glu->y.type;
  }
  if (args.rope) {
    const QkvRopeArgs& rope = *args.rope;
    key << ", qkv_rope " << rope.heads << " + 2 x " << rope.kv_heads << " of " << rope.head_dim
        << (rope.rope ? " rotated" : "") << (rope.q_norm || rope.k_norm ? " normalised" : "");
    if (rope.q) key << " to " << rope.q.type;
    key << " and " << rope.k.type << ", " << rope.v.type;
  }
  if (args.euler) key << ", euler_step";
  key << ", aligned to " << alignment_of(args);
  if (args.x.type == DType::kE4M3 && w.type == DType::kE4M3 && options_.fast_accumulation)
    key << ", fast accumulation";
  if (options_.dependent_launch) key << ", dependent launch";
  if (!device_.is_specialised) key << ", portable kernels";
  if (!options_.library_products) key << ", no library";
  return key.str();
}

}  // namespace flashrt::cuda
