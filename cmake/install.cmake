# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors

# What is installed where. After the messages: the generated package has the same name as flashrt_ros/, and the
# hand-written __init__.py must be the one that stays.

if(FLASHRT_BINDING)
  install(TARGETS _core LIBRARY DESTINATION ${FLASHRT_PYTHON_DIR}/flashrt_core)
  if(FLASHRT_WITH_CUDA)
    install(TARGETS flashrt_cuda LIBRARY DESTINATION ${FLASHRT_PYTHON_DIR}/flashrt_core)
  endif()
endif()

if(SKBUILD)
  # pyproject.toml packs the Python files and writes the commands; this one replaces the generated file.
  if(FLASHRT_WITH_ROS)
    install(FILES flashrt_ros/__init__.py DESTINATION ${FLASHRT_PYTHON_DIR}/flashrt_ros)
  endif()
elseif(FLASHRT_WITH_ROS)
  foreach(_package flashrt_ros flashrt_core/python/flashrt_core)
    install(DIRECTORY ${_package} DESTINATION ${FLASHRT_PYTHON_DIR} PATTERN "__pycache__" EXCLUDE PATTERN ".*" EXCLUDE)
  endforeach()

  # importlib.metadata finds the sub-commands of `flashrt` here, in the metadata that rosidl writes for the package.
  set(_entry_points "${CMAKE_CURRENT_BINARY_DIR}/entry_points.txt")
  execute_process(
    COMMAND "${Python3_EXECUTABLE}" "${CMAKE_CURRENT_SOURCE_DIR}/cmake/entry_points.py"
      "${CMAKE_CURRENT_SOURCE_DIR}/pyproject.toml" "${_entry_points}"
    COMMAND_ERROR_IS_FATAL ANY)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS pyproject.toml cmake/entry_points.py)
  install(FILES "${_entry_points}" DESTINATION ${FLASHRT_PYTHON_DIR}/${PROJECT_NAME}-${PROJECT_VERSION}-py${Python3_VERSION_MAJOR}.${Python3_VERSION_MINOR}.egg-info)
endif()

# What parameter files name as package://flashrt_ros/...: offline commands read them without ROS, too.
install(DIRECTORY config checkpoints DESTINATION share/${PROJECT_NAME})

if(FLASHRT_WITH_ROS)
  # `ros2 run` and launch files look for executables in lib/<package>.
  function(flashrt_ros_executable name module)
    set(path "${CMAKE_CURRENT_BINARY_DIR}/bin/${name}")
    file(CONFIGURE OUTPUT "${path}" @ONLY
      CONTENT "#!/usr/bin/env python3\nimport sys\n\nfrom @module@ import main\n\nsys.exit(main())\n")
    file(CHMOD "${path}" PERMISSIONS  # `colcon build --symlink-install` links to this file
      OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
    install(PROGRAMS "${path}" DESTINATION lib/${PROJECT_NAME})
  endfunction()
  flashrt_ros_executable(policy_node flashrt_ros.policy_node)
  flashrt_ros_executable(sim_robot flashrt_ros.sim_robot)
  flashrt_ros_executable(flashrt flashrt_core.cli)

  install(DIRECTORY launch DESTINATION share/${PROJECT_NAME}
    PATTERN "__pycache__" EXCLUDE)
  # What `ros2 launch flashrt_ros demo.launch.py` plays.
  install(DIRECTORY test/data/aloha_sim test/data/aloha_sim_model_input test/data/aloha_sim_groot_model_input
    DESTINATION share/${PROJECT_NAME}/demo)
endif()
