// A small execution of two ranks on one device: copies, an exchange and a sum on three streams.
#pragma once

#include <string>
#include <vector>

#include "cuda_runtime/device/device_world.hpp"
#include "cuda_runtime/device/loopback_transport.hpp"
#include "tests/device/fake_device.hpp"

namespace moeplan::tests::two_ranks {

using namespace moeplan::runtime;
using moeplan::tests::FakeDevice;

inline const std::vector<RankId> kTwo{RankId(0), RankId(1)};

/// Row 0 of buffer 0 goes to row 1 on the own rank, then to row 2 on the other rank; all row 2 together to buffer 1.
inline void prepare(RankId rank, Backend& backend) {
  const std::vector<BufferShape> shapes{{4, 8, Dtype::Fp32}, {2, 8, Dtype::Fp32}};
  backend.allocate(shapes);
  const BufferId a(0), b(1);
  const RankId other(1 - rank.value());
  backend.prepare(CopyRowsWork{{a, {0}}, {a, {1}}}, "copy");
  backend.prepare(ExchangeWork{a, a, {{other, {{{8, 8}}}}}, {{other, {{{16, 8}}}}}, {}, {}, false, {}, 2}, "exchange");
  CollectiveWork sum{Collective::AllReduce, kTwo, rank.value(), a, b, {}, {}};
  sum.from_blocks = {{{{16, 4}}}, {{{20, 4}}}};
  sum.to_blocks = {{{{0, 4}}}, {{{4, 4}}}};
  backend.prepare(sum, "sum");
  backend.prepare(CopyRowsWork{{a, {3}}, {a, {1}}}, "overwrite");  // what was sent, once it is sent
}

inline void run(Backend& backend) {
  backend.begin();
  const std::vector<std::size_t> none, first{0}, second{1};
  backend.enqueue(0, Stream::Compute, none);
  backend.enqueue(1, Stream::Inter, first);
  backend.enqueue(2, Stream::Intra, second);
  backend.enqueue(3, Stream::Inter, none);
  const auto times = backend.finish();
  for (const OperationTime& t : times) {
    if (t.start < Seconds(0) || t.end < t.start) throw std::logic_error("an operation ends before it starts");
  }
  if (times[1].start < times[0].end) throw std::logic_error("an exchange starts before what it waits for has ended");
}

/// What a world of two ranks says that runs this; "": nothing.
template <class Job>
std::string error_of(FakeDevice& device, const DeviceOptions& options, Job job) {
  try {
    LoopbackTransport transport(device, options.slab);
    DeviceWorld world(device, transport, kTwo, options);
    world.run(job);
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

}  // namespace moeplan::tests::two_ranks
