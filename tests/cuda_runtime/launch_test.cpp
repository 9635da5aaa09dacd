// Ranks that find each other and are started, as threads and as shells.
#include <signal.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <thread>

#include "cuda_runtime/launch/rank_gpus.hpp"
#include "cuda_runtime/launch/rank_store.hpp"
#include "cuda_runtime/launch/sockets.hpp"
#include "cuda_runtime/launch/start_ranks.hpp"
#include "tests/support/checks.hpp"

namespace moeplan::tests::launch_test {

using namespace moeplan::runtime;

namespace {

/// Runs a rank in a thread each; what each of them says that it raised, "" where nothing.
std::vector<std::string> with_ranks(std::int64_t ranks, Seconds time_out,
                                    const std::function<void(RankStore&, Peers&)>& job) {
  const std::uint16_t port = free_port();
  std::vector<std::string> out(static_cast<std::size_t>(ranks));
  std::vector<std::jthread> threads;
  for (std::int64_t r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      try {
        const RankPlace place{r, ranks, r, "127.0.0.1", port};
        const auto store = make_rank_store(place, time_out);
        const auto peers = make_store_peers(*store, place, time_out, "test");
        job(*store, *peers);
      } catch (const std::exception& e) {
        out[static_cast<std::size_t>(r)] = e.what();
      }
    });
  }
  threads.clear();
  return out;
}

/// Sets variables of the environment, and clears all that say a rank.
class Environment {
 public:
  explicit Environment(const std::vector<std::pair<std::string, std::string>>& set) {
    for (const char* name : kAll) ::unsetenv(name);
    for (const auto& [name, value] : set) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const char* name : kAll) ::unsetenv(name);
  }

 private:
  static constexpr const char* kAll[] = {
      "RANK",         "WORLD_SIZE",           "LOCAL_RANK",           "MASTER_ADDR",
      "MASTER_PORT",  "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
      "SLURM_PROCID", "SLURM_NTASKS",         "SLURM_LOCALID",        "SLURM_STEP_ID",
      "SLURM_JOB_ID", "MOEPLAN_RANK_SECRET",  "TORCHELASTIC_RUN_ID",  "PMIX_NAMESPACE"};
};

}  // namespace

TEST_CASE("A process knows its rank from the environment that a launcher gives it") {
  SECTION("torchrun's") {
    const Environment e(
        {{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"MASTER_ADDR", "node0"}, {"MASTER_PORT", "1234"}});
    const RankPlace p = rank_place().value();
    CHECK((p.rank == 5 && p.ranks == 8 && p.local_rank == 1 && p.address == "node0" && p.port == 1234));
  }
  SECTION("srun's, with where rank 0 is; but a batch script is no rank") {
    const std::vector<std::pair<std::string, std::string>> job{
        {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_LOCALID", "1"}, {"MASTER_ADDR", "a"}};
    CHECK_FALSE((Environment(job), rank_place()).has_value());
    auto step = job;
    step.emplace_back("SLURM_STEP_ID", "0");
    const Environment e(step);
    CHECK(rank_place().value().rank == 1);
    CHECK(rank_place().value().address == "a");
  }
  SECTION("what its job knows: a secret, or else the name that the launcher gave the job") {
    std::vector<std::pair<std::string, std::string>> step{
        {"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_JOB_ID", "77"}, {"SLURM_STEP_ID", "3"}};
    CHECK((Environment(step), rank_place()).value().secret == "77.3");
    step.emplace_back("MOEPLAN_RANK_SECRET", "s");
    CHECK((Environment(step), rank_place()).value().secret == "s");
    CHECK((Environment({{"RANK", "0"}, {"WORLD_SIZE", "2"}}), rank_place()).value().secret.empty());
  }
  SECTION("mpirun's") {
    const Environment e({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "4"}});
    CHECK(rank_place().value().ranks == 4);
  }
  SECTION("none, and nonsense") {
    CHECK_FALSE((Environment({}), rank_place()).has_value());
    const auto said = [](const std::vector<std::pair<std::string, std::string>>& set) {
      const Environment e(set);
      return tests::error_of([] { (void)rank_place(); });
    };
    CHECK(said({{"RANK", "x"}, {"WORLD_SIZE", "2"}}) == "RANK: \"x\" is no whole number of ranks");
    CHECK(said({{"RANK", "2"}, {"WORLD_SIZE", "2"}}) == "RANK: 2 is none of 2 ranks");
    CHECK(said({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "70000"}}) == "MASTER_PORT: expected 1 to 65535");
  }
}

TEST_CASE("Ranks talk through rank 0 without MPI", "[slow][alone]") {
  const std::string large(3'000'000, 'x');
  const auto said = with_ranks(5, Seconds(20), [&](RankStore& store, Peers& peers) {
    for (int round = 0; round < 3; ++round) {
      const auto all = peers.gather(std::to_string(10 * round + peers.rank().value()));
      if (peers.rank().value() == 0) {
        for (int r = 0; r < 5; ++r) {
          if (all[static_cast<std::size_t>(r)] != std::to_string(10 * round + r)) throw std::logic_error("gather");
        }
      } else if (!all.empty()) {
        throw std::logic_error("gathered elsewhere");
      }
      if (peers.broadcast(peers.rank().value() == 0 ? large : "not I") != large) throw std::logic_error("broadcast");
    }
    if (peers.rank().value() == 3) store.set("an id", "of three");
    if (store.get("an id", Seconds(20)) != "of three") throw std::logic_error("get");
    (void)peers.gather("");
    (void)peers.broadcast("");
  });
  for (const std::string& text : said) CHECK(text.empty());
}

TEST_CASE("A rank that gives up, goes or does not come is told to the others", "[slow][alone]") {
  SECTION("gives up") {
    const auto said = with_ranks(3, Seconds(20), [](RankStore& store, Peers& peers) {
      if (peers.rank().value() == 1) {
        store.give_up("rank 1: out of memory");
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        return;
      }
      (void)store.get("nothing", Seconds(20));
    });
    CHECK(said == std::vector<std::string>{"rank 1: out of memory", "", "rank 1: out of memory"});
  }
  SECTION("does not come") {
    const auto said = with_ranks(2, Seconds(0.2), [](RankStore&, Peers& peers) {
      if (peers.rank().value() == 0)
        (void)peers.gather("");
      else
        std::this_thread::sleep_for(std::chrono::milliseconds(600));
    });
    CHECK(said[0] == "test: gather 0 1: others have not come within 0.2 s");
  }
  SECTION("rank 0 is not there") {
    const std::string port = std::to_string(free_port());
    std::string said;
    try {
      (void)make_rank_store({1, 2, 1, "127.0.0.1", static_cast<std::uint16_t>(std::stoi(port))}, Seconds(0.1));
    } catch (const ExecutionError& e) {
      said = e.what();
    }
    CHECK(said == "rank 0 is not found at 127.0.0.1:" + port + " within 0.1 s: Connection refused");
  }
  SECTION("a stranger who speaks another language is no rank, and harms nobody") {
    const std::uint16_t port = free_port();
    const RankPlace place{0, 1, 0, "127.0.0.1", port};
    const auto store = make_rank_store(place, Seconds(20));
    {
      const Descriptor stranger = connect_to("127.0.0.1", port, Seconds(20));
      (void)send_letter(stranger.get(), {'?', "GET / HTTP/1.1", ""});
    }
    const auto peers = make_store_peers(*store, place, Seconds(20), "test");
    for (int i = 0; i < 20; ++i) CHECK(peers->broadcast("still here") == "still here");
  }
  SECTION("a rank of another job is turned away, and reads and changes nothing") {
    const std::uint16_t port = free_port();
    const RankPlace place{0, 2, 0, "127.0.0.1", port, "ours"};
    const auto store = make_rank_store(place, Seconds(20));
    store->set("id", "of our job");
    for (const std::string secret : {"theirs", ""}) {
      const auto other = make_rank_store({1, 2, 1, "127.0.0.1", port, secret}, Seconds(20));
      CHECK_THROWS_WITH(other->get("id", Seconds(20)), "rank 0 is gone");
    }
    const auto ours = make_rank_store({1, 2, 1, "127.0.0.1", port, "ours"}, Seconds(20));
    CHECK(ours->get("id", Seconds(20)) == "of our job");
    CHECK_NOTHROW(store->check());
  }
}

TEST_CASE("Ranks are started here, and none is left behind", "[slow][alone]") {
  const tests::TemporaryDirectory directory;
  const std::string at = directory.path().string();
  const auto shell = [](const std::string& script) { return std::vector<std::string>{"sh", "-c", script}; };
  SECTION("each knows its place") {
    CHECK(run_ranks(shell("echo $RANK $WORLD_SIZE $LOCAL_RANK $MASTER_ADDR > " + at + "/$RANK"), 3) == 0);
    for (int r = 0; r < 3; ++r) {
      std::ifstream in(directory.path() / std::to_string(r));
      std::string line;
      std::getline(in, line);
      CHECK(line == std::to_string(r) + " 3 " + std::to_string(r) + " 127.0.0.1");
    }
  }
  SECTION("the first code that is not 0 counts, and the others are ended") {
    const auto begin = std::chrono::steady_clock::now();
    CHECK(run_ranks(shell("echo $$ > " + at + "/$RANK; [ $RANK = 1 ] && exit 3; exec sleep 60"), 3, Seconds(0.3)) == 3);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
    for (const int r : {0, 2}) {
      std::ifstream in(directory.path() / std::to_string(r));
      pid_t process = 0;
      if (in >> process) CHECK(::kill(process, 0) != 0);
    }
  }
  SECTION("a signal, a program that is not there") {
    CHECK(run_ranks(shell("kill -TERM $$"), 1) == 128 + SIGTERM);
    CHECK(run_ranks({at + "/nothing"}, 1) == 127);
  }
}

TEST_CASE("Ranks over NCCL have a GPU each, by its address and not by its number in a process") {
  SECTION("one GPU for each task, which every process counts from 0") {
    CHECK(shared_gpu(std::vector<RankGpu>{{"a", "0000:17:00.0"}, {"a", "0000:65:00.0"}, {"b", "0000:17:00.0"}}) == "");
  }
  SECTION("two ranks on one GPU are refused on all ranks, with what to do") {
    const auto errors = with_ranks(3, Seconds(10), [](RankStore&, Peers& peers) {
      require_own_gpus(peers, {"a", peers.rank().value() == 1 ? "0000:65:00.0" : "0000:17:00.0"});
    });
    for (const std::string& e : errors) {
      CHECK(
          e ==
          "--backend: ranks 0 and 2 both have the GPU 0000:17:00.0 of a, and NCCL needs a GPU for each rank: start at "
          "most as many ranks on a machine as it has GPUs; or start moeplan itself, without srun, torchrun or mpirun: "
          "its ranks then share a GPU as threads of one process");
    }
  }
}

}  // namespace moeplan::tests::launch_test
