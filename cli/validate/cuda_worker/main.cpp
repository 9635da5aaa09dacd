// Ranks on GPUs: moeplan-cuda-worker JOB ANSWER RANKS_PER_GPU. As many processes as ranks, a GPU each, over NCCL: those
// that torchrun, srun or mpirun has started, or that it starts itself where this machine has so many GPUs; else all
// ranks in this process on the first GPU, as threads. Rank 0 writes the answer.
//
//     moeplan-cuda-worker --gpus      says which GPUs there are; exit code 1 where there is none
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "cli/validate/execute.hpp"
#include "cuda_runtime/cuda/nccl_transport.hpp"
#include "cuda_runtime/device/forwarding_backend.hpp"
#include "cuda_runtime/device/loopback_session.hpp"
#include "cuda_runtime/launch/start_ranks.hpp"

namespace moeplan {

namespace {

struct Arguments {
  std::string job, answer;
  std::int64_t ranks_per_gpu = 4;
};

/// Nothing can be done without.
std::vector<GpuFacts> gpus() {
  VisibleGpus visible = visible_gpus();
  if (visible.gpus.empty()) throw ExecutionError(fmt::format("no GPU: {}", visible.problem));
  return std::move(visible.gpus);
}

std::string name_of(const GpuFacts& gpu) {
  return fmt::format("{}, {:.1f} GiB, compute capability {}.{}, {} multiprocessors", gpu.name,
                     static_cast<double>(gpu.memory_bytes) / (1LL << 30), gpu.major, gpu.minor, gpu.multiprocessors);
}

std::string machine_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

/// Of all cases, which are as many everywhere.
std::int64_t ranks_of(const ExecuteJob& job) {
  std::int64_t ranks = 1;
  for (const LayerCase& c : job.cases) ranks = std::max(ranks, c.ranks());
  return ranks;
}

void write_answer(const Arguments& arguments, std::vector<std::string> hosts, std::vector<ExecutionResult> cases) {
  Answer answer;
  answer.hosts = std::move(hosts);
  answer.processor = name_of(gpus().front());
  answer.cores = std::ssize(gpus());
  answer.cases = std::move(cases);
  write_file_atomically(arguments.answer, answer_text(answer));
}

void run_as_threads(const ExecuteJob& job, const Arguments& arguments) {
  const auto device = make_cuda_device(0, RankId(0));
  const bool captures = std::getenv("MOEPLAN_CUDA_GRAPH") != nullptr;
  LoopbackSession session(*device, ranks_of(job), {.time_out = job.limits.time_out, .captures = captures});
  session.run([&](Peers& peers) {
    std::vector<std::string> hosts = peers.gather(machine_name());
    auto cases = execute(
        job, peers, [&](const LayerCase& layer) { return session.make_backend(peers.rank(), layer.workload.codecs); });
    if (peers.rank().value() == 0) write_answer(arguments, std::move(hosts), std::move(cases));
  });
}

void run_as_rank(const ExecuteJob& job, const Arguments& arguments, const RankPlace& place) {
  if (place.ranks != ranks_of(job)) {
    throw InputError(Diagnostic{
        {arguments.job}, "", fmt::format("the layer needs {} ranks, and there are {}", ranks_of(job), place.ranks)});
  }
  const auto store = make_rank_store(place, job.limits.time_out);
  try {
    // More ranks than GPUs here take turns: their values are right, their times are nobody's.
    const auto device = make_cuda_device(static_cast<int>(place.local_rank % std::ssize(gpus())),
                                         RankId(static_cast<std::size_t>(place.rank)));
    const auto transport = make_nccl_transport(*device, *store, place, job.limits.time_out);
    const auto peers = make_store_peers(*store, place, job.limits.time_out, "job");
    std::vector<std::string> hosts = peers->gather(machine_name());
    auto cases = execute(job, *peers, [&](const LayerCase& layer) {
      return std::make_unique<ForwardingBackend>(std::make_unique<DeviceWorld>(
          *device, *transport, std::vector{peers->rank()},
          DeviceOptions{.codecs = layer.workload.codecs, .time_out = job.limits.time_out}));
    });
    if (place.rank == 0) write_answer(arguments, std::move(hosts), std::move(cases));
    // Nobody goes before all are done.
    (void)peers->gather("");
    (void)peers->broadcast("");
  } catch (const std::exception& e) {
    store->give_up(e.what());
    throw;
  }
}

int run(const Arguments& arguments, const std::filesystem::path& self) {
  const ExecuteJob job = read_job(load_document(arguments.job));
  if (const auto place = rank_place()) {
    run_as_rank(job, arguments, *place);
    return 0;
  }
  const std::int64_t here = std::ssize(gpus()), ranks = ranks_of(job);
  if (ranks > 1 && ranks <= here) {
    return run_ranks({self.string(), arguments.job, arguments.answer, std::to_string(arguments.ranks_per_gpu)}, ranks);
  }
  if (ranks > arguments.ranks_per_gpu) {
    throw InputError(
        Diagnostic{{"validate"},
                   "",
                   fmt::format("the layer needs {} ranks; this machine has {} GPUs, one of which takes up to "
                               "{} ranks (--ranks-per-gpu)",
                               ranks, here, arguments.ranks_per_gpu)});
  }
  run_as_threads(job, arguments);
  return 0;
}

Arguments read(int argc, char** argv) {
  Arguments out{argv[1], argv[2]};
  const std::string text = argc > 3 ? argv[3] : "4";
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out.ranks_per_gpu);
  if (error != std::errc() || *end != '\0' || out.ranks_per_gpu < 1) {
    throw InputError(Diagnostic{{"RANKS_PER_GPU"}, "", fmt::format("\"{}\" is no number of ranks", text)});
  }
  return out;
}

int list_gpus() {
  for (const GpuFacts& gpu : gpus()) fmt::print("{}\n", name_of(gpu));
  fmt::print("NCCL {}\n", nccl_version());
  return 0;
}

}  // namespace

}  // namespace moeplan

int main(int argc, char** argv) {
  // No orphans: a rank goes with whoever started it.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    if (argc == 2 && std::string(argv[1]) == "--gpus") return moeplan::list_gpus();
    if (argc < 3 || argc > 4) {
      fmt::print(stderr,
                 "usage: moeplan-cuda-worker JOB ANSWER [RANKS_PER_GPU] | --gpus; started by moeplan validate\n");
      return 2;
    }
    return moeplan::run(moeplan::read(argc, argv), std::filesystem::read_symlink("/proc/self/exe"));
  } catch (const moeplan::InputError& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
