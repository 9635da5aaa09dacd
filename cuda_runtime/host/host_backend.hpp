// A rank on CPU cores: a thread for each stream, messages over a Transport that progress while streams compute.
//
// The thread that calls finish() moves the messages on, it alone; a stream's thread that communicates packs, asks for
// messages and sleeps until they are over. All collectives are made of such messages: rings as the Program is priced,
// each step sending what the one before brought.
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
  Seconds time_out{60};  // of a communication, from when this rank reached it
  /// Is told the name of each operation that a stream reaches, from any thread.
  std::function<void(const std::string& operation)> on_reach = {};
};

/// Nanoseconds of a clock that never goes back; on one machine the same for all processes.
[[nodiscard]] std::int64_t host_clock();

[[nodiscard]] std::unique_ptr<Backend> make_host_backend(Transport& transport, HostOptions options);

}  // namespace moeplan::runtime
