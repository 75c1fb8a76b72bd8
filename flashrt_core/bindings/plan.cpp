// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// A plan without its weights: what it would compute and how much memory it would take.
#include "bindings/bindings.hpp"
#include "plan/print.hpp"
#include "runtime/engine.hpp"

namespace py = pybind11;

namespace flashrt {

void bind_plan(py::module_& module) {
  module.def(
      "describe_plan",
      [](const ModelConfig& config, int cameras, int prompt_capacity, int horizon, int steps,
         bool guided, const std::string& recipe, int threads) {
        const Plan plan = plan_for(config,
                                   {.cameras = cameras,
                                    .prompt_capacity = prompt_capacity,
                                    .horizon = horizon,
                                    .steps = steps,
                                    .guided = guided},
                                   Recipe::named(recipe));
        const PlanStats stats = stats_of(plan, *make_cpu_backend(threads));
        py::dict result;
        result["text"] = print(plan);
        result["calls"] = stats.calls;
        result["quantize_calls"] = stats.quantize_calls;
        result["arena_bytes"] = stats.arena_bytes;
        result["unplanned_bytes"] = stats.unplanned_bytes;
        result["stored_weight_bytes"] = stats.stored_weight_bytes;
        return result;
      },
      py::arg("config"), py::kw_only(), py::arg("cameras"), py::arg("prompt_capacity") = 0,
      py::arg("horizon") = 0, py::arg("steps") = 0, py::arg("guided") = false,
      py::arg("recipe") = "f32", py::arg("threads") = 0,
      "The plan of a configuration on the CPU backend: its text, its calls and its memory.");
}

}  // namespace flashrt
