// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Backends by name, and what is said about a library that is missing, foreign, broken or of another
// version. The libraries are made of fake_backend.cpp.

#include <gtest/gtest.h>

#include "expect_error.hpp"
#include "quant/calibration.hpp"
#include "runtime/backends.hpp"
#include "temporary_folder.hpp"

namespace flashrt {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<Backend> load(const std::string& library, const BackendOptions& options = {}) {
  return load_backend("fake", fs::path(FLASHRT_FAKE_BACKENDS) / library, options);
}

TEST(Backends, AreFoundByName) {
  EXPECT_TRUE(make_backend("cpu", {.threads = 1}));
  EXPECT_EQ(error_text([] { make_backend("abacus", {}); }),
            "backend 'abacus' is unknown; expected cpu or cuda");
  EXPECT_CONTAINS(error_text([] { make_backend("cpu", {.threads = -1}); }),
                  "threads: -1, expected 0");
  EXPECT_CONTAINS(error_text([] { make_backend("cuda", {.device = -1}); }),
                  "device: -1, expected 0 or more");
}

TEST(Backends, AreLookedForBesideTheCode) {  // the CUDA library is built in another folder
  const fs::path own = fs::read_symlink("/proc/self/exe").parent_path();
  EXPECT_CONTAINS(error_text([] { make_backend("cuda", {}); }),
                  "backend 'cuda' is not part of this installation: there is no " +
                      (own / "flashrt_cuda.so").string() + "; rebuild with a CUDA 13 compiler");
}

TEST(LoadedBackend, WorksWithItsOptions) {
  EXPECT_EQ(load("fake_backend.so", {.device = 7})->workspace_bytes({}, {}), 7u);
}

TEST(LoadedBackend, ThrowsErrorsThatAreCaughtByType) {
  EXPECT_EQ(error_text([] { load("fake_backend.so", {.device = 8}); }), "device 8 does not exist");
  const auto backend = load("fake_backend.so");
  Plan plan;
  plan.model = "unheard-of";
  try {
    backend->compile(plan, nullptr, Calibration(), {});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const ModelNotSupportedError& error) {
    EXPECT_STREQ(error.what(), "model unheard-of");
  }
}

TEST(LoadedBackend, OfAnotherVersionIsRefused) {
  EXPECT_CONTAINS(error_text([] { load("fake_backend_old.so"); }),
                  "fake_backend_old.so is of version 0.0.1, this is " FLASHRT_VERSION
                  "; build and install both together");
}

TEST(LoadedBackend, OfAnotherProjectIsRefused) {
  EXPECT_CONTAINS(error_text([] { load("fake_backend_foreign.so"); }),
                  "has no flashrt_backend_module; it does not belong to this project");
}

TEST(LoadedBackend, ThatIsNoLibraryIsRefusedInTheWordsOfTheLoader) {
  const TemporaryFolder folder;
  const fs::path library = folder.write("broken.so", "no library");
  EXPECT_EQ(error_text([&] { load_backend("fake", library, {}); }),
            "backend 'fake' cannot be loaded: " + library.string() + ": file too short");
}

TEST(LoadedBackend, WithoutCublasSaysHowToGetIt) {
  const std::string error = error_text([] { load("fake_backend_without_cublas.so"); });
  EXPECT_CONTAINS(error, "libcublas_absent.so: cannot open shared object file");
  EXPECT_CONTAINS(error, "install the CUDA toolkit, or `pip install nvidia-cublas`");
}

}  // namespace
}  // namespace flashrt
