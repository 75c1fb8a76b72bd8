// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "runtime/backends.hpp"

#include <dlfcn.h>
#include <link.h>

#include <string_view>

#include "backends/module.hpp"
#include "base/check.hpp"

namespace flashrt {
namespace {

constexpr const char* kCudaLibrary = "flashrt_cuda.so";

// The folder of the library or program that this code is linked into.
std::filesystem::path own_folder() {
  Dl_info info;
  link_map* map = nullptr;
  const int found = dladdr1(reinterpret_cast<const void*>(&own_folder), &info,
                            reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP);
  FLASHRT_CHECK(found && map, "backends: the loader does not know where this library lies");
  const std::filesystem::path file =
      *map->l_name ? std::filesystem::path(map->l_name)
                   : std::filesystem::read_symlink("/proc/self/exe");  // the program itself
  return std::filesystem::absolute(file).parent_path();
}

// What to do about a library that the loader refuses.
std::string_view remedy(std::string_view reason) {
  if (reason.find("libcublas") == std::string_view::npos) return "";
  return "; it needs cuBLAS of CUDA 13: install the CUDA toolkit, or `pip install nvidia-cublas` "
         "into the environment of this package";
}

}  // namespace

std::unique_ptr<Backend> make_backend(const std::string& name, const BackendOptions& options) {
  FLASHRT_CHECK(options.threads >= 0, "threads: ", options.threads,
                ", expected 0 (one per core) or more");
  FLASHRT_CHECK(options.device >= 0, "device: ", options.device, ", expected 0 or more");
  if (name == "cpu") return make_cpu_backend(options.threads);
  FLASHRT_CHECK(name == "cuda", "backend '", name, "' is unknown; expected cpu or cuda");
  return load_backend(name, own_folder() / kCudaLibrary, options);
}

std::unique_ptr<Backend> load_backend(const std::string& name, const std::filesystem::path& library,
                                      const BackendOptions& options) {
  FLASHRT_CHECK(std::filesystem::exists(library), "backend '", name,
                "' is not part of this installation: there is no ", library.string(),
                "; rebuild with a CUDA 13 compiler (nvcc) in PATH, or with -DFLASHRT_CUDA=ON to "
                "learn what is missing");
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const std::string reason = dlerror();
    throw Error(text("backend '", name, "' cannot be loaded: ", reason, remedy(reason)));
  }
  // The library stays loaded from here on: backends and their errors are made of its code.
  auto* const function =
      reinterpret_cast<BackendModuleFunction*>(dlsym(handle, kBackendModuleSymbol));
  FLASHRT_CHECK(function, "backend '", name, "': ", library.string(), " has no ",
                kBackendModuleSymbol, "; it does not belong to this project");
  const BackendModule* const module = function();
  FLASHRT_CHECK(std::string_view(module->version) == FLASHRT_VERSION, "backend '", name,
                "': ", library.string(), " is of version ", module->version, ", this is ",
                FLASHRT_VERSION, "; build and install both together");
  return std::unique_ptr<Backend>(module->make(options));
}

}  // namespace flashrt
