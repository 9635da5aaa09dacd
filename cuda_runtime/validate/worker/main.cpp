// The worker process of one rank on the host back end: mpirun -n P moeplan-host-worker JOB ANSWER [BOARD]. It executes
// the job; rank 0 writes the answer. BOARD is the file of the ranks' status board.
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <thread>

#include "cuda_runtime/host/host_backend.hpp"
#include "cuda_runtime/host/mpi/mpi_transport.hpp"
#include "cuda_runtime/validate/case_log.hpp"
#include "cuda_runtime/validate/execute.hpp"
#include "cuda_runtime/validate/status_board.hpp"

namespace moeplan::validate {

namespace {

std::string processor_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

void run(runtime::MpiSession& session, const std::string& job_file, const std::string& answer_file,
         const std::string& board_file) {
  const ExecuteJob job = read_job(load_document(job_file));
  for (const planner::LayerCase& c : job.cases) {
    if (c.ranks() == session.size()) continue;
    throw InputError(Diagnostic{
        {job_file}, "", fmt::format("the layer needs {} ranks, and there are {}", c.ranks(), session.size())});
  }
  const auto transport = runtime::make_mpi_transport(session);
  const auto peers = runtime::make_mpi_peers(session, *transport, job.limits.time_out);
  StatusBoard board(board_file, session.rank());
  const auto make_backend = [&](const CodecOptions& codecs) {
    return runtime::make_host_backend(*transport, {session.rank(), codecs, job.limits.time_out,
                                                   [&board](const std::string& operation) { board.say(operation); }});
  };
  const Processor core{processor_name(), static_cast<std::int64_t>(std::thread::hardware_concurrency())};
  const Answer all = answer(job, *peers,
                            {.host = session.host(),
                             .processor = core,
                             .make_backend = make_backend,
                             .begins = [&board](const std::string& phase) { board.begin(phase); },
                             .case_ends = [&](const Answer& one) { log_case(case_log_file(answer_file), one); }});
  if (session.rank().value() == 0) write_file_atomically(answer_file, answer_text(all));
  board.say("done");
}

}  // namespace

}  // namespace moeplan::validate

int main(int argc, char** argv) {
  // No orphans: a rank terminates with its parent process.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (argc < 3 || argc > 4) {
    fmt::print(stderr, "usage: moeplan-host-worker JOB ANSWER [BOARD]; started by moeplan validate\n");
    return 2;
  }
  moeplan::runtime::MpiSession session(argc, argv);
  int code = 1;
  try {
    moeplan::validate::run(session, argv[1], argv[2], argc == 4 ? argv[3] : "");
    return 0;
  } catch (const moeplan::InputError& e) {
    fmt::print(stderr, "{}\n", e.what());
    code = 2;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
  }
  std::fflush(stderr);
  session.abort(code);
}
