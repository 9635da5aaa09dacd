// The back end on CPU cores: one thread per stream, and messages over a Transport that progress while streams compute.
//
// Only the thread that calls finish() drives the messages; the thread of a communicating stream packs its data, posts
// messages and sleeps until they are complete. All collectives consist of such messages: the rings that the cost model
// assumes, each step sending what the previous one received.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cuda_runtime/backend.hpp"
#include "cuda_runtime/host/host_memory.hpp"
#include "cuda_runtime/host/transport.hpp"
#include "model/workload/workload.hpp"

namespace moeplan::runtime {

struct HostOptions {
  RankId rank;
  CodecOptions codecs = {};
  Seconds time_out{60};  // of a communication, from the time at which this rank reached it
  /// Called with the name of each operation that a stream reaches, from any thread.
  std::function<void(const std::string& operation)> on_reach = {};
};

/// Nanoseconds of a monotonic clock that all processes of a node share.
[[nodiscard]] std::int64_t host_clock();

[[nodiscard]] std::unique_ptr<Backend> make_host_backend(Transport& transport, HostOptions options);

}  // namespace moeplan::runtime
