#include "tests/device/cudart_on_cpu.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "cuda_runtime/cuda/launch_kernel.hpp"
#include "tests/device/library_calls.hpp"

namespace moeplan::tests {

using namespace runtime;

std::unique_ptr<FakeDevice>& the_gpu() {
  static std::unique_ptr<FakeDevice> gpu;
  return gpu;
}

}  // namespace moeplan::tests

namespace {

using moeplan::runtime::DeviceEvent;
using moeplan::runtime::DeviceGraph;
using moeplan::runtime::DeviceStream;
using moeplan::tests::the_gpu;

/// Handles are the fake's ids, and one more, since nullptr is none.
template <class Handle, class Id>
Handle handle_of(Id id) {
  return reinterpret_cast<Handle>(static_cast<std::uintptr_t>(id.index() + 1));
}
template <class Id, class Handle>
Id id_of(Handle handle) {
  return Id(static_cast<std::size_t>(reinterpret_cast<std::uintptr_t>(handle)) - 1);
}

}  // namespace

void moeplan::tests::on_stream(CUstream_st* stream, std::function<void()> what) {
  if (!the_gpu()) return what();
  the_gpu()->run(id_of<DeviceStream>(stream), std::move(what));
}

int moeplan::runtime::launch_kernel(const kernels::KernelCall& call, CUstream_st* stream) {
  the_gpu()->launch(id_of<DeviceStream>(stream), call);
  return cudaSuccess;
}

int moeplan::runtime::launch_read(const void* data, std::size_t bytes, CUstream_st* stream) {
  the_gpu()->read(id_of<DeviceStream>(stream), static_cast<const std::byte*>(data), bytes);
  return cudaSuccess;
}

int moeplan::runtime::launch_message_copies(const MessageCopy* messages, int count, double ns_per_byte,
                                            CUstream_st* stream) {
  std::vector<LinkMessage> all;
  for (const MessageCopy& m : std::span(messages, static_cast<std::size_t>(count))) {
    all.push_back({static_cast<std::byte*>(m.to), static_cast<const std::byte*>(m.from),
                   static_cast<std::size_t>(m.bytes), reinterpret_cast<std::byte*>(m.out),
                   reinterpret_cast<std::byte*>(m.in)});
  }
  the_gpu()->send(id_of<DeviceStream>(stream), all, BytesPerSecond(1e9 / ns_per_byte));
  return cudaSuccess;
}

/// The flags are written as the kernel does, which sees them in host memory.
int moeplan::runtime::launch_hold(HoldWords* words, std::uint32_t number, std::uint64_t, CUstream_st* stream) {
  the_gpu()->hold(id_of<DeviceStream>(stream), [words, number] {
    if (words->resumed < number) words->expired = number;  // what counts is the last look
    if (words->resumed >= number) words->expired = 0;
    return words->resumed >= number;
  });
  return cudaSuccess;
}

extern "C" {

cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned) {
  *data = std::malloc(bytes);
  return cudaSuccess;
}
cudaError_t cudaHostGetDevicePointer(void** there, void* here, unsigned) {
  *there = here;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* data) {
  std::free(data);
  return cudaSuccess;
}

const char* cudaGetErrorName(cudaError_t code) {
  return code == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "an error";
}
const char* cudaGetErrorString(cudaError_t) { return "of CUDA"; }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = the_gpu() ? 1 : 0;
  return the_gpu() ? cudaSuccess : cudaErrorNoDevice;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "a CPU");
  properties->totalGlobalMem = 1 << 30;
  properties->multiProcessorCount = 2;
  properties->l2CacheSize = 1 << 20;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  const bool is_major = attribute == cudaDevAttrComputeCapabilityMajor;
  const bool is_count = attribute == cudaDevAttrMultiProcessorCount;
  *value = is_major ? moeplan::tests::compute_capability() : is_count ? 2 : 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* bus, int, int) {
  std::strcpy(bus, "0000:17:00.0");
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  ++moeplan::tests::library_calls()["cudaMalloc"];
  constexpr std::size_t kMost = std::size_t{1} << 34U;
  if (bytes > kMost) return cudaErrorMemoryAllocation;
  *data = the_gpu() ? the_gpu()->allocate(bytes) : std::malloc(bytes);
  return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  the_gpu() ? the_gpu()->release(static_cast<std::byte*>(data)) : std::free(data);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int*, int* greatest) {
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = handle_of<cudaStream_t>(the_gpu()->make_stream());
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  the_gpu()->release(id_of<DeviceStream>(stream));
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t) { return the_gpu()->is_idle() ? cudaSuccess : cudaErrorNotReady; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return the_gpu()->is_idle() ? cudaSuccess : cudaErrorNotReady; }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  the_gpu()->wait(id_of<DeviceStream>(stream), id_of<DeviceEvent>(event));
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = handle_of<cudaEvent_t>(the_gpu()->make_event(flags != cudaEventDisableTiming));
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  the_gpu()->release(id_of<DeviceEvent>(event));
  return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  the_gpu()->record(id_of<DeviceEvent>(event), id_of<DeviceStream>(stream));
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return the_gpu()->is_over(id_of<DeviceEvent>(event)) ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  const moeplan::Seconds time = the_gpu()->between(id_of<DeviceEvent>(from), id_of<DeviceEvent>(to));
  *milliseconds = static_cast<float>(time.value() * 1e3);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  auto* there = static_cast<std::byte*>(to);
  const auto* here = static_cast<const std::byte*>(from);
  if (kind == cudaMemcpyHostToDevice) the_gpu()->copy_in(there, {here, bytes});
  if (kind == cudaMemcpyDeviceToHost) the_gpu()->copy_out({there, bytes}, here);
  if (kind == cudaMemcpyDeviceToDevice) the_gpu()->copy(id_of<DeviceStream>(stream), there, here, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* data, int, std::size_t bytes, cudaStream_t stream) {
  the_gpu()->clear(id_of<DeviceStream>(stream), static_cast<std::byte*>(data), bytes);
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  the_gpu()->begin_capture(id_of<DeviceStream>(stream));
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = handle_of<cudaGraph_t>(the_gpu()->end_capture(id_of<DeviceStream>(stream)));
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* ready, cudaGraph_t graph, unsigned long long) {
  *ready = reinterpret_cast<cudaGraphExec_t>(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t) { return cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t ready) {
  the_gpu()->release(id_of<DeviceGraph>(ready));
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t ready, cudaStream_t stream) {
  the_gpu()->launch(id_of<DeviceStream>(stream), id_of<DeviceGraph>(ready));
  return cudaSuccess;
}
}
