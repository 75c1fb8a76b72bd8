// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// The thread pool: every element once, exceptions of chunks, how many threads, and forks.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <vector>

#include "base/parallel.hpp"
#include "expect_error.hpp"

namespace flashrt {
namespace {

TEST(ThreadPool, CoversTheRangeOnce) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const int64_t n : {0, 1, 7, 64, 1001}) {
      std::vector<std::atomic<int>> visits(n);
      pool.parallel_for(n, 8, [&](int64_t begin, int64_t end, int worker) {
        EXPECT_TRUE(0 <= worker && worker < threads);
        EXPECT_EQ(begin % 8, 0);
        EXPECT_LE(end - begin, 8);
        for (int64_t i = begin; i < end; ++i) ++visits[i];
      });
      for (const auto& count : visits) EXPECT_EQ(count, 1);
    }
  }
}

TEST(ThreadPool, ThrowsWhatAChunkThrows) {
  ThreadPool pool(3);
  for (int i = 0; i < 20; ++i) {
    EXPECT_CONTAINS(error_text([&] {
                      pool.parallel_for(50, 1, [&](int64_t begin, int64_t, int) {
                        FLASHRT_CHECK(begin != 31, "chunk ", begin);
                      });
                    }),
                    "chunk 31");
  }
  std::atomic<int> sum{0};
  pool.parallel_for(10, 1, [&](int64_t begin, int64_t, int) { sum += static_cast<int>(begin); });
  EXPECT_EQ(sum, 45);
}

TEST(ThreadPool, TakesAsManyThreadsAsTheProcessMayUse) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(ThreadPool(0).threads(), CPU_COUNT(&before));
  CPU_ZERO(&one);
  for (int cpu = 0; CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(ThreadPool(0).threads(), 1);
  EXPECT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
  EXPECT_CONTAINS(error_text([] { ThreadPool(1'000'000); }),
                  "threads: 1000000, expected at most 1024");
}

TEST(ThreadPool, RefusesToRunInAForkedChild) {
  auto pool = std::make_unique<ThreadPool>(2);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);  // a child that waits for threads it does not have dies
    const std::string text =
        error_text([&] { pool->parallel_for(2, 1, [](int64_t, int64_t, int) {}); });
    pool.reset();
    _exit(text.find("make the engine after the fork") == std::string::npos);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
}

}  // namespace
}  // namespace flashrt
