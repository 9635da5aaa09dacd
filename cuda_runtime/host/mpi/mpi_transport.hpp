// The implementation of Transport over MPI. All calls come from the thread that called MPI_Init_thread.
#pragma once

#include <memory>

#include "cuda_runtime/backend.hpp"
#include "cuda_runtime/host/transport.hpp"

namespace moeplan::runtime {

/// The lifetime of MPI in this process, from construction to destruction.
class MpiSession {
 public:
  MpiSession(int& argc, char**& argv);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  [[nodiscard]] RankId rank() const;
  [[nodiscard]] std::int64_t size() const;
  [[nodiscard]] std::string host() const;
  /// Terminates all ranks.
  [[noreturn]] void abort(int code) const;
};

/// A transport between all ranks. Messages must be smaller than 2^31 bytes; larger ones raise ExecutionError.
[[nodiscard]] std::unique_ptr<Transport> make_mpi_transport(const MpiSession& session);

/// Peers whose calls raise ExecutionError after `time_out`.
[[nodiscard]] std::unique_ptr<Peers> make_mpi_peers(const MpiSession& session, Transport& transport, Seconds time_out);

}  // namespace moeplan::runtime
