// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// What measure, compare, report_calls and device of an engine return.
#include "runtime/measure.hpp"

#include <pybind11/stl.h>

#include "bindings/bindings.hpp"
#include "runtime/compare.hpp"

namespace py = pybind11;

namespace flashrt {

void bind_measure(py::module_& module) {
  py::class_<DeviceReport>(module, "DeviceReport", "What an engine runs on.")
      .def_readonly("name", &DeviceReport::name)
      .def_readonly("versions", &DeviceReport::versions)
      .def_readonly("total_bytes", &DeviceReport::total_bytes)
      .def_readonly("free_bytes", &DeviceReport::free_bytes);

  py::class_<ProgramCounters>(module, "ProgramCounters",
                              "What a program and its backend have done so far.")
      .def_readonly("captures", &ProgramCounters::captures)
      .def_readonly("allocations", &ProgramCounters::allocations)
      .def_readonly("tunings", &ProgramCounters::tunings)
      .def_readonly("graph_nodes", &ProgramCounters::graph_nodes)
      .def_readonly("graph_node_kinds", &ProgramCounters::graph_node_kinds)
      .def_readonly("fastest_capture_ms", &ProgramCounters::fastest_capture_ms)
      .def_readonly("slowest_capture_ms", &ProgramCounters::slowest_capture_ms);

  py::class_<Measurement>(module, "Measurement", "Times of an engine, in milliseconds.")
      .def_readonly("inference", &Measurement::inference)
      .def_readonly("replay", &Measurement::replay)
      .def_readonly("prompt", &Measurement::prompt)
      .def_readonly("stages", &Measurement::stages)
      .def_readonly("calls", &Measurement::calls)
      .def_readonly("before", &Measurement::before)
      .def_readonly("after", &Measurement::after);

  py::class_<CallDifference>(module, "CallDifference", "One result of one call on two engines.")
      .def_readonly("call", &CallDifference::call)
      .def_readonly("operation", &CallDifference::operation)
      .def_readonly("value", &CallDifference::value)
      .def_readonly("iteration", &CallDifference::iteration)
      .def_property_readonly(
          "types", [](const CallDifference& d) { return std::pair(d.first_type, d.second_type); })
      .def_readonly("rms", &CallDifference::rms)
      .def_readonly("worst", &CallDifference::worst)
      .def_readonly("worst_at", &CallDifference::worst_at)
      .def_readonly("not_finite", &CallDifference::not_finite)
      .def_readonly("bound", &CallDifference::bound)
      .def_readonly("reason", &CallDifference::reason)
      .def_property_readonly("passed", &CallDifference::passed);

  py::class_<CallReport>(module, "CallReport", "A call of a plan and what it costs at least.")
      .def_readonly("name", &CallReport::name)
      .def_readonly("operation", &CallReport::operation)
      .def_readonly("stage", &CallReport::stage)
      .def_property_readonly(
          "when", [](const CallReport& report) { return std::string(name_of(report.when)); })
      .def_readonly("repeat", &CallReport::repeat)
      .def_property_readonly("flops", [](const CallReport& report) { return report.cost.flops; })
      .def_property_readonly(
          "product",
          [](const CallReport& report) { return std::string(name_of(report.cost.product)); })
      .def_property_readonly("weight_bytes",
                             [](const CallReport& report) { return report.cost.weight_bytes; })
      .def_property_readonly("read_bytes",
                             [](const CallReport& report) { return report.cost.read_bytes; })
      .def_property_readonly("written_bytes",
                             [](const CallReport& report) { return report.cost.written_bytes; })
      .def_readonly("kernels", &CallReport::kernels);
}

}  // namespace flashrt
