# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors

# Finds CUDA 13: the compiler, and cuBLASLt. Sets FLASHRT_WITH_CUDA, and FLASHRT_CUDA_RPATH, where the backend finds cuBLASLt.

set(FLASHRT_CUDA AUTO CACHE STRING "Build the CUDA backend: AUTO (where a CUDA 13 compiler is found), ON or OFF")
set(FLASHRT_CUDA_ARCHITECTURES "" CACHE STRING
  "GPUs that the CUDA backend is compiled for, a list of 89, 90a, 100, 110, 120; empty: CUDAARCHS of the environment, else 90a")

if(NOT FLASHRT_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "FLASHRT_CUDA is '${FLASHRT_CUDA}', expected AUTO, ON or OFF")
endif()

# Says why the backend is not built; an error if it was asked for.
function(flashrt_without_cuda reason)
  if(FLASHRT_CUDA STREQUAL "ON")
    message(FATAL_ERROR "FLASHRT_CUDA is ON, but ${reason}")
  endif()
  message(STATUS "flashrt: CUDA backend OFF: ${reason}")
endfunction()

set(FLASHRT_WITH_CUDA OFF)
if(FLASHRT_CUDA STREQUAL "OFF")
  message(STATUS "flashrt: CUDA backend OFF, as FLASHRT_CUDA says")
  return()
endif()

# Asked for its version before CMake is told to use it: what CMake cannot use stops it. CUDA on a Jetson is not in PATH.
if(NOT CMAKE_CUDA_COMPILER)
  set(_compiler "$ENV{CUDACXX}")
  if(NOT _compiler)
    find_program(FLASHRT_NVCC nvcc PATHS "$ENV{CUDA_HOME}/bin" "$ENV{CUDA_PATH}/bin" /usr/local/cuda/bin)
    mark_as_advanced(FLASHRT_NVCC)
    set(_compiler "${FLASHRT_NVCC}")
  endif()
  if(NOT _compiler)
    flashrt_without_cuda("no nvcc was found in PATH, CUDA_HOME or /usr/local/cuda; the variable CUDACXX can name it")
    return()
  endif()
else()
  set(_compiler "${CMAKE_CUDA_COMPILER}")
endif()
execute_process(COMMAND "${_compiler}" --version OUTPUT_VARIABLE _output ERROR_VARIABLE _output RESULT_VARIABLE _status)
if(NOT _output MATCHES "release ([0-9]+)\\.([0-9]+)")
  flashrt_without_cuda("`${_compiler} --version` names no release (${_status})")
  return()
elseif(CMAKE_MATCH_1 LESS 13)
  flashrt_without_cuda("${_compiler} is of CUDA ${CMAKE_MATCH_1}.${CMAKE_MATCH_2}, and 13.0 or newer is needed")
  return()
endif()

# Machine code for these GPUs alone: the driver would compile intermediate code for others at the first start, unseen.
set(CMAKE_CUDA_COMPILER "${_compiler}")
if(NOT CMAKE_CUDA_HOST_COMPILER AND NOT DEFINED ENV{CUDAHOSTCXX})
  set(CMAKE_CUDA_HOST_COMPILER "${CMAKE_CXX_COMPILER}")
endif()
set(_architectures ${FLASHRT_CUDA_ARCHITECTURES})
if(NOT _architectures)
  set(_architectures $ENV{CUDAARCHS})
endif()
if(NOT _architectures)
  set(_architectures 90a)
endif()
if("90" IN_LIST _architectures)  # kernels would compile to nothing there, and run
  message(FATAL_ERROR "the CUDA backend cannot be compiled for 90: its kernels for Hopper need 90a")
endif()
list(TRANSFORM _architectures APPEND "-real" OUTPUT_VARIABLE CMAKE_CUDA_ARCHITECTURES)
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc has C++20
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
endif()
find_package(CUDAToolkit QUIET)
if(NOT TARGET CUDA::cublasLt OR NOT TARGET CUDA::cudart_static)
  flashrt_without_cuda("${_compiler} has no cuBLASLt or no static runtime beside it: install the whole CUDA toolkit")
  return()
endif()

# cuBLASLt of the toolkit it was compiled with, or where there is none the one of PyPI's nvidia-cublas beside the package.
get_filename_component(FLASHRT_CUDA_RPATH "${CUDA_cublasLt_LIBRARY}" DIRECTORY)
list(APPEND FLASHRT_CUDA_RPATH "$ORIGIN/../nvidia/cu13/lib")

set(FLASHRT_WITH_CUDA ON)
list(JOIN _architectures " " _architectures)
message(STATUS "flashrt: CUDA backend ON, ${_compiler} ${CMAKE_CUDA_COMPILER_VERSION}, for ${_architectures}")
