#include "cuda_runtime/cuda/cuda_device.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "cuda_runtime/backend.hpp"
#include "cuda_runtime/cuda/check.hpp"
#include "cuda_runtime/cuda/launch_kernel.hpp"
#include "cuda_runtime/cuda/lt_products.hpp"
#include "cuda_runtime/cuda/stream_hold.hpp"

namespace moeplan::runtime {

namespace {

thread_local int current = -1;  // the device that this thread has selected here

class Cuda final : public CudaDevice {
 public:
  Cuda(int index, RankId rank, const GpuParts* parts)
      : index_(index), rank_(rank), parts_(parts != nullptr && parts->problem().empty() ? parts : nullptr) {
    use();
    products_.emplace(rank, parts_ ? parts_->multiprocessors() : 0, [this](CUstream_st* of) {
      return new_stream(kind_of_.contains(of) ? kind_of_.at(of).part : Part{});
    });
    hold_.emplace(rank);
    copies_ = new_stream();
  }
  ~Cuda() override {
    // Errors are ignored: a call that failed before fails again here.
    (void)cudaSetDevice(index_);
    current = index_;
    hold_.reset();
    products_.reset();
    for (cudaGraphExec_t g : graphs_) {
      if (g != nullptr) (void)cudaGraphExecDestroy(g);
    }
    for (cudaEvent_t e : events_) (void)cudaEventDestroy(e);
    for (cudaStream_t s : streams_) (void)cudaStreamDestroy(s);
    (void)cudaStreamDestroy(copies_);
  }
  Cuda(const Cuda&) = delete;
  Cuda& operator=(const Cuda&) = delete;

  CUstream_st* native(DeviceStream stream) const override { return streams_[stream.index()]; }

  std::byte* allocate(std::size_t bytes) override {
    use();
    void* data = nullptr;
    const std::string call = fmt::format("cudaMalloc of {} bytes", bytes);
    check(cudaMalloc(&data, std::max<std::size_t>(1, bytes)), call.c_str());
    return static_cast<std::byte*>(data);
  }
  void release(std::byte* data) override {
    use();
    check(cudaFree(data), "cudaFree");
  }

  // A stream of its own, since non-blocking streams do not synchronise with the default stream; synchronised, since an
  // asynchronous copy from pageable memory may return before the data has arrived.
  void copy_in(std::byte* to, std::span<const std::byte> from) override {
    use();
    check(cudaMemcpyAsync(to, from.data(), from.size(), cudaMemcpyHostToDevice, copies_), "cudaMemcpyAsync to device");
    check(cudaStreamSynchronize(copies_), "cudaStreamSynchronize");
  }
  void copy_out(std::span<std::byte> to, const std::byte* from) override {
    use();
    check(cudaMemcpyAsync(to.data(), from, to.size(), cudaMemcpyDeviceToHost, copies_), "cudaMemcpyAsync to host");
    check(cudaStreamSynchronize(copies_), "cudaStreamSynchronize");
  }

  // Released handles are reused, because every stream also has a workspace for products.
  DeviceStream make_stream(std::optional<std::size_t> rank, bool is_urgent) override {
    use();
    const StreamKind kind{parts_ ? rank : Part{}, is_urgent};
    if (auto& free = free_streams_[kind]; !free.empty()) return taken(free);
    streams_.push_back(new_stream(kind.part, is_urgent));
    kind_of_[streams_.back()] = kind;
    return DeviceStream(streams_.size() - 1);
  }
  DeviceEvent make_event(bool is_timed) override {
    use();
    if (auto& free = free_events_[is_timed ? 1 : 0]; !free.empty()) return taken(free);
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, is_timed ? cudaEventDefault : cudaEventDisableTiming),
          "cudaEventCreateWithFlags");
    events_.push_back(event);
    is_timed_.push_back(is_timed);
    return DeviceEvent(events_.size() - 1);
  }
  void release(DeviceStream stream) override { free_streams_[kind_of_.at(native(stream))].push_back(stream); }
  void release(DeviceEvent event) override { free_events_[is_timed_[event.index()] ? 1 : 0].push_back(event); }
  void release(DeviceGraph graph) override {
    use();
    check(cudaGraphExecDestroy(std::exchange(graphs_[graph.index()], nullptr)), "cudaGraphExecDestroy");
  }

  void record(DeviceEvent event, DeviceStream stream) override {
    use();
    // In a graph, timed events are recorded as external event nodes, so that they hold the time of each launch.
    const unsigned flags = captures_ && is_timed_[event.index()] ? cudaEventRecordExternal : cudaEventRecordDefault;
    check(cudaEventRecordWithFlags(events_[event.index()], native(stream), flags), "cudaEventRecordWithFlags");
  }
  void wait(DeviceStream stream, DeviceEvent event) override {
    use();
    check(cudaStreamWaitEvent(native(stream), events_[event.index()], 0), "cudaStreamWaitEvent");
  }
  bool is_over(DeviceEvent event) override {
    use();
    const cudaError_t code = cudaEventQuery(events_[event.index()]);
    if (code == cudaErrorNotReady) return false;
    check(code, "cudaEventQuery");
    return true;
  }
  bool is_idle() override {
    use();
    for (cudaStream_t s : streams_) {
      const cudaError_t code = cudaStreamQuery(s);
      if (code == cudaErrorNotReady) return false;
      check(code, "cudaStreamQuery");
    }
    return true;
  }
  Seconds between(DeviceEvent from, DeviceEvent to) override {
    use();
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, events_[from.index()], events_[to.index()]), "cudaEventElapsedTime");
    return Seconds(static_cast<double>(milliseconds) * 1e-3);
  }

  void clear(DeviceStream stream, std::byte* data, std::size_t bytes) override {
    use();
    check(cudaMemsetAsync(data, 0, bytes, native(stream)), "cudaMemsetAsync");
  }
  void read(DeviceStream stream, const std::byte* data, std::size_t bytes) override {
    use();
    check(launch_read(data, bytes, native(stream)), "a kernel's launch");
  }
  void copy(DeviceStream stream, std::byte* to, const std::byte* from, std::size_t bytes) override {
    use();
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, native(stream)), "cudaMemcpyAsync");
  }
  void send(DeviceStream stream, std::span<const LinkMessage> messages, BytesPerSecond bandwidth) override {
    use();
    constexpr double kNanoseconds = 1e9;
    const auto port = [](std::byte* word) { return reinterpret_cast<unsigned long long*>(word); };
    std::vector<MessageCopy> copies;
    for (const LinkMessage& m : messages) {
      copies.push_back({m.to, m.from, static_cast<std::int64_t>(m.bytes), port(m.out), port(m.in)});
    }
    check(launch_message_copies(copies.data(), static_cast<int>(copies.size()), kNanoseconds / bandwidth.value(),
                                native(stream)),
          "a kernel's launch");
  }
  void launch(DeviceStream stream, const kernels::KernelCall& call) override {
    use();
    check(launch_kernel(call, native(stream)), "a kernel's launch");
  }
  void multiply(DeviceStream stream, const Products& products) override {
    use();
    products_->run(products, native(stream));
  }

  void begin_capture(DeviceStream stream) override {
    use();
    check(cudaStreamBeginCapture(native(stream), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    captures_ = true;
  }
  DeviceGraph end_capture(DeviceStream stream) override {
    use();
    captures_ = false;
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(native(stream), &graph), "cudaStreamEndCapture");
    cudaGraphExec_t ready = nullptr;
    // Else kernels of urgent streams would have the priority of the stream on which the graph is launched.
    const cudaError_t code = cudaGraphInstantiateWithFlags(&ready, graph, cudaGraphInstantiateFlagUseNodePriority);
    (void)cudaGraphDestroy(graph);
    check(code, "cudaGraphInstantiateWithFlags");
    graphs_.push_back(ready);
    return DeviceGraph(graphs_.size() - 1);
  }
  void abandon_capture(DeviceStream stream) noexcept override {
    captures_ = false;
    cudaGraph_t graph = nullptr;
    (void)cudaStreamEndCapture(native(stream), &graph);  // fails if the capture was invalidated
    if (graph != nullptr) (void)cudaGraphDestroy(graph);
    (void)cudaGetLastError();  // that failure is no concern of later calls
  }
  void launch(DeviceStream stream, DeviceGraph graph) override {
    use();
    check(cudaGraphLaunch(graphs_[graph.index()], native(stream)), "cudaGraphLaunch");
  }

  void hold(DeviceStream stream, Seconds limit) override {
    use();
    hold_->hold(native(stream), limit);
  }
  void resume() noexcept override { hold_->resume(); }
  bool has_expired() override { return hold_->has_expired(); }

 private:
  void check(int code, const char* call, const std::source_location& where = std::source_location::current()) const {
    check_cuda(code, rank_, call, where);
  }
  template <class Id>
  static Id taken(std::vector<Id>& free) {
    const Id out = free.back();
    free.pop_back();
    return out;
  }
  /// The current device is a property of each thread.
  void use() const {
    if (current == index_) return;
    check(cudaSetDevice(index_), "cudaSetDevice");
    current = index_;
  }
  using Part = std::optional<std::size_t>;  // none: all of the GPU
  struct StreamKind {
    Part part;
    bool is_urgent = false;
    auto operator<=>(const StreamKind&) const = default;
  };
  [[nodiscard]] cudaStream_t new_stream(Part part = {}, bool is_urgent = false) const {
    int priority = 0;
    if (is_urgent) check(cudaDeviceGetStreamPriorityRange(nullptr, &priority), "cudaDeviceGetStreamPriorityRange");
    if (part) {
      if (CUstream_st* own = parts_->make_stream(*part, priority)) return own;
      throw ExecutionError(fmt::format("rank {}: cuGreenCtxStreamCreate failed on part {}", rank_.value(), *part));
    }
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority), "cudaStreamCreateWithPriority");
    return stream;
  }

  int index_;
  RankId rank_;
  cudaStream_t copies_ = nullptr;
  std::vector<cudaStream_t> streams_;
  std::vector<cudaEvent_t> events_;
  std::vector<bool> is_timed_;
  const GpuParts* parts_;  // null: the GPU is not divided
  std::map<CUstream_st*, StreamKind> kind_of_;
  std::map<StreamKind, std::vector<DeviceStream>> free_streams_;
  std::array<std::vector<DeviceEvent>, 2> free_events_;  // index: whether timed
  std::vector<cudaGraphExec_t> graphs_;
  std::optional<LtProducts> products_;
  std::optional<StreamHold> hold_;
  bool captures_ = false;
};

}  // namespace

VisibleGpus visible_gpus() {
  VisibleGpus out;
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code != cudaSuccess) {
    out.problem = fmt::format("{}: {}", cudaGetErrorName(code), cudaGetErrorString(code));
    return out;
  }
  if (count == 0) out.problem = "this process sees no GPU";
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp p{};
    check_cuda(cudaGetDeviceProperties(&p, i), RankId(0), "cudaGetDeviceProperties");
    std::array<char, 32> bus{};
    check_cuda(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), i), RankId(0), "cudaDeviceGetPCIBusId");
    out.gpus.push_back({p.name, static_cast<std::int64_t>(p.totalGlobalMem), p.multiProcessorCount, p.major, p.minor,
                        p.l2CacheSize, bus.data()});
  }
  return out;
}

std::unique_ptr<CudaDevice> make_cuda_device(int index, RankId rank, const GpuParts* parts) {
  return std::make_unique<Cuda>(index, rank, parts);
}

}  // namespace moeplan::runtime
