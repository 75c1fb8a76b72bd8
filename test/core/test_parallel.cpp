// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// The thread pool: every element once, exceptions of chunks, how many threads, and forks.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
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

// On a busy machine a worker may not run for a long time: a loop waits only for chunks that it
// took.
std::atomic<bool> worker_is_held{false};

TEST(ThreadPool, DoesNotWaitForAWorkerThatTookNoChunk) {
  ThreadPool pool(2);
  std::atomic<bool> known{false};
  pthread_t held{};
  pool.parallel_for(2, 1, [&](int64_t, int64_t, int worker) {
    if (worker == 1) {
      held = pthread_self();
      known = true;
    }
    while (!known) std::this_thread::yield();  // leaves the other chunk to the worker
  });

  std::atomic<bool> in_handler{false};
  static std::atomic<bool>* entered = &in_handler;
  worker_is_held = true;
  struct sigaction action {};
  action.sa_handler = [](int) {
    *entered = true;
    while (worker_is_held) sched_yield();
  };
  struct sigaction before {};
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  ASSERT_EQ(pthread_kill(held, SIGUSR1), 0);
  while (!in_handler) std::this_thread::yield();

  std::atomic<int> visits{0};
  auto loop = std::async(std::launch::async, [&] {
    pool.parallel_for(100, 1, [&](int64_t, int64_t, int) { ++visits; });
  });
  EXPECT_EQ(loop.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  worker_is_held = false;
  loop.wait();
  EXPECT_EQ(visits, 100);
  sigaction(SIGUSR1, &before, nullptr);
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
