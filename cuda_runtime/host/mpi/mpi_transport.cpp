#include "cuda_runtime/host/mpi/mpi_transport.hpp"

#include <fmt/format.h>
#include <mpi.h>
#include <sched.h>

#include <array>
#include <chrono>
#include <limits>
#include <thread>

#include "cuda_runtime/host/host_backend.hpp"

namespace moeplan::runtime {

namespace {

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw ExecutionError(fmt::format("rank {}: {}: {}", world_rank(), call,
                                   std::string_view(text.data(), static_cast<std::size_t>(length))));
}

/// Waits for one request. After some polls it sleeps between them, because other threads may be computing.
void wait(MPI_Request& request, Seconds time_out, const char* call) {
  constexpr int kYields = 50;
  constexpr std::chrono::microseconds kSleep(50);
  const std::int64_t begin = host_clock();
  for (int looks = 0, done = 0;; ++looks) {
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), call);
    if (done != 0) return;
    if (looks < kYields) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(kSleep);
    }
    if (static_cast<double>(host_clock() - begin) * 1e-9 > time_out.value()) {
      throw ExecutionError(
          fmt::format("rank {}: {}: others have not come within {} s", world_rank(), call, time_out.value()));
    }
  }
}

class MpiTransport final : public Transport {
 public:
  MpiTransport() {
    check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    for (MPI_Comm* c : {&data_, &control_}) {
      check(MPI_Comm_dup(MPI_COMM_WORLD, c), "MPI_Comm_dup");
      check(MPI_Comm_set_errhandler(*c, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    }
  }

  std::size_t start(const Message& m) override {
    if (m.bytes > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
      throw ExecutionError(fmt::format("rank {}: a message of {} bytes is more than MPI takes", world_rank(), m.bytes));
    }
    MPI_Request request = MPI_REQUEST_NULL;
    const int bytes = static_cast<int>(m.bytes), peer = m.peer.value();
    if (m.is_send) {
      check(MPI_Isend(m.data, bytes, MPI_BYTE, peer, m.tag, data_, &request), "MPI_Isend");
    } else {
      check(MPI_Irecv(m.data, bytes, MPI_BYTE, peer, m.tag, data_, &request), "MPI_Irecv");
    }
    requests_.push_back(request);
    numbers_.push_back(next_);
    return next_++;
  }

  void poll(std::vector<std::size_t>& over) override {
    if (requests_.empty()) return;
    int count = 0;
    ended_.resize(requests_.size());
    check(
        MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, ended_.data(), MPI_STATUSES_IGNORE),
        "MPI_Testsome");
    if (count == MPI_UNDEFINED || count == 0) return;
    for (int i = 0; i < count; ++i)
      over.push_back(numbers_[static_cast<std::size_t>(ended_[static_cast<std::size_t>(i)])]);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] == MPI_REQUEST_NULL) continue;
      requests_[kept] = requests_[i];
      numbers_[kept++] = numbers_[i];
    }
    requests_.resize(kept);
    numbers_.resize(kept);
  }

  std::int64_t barrier(Seconds time_out) override {
    std::int64_t mine = host_clock(), last = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Iallreduce(&mine, &last, 1, MPI_INT64_T, MPI_MAX, control_, &request), "MPI_Iallreduce");
    wait(request, time_out, "barrier");
    return last;
  }

 private:
  MPI_Comm data_ = MPI_COMM_NULL, control_ = MPI_COMM_NULL;
  std::vector<MPI_Request> requests_;
  std::vector<std::size_t> numbers_;  // handles of the requests
  std::vector<int> ended_;
  std::size_t next_ = 0;
};

class MpiPeers final : public Peers {
 public:
  MpiPeers(const MpiSession& session, Transport& transport, Seconds time_out)
      : rank_(session.rank()), size_(session.size()), transport_(transport), time_out_(time_out) {}

  [[nodiscard]] RankId rank() const override { return rank_; }
  [[nodiscard]] std::int64_t size() const override { return size_; }

  std::vector<std::string> gather(const std::string& text) override {
    transport_.barrier(time_out_);
    const auto ranks = static_cast<std::size_t>(size_);
    const int length = static_cast<int>(text.size());
    std::vector<int> lengths(ranks), begins(ranks);
    check(MPI_Gather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, 0, MPI_COMM_WORLD), "MPI_Gather");
    int total = 0;
    for (std::size_t r = 0; r < ranks; ++r) {
      begins[r] = total;
      total += lengths[r];
    }
    std::string all(static_cast<std::size_t>(total), '\0');
    check(MPI_Gatherv(text.data(), length, MPI_CHAR, all.data(), lengths.data(), begins.data(), MPI_CHAR, 0,
                      MPI_COMM_WORLD),
          "MPI_Gatherv");
    std::vector<std::string> out;
    if (rank_.value() != 0) return out;
    for (std::size_t r = 0; r < ranks; ++r) {
      out.push_back(all.substr(static_cast<std::size_t>(begins[r]), static_cast<std::size_t>(lengths[r])));
    }
    return out;
  }

  std::string broadcast(const std::string& text) override {
    transport_.barrier(time_out_);
    int length = static_cast<int>(text.size());
    check(MPI_Bcast(&length, 1, MPI_INT, 0, MPI_COMM_WORLD), "MPI_Bcast");
    std::string out = text;
    out.resize(static_cast<std::size_t>(length));
    check(MPI_Bcast(out.data(), length, MPI_CHAR, 0, MPI_COMM_WORLD), "MPI_Bcast");
    return out;
  }

 private:
  RankId rank_;
  std::int64_t size_;
  Transport& transport_;
  Seconds time_out_;
};

}  // namespace

MpiSession::MpiSession(int& argc, char**& argv) {
  int provided = 0;
  check(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
}

MpiSession::~MpiSession() { MPI_Finalize(); }

RankId MpiSession::rank() const { return RankId(static_cast<std::int32_t>(world_rank())); }

std::int64_t MpiSession::size() const {
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

std::string MpiSession::host() const {
  std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
  int length = 0;
  check(MPI_Get_processor_name(name.data(), &length), "MPI_Get_processor_name");
  return {name.data(), static_cast<std::size_t>(length)};
}

void MpiSession::abort(int code) const {
  MPI_Abort(MPI_COMM_WORLD, code);
  std::abort();
}

std::unique_ptr<Transport> make_mpi_transport(const MpiSession&) { return std::make_unique<MpiTransport>(); }

std::unique_ptr<Peers> make_mpi_peers(const MpiSession& session, Transport& transport, Seconds time_out) {
  return std::make_unique<MpiPeers>(session, transport, time_out);
}

}  // namespace moeplan::runtime
