// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "base/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "base/check.hpp"

namespace flashrt {
namespace {

// Open for as long as it takes to map.
struct Descriptor {
  int value;
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
};

std::string reason() { return std::strerror(errno); }

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  FLASHRT_CHECK(file.value >= 0, "cannot open ", path.string(), ": ", reason());
  struct stat status {};
  FLASHRT_CHECK(::fstat(file.value, &status) == 0, "cannot read ", path.string(), ": ", reason());
  FLASHRT_CHECK(S_ISREG(status.st_mode), path.string(), " is not a regular file");
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return;  // nothing can be mapped
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.value, 0);
  FLASHRT_CHECK(data != MAP_FAILED, "cannot map ", path.string(), " (", size,
                " bytes): ", reason());
  bytes_ = {static_cast<const std::byte*>(data), size};
}

void MappedFile::read_ahead() const {  // a hint: it may be refused
  if (!bytes_.empty())
    ::madvise(const_cast<std::byte*>(bytes_.data()), bytes_.size(), MADV_WILLNEED);
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace flashrt
