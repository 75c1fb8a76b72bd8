# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors

# One interpreter for everything that asks for Python: the binding, ament and rosidl.

set(Python3_FIND_VIRTUALENV FIRST)
set(Python3_FIND_UNVERSIONED_NAMES FIRST)
if(SKBUILD AND DEFINED Python_EXECUTABLE AND NOT DEFINED Python3_EXECUTABLE)
  set(Python3_EXECUTABLE "${Python_EXECUTABLE}")
endif()
find_package(Python3 3.11 REQUIRED COMPONENTS Interpreter OPTIONAL_COMPONENTS Development.Module)
set(Python_EXECUTABLE "${Python3_EXECUTABLE}")  # else pybind11 may find another interpreter than ament

# Sets `result` to what the interpreter prints for `code`, empty if it fails.
function(flashrt_python result code)
  execute_process(COMMAND "${Python3_EXECUTABLE}" -c "${code}"
    OUTPUT_VARIABLE output OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    set(output "")
  endif()
  set(${result} "${output}" PARENT_SCOPE)
endfunction()

# The folder `path` inside the Python package `package`, empty if the package is not installed.
function(flashrt_python_folder result package path)
  flashrt_python(folder "if True:
    from importlib.util import find_spec
    spec = find_spec('${package}')
    print(spec.submodule_search_locations[0] + '/${path}' if spec else '')")
  set(${result} "${folder}" PARENT_SCOPE)
endfunction()
