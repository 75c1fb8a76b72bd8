// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "base/atomic_file.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.hpp"

namespace flashrt {

// Beside the file: a rename does not cross file systems.
AtomicFile::AtomicFile(const std::filesystem::path& path)
    : path_(path), temporary_(path.string() + ".XXXXXX") {
  file_ = ::mkstemp(temporary_.data());
  if (file_ < 0) fail(errno);
}

AtomicFile::~AtomicFile() {
  if (file_ < 0) return;
  ::close(file_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::write(size_t offset, std::span<const std::byte> data) {
  while (!data.empty()) {
    const ssize_t written = ::pwrite(file_, data.data(), data.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(errno);
    offset += static_cast<size_t>(written);
    data = data.subspan(static_cast<size_t>(written));
  }
}

void AtomicFile::commit() {
  constexpr mode_t kMode = S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH;  // mkstemp lets nobody else read
  if (::fchmod(file_, kMode) != 0) fail(errno);
  if (::fsync(file_) != 0) fail(errno);  // the content is on the disk before the name is
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail(errno);
  if (::close(std::exchange(file_, -1)) != 0) fail(errno);
}

void AtomicFile::fail(int error) const {
  throw Error(text("cannot write ", path_.string(), ": ", std::strerror(error)));
}

void write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  AtomicFile file(path);
  file.write(0, std::as_bytes(std::span(content)));
  file.commit();
}

}  // namespace flashrt
