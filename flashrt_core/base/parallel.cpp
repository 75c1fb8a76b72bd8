// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "base/parallel.hpp"

#include <sched.h>
#include <unistd.h>

#include <limits>
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

bool ThreadPool::claim(int64_t& chunk) {
  uint64_t open = open_.load(std::memory_order_relaxed);
  do {
    if (static_cast<uint32_t>(open) == 0) return false;
  } while (!open_.compare_exchange_weak(open, open - 1, std::memory_order_acquire,
                                        std::memory_order_relaxed));
  chunk = chunks_ - static_cast<uint32_t>(open);
  return true;
}

void ThreadPool::take_chunks(int worker) {
  for (int64_t chunk; claim(chunk);) {
    const uint32_t chunks = chunks_;
    try {
      invoke_(context_, chunk, worker);
    } catch (...) {
      const std::lock_guard lock(failure_mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
    // Orders the writes of this chunk before the return of the caller, who may go on at once.
    if (finished_.fetch_add(1, std::memory_order_acq_rel) + 1 == chunks) finished_.notify_one();
  }
}

void ThreadPool::work(int worker) {
  uint32_t seen = 0;
  for (;;) {
    wait_while(generation_, seen);
    seen = generation_.load(std::memory_order_acquire);
    if (stopping_.load(std::memory_order_relaxed)) return;
    take_chunks(worker);
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
  FLASHRT_CHECK(chunks <= std::numeric_limits<uint32_t>::max(), "parallel_for: ", chunks,
                " chunks, expected fewer than 2^32: use a larger grain");
  const std::lock_guard lock(caller_);
  context_ = context;
  invoke_ = invoke;
  chunks_ = static_cast<uint32_t>(chunks);
  finished_.store(0, std::memory_order_relaxed);
  const uint64_t number = generation_.load(std::memory_order_relaxed) + uint64_t{1};
  open_.store(number << 32 | chunks_, std::memory_order_release);
  generation_.fetch_add(1, std::memory_order_release);
  generation_.notify_all();
  take_chunks(0);
  for (uint32_t finished; (finished = finished_.load(std::memory_order_acquire)) != chunks_;)
    wait_while(finished_, finished);
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

}  // namespace flashrt
