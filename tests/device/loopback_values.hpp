// Value tests of all layer strategies over the loopback transport of a device.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <memory>

#include "cuda_runtime/device/device_world.hpp"
#include "cuda_runtime/device/loopback_transport.hpp"
#include "tests/support/value_cases.hpp"

namespace moeplan::tests {

using namespace planner;
using namespace runtime;

/// A check of the device after an execution, apart from its values; returns an error message, or "".
using Inspection = std::function<std::string(const Device&)>;

/// A selection of layer strategies and the number of executions of each.
struct LoopbackWays {
  std::int64_t ranks = 2;
  std::int64_t every = 1;  // select every n-th strategy
  std::string only = {};   // select strategies whose name contains this text
  int times = 1;           // consecutive executions of a layer; more than one launches a graph again
  std::vector<ValueLayer> layers = value_layers(ranks);
  std::chrono::steady_clock::time_point until = std::chrono::steady_clock::time_point::max();  // no new one afterwards
};

/// Executes the selected strategies, prints the errors by case, and returns the number of strategies with errors.
/// `make` creates the device for the n-th execution.
inline std::int64_t wrong_loopback_values(const LoopbackWays& ways, const DeviceOptions& options,
                                          const std::function<std::unique_ptr<Device>(std::uint64_t)>& make,
                                          const Inspection& inspect) {
  const std::int64_t ranks = ways.ranks;
  std::int64_t runs = 0, wrong = 0, seen = 0, left = 0;
  double worst = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (const ValueLayer& layer : ways.layers) {
    const ValueCase c(layer);
    for (const LayerStrategy& run : c.runs()) {
      const std::string name = c.name(run);
      if (name.find(ways.only) == std::string::npos || seen++ % ways.every != 0) continue;
      if (std::chrono::steady_clock::now() > ways.until) {
        ++left;
        continue;
      }
      std::vector<std::string> problems(static_cast<std::size_t>(ranks));
      std::vector<double> errors(static_cast<std::size_t>(ranks), 0.0);
      const std::unique_ptr<Device> device = make(static_cast<std::uint64_t>(runs));
      try {
        DeviceOptions with_codecs = options;
        with_codecs.codecs = c.workload.codecs;
        std::vector<RankId> ids;
        for (std::int64_t r = 0; r < ranks; ++r) ids.push_back(RankId(static_cast<std::size_t>(r)));
        LoopbackTransport transport(*device, options.slab, options.link);
        DeviceWorld world(*device, transport, ids, with_codecs);
        world.run([&](RankId rank, Backend& backend) {
          problems[rank.index()] = c.problem(run, backend, rank, errors[rank.index()], ways.times);
        });
      } catch (const std::exception& e) {
        problems.front() = e.what();
      }
      problems.push_back(inspect(*device));
      bool is_wrong = false;
      for (std::size_t r = 0; r < problems.size(); ++r) {
        if (problems[r].empty()) continue;
        is_wrong = true;
        fmt::print("{}: rank {}: {}\n", name, r, problems[r]);
      }
      for (const double e : errors) worst = std::max(worst, e);
      ++runs;
      wrong += is_wrong ? 1 : 0;
    }
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  fmt::print("{} ranks: {} ways to run a layer in {:.1f} s, {} wrong; lossless fp32 differs by at most {:.1e}\n", ranks,
             runs, took.count(), wrong, worst);
  if (left > 0) fmt::print("{} ways were left out for lack of time\n", left);
  return runs > 0 || left > 0 ? wrong : 1;
}

}  // namespace moeplan::tests
