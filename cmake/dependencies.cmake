# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors

# The two libraries of the core: OpenBLAS and nlohmann/json, from PyPI where the interpreter has them, else from the system.

# --- BLAS: FLASHRT_BLAS_INCLUDE_DIR, FLASHRT_BLAS_LIBRARY, FLASHRT_BLAS_DEFINITIONS, FLASHRT_BLAS_RPATH -------------

if(NOT FLASHRT_BLAS MATCHES "^(AUTO|PYPI|SYSTEM)$")
  message(FATAL_ERROR "FLASHRT_BLAS is '${FLASHRT_BLAS}', expected AUTO, PYPI or SYSTEM")
endif()

# A wheel declares scipy-openblas32 as its dependency, so a wheel links it unless told otherwise.
set(_blas ${FLASHRT_BLAS})
if(SKBUILD AND _blas STREQUAL "AUTO")
  set(_blas PYPI)
endif()

set(FLASHRT_BLAS_LIBRARY "")
if(_blas MATCHES "AUTO|PYPI")
  flashrt_python_folder(_openblas scipy_openblas32 "")
  if(_openblas)
    set(FLASHRT_BLAS_INCLUDE_DIR "${_openblas}include")
    set(FLASHRT_BLAS_LIBRARY "${_openblas}lib/libscipy_openblas.so")
    set(FLASHRT_BLAS_DEFINITIONS BLAS_SYMBOL_PREFIX=scipy_)
    # Beside the installed package first; in the build tree and in a colcon workspace where it was found.
    set(FLASHRT_BLAS_RPATH "$ORIGIN/../scipy_openblas32/lib")
    if(NOT SKBUILD)
      list(APPEND FLASHRT_BLAS_RPATH "${_openblas}lib")
    endif()
  endif()
endif()
if(NOT FLASHRT_BLAS_LIBRARY AND _blas MATCHES "AUTO|SYSTEM")
  find_path(FLASHRT_SYSTEM_CBLAS cblas.h PATH_SUFFIXES openblas-pthread openblas)
  find_library(FLASHRT_SYSTEM_OPENBLAS openblas PATH_SUFFIXES openblas-pthread)
  if(FLASHRT_SYSTEM_CBLAS AND FLASHRT_SYSTEM_OPENBLAS)
    set(FLASHRT_BLAS_INCLUDE_DIR "${FLASHRT_SYSTEM_CBLAS}")
    set(FLASHRT_BLAS_LIBRARY "${FLASHRT_SYSTEM_OPENBLAS}")
    set(FLASHRT_BLAS_DEFINITIONS "")
    set(FLASHRT_BLAS_RPATH "")
  endif()
endif()
if(NOT FLASHRT_BLAS_LIBRARY)
  message(FATAL_ERROR "No BLAS found (FLASHRT_BLAS=${FLASHRT_BLAS}). Either install the Python package scipy-openblas32 "
    "for ${Python3_EXECUTABLE} (`${Python3_EXECUTABLE} -m pip install scipy-openblas32`), "
    "or the system's OpenBLAS (`apt install libopenblas-dev`; when building with pip, also pass "
    "`-C cmake.define.FLASHRT_BLAS=SYSTEM`).")
endif()
message(STATUS "flashrt: BLAS ${FLASHRT_BLAS_LIBRARY}")

# --- JSON: target nlohmann_json::nlohmann_json ----------------------------------------------------------------------

flashrt_python_folder(_json nlohmann_json include)
if(_json)
  add_library(nlohmann_json::nlohmann_json INTERFACE IMPORTED)
  target_include_directories(nlohmann_json::nlohmann_json SYSTEM INTERFACE "${_json}")
else()
  find_package(nlohmann_json 3.10 QUIET)
  if(NOT nlohmann_json_FOUND)
    message(FATAL_ERROR "nlohmann/json 3.10 or newer was not found. Either install the Python package nlohmann-json for "
      "${Python3_EXECUTABLE}, or the system's (`apt install nlohmann-json3-dev`).")
  endif()
endif()
