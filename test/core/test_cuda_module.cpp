// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// The CUDA backend as it is installed: a library that is loaded, with one symbol. With a GPU or
// without.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "backends/module.hpp"
#include "expect_error.hpp"
#include "gpu_required.hpp"
#include "quant/calibration.hpp"
#include "runtime/backends.hpp"

namespace flashrt {
namespace {

TEST(CudaModule, ExportsOneSymbol) {
  void* const handle = dlopen(FLASHRT_CUDA_MODULE, RTLD_NOW | RTLD_LOCAL);
  ASSERT_TRUE(handle) << dlerror();
  EXPECT_TRUE(dlsym(handle, kBackendModuleSymbol));
  EXPECT_FALSE(dlsym(handle, "_ZN7flashrt16make_cpu_backendEi")) << "the core in it is visible";
  EXPECT_FALSE(dlsym(handle, "cudaMalloc")) << "the CUDA runtime in it is visible";
}

TEST(CudaModule, MakesABackendOrSaysWhatIsMissing) {
  try {
    const auto backend = load_backend("cuda", FLASHRT_CUDA_MODULE, {});
    EXPECT_FALSE(backend->device().name.empty());
    EXPECT_CONTAINS(error_text([&] { backend->compile({}, nullptr, Calibration(), {}); }),
                    "uploaded by another backend");
  } catch (const Error& error) {
    EXPECT_FALSE(cuda::is_gpu_required()) << error.what();
    EXPECT_CONTAINS(std::string(error.what()), "backend 'cuda' cannot be used");
  }
}

TEST(CudaModule, RefusesADeviceThatDoesNotExist) {
  EXPECT_CONTAINS(error_text([] { load_backend("cuda", FLASHRT_CUDA_MODULE, {.device = 1000}); }),
                  "CUDA");
}

}  // namespace
}  // namespace flashrt
