# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors

# Finds ROS 2 and generates the messages. Sets FLASHRT_WITH_ROS and FLASHRT_PYTHON_DIR, where Python files are installed.

if(NOT FLASHRT_ROS MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "FLASHRT_ROS is '${FLASHRT_ROS}', expected AUTO, ON or OFF")
endif()

# A sourced installation says where it is. One made of Python wheels lies in the interpreter's own prefix: ament and rosidl
# then need the variable that sourcing would have set.
string(REPLACE ":" ";" _ament_path "$ENV{AMENT_PREFIX_PATH}")
flashrt_python(_prefix "import sys; print(sys.prefix)")
if(NOT FLASHRT_ROS STREQUAL "OFF" AND EXISTS "${_prefix}/share/ament_cmake" AND NOT _prefix IN_LIST _ament_path)
  list(APPEND _ament_path "${_prefix}")
  list(JOIN _ament_path ":" _joined)
  set(ENV{AMENT_PREFIX_PATH} "${_joined}")
endif()
if(NOT FLASHRT_ROS STREQUAL "OFF")
  list(APPEND CMAKE_PREFIX_PATH ${_ament_path})
endif()

# Decided by the file, not by find_package: ament_cmake stops CMake, QUIET or not, when the interpreter lacks its modules.
set(FLASHRT_WITH_ROS ${FLASHRT_ROS})
if(FLASHRT_ROS STREQUAL "AUTO")
  set(FLASHRT_WITH_ROS OFF)
  string(REPLACE ":" ";" _prefixes "$ENV{CMAKE_PREFIX_PATH}")
  foreach(_prefix IN LISTS CMAKE_PREFIX_PATH _prefixes)
    if(EXISTS "${_prefix}/share/ament_cmake/cmake/ament_cmakeConfig.cmake")
      set(FLASHRT_WITH_ROS ON)
    endif()
  endforeach()
endif()
message(STATUS "flashrt: ROS 2 package and messages ${FLASHRT_WITH_ROS}")

# A wheel: Python files go to its platlib, the rest to its data tree, which pip unpacks into the prefix (lib/, share/).
# PYTHON_INSTALL_DIR is the name that ament_cmake_python reads.
if(SKBUILD)
  file(RELATIVE_PATH PYTHON_INSTALL_DIR "${SKBUILD_DATA_DIR}" "${SKBUILD_PLATLIB_DIR}")
  set(FLASHRT_PYTHON_DIR "${PYTHON_INSTALL_DIR}")
else()
  set(FLASHRT_PYTHON_DIR "lib/python${Python3_VERSION_MAJOR}.${Python3_VERSION_MINOR}/site-packages")
endif()

if(NOT FLASHRT_WITH_ROS)
  return()
endif()

execute_process(
  COMMAND "${Python3_EXECUTABLE}" -c "import ament_package, catkin_pkg, em, lark, rosidl_adapter, rosidl_generator_py"
  RESULT_VARIABLE _status ERROR_VARIABLE _error)
if(NOT _status EQUAL 0)
  message(FATAL_ERROR "ROS 2 was found, but ${Python3_EXECUTABLE} cannot import its generators:\n${_error}"
    "With pip, use `pip install --no-build-isolation .`; "
    "to build without ROS, pass -DFLASHRT_ROS=OFF (with pip: `-C cmake.define.FLASHRT_ROS=OFF`).")
endif()
find_package(ament_cmake REQUIRED)
find_package(ament_cmake_python REQUIRED)
find_package(rosidl_default_generators REQUIRED)
find_package(std_msgs REQUIRED)
find_package(builtin_interfaces REQUIRED)
ament_get_python_install_dir(FLASHRT_PYTHON_DIR)

rosidl_generate_interfaces(${PROJECT_NAME} "msg/ActionChunk.msg" DEPENDENCIES std_msgs builtin_interfaces)
ament_export_dependencies(rosidl_default_runtime)

# Message packages built as wheels export include directories of the machine that built them, and CMake stops at a
# directory that does not exist. After rosidl_generate_interfaces, which itself finds more message packages.
get_property(_targets DIRECTORY PROPERTY IMPORTED_TARGETS)
foreach(_target IN LISTS _targets)
  if(_target MATCHES "__rosidl_generator_py$")
    get_target_property(_folders ${_target} INTERFACE_INCLUDE_DIRECTORIES)
    set(_kept "")
    foreach(_folder IN LISTS _folders)
      if(_folder MATCHES "^\\$<" OR EXISTS "${_folder}")
        list(APPEND _kept "${_folder}")
      endif()
    endforeach()
    set_property(TARGET ${_target} PROPERTY INTERFACE_INCLUDE_DIRECTORIES "${_kept}")
  endif()
endforeach()

# The exported interface of our own messages names NumPy's headers, which lie below the source tree when the interpreter
# is in .venv: CMake refuses to export such a path. Only the build needs it.
set(_target ${PROJECT_NAME}__rosidl_generator_py)
get_target_property(_folders ${_target} INTERFACE_INCLUDE_DIRECTORIES)
list(TRANSFORM _folders REPLACE "^(/.*)$" "$<BUILD_INTERFACE:\\1>")
set_property(TARGET ${_target} PROPERTY INTERFACE_INCLUDE_DIRECTORIES "${_folders}")
