// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "base/parallel.hpp"

#include <sched.h>
#include <unistd.h>

#include <system_error>
#include <utility>

#include "base/check.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace flashrt {
namespace {

// Loops of one inference follow each other within microseconds, a sleeping thread needs tens of
// them to wake: look for the next loop this often (about 20 us) before sleeping. Between inferences
// every worker sleeps.
constexpr int kSpins = 500;

// Far above every machine; each thread costs scratch memory in every program.
constexpr int kMaxThreads = 1024;

int usable_processors() {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) == 0) return CPU_COUNT(&allowed);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits until the value is no longer `old`.
template <class T>
void wait_while(const std::atomic<T>& value, T old) {
  for (int spin = 0; spin < kSpins; ++spin) {
    if (value.load(std::memory_order_acquire) != old) return;
    pause();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

ThreadPool::ThreadPool(int threads) : process_(::getpid()) {
  if (threads <= 0) threads = std::min(usable_processors(), kMaxThreads);
  FLASHRT_CHECK(threads <= kMaxThreads, "threads: ", threads, ", expected at most ", kMaxThreads);
  try {
    for (int worker = 1; worker < threads; ++worker)
      workers_.emplace_back([this, worker] { work(worker); });
  } catch (const std::system_error& fault) {
    const size_t started = workers_.size() + 1;
    stop();
    throw Error(
        text("threads: only ", started, " of ", threads, " can be started: ", fault.what()));
  }
}

ThreadPool::~ThreadPool() {
  if (::getpid() == process_) {
    stop();
  } else {  // after a fork there is nothing to join: the handles are left alone
    new std::vector<std::thread>(std::move(workers_));
  }
}

void ThreadPool::stop() {
  stopping_.store(true, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::take_chunks(int worker) {
  for (;;) {
    const int64_t chunk = next_chunk_.fetch_add(1, std::memory_order_relaxed);
    if (chunk >= chunks_) return;
    try {
      invoke_(context_, chunk, worker);
    } catch (...) {
      const std::lock_guard lock(failure_mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
  }
}

void ThreadPool::work(int worker) {
  uint32_t seen = 0;
  for (;;) {
    wait_while(generation_, seen);
    seen = generation_.load(std::memory_order_acquire);
    if (stopping_.load(std::memory_order_relaxed)) return;
    take_chunks(worker);
    // Orders the writes of this worker's chunks before the caller's return.
    if (busy_workers_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_workers_.notify_one();
  }
}

void ThreadPool::run(int64_t chunks, void* context, Invoke invoke) {
  if (chunks <= 0) return;
  if (chunks == 1 || workers_.empty()) {
    for (int64_t chunk = 0; chunk < chunks; ++chunk) invoke(context, chunk, 0);
    return;
  }
  FLASHRT_CHECK(::getpid() == process_, "the threads of process ", process_,
                " are not part of its child ", ::getpid(), ": make the engine after the fork");
  const std::lock_guard lock(caller_);
  context_ = context;
  invoke_ = invoke;
  chunks_ = chunks;
  next_chunk_.store(0, std::memory_order_relaxed);
  busy_workers_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  generation_.fetch_add(1,
                        std::memory_order_release);  // the loop is complete before a worker sees it
  generation_.notify_all();
  take_chunks(0);
  for (int busy; (busy = busy_workers_.load(std::memory_order_acquire)) != 0;)
    wait_while(busy_workers_, busy);
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

}  // namespace flashrt
