// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The flashrt_ros authors

#include "backends/cuda/device.hpp"

#include <atomic>
#include <vector>

namespace flashrt::cuda {
namespace {

std::atomic<int64_t> allocations{0};

std::string_view kind_of(cudaGraphNodeType type) {
  switch (type) {
    case cudaGraphNodeTypeKernel:
      return "kernel";
    case cudaGraphNodeTypeMemcpy:
      return "memcpy";
    case cudaGraphNodeTypeMemset:
      return "memset";
    default:
      return "other";
  }
}

}  // namespace

DeviceInfo query_device(int index) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  FLASHRT_CHECK(status == cudaSuccess,
                "backend 'cuda' cannot be used: ", cudaGetErrorString(status), " (",
                cudaGetErrorName(status), "; driver ", driver_version(), ", built with CUDA ",
                CUDART_VERSION, ")");
  FLASHRT_CHECK(0 <= index && index < count, "CUDA device ", index, " does not exist: there are ",
                count, ", counted from 0");
  check(cudaSetDevice(index), "cudaSetDevice");
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  DeviceInfo info{.index = index,
                  .name = properties.name,
                  .major = properties.major,
                  .minor = properties.minor,
                  .multiprocessors = properties.multiProcessorCount,
                  .l2_bytes = static_cast<size_t>(properties.l2CacheSize),
                  .shared_bytes_per_block = properties.sharedMemPerBlockOptin,
                  .is_integrated = properties.integrated != 0};
  constexpr int kOldest = 89;  // Ada: the first with FP8 matrix units
  FLASHRT_CHECK(info.compute_capability() >= kOldest, "CUDA device ", index, " (", info.name,
                ") has compute capability ", info.major, ".", info.minor,
                ", 8.9 or newer is needed");
  return info;
}

int driver_version() {
  int version = 0;
  cudaDriverGetVersion(&version);
  return version;
}

int64_t allocation_count() { return allocations; }

DeviceBuffer::DeviceBuffer(size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  // Asked for before it is compared: where the memory is that of the host, some of what does not
  // count as free would be given up for this.
  const cudaError_t status = cudaMalloc(&data_, bytes);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // reported here, and no fault of the next launch
    size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    throw Error(text("device memory: ", bytes, " bytes are needed, ", free, " of ", total,
                     " are free; end what else uses the GPU, or choose another one"));
  }
  check(status, "cudaMalloc");
  ++allocations;
}

DeviceBuffer::~DeviceBuffer() { cudaFree(data_); }

PinnedBuffer::PinnedBuffer(size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  check(cudaMallocHost(&data_, bytes), text("cudaMallocHost of ", bytes, " bytes").c_str());
  ++allocations;
}

PinnedBuffer::~PinnedBuffer() { cudaFreeHost(data_); }

Stream::Stream() {
  int least = 0, greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest),
        "cudaStreamCreateWithPriority");
}

Stream::~Stream() {
  if (stream_) cudaStreamDestroy(stream_);
}

void Stream::synchronize() const { check(cudaStreamSynchronize(stream_), "the CUDA stream"); }

Event::Event() { check(cudaEventCreate(&event_), "cudaEventCreate"); }

Event::~Event() {
  if (event_) cudaEventDestroy(event_);
}

void Event::record(const Stream& stream) const {
  check(cudaEventRecord(event_, stream.get()), "cudaEventRecord");
}

void Event::synchronize() const { check(cudaEventSynchronize(event_), "cudaEventSynchronize"); }

float Event::since(const Event& begin) const {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin.event_, event_), "cudaEventElapsedTime");
  return milliseconds;
}

Graph::Graph(const Stream& stream, const std::function<void()>& record) {
  check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal),
        "cudaStreamBeginCapture");
  cudaGraph_t graph = nullptr;
  try {
    record();
  } catch (...) {
    cudaStreamEndCapture(stream.get(), &graph);
    if (graph) cudaGraphDestroy(graph);
    throw;
  }
  check(cudaStreamEndCapture(stream.get(), &graph), "cudaStreamEndCapture");
  size_t count = 0;
  cudaError_t status = cudaGraphGetNodes(graph, nullptr, &count);
  std::vector<cudaGraphNode_t> nodes(count);
  if (status == cudaSuccess) status = cudaGraphGetNodes(graph, nodes.data(), &count);
  for (const cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
    if (status == cudaSuccess) status = cudaGraphNodeGetType(node, &type);
    ++nodes_[std::string(kind_of(type))];
  }
  if (status == cudaSuccess) status = cudaGraphInstantiate(&executable_, graph, 0);
  cudaGraphDestroy(graph);
  check(status, "cudaGraphInstantiate");
  check(cudaGraphUpload(executable_, stream.get()), "cudaGraphUpload");
}

Graph::~Graph() {
  if (executable_) cudaGraphExecDestroy(executable_);
}

void Graph::launch(const Stream& stream) const {
  check(cudaGraphLaunch(executable_, stream.get()), "cudaGraphLaunch");
}

int Graph::node_count() const {
  int count = 0;
  for (const auto& [kind, number] : nodes_) count += number;
  return count;
}

}  // namespace flashrt::cuda
