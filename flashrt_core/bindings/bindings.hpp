// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// One function per file of bindings, and what they share.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <span>
#include <vector>

#include "base/check.hpp"

namespace flashrt {

void bind_errors(pybind11::module_& module);
void bind_model_config(pybind11::module_& module);
void bind_calibration(pybind11::module_& module);
void bind_equalisation(pybind11::module_& module);
void bind_frame(pybind11::module_& module);
void bind_engine(pybind11::module_& module);
void bind_measure(pybind11::module_& module);
void bind_plan(pybind11::module_& module);
void bind_number_format(pybind11::module_& module);

// A C-contiguous array of exactly this type: never converted, so never copied behind the caller's
// back.
template <class T>
using Array = pybind11::array_t<T, pybind11::array::c_style>;

template <class T>
std::span<const T> view(const Array<T>& array) {
  return {array.data(), static_cast<size_t>(array.size())};
}

template <class T>
Array<T> to_array(const std::vector<T>& data, const std::vector<int64_t>& shape) {
  Array<T> array(std::vector<pybind11::ssize_t>(shape.begin(), shape.end()));
  std::copy(data.begin(), data.end(), array.mutable_data());
  return array;
}

}  // namespace flashrt
