// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// The Python module flashrt_core._core.
#include "bindings/bindings.hpp"

PYBIND11_MODULE(_core, module) {
  module.doc() = "The core of flashrt_ros: checkpoints, plans, calibration and the engine.";
  flashrt::bind_errors(module);
  flashrt::bind_model_config(module);
  flashrt::bind_equalisation(module);
  flashrt::bind_calibration(module);
  flashrt::bind_measure(module);
  flashrt::bind_frame(module);
  flashrt::bind_engine(module);
  flashrt::bind_plan(module);
  flashrt::bind_number_format(module);
}
