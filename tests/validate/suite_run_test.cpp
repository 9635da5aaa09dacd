// Cases of a suite that ranks execute, some of which end them.
#include "cuda_runtime/validate/suite_run.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <functional>

#include "tests/support/checks.hpp"

namespace moeplan::tests::suite_run_test {

using namespace moeplan::validate;

namespace {

std::vector<planner::LayerCase> cases(std::int64_t count) {
  std::vector<planner::LayerCase> out(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) out[static_cast<std::size_t>(i)].tokens = i;
  return out;
}

/// Ranks that end at some cases, identified by their tokens.
struct Ranks {
  std::vector<std::int64_t> ends_at;
  int started = 0;

  JobRun operator()(const std::vector<planner::LayerCase>& some, const OnCase& on_case) {
    const std::string command = "start " + std::to_string(++started);
    for (const planner::LayerCase& c : some) {
      if (std::count(ends_at.begin(), ends_at.end(), c.tokens) > 0) return {JobEnd::Failed, {}, command, "gone"};
      Answer one{};
      one.hosts = {"a"};
      one.cases.resize(1);
      on_case(one);
    }
    return {JobEnd::Done, {}, command, {}};
  }
};

struct Outcome {
  std::string done;  // tokens of each case, "!" after those that failed
  JobRun run;
  int started;
};

Outcome outcome(std::int64_t count, std::vector<std::int64_t> ends_at, bool can_start_again = true) {
  Ranks ranks{std::move(ends_at)};
  Outcome out{};
  out.run = run_all(cases(count), can_start_again, std::ref(ranks), [&](const planner::LayerCase& c, const Answer& a) {
    out.done += std::to_string(c.tokens) + (a.cases.front().failed.empty() ? "" : "!");
  });
  out.started = ranks.started;
  return out;
}

}  // namespace

TEST_CASE("Ranks are started once for all cases of a suite") {
  const Outcome all = outcome(5, {});
  CHECK(all.done == "01234");
  CHECK(all.started == 1);
  CHECK(all.run.end == JobEnd::Done);
}

TEST_CASE("A case that fails does not end a suite: ranks are started again for those after it") {
  const Outcome two = outcome(6, {1, 4});
  CHECK(two.done == "01!234!5");
  CHECK(two.started == 3);
  CHECK(two.run.end == JobEnd::Done);
  CHECK(two.run.command == "start 1");
  CHECK(outcome(3, {0}).done == "0!12");
  CHECK(outcome(3, {2}).done == "012!");
}

TEST_CASE("Ranks that end twice without a finished case end the suite: the machine is to blame") {
  const Outcome none = outcome(5, {0, 1, 2, 3, 4});
  CHECK(none.done == "0!");
  CHECK(none.started == 2);
  CHECK(none.run.end == JobEnd::Failed);
  CHECK(none.run.problem == "gone");
}

TEST_CASE("Ranks of srun or mpirun are not started again") {
  const Outcome given = outcome(4, {2}, false);
  CHECK(given.done == "01");
  CHECK(given.run.end == JobEnd::Failed);
}

TEST_CASE("Finished cases are read from the ranks' log while it grows, whole lines only") {
  const TemporaryDirectory folder;
  const std::filesystem::path file = case_log_file(folder.path() / "answer.json");
  std::vector<std::string> seen;
  CaseLogReader log(file, [&](const Answer& a) { seen.push_back(a.hosts.front()); });
  log.read();
  CHECK(seen.empty());
  Answer one{};
  one.hosts = {"a"};
  one.cases.resize(1);
  log_case(file, one);
  log.read();
  CHECK(seen == std::vector<std::string>{"a"});
  one.hosts = {"b"};
  const std::string text = answer_text(one);
  std::ofstream(file, std::ios::app) << text.substr(0, 10);
  log.read();
  CHECK(seen.size() == 1);
  std::ofstream(file, std::ios::app) << text.substr(10) << '\n';
  log.read();
  log.read();
  CHECK(seen == std::vector<std::string>{"a", "b"});
}

}  // namespace moeplan::tests::suite_run_test
