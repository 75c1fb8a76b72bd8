// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// LinearTuner: chooses which implementation computes each linear, by timing all that accept it.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "backends/cuda/device.hpp"
#include "backends/cuda/library_gemm.hpp"
#include "backends/cuda/linear_choice.hpp"
#include "backends/cuda/tuning_store.hpp"
#include "kernels/projected_attention.cuh"

namespace flashrt::cuda {

// What is known about one implementation of one call.
struct LinearCandidate {
  std::string name;
  double microseconds = 0;  // of one launch; 0: not timed
  double error = 0;         // largest deviation from linear_generic, relative; 0: not compared
  std::string remark;       // why it was not timed
};

struct LinearReport {
  std::string call;
  std::string chosen;
  std::vector<LinearCandidate> candidates;
};

class LinearTuner {
 public:
  // Opens the tuning file of the options.
  LinearTuner(const DeviceInfo& device, const BackendOptions& options);

  // Whether the linear and the operation that follows it are better done at once: a fast kernel
  // does.
  bool has_fused(const LinearArgs& args) const { return has_fused_linear(args, library_, device_); }
  // The same for an attention; there is one kernel, so nothing is timed.
  bool accepts(const ProjectedAttentionArgs& args) const;
  // From the store, or by timing candidates on operands made for it, which takes memory and up to
  // about a second, and waits for the stream. Of the args only shapes, types, alignments and the
  // constants of a rotation matter; x may have no memory yet. Implementations whose result is wrong
  // are left out.
  LinearChoice choose(const LinearArgs& args, const Stream& stream);
  // Everything that decides which kernels accept a call and how long they take: its name in the
  // store.
  std::string key_of(const LinearArgs& args) const;
  // A call that this tuner timed by itself stays open where others came close to the fastest:
  // between other kernels one of these may win. The first program that runs it finds out and
  // decides, and only then is the choice kept in the file.
  struct Open {
    std::vector<LinearChoice> choices;  // the fastest one first, which runs meanwhile
    double microseconds = 0;            // of one launch of it
  };
  // Null: nothing is open.
  const Open* find_open(const std::string& key) const;
  void decide(const std::string& key, const LinearChoice& choice);
  // What runs now stays, for as long as this tuner lives: another process may still decide.
  void close(const std::string& key) { closed_.insert(key); }
  size_t workspace_bytes(const LinearArgs& args, const LinearChoice& choice) const {
    return cuda::workspace_bytes(args, choice);
  }
  const char* run(const LinearArgs& args, const LinearChoice& choice, void* workspace,
                  const Launch& launch) const {
    return run_linear(args, choice, library_, workspace, launch);
  }

  // Of the calls that were timed, in order.
  const std::vector<LinearReport>& reports() const { return reports_; }
  int64_t tunings() const { return static_cast<int64_t>(reports_.size()); }
  std::string library_version() const;  // "cuBLASLt 13.1.0"

 private:
  class Contest;

  const DeviceInfo device_;
  const BackendOptions options_;
  const LibraryGemm library_;
  TuningStore store_;
  std::vector<LinearReport> reports_;
  std::map<std::string, Open> open_;  // by key
  std::set<std::string> closed_;      // of these
};

}  // namespace flashrt::cuda
