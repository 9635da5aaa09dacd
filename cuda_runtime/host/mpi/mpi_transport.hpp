// Messages over MPI. Everything here is called from the thread that calls MPI_Init_thread.
#pragma once

#include <memory>

#include "cuda_runtime/backend.hpp"
#include "cuda_runtime/host/transport.hpp"

namespace moeplan::runtime {

/// The life of MPI in this process: from construction to the end.
class MpiSession {
 public:
  MpiSession(int& argc, char**& argv);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  [[nodiscard]] RankId rank() const;
  [[nodiscard]] std::int64_t size() const;
  [[nodiscard]] std::string host() const;
  /// Ends all ranks.
  [[noreturn]] void abort(int code) const;
};

/// Of all ranks. Messages have fewer than 2^31 bytes: more is an ExecutionError.
[[nodiscard]] std::unique_ptr<Transport> make_mpi_transport(const MpiSession& session);

/// Whose calls give up after `time_out`.
[[nodiscard]] std::unique_ptr<Peers> make_mpi_peers(const MpiSession& session, Transport& transport, Seconds time_out);

}  // namespace moeplan::runtime
