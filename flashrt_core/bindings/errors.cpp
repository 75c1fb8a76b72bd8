// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// flashrt::Error and its kinds become the exceptions of flashrt_core.errors.
#include "bindings/bindings.hpp"

namespace py = pybind11;

namespace flashrt {
namespace {

void raise(const char* python_class, const Error& error) {
  const py::object type = py::module_::import("flashrt_core.errors").attr(python_class);
  PyErr_SetString(type.ptr(), error.what());
}

}  // namespace

void bind_errors(py::module_& module) {
  const py::module_ errors = py::module_::import("flashrt_core.errors");
  module.attr("Error") = errors.attr("Error");
  module.attr("ModelNotSupportedError") = errors.attr("ModelNotSupportedError");
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const ModelNotSupportedError& error) {
      raise("ModelNotSupportedError", error);
    } catch (const Error& error) {
      raise("Error", error);
    }
  });
}

}  // namespace flashrt
