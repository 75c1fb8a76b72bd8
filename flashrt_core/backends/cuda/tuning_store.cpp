// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "backends/cuda/tuning_store.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "base/atomic_file.hpp"
#include "base/check.hpp"
#include "base/json.hpp"

namespace flashrt::cuda {
namespace {

constexpr const char* kFormat = "flashrt_tuning";
constexpr int kVersion = 1;
constexpr size_t kMaxFileBytes = size_t{16} << 20;  // some 50,000 calls; a model has about twenty
constexpr double kMaxMicroseconds = 1e9;

// Keeps other processes from saving into the same folder between reading and replacing the file.
// The file itself cannot carry the lock: it is replaced.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder)
      : folder_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    int status = -1;
    if (folder_ >= 0) {
      do status = ::flock(folder_, LOCK_EX);
      while (status != 0 && errno == EINTR);
    }
    if (status == 0) return;
    const int error = errno;
    if (folder_ >= 0) ::close(folder_);
    throw Error(text("cannot lock the folder ", folder.string(), ": ", std::strerror(error)));
  }
  ~FolderLock() { ::close(folder_); }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int folder_;
};

}  // namespace

TuningStore::TuningStore(std::filesystem::path path, TuningEnvironment environment)
    : path_(std::move(path)), environment_(std::move(environment)) {
  if (!path_.empty()) calls_ = std::move(read(path_)[environment_]);
}

const TunedCall* TuningStore::find(const std::string& call) const {
  const auto found = calls_.find(call);
  return found == calls_.end() ? nullptr : &found->second;
}

void TuningStore::put(const std::string& call, TunedCall tuned) {
  if (!path_.empty()) unsaved_[call] = tuned;
  calls_[call] = std::move(tuned);
}

void TuningStore::save() {
  if (unsaved_.empty()) return;
  const std::filesystem::path folder = path_.has_parent_path() ? path_.parent_path() : ".";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  FLASHRT_CHECK(!error, "cannot make the folder ", folder.string(),
                " of the tuning file: ", error.message());
  const FolderLock lock(folder);
  Content content = read(path_);
  Calls& calls = content[environment_];
  for (const auto& [call, tuned] : unsaved_) calls[call] = tuned;
  write_file_atomically(path_, write(content));
  calls_ = std::move(calls);
  unsaved_.clear();
}

TuningStore::Content TuningStore::read(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error) return {};
  const std::string where = path.string();
  try {
    const nlohmann::json json = parse_json(read_text_file(path, kMaxFileBytes), where);
    const JsonFields fields(json, where + ": ");
    if (!fields.has("format") || fields.string("format") != kFormat)
      fields.fail("format", std::string(kFormat));
    constexpr int kMax = std::numeric_limits<int>::max();
    if (fields.integer("version", 0, kMax) != kVersion) fields.fail("version", text(kVersion));
    fields.allow_only({"format", "version", "environments"});
    Content content;
    for (const nlohmann::json& item : fields.array("environments")) {
      const JsonFields environment(item, where + ": environments: ");
      environment.allow_only(
          {"device", "compute_capability", "driver", "library", "kernels", "calls"});
      Calls& calls =
          content[{.device = environment.string("device"),
                   .compute_capability = environment.integer("compute_capability", 0, kMax),
                   .driver = environment.integer("driver", 0, kMax),
                   .library = environment.integer("library", 0, kMax),
                   .kernels = environment.integer("kernels", 0, kMax)}];
      environment.object("calls");
      for (const auto& [call, value] : environment.value("calls").items()) {
        const JsonFields tuned(value, where + ": '" + call + "': ");
        tuned.allow_only({"choice", "microseconds"});
        calls[call] = {.choice = tuned.string("choice"),
                       .microseconds = tuned.number("microseconds", 0, kMaxMicroseconds)};
      }
    }
    return content;
  } catch (const Error& fault) {
    throw Error(text(fault.what(), "; the file holds nothing that tuning cannot find again: move ",
                     where, " away or name another file"));
  }
}

std::string TuningStore::write(const Content& content) {
  nlohmann::ordered_json environments = nlohmann::ordered_json::array();
  for (const auto& [environment, calls] : content) {
    nlohmann::ordered_json entries = nlohmann::ordered_json::object();
    for (const auto& [call, tuned] : calls)
      entries[call] = {{"choice", tuned.choice}, {"microseconds", tuned.microseconds}};
    environments.push_back({{"device", environment.device},
                            {"compute_capability", environment.compute_capability},
                            {"driver", environment.driver},
                            {"library", environment.library},
                            {"kernels", environment.kernels},
                            {"calls", std::move(entries)}});
  }
  const nlohmann::ordered_json json{
      {"format", kFormat}, {"version", kVersion}, {"environments", std::move(environments)}};
  return json.dump(1) + "\n";
}

}  // namespace flashrt::cuda
