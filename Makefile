# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The flashrt_ros authors

# The commands of the project. Each prepares what it needs in .venv and build/, from a fresh clone, and only once.

PYTHON ?= python3
MODEL ?= pi05
MINUTES ?= 10

VENV := .venv
SHELL := /bin/sh
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo replay test test-core test-python test-gpu soak lint install googletest egl clean

help:
	@echo 'make demo       a trained policy moves a simulated robot as it is told, through the policy node'
	@echo 'make replay     a recorded robot through the policy node, on a tiny random model (MODEL=pi05 or groot)'
	@echo 'make test       build and run every test; those that need a GPU are skipped without one'
	@echo 'make test-gpu   the tests that need a GPU, none skipped (SANITIZE=racecheck: kernel tests alone; GTEST_FILTER)'
	@echo 'make soak       run the node among faults on this machine (MINUTES=10)'
	@echo 'make lint       formatting, lint and layer check'
	@echo 'make clean      remove .venv and build'

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
export CCACHE_IGNOREOPTIONS ?= -Werror*
export CMAKE_C_COMPILER_LAUNCHER ?= ccache
export CMAKE_CXX_COMPILER_LAUNCHER ?= ccache
export CMAKE_CUDA_COMPILER_LAUNCHER ?= ccache
export CCACHE_DIR ?= $(CURDIR)/build/ccache

# CUDA code is compiled for the GPU that is here, if it is one that can run it, otherwise for the default of cmake/cuda.cmake.
ifeq ($(origin CUDAARCHS),undefined)
  CUDAARCHS := $(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | \
    awk -F. '{n = 10 * $$1 + $$2} NR == 1 && n >= 89 {print n == 90 ? "90a" : n}')
endif
export CUDAARCHS

$(CREATED):
	@$(PYTHON) -c 'import sys; v = sys.version.split()[0]; (3, 11) <= sys.version_info[:2] <= (3, 13) or \
	  sys.exit(f"$(PYTHON) is Python {v}, but 3.11 to 3.13 is needed: make PYTHON=python3.12")'
	rm -rf $(VENV) build/venv build/dev build/gpu
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
  $(shell find checkpoints cmake config flashrt_core launch msg -type f ! -path '*/python/*' ! -name '*.md')

# The demos need no CUDA, which takes longer to compile than everything else; what is there already stays.
INSTALL := $(PIP) install --no-build-isolation --no-deps -C build-dir=build/venv -e .
DEMO_INSTALLED := $(or $(wildcard $(VENV)/.installed),$(VENV)/.installed-without-cuda)

$(VENV)/.installed-without-cuda: $(VENV)/.requirements $(BUILT)
	$(INSTALL) -C cmake.define.FLASHRT_CUDA=OFF
	touch $@

$(VENV)/.installed: $(VENV)/.requirements $(BUILT)
	$(INSTALL) -C cmake.define.FLASHRT_CUDA=AUTO
	touch $@

install: $(VENV)/.installed

# --- The commands ------------------------------------------------------------

# Of the models the tabletop has a policy for Pi0.5 alone; the others are shown by the recording.
ifeq ($(MODEL),pi05)
demo: $(DEMO_INSTALLED) egl
	$(RUN) $(VENV)/bin/python -m flashrt_ros.demo
else
demo: replay
endif

replay: $(DEMO_INSTALLED)
	$(RUN) $(VENV)/bin/python -m flashrt_ros.replay_demo --model $(MODEL)

test: test-core test-python

test-core: googletest $(VENV)/.requirements
	$(RUN) CCACHE_RECACHE=1 cmake --workflow --preset dev

# Plugins that happen to be installed, such as those of a ROS 2 distribution, are not loaded.
test-python: install $(VENV)/.requirements-test $(VENV)/.requirements-sim egl
	$(RUN) PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 $(VENV)/bin/pytest

# Skipped tests are failures here.
RESULTS := $(CURDIR)/build/gpu/results
ON_GPU := $(RUN) FLASHRT_REQUIRE_GPU=1 GTEST_OUTPUT=xml:$(RESULTS)/
KERNEL_TESTS := test_cuda_ops test_linear_tuner test_projected_attention
COMPUTE_SANITIZER ?= compute-sanitizer
# Kernels that share memory between threads; cuBLASLt's, instrumented, would not fit into the host's memory.
ifeq ($(SANITIZE),racecheck)
  GTEST_FILTER ?= *CudaOperation*:*EveryKernelOfOurOwn*:*ProjectedAttention*
  RACECHECK := FLASHRT_RACECHECK=1 GTEST_FILTER='$(GTEST_FILTER)'
  SANITIZE_OPTIONS := --kernel-name kns=flashrt
endif
ifndef SANITIZE
  unexport GTEST_FILTER  # all of them are to run
endif
# Others are not collected: one that lacks what it needs would be a skipped one.
PYTHON_GPU_TESTS = $(shell grep -rl 'mark\.gpu' test --include='test_*.py')

test-gpu: googletest $(VENV)/.installed $(VENV)/.requirements-test $(VENV)/.requirements-sim
	rm -rf $(RESULTS)
	$(RUN) cmake --preset gpu
	$(RUN) cmake --build --preset gpu
ifdef SANITIZE
	@failed=0; for test in $(KERNEL_TESTS); do \
	  $(ON_GPU) $(RACECHECK) $(COMPUTE_SANITIZER) --tool $(SANITIZE) $(SANITIZE_OPTIONS) --error-exitcode 9 \
	    build/gpu/test/core/$$test || failed=1; \
	done; $(RUN) $(VENV)/bin/python test/gpu_report.py $(RESULTS) && exit $$failed
else
	@failed=0; $(ON_GPU) ctest --preset gpu || failed=1; \
	$(ON_GPU) PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 $(VENV)/bin/pytest -m gpu $(PYTHON_GPU_TESTS) --junitxml=$(RESULTS)/python.xml || failed=1; \
	$(RUN) $(VENV)/bin/python test/gpu_report.py $(RESULTS) && exit $$failed
endif

# The node on a policy without a model: it needs no CUDA either.
soak: $(DEMO_INSTALLED)
	$(RUN) $(VENV)/bin/python -m flashrt_ros.soak --minutes $(MINUTES)

lint: $(VENV)/.requirements-lint
	$(VENV)/bin/clang-format --dry-run -Werror $(shell find flashrt_core test -name '*.[hc]pp' -o -name '*.cu' -o -name '*.cuh')
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

# What draws the pictures of the simulated tabletop, without a screen and without a GPU.
egl: $(VENV)/.requirements-sim
	@$(VENV)/bin/python -c 'from mujoco.egl import GLContext; GLContext(8, 8).free()' 2>/dev/null || \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y libegl1 libopengl0 libgl1-mesa-dri; \
	else \
	  echo 'EGL is missing. Install it with: sudo apt-get install libegl1 libopengl0 libgl1-mesa-dri' >&2; exit 1; \
	fi

clean:
	rm -rf $(VENV) build
