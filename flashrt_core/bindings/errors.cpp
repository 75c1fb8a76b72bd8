// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// flashrt::Error, its kinds and what the file system refuses become the exceptions of
// flashrt_core.errors.
#include <filesystem>

#include "bindings/bindings.hpp"

namespace py = pybind11;

namespace flashrt {
namespace {

void raise(const char* python_class, const std::exception& error) {
  const py::object type = py::module_::import("flashrt_core.errors").attr(python_class);
  // Texts quote names and contents of files, which may hold any bytes.
  const std::string_view what = error.what();
  const auto message = py::reinterpret_steal<py::object>(
      PyUnicode_DecodeUTF8(what.data(), static_cast<py::ssize_t>(what.size()), "backslashreplace"));
  if (message) PyErr_SetObject(type.ptr(), message.ptr());
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
    } catch (const std::filesystem::filesystem_error& error) {
      raise("Error", error);
    }
  });
}

}  // namespace flashrt
