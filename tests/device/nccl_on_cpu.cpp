// The calls of NCCL that a transport makes, done by the ranks' threads of one process on memory of FakeDevices: what a
// stream's device was asked for before runs first, then the call is over. A call waits for its peers.
#include <nccl.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "cuda_runtime/kernels/formats.hpp"
#include "tests/device/fake_device.hpp"
#include "tests/device/library_calls.hpp"

namespace {

using Bytes = std::vector<std::byte>;
using moeplan::kernels::Format;

constexpr std::chrono::seconds kPatience(20);

/// What ranks of a communicator have for each other.
struct Group {
  std::mutex mutex;
  std::condition_variable changed;
  int members = 0;                                            // that have come
  std::map<std::pair<int, int>, std::deque<Bytes>> messages;  // by sender, receiver
  std::map<std::size_t, std::map<int, Bytes>> parts;          // by number of the collective, rank
  std::map<std::size_t, int> taken;                           // how many ranks have those of a collective
};

std::mutex groups_mutex;
std::map<std::string, std::shared_ptr<Group>> groups;

Format format_of(ncclDataType_t type) {
  if (type == ncclFloat16) return Format::Fp16;
  if (type == ncclBfloat16) return Format::Bf16;
  return type == ncclFloat32 ? Format::Fp32 : Format::Bytes;
}

Bytes bytes_of(const void* data, std::size_t count) {
  const auto* begin = static_cast<const std::byte*>(data);
  return {begin, begin + count};
}

}  // namespace

struct ncclComm {
  std::shared_ptr<Group> group;
  int rank = 0, ranks = 1;
  std::size_t collectives = 0;  // that this rank has called
  int looks = 0;                // at the state of the current call
};

namespace {

/// Calls within a group: their first halves are made at once, the second ones at its end.
thread_local bool in_group = false;
thread_local std::vector<std::function<ncclResult_t()>> later;

ncclResult_t finish(std::function<ncclResult_t()> rest) {
  if (!in_group) return rest();
  later.push_back(std::move(rest));
  return ncclSuccess;
}

void run_all(cudaStream_t stream) { (void)moeplan::tests::FakeDevice::of(stream).is_idle(); }

/// Every rank's part once all are there; `done` makes of them what this rank gets.
ncclResult_t collect(ncclComm_t c, const void* send, std::size_t bytes, cudaStream_t stream,
                     std::function<void(const std::vector<Bytes>&)> done) {
  run_all(stream);
  Group& g = *c->group;
  const std::size_t number = c->collectives++;
  {
    const std::lock_guard lock(g.mutex);
    g.parts[number][c->rank] = bytes_of(send, bytes);
    g.changed.notify_all();
  }
  return finish([=, &g, done = std::move(done)] {
    std::vector<Bytes> all;
    std::unique_lock lock(g.mutex);
    const auto are_there = [&] { return std::ssize(g.parts.at(number)) == c->ranks; };
    if (!g.changed.wait_for(lock, kPatience, are_there)) return ncclSystemError;
    for (const auto& [rank, part] : g.parts.at(number)) {
      all.push_back(part);
      if (part.size() != bytes) return ncclInvalidUsage;
    }
    if (++g.taken[number] == c->ranks) g.parts.erase(number);
    lock.unlock();
    done(all);
    return ncclSuccess;
  });
}

/// Sums of elements `first` and on.
void add_up(const std::vector<Bytes>& parts, ncclDataType_t type, std::size_t first, std::size_t count, void* out) {
  using namespace moeplan::kernels;
  const Format format = format_of(type);
  for (std::size_t i = 0; i < count; ++i) {
    float sum = 0;
    for (const Bytes& p : parts) sum += load1(format, p.data(), static_cast<std::int64_t>(first + i));
    store1(format, out, static_cast<std::int64_t>(i), sum);
  }
}

std::size_t size_of(ncclDataType_t type) {
  return static_cast<std::size_t>(moeplan::kernels::size_of(format_of(type)));
}

}  // namespace

extern "C" {

const char* ncclGetErrorString(ncclResult_t) { return "an error of NCCL"; }
const char* ncclGetLastError(ncclComm_t) { return moeplan::tests::nccl_behaviour().failure.c_str(); }
ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static int made = 0;
  const std::lock_guard lock(groups_mutex);
  std::memset(id->internal, 0, sizeof id->internal);
  const std::string name = "group " + std::to_string(made++);
  std::memcpy(id->internal, name.data(), name.size());
  groups[name] = std::make_shared<Group>();
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* out, int ranks, ncclUniqueId id, int rank, ncclConfig_t*) {
  std::shared_ptr<Group> group;
  {
    const std::lock_guard lock(groups_mutex);
    group = groups.at(id.internal);
  }
  *out = new ncclComm{group, rank, ranks};
  std::unique_lock lock(group->mutex);
  ++group->members;
  group->changed.notify_all();
  return group->changed.wait_for(lock, kPatience, [&] { return group->members == ranks; }) ? ncclSuccess
                                                                                           : ncclSystemError;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t* state) {
  const auto& [looks, failure] = moeplan::tests::nccl_behaviour();
  *state = c->looks++ < looks ? ncclInProgress : failure.empty() ? ncclSuccess : ncclInvalidUsage;
  if (*state == ncclSuccess) c->looks = 0;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t c) {
  delete c;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  in_group = true;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  in_group = false;
  for (const auto& rest : std::exchange(later, {})) {
    if (const ncclResult_t code = rest(); code != ncclSuccess) return code;
  }
  return ncclSuccess;
}

ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t c,
                      cudaStream_t stream) {
  run_all(stream);
  const std::lock_guard lock(c->group->mutex);
  c->group->messages[{c->rank, peer}].push_back(bytes_of(data, count * size_of(type)));
  c->group->changed.notify_all();
  return ncclSuccess;
}
ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t c, cudaStream_t stream) {
  run_all(stream);
  return finish([=] {
    Group& g = *c->group;
    std::unique_lock lock(g.mutex);
    auto& messages = g.messages[{peer, c->rank}];
    if (!g.changed.wait_for(lock, kPatience, [&] { return !messages.empty(); })) return ncclSystemError;
    if (messages.front().size() != count * size_of(type)) return ncclInvalidUsage;
    std::memcpy(data, messages.front().data(), messages.front().size());
    messages.pop_front();
    return ncclSuccess;
  });
}

ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t,
                           ncclComm_t c, cudaStream_t stream) {
  return collect(c, send, count * size_of(type), stream,
                 [=](const auto& all) { add_up(all, type, 0, count, receive); });
}
ncclResult_t ncclReduceScatter(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t,
                               ncclComm_t c, cudaStream_t stream) {
  return collect(c, send, static_cast<std::size_t>(c->ranks) * count * size_of(type), stream, [=](const auto& all) {
    add_up(all, type, static_cast<std::size_t>(c->rank) * count, count, receive);
  });
}
ncclResult_t ncclReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t, int root,
                        ncclComm_t c, cudaStream_t stream) {
  return collect(c, send, count * size_of(type), stream, [=](const auto& all) {
    if (c->rank == root) add_up(all, type, 0, count, receive);
  });
}
ncclResult_t ncclAllGather(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclComm_t c,
                           cudaStream_t stream) {
  return collect(c, send, count * size_of(type), stream, [=](const auto& all) {
    auto* to = static_cast<std::byte*>(receive);
    for (const Bytes& part : all) to = std::copy(part.begin(), part.end(), to);
  });
}
ncclResult_t ncclBroadcast(const void* send, void* receive, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t c, cudaStream_t stream) {
  // What others have there counts for nothing.
  const void* from = c->rank == root ? send : receive;
  return collect(c, from, count * size_of(type), stream, [=](const auto& all) {
    std::memcpy(receive, all[static_cast<std::size_t>(root)].data(), count * size_of(type));
  });
}
}
