// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// ThreadPool: runs the chunks of one loop at a time on a fixed set of threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace flashrt {

class ThreadPool {
 public:
  // 0: as many as the processors this process may use. Error if they cannot be started.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls fn(begin, end, worker) for [0, n) cut into chunks of `grain`, worker in [0, threads()).
  // Which chunks exist depends on n and grain alone, so a loop whose chunks are independent gives
  // the same bits on any number of threads. The first exception of a chunk is thrown here. Does not
  // nest. Allocates nothing. Threads do not survive a fork: a child process gets an Error.
  template <class Function>
  void parallel_for(int64_t n, int64_t grain, Function&& fn) {
    const int64_t chunks = (n + grain - 1) / grain;
    auto chunk = [&](int64_t index, int worker) {
      fn(index * grain, std::min(n, (index + 1) * grain), worker);
    };
    using Chunk = decltype(chunk);
    run(chunks, &chunk, [](void* context, int64_t index, int worker) {
      (*static_cast<Chunk*>(context))(index, worker);
    });
  }

 private:
  using Invoke = void (*)(void* context, int64_t chunk, int worker);

  void run(int64_t chunks, void* context, Invoke invoke);
  void work(int worker);
  void take_chunks(int worker);
  void stop();

  const int process_;  // whose threads these are
  std::vector<std::thread> workers_;
  std::mutex caller_;  // one loop at a time

  // Claims one chunk of the loop in progress, if any is left; the loop cannot end before it is
  // finished.
  bool claim(int64_t& chunk);

  // The loop in progress. Written by the caller before `open_` is, read by whoever claimed a chunk:
  // a worker that wakes late finds nothing to claim and holds nobody up.
  void* context_ = nullptr;
  Invoke invoke_ = nullptr;
  uint32_t chunks_ = 0;
  std::atomic<uint64_t> open_{0};  // number of the loop << 32 | chunks that nobody has claimed
  std::atomic<uint32_t> finished_{0};
  std::atomic<uint32_t> generation_{0};  // changes with each loop; what workers sleep on
  std::atomic<bool> stopping_{false};
  std::mutex failure_mutex_;
  std::exception_ptr failure_;
};

}  // namespace flashrt
