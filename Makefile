# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors

# The commands of the project. Each prepares what it needs in .venv and build/, from a fresh clone, and only once.

PYTHON ?= python3
MODEL ?= pi05

VENV := .venv
SHELL := /bin/sh
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test test-core test-python lint install googletest clean

help:
	@echo 'make demo    replay a recorded robot through the policy node (MODEL=pi05)'
	@echo 'make test    build and run every test'
	@echo 'make lint    formatting, lint and layer check'
	@echo 'make clean   remove .venv and build'

# --- The environment ---------------------------------------------------------

# A ROS 2 installation that is sourced is used as it is; otherwise ROS 2 comes as Python wheels.
ifneq ($(AMENT_PREFIX_PATH)$(ROS_DISTRO),)
  SOURCED := $(shell $(PYTHON) -c 'import os, sys, rclpy; \
    sys.exit(os.path.realpath(sys.prefix) == os.path.realpath("$(VENV)"))' 2>/dev/null && echo yes)
  ifneq ($(SOURCED),yes)
    $(info A ROS 2 installation is sourced, but $(PYTHON) cannot import its rclpy: it is not used.)
  endif
endif
ifeq ($(SOURCED),yes)
  KIND := sourced
  VENV_OPTIONS := --system-site-packages
  REQUIREMENTS := build run
  # What the sourced setup does for its own packages, for the one installed in .venv.
  RUN := AMENT_PREFIX_PATH="$(CURDIR)/$(VENV):$$AMENT_PREFIX_PATH" LD_LIBRARY_PATH="$(CURDIR)/$(VENV)/lib:$$LD_LIBRARY_PATH"
else
  KIND := wheels
  REQUIREMENTS := build run apt ros_kilted
  # Inherited from another environment's Python it would keep this one's from finding its libraries.
  unexport _ROS_WHEELS_BOOTSTRAP_COMPLETE
endif

RUN += VIRTUAL_ENV="$(CURDIR)/$(VENV)" PATH="$(CURDIR)/$(VENV)/bin:$$PATH"
PIP := $(RUN) $(VENV)/bin/python -m pip --disable-pip-version-check --quiet
CREATED := $(VENV)/.created-$(KIND)

# The core is compiled several times: for its tests, for .venv, for the packages that the tests build. Only the first has
# warnings as errors, so it stores objects for the others (whose command line differs by -Werror) but takes none.
ifeq ($(origin CXX),default)
  CC := cc
  CXX := c++
endif
export CC CXX
export CCACHE_IGNOREOPTIONS ?= -Werror
export CMAKE_C_COMPILER_LAUNCHER ?= ccache
export CMAKE_CXX_COMPILER_LAUNCHER ?= ccache
export CCACHE_DIR ?= $(CURDIR)/build/ccache

$(CREATED):
	@$(PYTHON) -c 'import sys; v = sys.version.split()[0]; (3, 11) <= sys.version_info[:2] <= (3, 13) or \
	  sys.exit(f"$(PYTHON) is Python {v}, but 3.11 to 3.13 is needed: make PYTHON=python3.12")'
	rm -rf $(VENV) build/venv build/dev
	$(PYTHON) -m venv $(VENV_OPTIONS) $(VENV)
	touch $@

$(VENV)/.requirements: $(CREATED) $(REQUIREMENTS:%=requirements/%.txt)
	$(PIP) install $(REQUIREMENTS:%=-r requirements/%.txt)
	touch $@

$(VENV)/.requirements-%: requirements/%.txt $(CREATED)
	$(PIP) install -r $<
	touch $@

# Python modules are imported from the source tree; everything else is built or copied.
BUILT := CMakeLists.txt package.xml pyproject.toml flashrt_ros/__init__.py \
  $(shell find cmake config flashrt_core launch msg -type f ! -path '*/python/*' ! -name '*.md')

$(VENV)/.installed: $(VENV)/.requirements $(BUILT)
	$(PIP) install --no-build-isolation --no-deps -C build-dir=build/venv -e .
	touch $@

install: $(VENV)/.installed

# --- The commands ------------------------------------------------------------

demo: install
	$(RUN) $(VENV)/bin/python -m flashrt_ros.demo --model $(MODEL)

test: test-core test-python

test-core: googletest $(VENV)/.requirements
	$(RUN) CCACHE_RECACHE=1 cmake --workflow --preset dev

# Plugins that happen to be installed, such as those of a ROS 2 distribution, are not loaded.
test-python: install $(VENV)/.requirements-test
	$(RUN) PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 $(VENV)/bin/pytest

lint: $(VENV)/.requirements-lint
	$(VENV)/bin/clang-format --dry-run -Werror $(shell find flashrt_core test -name '*.hpp' -o -name '*.cpp')
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/python test/layers/check_layers.py

googletest:
	@echo '#include <gtest/gtest.h>' | $(CXX) -x c++ -E -o /dev/null - 2>/dev/null || \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y libgtest-dev; \
	else \
	  echo 'GoogleTest is missing. Install it with: sudo apt-get install libgtest-dev' >&2; exit 1; \
	fi

clean:
	rm -rf $(VENV) build
