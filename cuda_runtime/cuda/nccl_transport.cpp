#include "cuda_runtime/cuda/nccl_transport.hpp"

#include <fmt/format.h>
#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "cuda_runtime/cuda/check.hpp"
#include "model/base/whole_numbers.hpp"

#if NCCL_VERSION_CODE < NCCL_VERSION(2, 14, 0)
#error "NCCL 2.14 or later is needed: communicators that do not block"
#endif

namespace moeplan::runtime {

namespace {

using Clock = std::chrono::steady_clock;

ncclDataType_t type_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::Fp16: return ncclFloat16;
    case Dtype::Bf16: return ncclBfloat16;
    case Dtype::Fp8:
    case Dtype::Int8: return ncclInt8;
    case Dtype::Fp32:
    case Dtype::Tf32: break;
  }
  return ncclFloat32;
}

/// The key of a communicator, e.g. "ranks 0 to 6, 4 of them, on stream 1". It is the same on all ranks of a group,
/// whose members are evenly spaced.
std::string name_of_group(const std::vector<RankId>& members, std::int64_t stream) {
  return fmt::format("ranks {} to {}, {} of them, on stream {}", members.front().value(), members.back().value(),
                     members.size(), stream);
}

class NcclTransport final : public DeviceTransport {
 public:
  NcclTransport(CudaDevice& device, RankStore& store, const RankPlace& place, Seconds time_out)
      : device_(device),
        store_(store),
        rank_(static_cast<std::size_t>(place.rank)),
        time_out_(time_out),
        peers_(make_store_peers(store, place, time_out, "runs")) {
    for (std::int64_t r = 0; r < place.ranks; ++r) world_.push_back(RankId(static_cast<std::size_t>(r)));
  }
  ~NcclTransport() override {
    abort_all();
    if (token_ != nullptr) {
      try {
        device_.release(token_);
      } catch (const std::exception&) {
        // Ignored: a failed device has nothing to release.
      }
    }
  }
  NcclTransport(const NcclTransport&) = delete;
  NcclTransport& operator=(const NcclTransport&) = delete;

  void prepare(std::size_t operation, Stream stream, std::span<const DevicePart> parts) override {
    const auto* c = std::get_if<DeviceCollective>(parts.front().transfer);
    communicators_[operation] = communicator(c != nullptr ? c->members : world_, static_cast<std::int64_t>(stream));
  }

  void transfer(std::size_t operation, std::span<const DevicePart> parts) override {
    const DevicePart& part = parts.front();
    ncclComm_t communicator = communicators_.at(operation);
    const cudaStream_t stream = device_.native(part.stream);
    if (const auto* e = std::get_if<DeviceExchange>(part.transfer)) return exchange(*e, communicator, stream);
    const auto& c = std::get<DeviceCollective>(*part.transfer);
    if (c.elements() > 0) collect(c, communicator, stream);
  }

  void meet(Seconds time_out) override {
    (void)time_out;  // the peers have the same time-out
    (void)peers_->gather("");
    (void)peers_->broadcast("");
  }

  /// An all-reduce of one number: no rank passes it before all have reached it.
  void align(DeviceStream stream) override {
    if (token_ == nullptr) token_ = device_.allocate(sizeof(float));
    constexpr std::int64_t kOwnStream = -1;
    ncclComm_t world = communicator(world_, kOwnStream);
    check_code(ncclAllReduce(token_, token_, 1, ncclFloat32, ncclSum, world, device_.native(stream)), "ncclAllReduce");
    settle(world, "ncclAllReduce");
  }

  void check() override {
    store_.check();
    for (const auto& [name, communicator] : groups_) {
      ncclResult_t state = ncclSuccess;
      check_code(ncclCommGetAsyncError(communicator, &state), "ncclCommGetAsyncError");
      if (state != ncclSuccess && state != ncclInProgress) raise(name, state);
    }
  }

  void abort() noexcept override {
    store_.give_up(fmt::format("rank {} has given up", rank_.value()));
    abort_all();
  }

 private:
  [[noreturn]] void raise(const std::string& call, ncclResult_t code,
                          const std::source_location& where = std::source_location::current()) const {
    std::string error = ncclGetErrorString(code);
    if (const char* cause = ncclGetLastError(nullptr); cause != nullptr && *cause != '\0') {
      error += fmt::format(": {}", cause);
    }
    raise_cuda_error(rank_, call, error, where);
  }
  /// Raises ExecutionError for error codes. A call on a non-blocking communicator may still be in progress.
  void check_code(ncclResult_t code, const char* call,
                  const std::source_location& where = std::source_location::current()) const {
    if (code != ncclSuccess && code != ncclInProgress) raise(call, code, where);
  }

  /// Waits until a call has completed its part on the host.
  void settle(ncclComm_t communicator, const std::string& call) {
    const auto begin = Clock::now();
    for (;;) {
      ncclResult_t state = ncclSuccess;
      check_code(ncclCommGetAsyncError(communicator, &state), "ncclCommGetAsyncError");
      if (state == ncclSuccess) return;
      if (state != ncclInProgress) raise(call, state);
      const auto waited = Clock::now() - begin;
      const auto pause = pause_after(waited);
      if (pause.count() == 0) continue;
      store_.check();
      if (waited > std::chrono::duration<double>(time_out_.value())) {
        throw ExecutionError(
            fmt::format("rank {}: {}: others have not come within {} s", rank_.value(), call, time_out_.value()));
      }
      std::this_thread::sleep_for(pause);
    }
  }

  ncclComm_t communicator(const std::vector<RankId>& members, std::int64_t stream) {
    const std::string name = name_of_group(members, stream);
    if (const auto it = groups_.find(name); it != groups_.end()) return it->second;
    ncclUniqueId id{};
    if (members.front() == rank_) {
      check_code(ncclGetUniqueId(&id), "ncclGetUniqueId");
      store_.set(name, std::string(id.internal, sizeof id.internal));
    } else {
      const std::string text = store_.get(name, time_out_);
      std::copy_n(text.begin(), std::min(text.size(), sizeof id.internal), id.internal);
    }
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    const auto position = std::find(members.begin(), members.end(), rank_) - members.begin();
    ncclComm_t out = nullptr;
    check_code(ncclCommInitRankConfig(&out, static_cast<int>(members.size()), id, static_cast<int>(position), &config),
               "ncclCommInitRankConfig");
    groups_[name] = out;
    settle(out, "a communicator of " + name);
    return out;
  }

  void exchange(const DeviceExchange& e, ncclComm_t communicator, cudaStream_t stream) {
    if (e.sends.empty() && e.receives.empty()) return;
    check_code(ncclGroupStart(), "ncclGroupStart");
    const auto each = [&](const DeviceMessage& m, auto call) {
      std::int64_t begin = 0;
      for (std::int64_t i = 0; i < e.messages; ++i) {
        const std::int64_t n = part(static_cast<std::int64_t>(m.bytes), i, e.messages);
        if (n > 0) call(m.data + begin, static_cast<std::size_t>(n), m.peer.value());
        begin += n;
      }
    };
    for (const DeviceMessage& m : e.receives) {
      each(m, [&](std::byte* data, std::size_t bytes, int peer) {
        check_code(ncclRecv(data, bytes, ncclInt8, peer, communicator, stream), "ncclRecv");
      });
    }
    for (const DeviceMessage& m : e.sends) {
      each(m, [&](const std::byte* data, std::size_t bytes, int peer) {
        check_code(ncclSend(data, bytes, ncclInt8, peer, communicator, stream), "ncclSend");
      });
    }
    end_group(communicator);
  }

  void end_group(ncclComm_t communicator) {
    check_code(ncclGroupEnd(), "ncclGroupEnd");
    settle(communicator, "ncclGroupEnd");
  }

  void collect(const DeviceCollective& c, ncclComm_t communicator, cudaStream_t stream) {
    const ncclDataType_t type = type_of(c.dtype);
    const bool are_equal =
        std::adjacent_find(c.blocks.begin(), c.blocks.end(), std::not_equal_to<>()) == c.blocks.end();
    const auto block = static_cast<std::size_t>(c.blocks.front());
    switch (c.collective) {
      case Collective::AllGather:
        if (!are_equal) return gather_unequal(c, communicator, stream);
        check_code(ncclAllGather(c.send, c.receive, block, type, communicator, stream), "ncclAllGather");
        return settle(communicator, "ncclAllGather");
      case Collective::ReduceScatter:
        if (!are_equal) return scatter_unequal(c, communicator, stream);
        check_code(ncclReduceScatter(c.send, c.receive, block, type, ncclSum, communicator, stream),
                   "ncclReduceScatter");
        return settle(communicator, "ncclReduceScatter");
      case Collective::AllReduce:
        check_code(ncclAllReduce(c.send, c.receive, static_cast<std::size_t>(c.elements()), type, ncclSum, communicator,
                                 stream),
                   "ncclAllReduce");
        return settle(communicator, "ncclAllReduce");
      case Collective::Broadcast:
        check_code(ncclBroadcast(c.send, c.receive, block, type, 0, communicator, stream), "ncclBroadcast");
        return settle(communicator, "ncclBroadcast");
      case Collective::AllToAll:
      case Collective::SendReceive: break;
    }
  }

  /// All-gather of unequal blocks, as one broadcast per block: NCCL supports equal blocks only.
  void gather_unequal(const DeviceCollective& c, ncclComm_t communicator, cudaStream_t stream) {
    check_code(ncclGroupStart(), "ncclGroupStart");
    each_block(c, c.receive, [&](std::byte* place, std::size_t count, int root) {
      check_code(ncclBroadcast(c.send, place, count, type_of(c.dtype), root, communicator, stream), "ncclBroadcast");
    });
    end_group(communicator);
  }
  void scatter_unequal(const DeviceCollective& c, ncclComm_t communicator, cudaStream_t stream) {
    check_code(ncclGroupStart(), "ncclGroupStart");
    each_block(c, c.send, [&](const std::byte* place, std::size_t count, int root) {
      check_code(ncclReduce(place, c.receive, count, type_of(c.dtype), ncclSum, root, communicator, stream),
                 "ncclReduce");
    });
    end_group(communicator);
  }
  template <class Call>
  static void each_block(const DeviceCollective& c, std::byte* all, Call call) {
    for (std::int64_t p = 0; p < std::ssize(c.blocks); ++p) {
      const auto count = static_cast<std::size_t>(c.blocks[static_cast<std::size_t>(p)]);
      if (count > 0) call(all + c.first_of(p) * size_of(c.dtype), count, static_cast<int>(p));
    }
  }

  /// Aborts all communicators. Unlike destruction this never waits for other ranks, and it releases the same resources.
  void abort_all() noexcept {
    for (const auto& [name, communicator] : groups_) (void)ncclCommAbort(communicator);
    groups_.clear();
  }

  CudaDevice& device_;
  RankStore& store_;
  RankId rank_;
  Seconds time_out_;
  std::unique_ptr<Peers> peers_;
  std::vector<RankId> world_;
  std::map<std::string, ncclComm_t> groups_;
  std::map<std::size_t, ncclComm_t> communicators_;  // by operation
  std::byte* token_ = nullptr;
};

}  // namespace

std::unique_ptr<DeviceTransport> make_nccl_transport(CudaDevice& device, RankStore& store, const RankPlace& place,
                                                     Seconds time_out) {
  return std::make_unique<NcclTransport>(device, store, place, time_out);
}

std::string nccl_version() {
  int v = 0;
  if (ncclGetVersion(&v) != ncclSuccess) return "unknown";
  return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
}

}  // namespace moeplan::runtime
