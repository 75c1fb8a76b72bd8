// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "runtime/packed.hpp"

#include <algorithm>

#include "checkpoint/weights.hpp"
#include "quant/pack.hpp"
#include "quant/plan_digest.hpp"

namespace flashrt {
namespace {

// Which weights a plan reads does not depend on its sizes.
constexpr PlanOptions kSmallest{.cameras = 1, .prompt_capacity = 1, .horizon = 1, .steps = 1};

// Whether a file that was packed from is there and has changed.
bool is_touched(const std::filesystem::path& folder, const SourceFile& then) {
  const std::filesystem::path path = folder / std::filesystem::path(then.name).filename();
  return std::filesystem::exists(path) && SourceFile::of(path) != then;
}

}  // namespace

Weights unpacked_weights(const EngineOptions& options, const ModelConfig& config) {
  const int threads = options.backend_options.threads;
  return options.random_seed
             ? Weights::random(config, *options.random_seed, threads, options.random_outliers)
             : Weights::open(options.checkpoint, config, threads);
}

std::string pack(const EngineOptions& options, const std::filesystem::path& output) {
  const ModelConfig config = config_of(options);
  const Weights weights = unpacked_weights(options, config);
  const Recipe recipe = Recipe::named(options.recipe);
  ThreadPool pool(options.backend_options.threads);
  write_packed(output, plan_for(config, kSmallest, recipe), weights, recipe.name, pool);
  return weights.digest();
}

Weights open_packed(const EngineOptions& options, const ModelConfig& config,
                    const std::string& plan_digest) {
  ThreadPool pool(options.backend_options.threads);
  PackedFile file(options.packed, pool);
  const PackedHeader& header = file.header();
  const std::string name = file.path().string();
  FLASHRT_CHECK(header.plan_digest == plan_digest, name, " was packed for plan ",
                header.plan_digest, ", this is ", plan_digest,
                "; pack the checkpoint with this version of the program");
  FLASHRT_CHECK(options.random_seed || config.type != ModelType::kGrootN16 ||
                    header.weights_digest.ends_with(slot_suffix(config.embodiment)),
                name, " was packed from weights ", header.weights_digest, ", embodiment slot ",
                config.embodiment.slot, " is asked for; pack that one");
  // Random weights come from no file whose size and time could tell.
  const bool is_checked =
      options.random_seed || header.files.empty() ||
      std::any_of(header.files.begin(), header.files.end(),
                  [&](const SourceFile& then) { return is_touched(options.checkpoint, then); });
  if (is_checked) {
    const std::string source = unpacked_weights(options, config).digest();
    FLASHRT_CHECK(header.weights_digest == source, name, " was packed from weights ",
                  header.weights_digest, ", those of ", options.checkpoint.string(), " are ",
                  source, "; pack them again");
  }
  return Weights::packed(std::move(file));
}

}  // namespace flashrt
