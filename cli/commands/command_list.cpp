// moeplan list
// schedules|all-to-all|collectives|codecs|placements|precisions|topologies|gpus|clusters|models|workloads|sweeps|frameworks|
// collective-models|operator-models
// [--json]
#include <fmt/format.h>
#include <unistd.h>

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
  auto* command = app.add_subcommand("list", "List built-in algorithms and available configurations");
  auto o = std::make_shared<ListOptions>();
  const std::vector<std::string> kinds(kListed.begin(), kListed.end());
  command->add_option("what", o->what, "What to list")->required()->check(CLI::IsMember(kinds));
  command->add_flag("--json", o->json, "Print JSON");
  command->callback([o] {
    const bool is_wrapped = ::isatty(STDOUT_FILENO) != 0;  // for people; programs read a line an entry
    fmt::print("{}", o->json ? list_json(o->what) : list_page(o->what, is_wrapped));
  });
}

}  // namespace moeplan::cli
