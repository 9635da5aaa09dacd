// Benchmark that simulates one all-to-all on the reference cluster with SimGrid and with this simulator.
//
//   bench_simgrid                      the standard table
//   bench_simgrid KIND RANKS ...       uniform | zipf | zipfs | zipfj, generated (traffic_cases.hpp)
//   bench_simgrid file PATH ...        a traffic file
//
// SimGrid (H. Casanova et al., https://simgrid.org) uses its fluid model CM02 as pure max-min sharing: no latency, no
// TCP window, no correction factors, no reverse traffic, and precisions below a picosecond and a byte per second. Its
// time is that of Engine::run(): one actor starts every flow and waits for all; building the platform is excluded.
// The time of this simulator is that of simulate_traffic() with the completion time of every flow.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <simgrid/s4u.hpp>
#include <string>
#include <utility>
#include <vector>

#include "bench/clocks.hpp"
#include "bench/traffic_cases.hpp"
#include "tests/support/reference_cluster.hpp"

namespace {

using namespace moeplan;
using namespace moeplan::sim;
namespace sg4 = simgrid::s4u;

struct Machine {
  std::vector<sg4::Host*> hosts;
};

/// The platform with the links of reference_machine() and routes between the pairs that have traffic.
Machine simgrid_machine(const TrafficMatrix& matrix) {
  Machine machine;
  const TrafficNetwork network = reference_machine(matrix.ranks);
  sg4::NetZone* zone = sg4::create_full_zone("reference");
  for (std::int64_t r = 0; r < matrix.ranks; ++r) {
    machine.hosts.push_back(zone->create_host(fmt::format("gpu{}", r), 1e12));
    machine.hosts.back()->seal();
  }
  std::vector<const sg4::Link*> links;
  for (std::size_t l = 0; l < network.capacity.size(); ++l) {
    links.push_back(zone->create_link(fmt::format("link{}", l), network.capacity[l])->seal());
  }
  std::vector<FlowUse> uses;
  for (const TrafficFlow& flow : matrix.flows) {
    uses.clear();
    network.route(flow.src, flow.dst, uses);
    std::vector<sg4::LinkInRoute> route;
    for (const FlowUse& use : uses) route.emplace_back(links[use.resource.index()]);
    zone->add_route(machine.hosts[flow.src.index()]->get_netpoint(), machine.hosts[flow.dst.index()]->get_netpoint(),
                    nullptr, nullptr, route, false);
  }
  zone->seal();
  return machine;
}

struct Answer {
  bench::Times times;
  std::vector<double> finish_s;
};

Answer by_simgrid(const TrafficMatrix& matrix) {
  std::vector<std::string> words{"bench_simgrid",
                                 "--cfg=network/model:CM02",
                                 "--cfg=network/TCP-gamma:0",
                                 "--cfg=network/bandwidth-factor:1",
                                 "--cfg=network/latency-factor:1",
                                 "--cfg=network/weight-S:0",
                                 "--cfg=network/crosstraffic:0",
                                 "--cfg=surf/precision:1e-13",
                                 "--cfg=maxmin/precision:1e-3",
                                 "--log=root.thres:error"};
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  int argc = static_cast<int>(argv.size());
  sg4::Engine engine(&argc, argv.data());
  const Machine machine = simgrid_machine(matrix);
  Answer answer{{}, std::vector<double>(matrix.flows.size())};
  sg4::Actor::create("starter", machine.hosts.front(), [&] {
    std::vector<sg4::CommPtr> flows;
    flows.reserve(matrix.flows.size());
    for (const TrafficFlow& f : matrix.flows) {
      flows.push_back(sg4::Comm::sendto_async(machine.hosts[f.src.index()], machine.hosts[f.dst.index()],
                                              static_cast<std::uint64_t>(f.bytes)));
    }
    for (const sg4::CommPtr& flow : flows) flow->wait();
    for (std::size_t i = 0; i < flows.size(); ++i) answer.finish_s[i] = flows[i]->get_finish_time();
  });
  answer.times = bench::times_of([&] { engine.run(); });
  return answer;
}

void print(const char* who, const bench::Times& t, const std::vector<double>& finish) {
  double sum = 0, last = 0;
  for (const double f : finish) {
    sum += f;
    last = std::max(last, f);
  }
  fmt::print("  {:<8} {:>11.6f} s CPU {:>11.6f} s wall   finish {:.12g} s   sum {:.12g} s\n", who, t.cpu_s, t.wall_s,
             last, sum);
}

void measure(const bench::TrafficCase& c) {
  const TrafficNetwork network = reference_machine(c.matrix.ranks);
  TrafficResult ours{};
  const bench::Times our_times = bench::least_times_of([&] { ours = simulate_traffic(c.matrix, network, true); }, 0.3);
  fmt::print("{}, {} flows\n", c.name, c.matrix.flows.size());
  print("moeplan", our_times, ours.flow_finish_s);
  std::fflush(stdout);
  const Answer theirs = by_simgrid(c.matrix);
  double largest = 0;
  for (std::size_t i = 0; i < theirs.finish_s.size(); ++i) {
    largest = std::max(largest, std::abs(theirs.finish_s[i] / ours.flow_finish_s[i] - 1));
  }
  print("SimGrid", theirs.times, theirs.finish_s);
  fmt::print("  SimGrid's CPU time is {:.0f} times ours; largest difference of a flow's finish {:.1e}\n",
             theirs.times.cpu_s / our_times.cpu_s, largest);
}

/// SimGrid allows one engine per process, so each case runs in a process of its own.
bool measured(const std::string& kind, const std::string& what) {
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      measure(bench::traffic_case(kind, what));
    } catch (const std::exception& e) {
      fmt::print(stderr, "{}\n", e.what());
      std::fflush(stderr);
      ::_exit(2);
    }
    std::fflush(stdout);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  std::vector<std::pair<std::string, std::string>> cases;
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) cases.emplace_back(words[i], words[i + 1]);
  if (words.empty()) cases = {{"uniform", "64"}, {"zipf", "64"}, {"zipfs", "64"}, {"zipfs", "128"}};
  bool all = true;
  for (const auto& [kind, what] : cases) all = measured(kind, what) && all;
  return all ? 0 : 2;
}
