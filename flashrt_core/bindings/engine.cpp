// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "runtime/engine.hpp"

#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <optional>
#include <tuple>
#include <utility>
#include <variant>

#include "bindings/frame.hpp"
#include "models/inputs.hpp"
#include "plan/print.hpp"
#include "quant/recipe_json.hpp"
#include "runtime/compare.hpp"
#include "runtime/measure.hpp"
#include "runtime/packed.hpp"

namespace py = pybind11;

namespace flashrt {
namespace {

// What Python gives for real-time chunking. Keeps the arrays alive for as long as the engine reads
// them.
struct PythonGuidance {
  Array<float> previous;  // [N, A]
  Array<float> weights;   // [N]
  Array<float> guidance;  // [S]
  int committed_rows = 0;
};

// Refuses an array whose elements would fit but are arranged otherwise, such as pictures with the
// channels first. The engine refuses other numbers of elements.
void check_layout(std::string_view name, const py::array& array, const Shape& expected) {
  const Shape shape(std::vector<int64_t>(array.shape(), array.shape() + array.ndim()));
  FLASHRT_CHECK(shape.elements() != expected.elements() || shape == expected, name, ": shape ",
                shape, ", expected ", expected);
}

// [cameras, H, W, 3], or of images of several sizes all elements in a row.
Shape images_shape(const Engine& engine) {
  const auto inputs = image_inputs(engine.config(), engine.program_options().plan);
  if (inputs.size() == 1) {
    const auto& [suffix, images, size] = inputs.front();
    return {images, size.height, size.width, 3};
  }
  int64_t elements = 0;
  for (const ImageInput& images : inputs) elements += images.elements();
  return {elements};
}

Shape state_shape(const Engine& engine) {
  const int rows = engine.program_options().plan.state_rows, width = engine.config().state_dim;
  return rows > 1 ? Shape{rows, width} : Shape{width};
}

// Bytes, floats in [-1, 1], or one frame per camera.
using Images = std::variant<Array<uint8_t>, Array<float>, PythonFrames>;
// Images, tokens, noise, state.
using PythonInput = std::tuple<Images, Array<int32_t>, Array<float>, std::optional<Array<float>>>;

ModelInput model_input(const Engine& engine, const Images& images, const Array<int32_t>& tokens,
                       const Array<float>& noise, const std::optional<Array<float>>& state,
                       const PythonGuidance* guidance) {
  const PlanOptions& plan = engine.program_options().plan;
  const int64_t width = engine.config().action_dim;
  const Shape resized = images_shape(engine);
  check_layout("tokens", tokens, {tokens.size()});
  check_layout("noise", noise, {plan.horizon, width});
  if (state) check_layout("state", *state, state_shape(engine));
  if (guidance) {
    check_layout("previous actions", guidance->previous, {plan.horizon, width});
    check_layout("weights of the previous actions", guidance->weights, {plan.horizon});
    check_layout("guidance", guidance->guidance, {plan.steps});
  }
  ModelInput input{.tokens = view(tokens), .noise = view(noise)};
  if (const auto* bytes = std::get_if<Array<uint8_t>>(&images)) {
    check_layout("images", *bytes, resized);
    input.images = view(*bytes);
  } else if (const auto* floats = std::get_if<Array<float>>(&images)) {
    check_layout("images", *floats, resized);
    input.float_images = view(*floats);
  } else {
    for (const auto& frame : std::get<PythonFrames>(images)) input.frames.push_back(frame->frame);
  }
  if (state) input.state = view(*state);
  if (guidance) {
    input.guidance = {.previous = view(guidance->previous),
                      .weights = view(guidance->weights),
                      .guidance = view(guidance->guidance),
                      .committed_rows = guidance->committed_rows};
  }
  return input;
}

using Sizes = std::vector<std::pair<int, int>>;  // height, width

ProgramOptions program_options(int cameras, int prompt_capacity, int steps, int horizon,
                               std::vector<float> times, bool float_images, int64_t max_image_bytes,
                               std::vector<FrameOptions> frame_options, bool guided,
                               const Sizes& sizes, std::vector<int> markup_rows, int state_rows,
                               bool keep_values) {
  std::vector<ImageSize> image_sizes;
  for (const auto& [height, width] : sizes) image_sizes.push_back({height, width});
  return {.plan = {.cameras = cameras,
                   .prompt_capacity = prompt_capacity,
                   .horizon = horizon,
                   .steps = steps,
                   .float_images = float_images,
                   .max_image_bytes = max_image_bytes,
                   .guided = guided,
                   .image_sizes = std::move(image_sizes),
                   .markup_rows = std::move(markup_rows),
                   .state_rows = state_rows},
          .times = std::move(times),
          .frames = std::move(frame_options),
          .keep_values = keep_values};
}

py::dict stats_dict(const PlanStats& stats) {
  py::dict result;
  result["calls"] = stats.calls;
  result["quantize_calls"] = stats.quantize_calls;
  result["arena_bytes"] = stats.arena_bytes;
  result["unplanned_bytes"] = stats.unplanned_bytes;
  result["stored_weight_bytes"] = stats.stored_weight_bytes;
  result["weight_bytes"] = stats.weight_bytes;
  return result;
}

}  // namespace

void bind_engine(py::module_& module) {
  py::class_<PythonGuidance>(module, "Guidance", "The previous chunk, for real-time chunking.")
      .def(py::init([](Array<float> previous, Array<float> weights, Array<float> guidance,
                       int committed_rows) {
             return PythonGuidance{std::move(previous), std::move(weights), std::move(guidance),
                                   committed_rows};
           }),
           py::arg("previous").noconvert(), py::arg("weights").noconvert(),
           py::arg("guidance").noconvert(), py::arg("committed_rows") = 0);

  module.def(
      "recipe_json", [](const std::string& recipe) { return recipe_json(Recipe::named(recipe)); },
      py::arg("name_or_path"), "A recipe as the text of a recipe file.");

  module.def(
      "pack_weights",
      [](const std::filesystem::path& checkpoint, const std::filesystem::path& output,
         const std::string& recipe, std::optional<uint64_t> random_seed, int threads,
         int embodiment_slot, bool allow_untrained) {
        const py::gil_scoped_release release;
        return pack({.checkpoint = checkpoint,
                     .random_seed = random_seed,
                     .embodiment = {.slot = embodiment_slot, .allow_untrained = allow_untrained},
                     .backend_options = {.threads = threads},
                     .recipe = recipe},
                    output);
      },
      py::arg("checkpoint"), py::arg("output"), py::kw_only(), py::arg("recipe"),
      py::arg("random_seed") = py::none(), py::arg("threads") = 0, py::arg("embodiment_slot") = -1,
      py::arg("allow_untrained") = false,
      "Writes the weights as the recipe reads them; returns the digest of their source.");

  py::class_<Engine>(module, "Engine",
                     "A checkpoint, compiled and ready: observation in, action chunk out.")
      .def(
          py::init([](const std::filesystem::path& checkpoint, int cameras, int prompt_capacity,
                      int steps, int horizon, std::vector<float> times, const std::string& recipe,
                      const std::optional<std::filesystem::path>& calibration, bool float_images,
                      int64_t max_image_bytes, std::vector<FrameOptions> frame_options, bool guided,
                      const Sizes& sizes, std::vector<int> markup_rows, int state_rows,
                      bool keep_values, bool float_activations, const Equalisation* equalisation,
                      const std::string& backend,
                      int threads, int device, const std::optional<std::filesystem::path>& tuning,
                      bool fast_accumulation, bool dependent_launch, bool specialised_kernels,
                      std::optional<uint64_t> random_seed, double random_outliers,
                      const std::optional<std::filesystem::path>& packed, int embodiment_slot,
                      bool allow_untrained) {
            const py::gil_scoped_release release;
            return Engine(
                {.checkpoint = checkpoint,
                 .random_seed = random_seed,
                 .random_outliers = random_outliers,
                 .embodiment = {.slot = embodiment_slot, .allow_untrained = allow_untrained},
                 .packed = packed.value_or(std::filesystem::path()),
                 .backend = backend,
                 .backend_options = {.threads = threads,
                                     .device = device,
                                     .tuning = tuning.value_or(std::filesystem::path()),
                                     .fast_accumulation = fast_accumulation,
                                     .dependent_launch = dependent_launch,
                                     .specialised_kernels = specialised_kernels},
                 .recipe = recipe,
                 .calibration = calibration.value_or(std::filesystem::path()),
                 .float_activations = float_activations,
                 .equalisation = equalisation ? *equalisation : Equalisation(),
                 .program = program_options(cameras, prompt_capacity, steps, horizon,
                                            std::move(times), float_images, max_image_bytes,
                                            std::move(frame_options), guided, sizes,
                                            std::move(markup_rows), state_rows, keep_values)});
          }),
          py::arg("checkpoint"), py::kw_only(), py::arg("cameras"), py::arg("prompt_capacity") = 0,
          py::arg("steps") = 0, py::arg("horizon") = 0, py::arg("times") = std::vector<float>(),
          py::arg("recipe") = "f32", py::arg("calibration") = py::none(),
          py::arg("float_images") = false, py::arg("max_image_bytes") = 0,
          py::arg("frame_options") = std::vector<FrameOptions>(), py::arg("guided") = false,
          py::arg("image_sizes") = Sizes(), py::arg("markup_rows") = std::vector<int>(),
          py::arg("state_rows") = 1, py::arg("keep_values") = false, py::arg("float_activations") = false,
          py::arg("equalisation") = py::none(), py::arg("backend") = "cpu", py::arg("threads") = 0,
          py::arg("device") = 0,
          py::arg("tuning") = py::none(), py::arg("fast_accumulation") = true,
          py::arg("dependent_launch") = true, py::arg("specialised_kernels") = true,
          py::arg("random_seed") = py::none(), py::arg("random_outliers") = 1.0,
          py::arg("packed") = py::none(), py::arg("embodiment_slot") = -1,
          py::arg("allow_untrained") = false)
      .def(
          "recompile",
          [](const Engine& engine, int cameras, int prompt_capacity, int steps, int horizon,
             std::vector<float> times, bool float_images, int64_t max_image_bytes,
             std::vector<FrameOptions> frame_options, bool guided, const Sizes& sizes,
             std::vector<int> markup_rows, int state_rows, bool keep_values) {
            const py::gil_scoped_release release;
            return engine.recompile(program_options(
                cameras, prompt_capacity, steps, horizon, std::move(times), float_images,
                max_image_bytes, std::move(frame_options), guided, sizes, std::move(markup_rows),
                state_rows, keep_values));
          },
          py::kw_only(), py::arg("cameras"), py::arg("prompt_capacity") = 0, py::arg("steps") = 0,
          py::arg("horizon") = 0, py::arg("times") = std::vector<float>(),
          py::arg("float_images") = false, py::arg("max_image_bytes") = 0,
          py::arg("frame_options") = std::vector<FrameOptions>(), py::arg("guided") = false,
          py::arg("image_sizes") = Sizes(), py::arg("markup_rows") = std::vector<int>(),
          py::arg("state_rows") = 1, py::arg("keep_values") = false,
          "Another program on the same weights.")
      .def(
          "with_recipe",
          [](const Engine& engine, const std::string& recipe,
             const std::optional<std::filesystem::path>& calibration, bool float_activations) {
            const py::gil_scoped_release release;
            return engine.with_recipe({.recipe = recipe,
                                       .calibration = calibration.value_or(std::filesystem::path()),
                                       .float_activations = float_activations});
          },
          py::arg("recipe"), py::kw_only(), py::arg("calibration") = py::none(),
          py::arg("float_activations") = false,
          "The same program in another recipe, from the same weights.")
      .def(
          "infer",
          [](Engine& engine, const Images& images, const Array<int32_t>& tokens,
             const Array<float>& noise, const std::optional<Array<float>>& state,
             const PythonGuidance* guidance) {
            const ModelInput input = model_input(engine, images, tokens, noise, state, guidance);
            Array<float> actions(
                {engine.program_options().plan.horizon, engine.config().action_dim});
            const std::span<float> out(actions.mutable_data(), static_cast<size_t>(actions.size()));
            {
              const py::gil_scoped_release release;
              engine.infer(input, out);
            }
            return actions;
          },
          py::arg("images").noconvert(), py::arg("tokens").noconvert(),
          py::arg("noise").noconvert(), py::arg("state").noconvert() = py::none(),
          py::arg("guidance") = nullptr, "Actions [N, A] in model space.")
      .def(
          "trace",
          [](Engine& engine, const std::vector<std::string>& values, const Images& images,
             const Array<int32_t>& tokens, const Array<float>& noise,
             const std::optional<Array<float>>& state, const PythonGuidance* guidance) {
            const ModelInput input = model_input(engine, images, tokens, noise, state, guidance);
            std::map<std::string, TracedValue> traced;
            {
              const py::gil_scoped_release release;
              traced = engine.trace(values, input);
            }
            py::dict result;
            for (const auto& [name, value] : traced)
              result[py::str(name)] = to_array(value.data, value.shape);
            return result;
          },
          py::arg("values"), py::arg("images").noconvert(), py::arg("tokens").noconvert(),
          py::arg("noise").noconvert(), py::arg("state").noconvert() = py::none(),
          py::arg("guidance") = nullptr,
          "Values of the plan during one inference: float32, valid rows, one block per step in a "
          "repeated stage.")
      .def(
          "observe",
          [](Engine& engine, Calibration& calibration, const Images& images,
             const Array<int32_t>& tokens, const Array<float>& noise,
             const std::optional<Array<float>>& state) {
            const ModelInput input = model_input(engine, images, tokens, noise, state, nullptr);
            const py::gil_scoped_release release;
            engine.observe(input, calibration);
          },
          py::arg("calibration"), py::arg("images").noconvert(), py::arg("tokens").noconvert(),
          py::arg("noise").noconvert(), py::arg("state").noconvert() = py::none(),
          "Adds this inference to the calibration.")
      .def(
          "observe_channels",
          [](Engine& engine, ChannelMaxima& maxima, const Images& images,
             const Array<int32_t>& tokens, const Array<float>& noise,
             const std::optional<Array<float>>& state) {
            const ModelInput input = model_input(engine, images, tokens, noise, state, nullptr);
            const py::gil_scoped_release release;
            engine.observe_channels(input, maxima);
          },
          py::arg("maxima"), py::arg("images").noconvert(), py::arg("tokens").noconvert(),
          py::arg("noise").noconvert(), py::arg("state").noconvert() = py::none(),
          "Adds this inference to what equalisation follows from.")
      .def("equalise", &Engine::equalise, py::arg("maxima"), py::arg("strength"),
           py::call_guard<py::gil_scoped_release>(),
           "Factors from what was observed; reads the weights again.")
      .def(
          "measure",
          [](Engine& engine, const std::vector<PythonInput>& inputs, int warmup, int runs,
             int operation_runs) {
            std::vector<ModelInput> model_inputs;
            for (const auto& [images, tokens, noise, state] : inputs)
              model_inputs.push_back(model_input(engine, images, tokens, noise, state, nullptr));
            const py::gil_scoped_release release;
            return measure(engine, model_inputs,
                           {.warmup = warmup, .runs = runs, .operation_runs = operation_runs});
          },
          py::arg("inputs").noconvert(), py::arg("warmup") = 50, py::arg("runs") = 200,
          py::arg("operation_runs") = 0, "Times of inferences, stages and calls.")
      .def(
          "compare",
          [](Engine& first, Engine& second, const Images& images, const Array<int32_t>& tokens,
             const Array<float>& noise, const std::optional<Array<float>>& state, bool all) {
            const ModelInput input = model_input(first, images, tokens, noise, state, nullptr);
            const py::gil_scoped_release release;
            return compare(first, second, input, all);
          },
          py::arg("second"), py::arg("images").noconvert(), py::arg("tokens").noconvert(),
          py::arg("noise").noconvert(), py::arg("state").noconvert() = py::none(),
          py::arg("all") = false,
          "Each call of the second engine on what this one computed; stops after the first result "
          "beyond its bound, unless all are asked for.")
      .def(
          "report_calls",
          [](Engine& engine, int prompt_length) { return report_calls(engine, prompt_length); },
          py::arg("prompt_length"), "The calls of the plan, with their costs and kernels.")
      .def(
          "frame_buffer",
          [](py::object self, int camera) {
            const std::span<std::byte> memory = self.cast<Engine&>().frame_buffer(camera);
            return py::array_t<uint8_t>(static_cast<py::ssize_t>(memory.size()),
                                        reinterpret_cast<uint8_t*>(memory.data()), self);
          },
          py::arg("camera"),
          "Memory for the frame of a camera; one that lies at its beginning is not copied again.")
      .def_property_readonly("device", &Engine::device)
      .def_property_readonly("stages",
                             [](const Engine& engine) {
                               std::vector<std::string> names;
                               for (const Stage& stage : engine.plan().stages)
                                 names.push_back(stage.name);
                               return names;
                             })
      .def_property_readonly("config", &Engine::config)
      .def_property_readonly(
          "cameras", [](const Engine& engine) { return engine.program_options().plan.cameras; })
      .def_property_readonly(
          "prompt_capacity",
          [](const Engine& engine) { return engine.program_options().plan.prompt_capacity; })
      .def_property_readonly(
          "horizon", [](const Engine& engine) { return engine.program_options().plan.horizon; })
      .def_property_readonly(
          "steps", [](const Engine& engine) { return engine.program_options().plan.steps; })
      .def_property_readonly("times",
                             [](const Engine& engine) { return engine.program_options().times; })
      .def_property_readonly("weights_digest", &Engine::weights_digest)
      .def_property_readonly("plan_digest", &Engine::plan_digest)
      .def_property_readonly("equalisation", &Engine::equalisation)
      .def("plan_text", [](const Engine& engine) { return print(engine.plan()); })
      .def("plan_stats", [](const Engine& engine) { return stats_dict(engine.stats()); });
}

}  // namespace flashrt
