// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

// Owners of what the CUDA runtime hands out: device and pinned memory, streams, events, graphs.
// Destructors do not throw.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "kernels/launch.hpp"

namespace flashrt::cuda {

// Error if there is no such device, or the driver is too old for this library.
DeviceInfo query_device(int index);
// Version of the driver, e.g. 13000.
int driver_version();

// Allocations of device and pinned memory by this process, ever: tests and `flashrt bench` compare
// two readings.
int64_t allocation_count();

class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  explicit DeviceBuffer(size_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  std::byte* data() const { return data_; }
  size_t size() const { return bytes_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

// Page-locked host memory: copies from it do not wait for the host.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  explicit PinnedBuffer(size_t bytes);
  ~PinnedBuffer();
  PinnedBuffer(PinnedBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  std::byte* data() const { return data_; }
  size_t size() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

// Of the highest priority: inference goes ahead of whatever else uses the device.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t get() const { return stream_; }
  void synchronize() const;

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(const Stream& stream) const;
  void synchronize() const;
  // Milliseconds from `begin` to this event; both are recorded and have happened.
  float since(const Event& begin) const;

 private:
  cudaEvent_t event_ = nullptr;
};

// Launches that are recorded once and replayed.
class Graph {
 public:
  Graph() = default;
  // Records what `record` launches on the stream; nothing runs.
  Graph(const Stream& stream, const std::function<void()>& record);
  ~Graph();
  Graph(Graph&& other) noexcept
      : executable_(std::exchange(other.executable_, nullptr)), nodes_(std::move(other.nodes_)) {}
  Graph& operator=(Graph&& other) noexcept {
    std::swap(executable_, other.executable_);
    std::swap(nodes_, other.nodes_);
    return *this;
  }

  explicit operator bool() const { return executable_ != nullptr; }
  void launch(const Stream& stream) const;
  // How many nodes of each kind: "kernel", "memcpy", "memset", "other".
  const std::map<std::string, int>& nodes() const { return nodes_; }
  int node_count() const;

 private:
  cudaGraphExec_t executable_ = nullptr;
  std::map<std::string, int> nodes_;
};

}  // namespace flashrt::cuda
