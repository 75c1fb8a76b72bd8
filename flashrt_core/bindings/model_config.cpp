// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "checkpoint/model_config.hpp"

#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include "bindings/bindings.hpp"
#include "checkpoint/weights.hpp"
#include "models/inputs.hpp"

namespace py = pybind11;

namespace flashrt {

void bind_model_config(py::module_& module) {
  py::class_<ModelConfig>(module, "ModelConfig", "The dimensions of a checkpoint.")
      .def_property_readonly("model_type",
                             [](const ModelConfig& c) { return std::string(name_of(c.type)); })
      .def_property_readonly("image_size", [](const ModelConfig& c) { return c.vision.image_size; })
      .def_property_readonly("image_tokens", &image_tokens)
      .def_property_readonly("layers", [](const ModelConfig& c) { return c.language.layers; })
      .def_property_readonly("kv_heads", [](const ModelConfig& c) { return c.language.kv_heads; })
      .def_property_readonly("head_dim", [](const ModelConfig& c) { return c.language.head_dim; })
      .def_property_readonly("embodiments", [](const ModelConfig& c) { return c.dit.embodiments; })
      .def_readonly("image_token", &ModelConfig::image_token)
      .def(
          "markup_rows",
          [](const ModelConfig& config, int cameras) {
            FLASHRT_CHECK(config.type == ModelType::kGrootN16,
                          "markup rows: ", name_of(config.type), " has no tokens between images");
            std::vector<int> rows;
            for (const auto& view : observation_layout(config, {.cameras = cameras}).views)
              rows.push_back(view.markup_rows);
            return rows;
          },
          py::arg("cameras"),
          "Of the published conversation: tokens from the image of each camera to the next one.")
      .def_readonly("vocab_size", &ModelConfig::vocab_size)
      .def_readonly("action_dim", &ModelConfig::action_dim)
      .def_readonly("state_dim", &ModelConfig::state_dim)
      .def_readonly("horizon", &ModelConfig::horizon)
      .def_readonly("steps", &ModelConfig::steps)
      .def_readonly("prompt_capacity", &ModelConfig::prompt_capacity)
      .def_readonly("min_period", &ModelConfig::min_period)
      .def_readonly("max_period", &ModelConfig::max_period);
  module.def("read_model_config", &read_model_config, py::arg("checkpoint"),
             "Reads the configuration in a checkpoint folder.");
  module.def("named_config", &named_config, py::arg("name_or_checkpoint"),
             "The published size of pi05, pi0 or groot_n16 by its name, or the configuration of a "
             "checkpoint.");
  module.def(
      "check_weight_files",
      [](const std::filesystem::path& checkpoint, const ModelConfig& config) {
        const WeightFiles found = check_weight_files(checkpoint, config);
        py::dict result;
        result["files"] = found.files.size();
        result["tensors"] = found.tensors;
        result["elements"] = found.elements;
        result["bytes"] = found.bytes;
        return result;
      },
      py::arg("checkpoint"), py::arg("config"),
      "Checks names, shapes and types of all tensors without reading their numbers.");
}

}  // namespace flashrt
