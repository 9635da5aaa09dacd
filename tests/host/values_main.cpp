// Every way to run an MoE layer gives the reference's values on ranks over MPI. One launch a number of ranks: mpirun -n
// P host_values_tests. Prints what is wrong, by case; exit code 1 then.
#include <fmt/format.h>

#include <cstdlib>

#include "cuda_runtime/host/host_backend.hpp"
#include "cuda_runtime/host/mpi/mpi_transport.hpp"
#include "tests/support/value_cases.hpp"

using namespace moeplan;
using namespace moeplan::planner;
using namespace moeplan::runtime;

namespace {

int run(MpiSession& session, const std::string& only) {
  const auto transport = make_mpi_transport(session);
  const auto peers = make_mpi_peers(session, *transport, Seconds(60));
  std::int64_t runs = 0, wrong = 0;
  double worst = 0;
  for (const tests::ValueLayer& layer : tests::value_layers(session.size())) {
    const tests::ValueCase c(layer);
    const std::int64_t begin = host_clock(), before = runs;
    for (const LayerStrategy& run : c.runs()) {
      const std::string name = c.name(run);
      if (name.find(only) == std::string::npos) continue;
      std::string problem;
      try {
        const auto backend = make_host_backend(
            *transport, {.rank = session.rank(), .codecs = c.workload.codecs, .time_out = Seconds(30)});
        problem = c.problem(run, *backend, session.rank(), worst);
      } catch (const InputError& e) {
        problem = e.what();
      }
      ++runs;
      const std::vector<std::string> problems = peers->gather(problem);
      bool is_wrong = false;
      for (std::size_t r = 0; r < problems.size(); ++r) {
        if (problems[r].empty()) continue;
        is_wrong = true;
        fmt::print("{}: rank {}: {}\n", name, r, problems[r]);
      }
      wrong += is_wrong ? 1 : 0;
    }
    if (session.rank().value() == 0) {
      fmt::print("{}: {} ways in {:.1f} s\n", layer.name, runs - before,
                 static_cast<double>(host_clock() - begin) * 1e-9);
      std::fflush(stdout);
    }
  }
  if (session.rank().value() != 0) return EXIT_SUCCESS;
  fmt::print("{} ranks: {} ways to run a layer, {} wrong; lossless fp32 differs by at most {:.1e}\n", session.size(),
             runs, wrong, worst);
  return wrong == 0 && runs > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) {
  MpiSession session(argc, argv);
  try {
    return run(session, argc > 1 ? argv[1] : "");
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    session.abort(EXIT_FAILURE);
  }
}
