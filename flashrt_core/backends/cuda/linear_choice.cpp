// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "backends/cuda/linear_choice.hpp"

#include <algorithm>
#include <array>

namespace flashrt::cuda {
namespace {

using Family = LinearChoice::Family;

constexpr int64_t kFewRows = 64;      // one tile of warp-group matrix instructions
constexpr int64_t kVeryFewRows = 16;  // so few that linear_skinny keeps them in registers
constexpr std::string_view kLibraryPrefix = "library ", kGenericName = "generic";

// The kernels of our own that come in configurations.
struct Configured {
  Family family;
  std::string_view prefix;
  std::span<const char* const> (*configurations)();
  bool (*accepts)(const LinearArgs&, int configuration, const DeviceInfo&);
};
constexpr Configured kWgmma{.family = Family::kWgmma,
                            .prefix = "wgmma ",
                            .configurations = linear_wgmma_configurations,
                            .accepts = linear_wgmma_accepts};
constexpr Configured kStream{.family = Family::kStream,
                             .prefix = "stream ",
                             .configurations = linear_stream_configurations,
                             .accepts = linear_stream_accepts};
constexpr Configured kSkinny{.family = Family::kSkinny,
                             .prefix = "skinny ",
                             .configurations = linear_skinny_configurations,
                             .accepts = linear_skinny_accepts};
constexpr Configured kFloat32{.family = Family::kFloat32,
                              .prefix = "f32 ",
                              .configurations = linear_f32_configurations,
                              .accepts = linear_f32_accepts};

int count_of(const Configured& kernel) { return static_cast<int>(kernel.configurations().size()); }

// Warp-group instructions add up products of e4m3 with about 14 bits. Those of linear_skinny are
// multiplied as float16, which adds up float32.
bool is_fast_accumulated(const Configured& kernel, const LinearArgs& args) {
  return kernel.family != Family::kSkinny && args.x.type == DType::kE4M3;
}
bool accepts(const Configured& kernel, const LinearArgs& args, int configuration,
             const LibraryGemm& library, const DeviceInfo& device) {
  return (library.fast_accumulation() || !is_fast_accumulated(kernel, args)) &&
         kernel.accepts(args, configuration, device);
}

}  // namespace

std::vector<LinearChoice> linear_choices(const LinearArgs& args, const LibraryGemm& library,
                                         const DeviceInfo& device) {
  std::array<const Configured*, 4> own{&kFloat32, &kWgmma, &kStream, &kSkinny};
  if (args.x.rows <= kFewRows) own = {&kFloat32, &kStream, &kSkinny, &kWgmma};
  if (args.x.rows <= kVeryFewRows) own = {&kFloat32, &kSkinny, &kStream, &kWgmma};
  std::vector<LinearChoice> choices;
  for (const Configured* kernel : own) {
    for (int i = 0; i < count_of(*kernel); ++i) {
      if (accepts(*kernel, args, i, library, device))
        choices.push_back({.family = kernel->family, .configuration = i});
    }
  }
  for (const LibraryChoice& choice : library.candidates(args))
    choices.push_back({.family = Family::kLibrary, .library = choice});
  if (linear_generic_accepts(args)) choices.push_back({.family = Family::kGeneric});
  return choices;
}

bool has_fused_linear(const LinearArgs& args, const LibraryGemm& library,
                      const DeviceInfo& device) {
  if (!args.glu && !args.rope && !args.euler) return false;
  for (const Configured& kernel : {kWgmma, kStream, kSkinny, kFloat32}) {
    for (int i = 0; i < count_of(kernel); ++i) {
      if (accepts(kernel, args, i, library, device)) return true;
    }
  }
  return false;
}

std::string name_of(const LinearChoice& choice) {
  switch (choice.family) {
    case Family::kWgmma:
      return text(kWgmma.prefix, linear_wgmma_configurations()[choice.configuration]);
    case Family::kStream:
      return text(kStream.prefix, linear_stream_configurations()[choice.configuration]);
    case Family::kSkinny:
      return text(kSkinny.prefix, linear_skinny_configurations()[choice.configuration]);
    case Family::kFloat32:
      return text(kFloat32.prefix, linear_f32_configurations()[choice.configuration]);
    case Family::kLibrary:
      return text(kLibraryPrefix, LibraryGemm::name_of(choice.library));
    case Family::kGeneric:
      return std::string(kGenericName);
  }
  return "";
}

std::string describe(const LinearChoice& choice) {
  if (choice.family != Family::kLibrary) return name_of(choice);
  return text(kLibraryPrefix, LibraryGemm::describe(choice.library));
}

std::optional<LinearChoice> restore_linear_choice(std::string_view name, const LinearArgs& args,
                                                  const LibraryGemm& library,
                                                  const DeviceInfo& device) {
  for (const Configured& kernel : {kWgmma, kStream, kSkinny, kFloat32}) {
    if (!name.starts_with(kernel.prefix)) continue;
    const auto names = kernel.configurations();
    const auto found = std::find(names.begin(), names.end(), name.substr(kernel.prefix.size()));
    const int configuration = static_cast<int>(found - names.begin());
    if (found == names.end() || !accepts(kernel, args, configuration, library, device)) return {};
    return LinearChoice{.family = kernel.family, .configuration = configuration};
  }
  if (name.starts_with(kLibraryPrefix)) {
    const auto restored = library.restore(args, name.substr(kLibraryPrefix.size()));
    if (!restored) return {};
    return LinearChoice{.family = Family::kLibrary, .library = *restored};
  }
  if (name != kGenericName || !linear_generic_accepts(args)) return {};
  return LinearChoice{.family = Family::kGeneric};
}

size_t workspace_bytes(const LinearArgs& args, const LinearChoice& choice) {
  switch (choice.family) {
    case Family::kLibrary:
      return LibraryGemm::workspace_bytes(args, choice.library);
    case Family::kWgmma:
    case Family::kStream:
    case Family::kSkinny:
    case Family::kFloat32:
    case Family::kGeneric:
      return 0;
  }
  return 0;
}

const char* run_linear(const LinearArgs& args, const LinearChoice& choice,
                       const LibraryGemm& library, void* workspace, const Launch& launch) {
  switch (choice.family) {
    case Family::kWgmma:
      return linear_wgmma(args, choice.configuration, launch);
    case Family::kStream:
      return linear_stream(args, choice.configuration, launch);
    case Family::kSkinny:
      return linear_skinny(args, choice.configuration, launch);
    case Family::kFloat32:
      return linear_f32(args, choice.configuration, launch);
    case Family::kLibrary:
      return library.run(args, choice.library, workspace, launch);
    case Family::kGeneric:
      return linear_generic(args, launch);
  }
  return "";
}

}  // namespace flashrt::cuda
