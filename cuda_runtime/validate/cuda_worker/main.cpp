// The worker process of ranks on GPUs: moeplan-cuda-worker JOB ANSWER RANKS_PER_GPU. With one GPU per rank there is one
// process per rank, over NCCL, started by torchrun, srun or mpirun, or by this process if this node has enough GPUs.
// Otherwise, and with links of parts, all ranks are threads of this process, on the first GPU. Rank 0 writes the
// answer.
//
//     moeplan-cuda-worker --gpus      lists the GPUs; exit code 1 if there are none
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
#include <optional>
#include <thread>

#include "cuda_runtime/cuda/environment.hpp"
#include "cuda_runtime/cuda/nccl_transport.hpp"
#include "cuda_runtime/device/forwarding_backend.hpp"
#include "cuda_runtime/device/loopback_session.hpp"
#include "cuda_runtime/launch/rank_gpus.hpp"
#include "cuda_runtime/launch/start_ranks.hpp"
#include "cuda_runtime/validate/case_log.hpp"
#include "cuda_runtime/validate/execute.hpp"

namespace moeplan::validate {

namespace {

struct Arguments {
  std::string job, answer;
  std::int64_t ranks_per_gpu = 4;
};

/// The visible GPUs. Raises ExecutionError if there are none.
std::vector<runtime::GpuFacts> gpus() {
  runtime::VisibleGpus visible = runtime::visible_gpus();
  if (visible.gpus.empty()) throw runtime::ExecutionError(fmt::format("no GPU: {}", visible.problem));
  return std::move(visible.gpus);
}

std::string name_of(const runtime::GpuFacts& gpu) {
  return fmt::format("{}, {:.1f} GiB, compute capability {}.{}, {} multiprocessors", gpu.name,
                     static_cast<double>(gpu.memory_bytes) / (1LL << 30), gpu.major, gpu.minor, gpu.multiprocessors);
}

std::string machine_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

/// The number of ranks of all cases, which is the same for each, or of a measurement.
std::int64_t ranks_of(const ExecuteJob& job) {
  std::int64_t ranks = 1;
  if (job.measure) {
    constexpr std::int64_t kSharing = 4;  // assumed: as configs/clusters/loopback.yaml and parts.yaml
    const std::int64_t here = std::ssize(gpus());
    return job.measure->ranks > 0 ? job.measure->ranks : here > 1 && !job.link_of_parts ? here : kSharing;
  }
  for (const planner::LayerCase& c : job.cases) ranks = std::max(ranks, c.ranks());
  return ranks;
}

/// A GPU of this node, with the options and the environment of its ranks.
class Gpu {
 public:
  /// `parts`: into how many the GPU is divided, for as many ranks; 0: it is not.
  Gpu(std::size_t index, RankId rank, std::int64_t parts = 0)
      : facts_(gpus().at(index)),
        reader_(facts_.bus),
        clocks_([this] { return reader_.read(); }),
        number_of_parts_(parts) {
    device_ = runtime::make_cuda_device(static_cast<int>(index), rank);
    if (parts == 0) return;
    parts_.emplace(static_cast<int>(index), parts);
    if (!parts_->problem().empty())
      fmt::print(stderr, "note: ranks share all multiprocessors: {}\n", parts_->problem());
    device_.reset();
    device_ = runtime::make_cuda_device(static_cast<int>(index), rank, &*parts_);
  }

  [[nodiscard]] runtime::CudaDevice& device() { return *device_; }
  [[nodiscard]] const std::string& bus() const { return facts_.bus; }
  [[nodiscard]] runtime::DeviceOptions options(const ExecuteJob& job) {
    // assumed: twice the cache size evicts the whole cache.
    constexpr std::int64_t kLeast = std::int64_t{256} << 20U;
    return {.time_out = job.limits.time_out,
            .captures = std::getenv("MOEPLAN_CUDA_GRAPH") != nullptr,
            .cold_bytes = static_cast<std::size_t>(std::max(kLeast, 2 * facts_.cache_bytes)),
            .link = job.link_of_parts,
            .clocks = &clocks_};
  }
  [[nodiscard]] RankMachine machine(const Arguments& arguments) const {
    return {.host = machine_name(),
            .processor = processor(),
            .make_backend = {},
            .clocks = [this] { return clocks_.seen(); },
            .case_ends = [file = case_log_file(arguments.answer)](const Answer& one) { log_case(file, one); }};
  }

 private:
  /// The GPU, or a part of it: to its rank, a GPU of its own.
  [[nodiscard]] Processor processor() const {
    const auto memory = static_cast<double>(facts_.memory_bytes);
    const bool has_fp8 = facts_.multiplies_fp8();
    if (!parts_) return {facts_.name, std::ssize(gpus()), memory, facts_.multiprocessors, has_fp8};
    const auto parts = static_cast<double>(number_of_parts_);
    if (!parts_->problem().empty()) {
      return {fmt::format("{}, shared by {} ranks as if divided", facts_.name, number_of_parts_), number_of_parts_,
              memory / parts, facts_.multiprocessors / number_of_parts_, has_fp8};
    }
    return {fmt::format("{}, part of {} multiprocessors", facts_.name, parts_->multiprocessors()), number_of_parts_,
            memory / parts, parts_->multiprocessors(), has_fp8};
  }

  runtime::GpuFacts facts_;
  runtime::ClockReader reader_;
  runtime::LoadClocks clocks_;
  std::int64_t number_of_parts_;
  std::optional<runtime::GpuParts> parts_;
  std::unique_ptr<runtime::CudaDevice> device_;
};

void run_as_threads(const ExecuteJob& job, const Arguments& arguments) {
  Gpu gpu(0, RankId(0), job.link_of_parts ? ranks_of(job) : 0);
  runtime::LoopbackSession session(gpu.device(), ranks_of(job), gpu.options(job));
  session.run([&](runtime::Peers& peers) {
    RankMachine machine = gpu.machine(arguments);
    machine.make_backend = [&](const CodecOptions& codecs) { return session.make_backend(peers.rank(), codecs); };
    const bool is_first = peers.rank().value() == 0;
    if (!is_first) machine.clocks = {};  // one rank reads the clocks of the shared GPU
    const Answer all = answer(job, peers, machine);
    if (is_first) write_file_atomically(arguments.answer, answer_text(all));
  });
}

void run_as_rank(const ExecuteJob& job, const Arguments& arguments, const runtime::RankPlace& place) {
  const std::int64_t here = std::ssize(gpus());
  if (!job.measure && place.ranks != ranks_of(job)) {
    throw InputError(Diagnostic{
        {arguments.job}, "", fmt::format("the layer needs {} ranks, and there are {}", ranks_of(job), place.ranks)});
  }
  const auto store = runtime::make_rank_store(place, job.limits.time_out);
  try {
    const auto peers = runtime::make_store_peers(*store, place, job.limits.time_out, "job");
    // With --gpus-per-task=1 and the like, a process sees only its own GPU.
    Gpu gpu(static_cast<std::size_t>(place.local_rank % here), RankId(static_cast<std::size_t>(place.rank)));
    runtime::require_own_gpus(*peers, {machine_name(), gpu.bus()});
    const auto transport = runtime::make_nccl_transport(gpu.device(), *store, place, job.limits.time_out);
    RankMachine machine = gpu.machine(arguments);
    machine.make_backend = [&](const CodecOptions& codecs) {
      runtime::DeviceOptions options = gpu.options(job);
      options.codecs = codecs;
      return std::make_unique<runtime::ForwardingBackend>(
          std::make_unique<runtime::DeviceWorld>(gpu.device(), *transport, std::vector{peers->rank()}, options));
    };
    const Answer all = answer(job, *peers, machine);
    if (place.rank == 0) write_file_atomically(arguments.answer, answer_text(all));
    // No rank exits before all are done.
    (void)peers->gather("");
    (void)peers->broadcast("");
  } catch (const std::exception& e) {
    store->give_up(e.what());
    throw;
  }
}

int run(const Arguments& arguments, const std::filesystem::path& self) {
  const ExecuteJob job = read_job(load_document(arguments.job));
  if (const auto place = runtime::rank_place()) {
    if (job.link_of_parts)
      throw InputError(
          Diagnostic{{"--gpu-parts"}, "", "is for ranks that this process starts, not for those of a job"});
    run_as_rank(job, arguments, *place);
    return 0;
  }
  const std::int64_t here = std::ssize(gpus()), ranks = ranks_of(job);
  if (ranks > 1 && ranks <= here && !job.link_of_parts) {
    return runtime::run_ranks({self.string(), arguments.job, arguments.answer, std::to_string(arguments.ranks_per_gpu)},
                              ranks);
  }
  if (ranks > arguments.ranks_per_gpu) {
    throw InputError(Diagnostic{{job.measure ? "profile" : "validate"},
                                "",
                                fmt::format("{} needs {} ranks; this machine has {} GPUs, one of which takes up to "
                                            "{} ranks (--ranks-per-gpu)",
                                            job.measure ? "it" : "the layer", ranks, here, arguments.ranks_per_gpu)});
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
  for (const runtime::GpuFacts& gpu : gpus()) fmt::print("{}\n", name_of(gpu));
  fmt::print("NCCL {}\n", runtime::nccl_version());
  return 0;
}

}  // namespace

}  // namespace moeplan::validate

int main(int argc, char** argv) {
  // No orphans: a rank terminates with its parent process.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  moeplan::runtime::prepare_cuda_environment();
  try {
    if (argc == 2 && std::string(argv[1]) == "--gpus") return moeplan::validate::list_gpus();
    if (argc < 3 || argc > 4) {
      fmt::print(
          stderr,
          "usage: moeplan-cuda-worker JOB ANSWER [RANKS_PER_GPU] | --gpus; started by moeplan validate and profile\n");
      return 2;
    }
    return moeplan::validate::run(moeplan::validate::read(argc, argv), std::filesystem::read_symlink("/proc/self/exe"));
  } catch (const moeplan::InputError& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
