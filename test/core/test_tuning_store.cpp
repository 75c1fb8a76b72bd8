// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// TuningStore: what is kept, for whom, and which files are refused.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "backends/cuda/tuning_store.hpp"
#include "base/json.hpp"
#include "expect_error.hpp"
#include "temporary_folder.hpp"

namespace flashrt::cuda {
namespace {

const TuningEnvironment kHere{.device = "NVIDIA H200",
                              .compute_capability = 90,
                              .driver = 13000,
                              .library = 130100,
                              .kernels = 1};
const TunedCall kFast{.choice = "wgmma 128x128", .microseconds = 5.25};
const TunedCall kSlow{.choice = "library direct 00ff", .microseconds = 7.5};

void expect_call(const TuningStore& store, const std::string& call, const TunedCall& expected) {
  const TunedCall* found = store.find(call);
  ASSERT_NE(found, nullptr) << call;
  EXPECT_EQ(*found, expected) << call << ": " << found->choice;
}

TEST(TuningStore, FindsWhatWasPutBeforeAndAfterSaving) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "cache" / "tuning.json";  // the folder does not exist yet
  TuningStore store(path, kHere);
  EXPECT_EQ(store.find("a"), nullptr);
  store.put("a", kSlow);
  store.put("a", kFast);
  expect_call(store, "a", kFast);
  EXPECT_FALSE(std::filesystem::exists(path)) << "nothing is written before save";
  store.save();
  expect_call(store, "a", kFast);

  const TuningStore reopened(path, kHere);
  expect_call(reopened, "a", kFast);
  EXPECT_EQ(reopened.find("b"), nullptr);
}

TEST(TuningStore, WithoutPathKeepsChoicesOnlyInMemory) {
  TuningStore store({}, kHere);
  store.put("a", kFast);
  store.save();
  expect_call(store, "a", kFast);
  EXPECT_EQ(TuningStore({}, kHere).find("a"), nullptr);
}

TEST(TuningStore, KeepsOtherEnvironmentsAndDoesNotUseThem) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "tuning.json";
  std::vector<TuningEnvironment> others(5, kHere);
  others[0].device = "NVIDIA Thor";
  others[1].compute_capability = 110;
  others[2].driver = 13010;
  others[3].library = 130101;
  others[4].kernels = 2;
  for (size_t i = 0; i < others.size(); ++i) {
    TuningStore store(path, others[i]);
    EXPECT_EQ(store.find("a"), nullptr) << i;
    store.put("a", {.choice = text("choice ", i), .microseconds = 1});
    store.save();
  }
  TuningStore here(path, kHere);
  EXPECT_EQ(here.find("a"), nullptr);
  here.put("a", kFast);
  here.save();
  for (size_t i = 0; i < others.size(); ++i) {
    expect_call(TuningStore(path, others[i]), "a",
                {.choice = text("choice ", i), .microseconds = 1});
  }
}

TEST(TuningStore, MergesWithWhatOthersSavedMeanwhile) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "tuning.json";
  TuningStore first(path, kHere), second(path, kHere);
  first.put("a", kFast);
  first.put("both", kFast);
  second.put("b", kSlow);
  second.put("both", kSlow);
  first.save();
  second.save();
  expect_call(second, "a", kFast);
  first.save();  // nothing new: must not bring its older choice back
  const TuningStore merged(path, kHere);
  expect_call(merged, "a", kFast);
  expect_call(merged, "b", kSlow);
  expect_call(merged, "both", kSlow);
}

TEST(TuningStore, LosesNothingUnderConcurrentWriters) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "tuning.json";
  constexpr int kWriters = 4, kCalls = 10;
  const auto write = [&](const std::string& writer) {
    for (int call = 0; call < kCalls; ++call) {
      TuningStore store(path, kHere);
      store.put(text(writer, " ", call), kFast);
      store.save();
    }
  };
  std::vector<pid_t> processes;
  for (int i = 0; i < kWriters; ++i) {
    const pid_t process = fork();
    ASSERT_GE(process, 0);
    if (process == 0) {
      int status = 0;
      try {
        write(text("process ", i));
      } catch (const std::exception&) {
        status = 1;
      }
      _exit(status);
    }
    processes.push_back(process);
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < kWriters; ++i) threads.emplace_back(write, text("thread ", i));
  for (std::thread& thread : threads) thread.join();
  for (const pid_t process : processes) {
    int status = -1;
    waitpid(process, &status, 0);
    EXPECT_EQ(status, 0);
  }
  const TuningStore store(path, kHere);
  for (const char* kind : {"process ", "thread "}) {
    for (int writer = 0; writer < kWriters; ++writer) {
      for (int call = 0; call < kCalls; ++call)
        expect_call(store, text(kind, writer, " ", call), kFast);
    }
  }
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    ++files;
    EXPECT_EQ(entry.path(), path) << "nothing but the file is left";
  }
  EXPECT_EQ(files, 1);
}

TEST(TuningStore, KeepsTextsThatJsonHasToEscape) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "tuning.json";
  const std::string call = "a \"b\"\\\n\tç";
  {
    TuningStore store(path, kHere);
    store.put(call, {.choice = call, .microseconds = 0.1});
    store.save();
  }
  expect_call(TuningStore(path, kHere), call, {.choice = call, .microseconds = 0.1});
}

TEST(TuningStore, RefusesOtherVersionsByName) {
  const TemporaryFolder folder;
  for (const int version : {0, 2}) {
    const auto path = folder.write(
        "tuning.json", text(R"({"format": "flashrt_tuning", "version": )", version,
                            R"(, "environments": [], "something": "that comes later"})"));
    const std::string error = error_text([&] { TuningStore(path, kHere); });
    EXPECT_CONTAINS(error, path.string());
    EXPECT_CONTAINS(error, text("version is ", version, ", expected 1"));
    EXPECT_CONTAINS(error, "away");
  }
}

TEST(TuningStore, RefusesDamagedFilesAndLeavesThemAsTheyAre) {
  const TemporaryFolder folder;
  std::string whole;
  {
    const auto path = folder.path() / "whole.json";
    TuningStore store(path, kHere);
    store.put("a", kFast);
    store.save();
    whole = read_text_file(path, 1 << 20);
  }
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = whole;
    EXPECT_CONTAINS(changed, from);
    changed.replace(changed.find(from), from.size(), to);
    return changed;
  };
  const std::vector<std::pair<std::string, std::string>> damages{
      {"", "not valid JSON"},
      {whole.substr(0, whole.size() / 2), "not valid JSON"},
      {"[]", "expected a JSON object"},
      {with("flashrt_tuning", "flashrt_calibration"), "format is \"flashrt_calibration\""},
      {with("\"driver\": 13000", "\"driver\": -1"), "driver is -1"},
      {with("\"library\": 130100", "\"library\": \"new\""), "library is \"new\""},
      {with("\"compute_capability\": 90,", ""), "compute_capability missing"},
      {with("5.25", "-5.25"), "'a': microseconds is -5.25"},
      {with("\"wgmma 128x128\"", "null"), "'a': choice is null"},
      {with("\"choice\"", "\"chioce\""), "chioce is unknown"},
  };
  for (const auto& [content, expected] : damages) {
    const auto path = folder.write("damaged.json", content);
    const std::string error = error_text([&] { TuningStore(path, kHere); });
    EXPECT_CONTAINS(error, path.string());
    EXPECT_CONTAINS(error, expected);
    EXPECT_CONTAINS(error, "away");
    EXPECT_EQ(read_text_file(path, 1 << 20), content);
  }
}

TEST(TuningStore, DoesNotReplaceAFileThatWasDamagedMeanwhile) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "tuning.json";
  TuningStore store(path, kHere);
  store.put("a", kFast);
  folder.write("tuning.json", "{");
  EXPECT_CONTAINS(error_text([&] { store.save(); }), "not valid JSON");
  EXPECT_EQ(read_text_file(path, 100), "{");
  std::filesystem::remove(path);
  store.save();  // what was not saved is still there
  expect_call(TuningStore(path, kHere), "a", kFast);
}

TEST(TuningStore, NamesAFolderThatCannotBeMade) {
  const TemporaryFolder folder;
  const auto file = folder.write("file", "");
  TuningStore store(file / "below" / "tuning.json", kHere);
  store.put("a", kFast);
  EXPECT_CONTAINS(error_text([&] { store.save(); }), (file / "below").string());
}

}  // namespace
}  // namespace flashrt::cuda
