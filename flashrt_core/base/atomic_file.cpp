// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "base/atomic_file.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/check.hpp"

namespace flashrt {

void write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  std::string temporary =
      path.string() + ".XXXXXX";  // beside the file: a rename does not cross file systems
  const int file = ::mkstemp(temporary.data());
  FLASHRT_CHECK(file >= 0, "cannot write ", path.string(), ": ", std::strerror(errno));
  bool ok = true;
  for (std::string_view left = content; ok && !left.empty();) {
    const ssize_t written = ::write(file, left.data(), left.size());
    ok = written >= 0 || errno == EINTR;
    if (written > 0) left.remove_prefix(static_cast<size_t>(written));
  }
  constexpr mode_t kMode = S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH;  // mkstemp lets nobody else read
  ok = ok && ::fchmod(file, kMode) == 0;
  ok = ok && ::fsync(file) == 0;  // the content is on the disk before the name is
  int error = errno;
  if (::close(file) != 0 && ok) {
    ok = false;
    error = errno;
  }
  if (ok && ::rename(temporary.c_str(), path.c_str()) != 0) {
    ok = false;
    error = errno;
  }
  if (ok) return;
  ::unlink(temporary.c_str());
  throw Error(text("cannot write ", path.string(), ": ", std::strerror(error)));
}

}  // namespace flashrt
