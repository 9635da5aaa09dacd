// moeplan list
// schedules|all-to-all|collectives|codecs|placements|precisions|topologies|gpus|clusters|models|workloads|sweeps|frameworks
// [--json]
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <vector>

#include "cli/commands/commands.hpp"
#include "cli/pages/listing.hpp"

namespace moeplan::cli {

namespace {

struct ListOptions {
  std::string what;
  bool json = false;
};

}  // namespace

void add_list_command(CLI::App& app, ExitCode&) {
  auto* command = app.add_subcommand("list", "What is built in and which configurations are there");
  auto o = std::make_shared<ListOptions>();
  const std::vector<std::string> kinds(kListed.begin(), kListed.end());
  command->add_option("what", o->what, fmt::format("One of {}", fmt::join(kinds, ", ")))
      ->required()
      ->check(CLI::IsMember(kinds));
  command->add_flag("--json", o->json, "Print JSON");
  command->callback([o] { fmt::print("{}", o->json ? list_json(o->what) : list_page(o->what)); });
}

}  // namespace moeplan::cli
