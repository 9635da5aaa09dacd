#include "planner/size/job_sizes.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/support/checks.hpp"
#include "tests/support/spec_files.hpp"

namespace moeplan::tests::job_sizes_test {

using namespace moeplan::planner;

namespace {

using Sizes = std::vector<std::int64_t>;

JobSizes nodes_of_eight(
    std::int64_t nodes, std::function<bool(std::int64_t)> allows = [](std::int64_t) { return true; }) {
  Sizes every;
  for (std::int64_t n = 1; n <= nodes; ++n) every.push_back(8 * n);
  return {every, std::move(allows)};
}

/// A job whose throughput is given by GPUs, with a target, and what was tried for it.
struct Job {
  std::function<double(std::int64_t)> throughput;  // 0: no plan
  double target;
  Sizes tried = {};

  FewestSize fewest(const JobSizes& sizes, double start, std::int64_t most_tried) {
    return fewest_size(sizes, start, most_tried, [&](std::int64_t gpus) {
      tried.push_back(gpus);
      const double t = throughput(gpus);
      return SizeOutcome{.suffices = t >= target,
                         .needed = t > 0 ? std::optional(target / t * static_cast<double>(gpus)) : std::nullopt};
    });
  }
};

/// So many sequences to divide, with the default workload.
Inputs mixtral(std::int64_t batch) {
  return read_inputs(
      load_inputs("dgx_h100", "mixtral_8x7b", "default", {"workload.global_batch=" + std::to_string(batch)}));
}

}  // namespace

TEST_CASE("The fewest GPUs that suffice are found in few tries where throughput grows evenly") {
  // 100 tokens per GPU, and 2% less with every doubling.
  Job job{.throughput =
              [](std::int64_t gpus) {
                return 100.0 * static_cast<double>(gpus) * std::pow(0.98, std::log2(static_cast<double>(gpus)));
              },
          .target = 40'000};
  const FewestSize found = job.fewest(nodes_of_eight(1000), 100, 16);
  REQUIRE(found.gpus);
  CHECK(job.throughput(*found.gpus) >= job.target);
  CHECK(job.throughput(*found.gpus * 49 / 50 / 8 * 8) < job.target);  // a fiftieth less
  CHECK(found.untried == 0);
  CHECK(job.tried.size() <= 8);
}

TEST_CASE("Sizes that miss because they divide badly do not hide a smaller one that suffices") {
  // Multiples of 64 give 100 tokens per GPU, from 640 GPUs on 99, others 80: 64,000 need 704 GPUs, 720 do not suffice.
  Job job{.throughput =
              [](std::int64_t gpus) {
                return static_cast<double>(gpus) * (gpus % 64 != 0 ? 80 : gpus < 640 ? 100 : 99);
              },
          .target = 64'000};
  Job again = job;
  const FewestSize all = job.fewest(nodes_of_eight(1000), 64, 40);
  CHECK(all.gpus == 704);
  CHECK(all.untried == 0);
  SECTION("what is left out for lack of tries is counted") {
    const FewestSize some = again.fewest(nodes_of_eight(1000), 64, 6);
    REQUIRE(some.gpus);
    CHECK(again.tried.size() == 6);
    CHECK(again.throughput(*some.gpus) >= again.target);
    // From 64,000 / 100 GPUs on.
    const auto tried = std::count_if(again.tried.begin(), again.tried.end(), [&](std::int64_t gpus) {
      return gpus >= 640 && static_cast<double>(gpus) <= 0.98 * static_cast<double>(*some.gpus);
    });
    const double end = 0.98 * static_cast<double>(*some.gpus);
    CHECK(some.untried == static_cast<std::int64_t>(std::floor((end - 640) / 8)) + 1 - tried);
  }
}

TEST_CASE("Sizes without a plan are doubled, then bisected") {
  Job job{.throughput = [](std::int64_t gpus) { return gpus < 200 ? 0.0 : 1e6; }, .target = 1};
  const FewestSize found = fewest_size(nodes_of_eight(1000), 8, 20, [&](std::int64_t gpus) {
    job.tried.push_back(gpus);
    return SizeOutcome{job.throughput(gpus) > 0};
  });
  CHECK(found.gpus == 200);
  CHECK(found.untried == 0);
  CHECK(job.tried == Sizes{8, 16, 32, 64, 128, 256, 192, 224, 208, 200});
}

TEST_CASE("Where no size suffices, the largest was tried") {
  Job job{.throughput = [](std::int64_t gpus) { return static_cast<double>(gpus); }, .target = 1e9};
  CHECK_FALSE(job.fewest(nodes_of_eight(20), 8, 20).gpus);
  CHECK(*std::max_element(job.tried.begin(), job.tried.end()) == 160);
  CHECK_FALSE(job.fewest({{}, [](std::int64_t) { return true; }}, 8, 20).gpus);
}

TEST_CASE("Sizes that are not allowed are passed over") {
  const JobSizes even = nodes_of_eight(10, [](std::int64_t gpus) { return gpus % 16 == 0; });
  CHECK(even.at_least(17) == 32);
  CHECK(even.at_most(31) == 16);
  CHECK(even.at_least(100) == std::nullopt);
  CHECK(even.at_most(15) == std::nullopt);
  CHECK(even.between(16, 64) == Sizes{16, 32, 48});
}

TEST_CASE("A template grows in whole nodes; explicit vertices and single nodes do not") {
  ClusterSpec cluster = mixtral(256).cluster;
  CHECK(whole_nodes(cluster, 33) == Sizes{8, 16, 24, 32});
  std::get<ClusterTemplate>(cluster.machine).fabric.reset();
  std::get<ClusterTemplate>(cluster.machine).nodes = 1;
  CHECK(whole_nodes(cluster, 33) == Sizes{8});
  Topology two;
  for (const int node : {0, 1, 1, 0, 1}) two.vertices.push_back({"gpu", VertexKind::Gpu, node});
  cluster.machine = two;
  CHECK(whole_nodes(cluster, 33) == Sizes{2, 5});
  CHECK(whole_nodes(cluster, 4) == Sizes{2});
}

TEST_CASE("Of racks a part of one is a size, too") {
  Inputs inputs = mixtral(256);
  CHECK(nodes_and_parts(inputs.cluster, 33, 33) == Sizes{8, 16, 24, 32});  // hosts of 8 are no racks
  inputs.cluster = tests::load_cluster(tests::kConfigs / "clusters" / "gb200_nvl72.yaml");
  CHECK(nodes_and_parts(inputs.cluster, 150, 72) == Sizes{1, 2, 4, 8, 16, 32, 64, 72, 144});
  CHECK(nodes_and_parts(inputs.cluster, 150, 150) == Sizes{1, 2, 4, 8, 16, 32, 64, 72, 128, 144});
  const SearchSpace all;
  CHECK(job_sizes(inputs, all, 256).at_most(17) == 16);
  CHECK(job_sizes(inputs, all, 256).at_most(71) == 32);   // 64 GPUs are a rack of which some are not used
  CHECK(job_sizes(inputs, all, 256).at_least(65) == 72);  // not 128 of two racks
  std::get<ClusterTemplate>(inputs.cluster.machine).used_per_node = 64;
  CHECK(job_sizes(inputs, all, 256).at_most(63) == std::nullopt);
  CHECK(job_sizes(inputs, all, 256).at_least(65) == 128);
}

TEST_CASE("A number of GPUs divides a job if its replicas divide the batch") {
  const Inputs inputs = mixtral(256);
  const SearchSpace space;
  CHECK(divides_job(inputs, space, 64));
  CHECK(divides_job(inputs, space, 96));            // pipelines of three stages, replicas of 32
  CHECK_FALSE(divides_job(inputs, space, 8 * 37));  // 37 divides neither 32 layers nor 256 sequences
  CHECK(divides_job(mixtral(37 * 8), space, 8 * 37));
  CHECK_FALSE(divides_job(inputs, {.pp = 1}, 96));
  CHECK(divides_job(inputs, {.dp = 32}, 96));
  CHECK_FALSE(divides_job(inputs, {.tp = 3}, 96));
}

}  // namespace moeplan::tests::job_sizes_test
