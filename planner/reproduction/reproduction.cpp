#include "planner/reproduction/reproduction.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>

#include "model/base/in_parallel.hpp"
#include "planner/sweep/case_runner.hpp"

namespace moeplan::reproduction {

namespace {

RowResult result_of(const RowSpec& spec, const std::map<std::string, CaseTable>& tables) {
  RowResult result{.row = spec.row};
  if (!spec.missing.empty()) {
    result.reason = spec.missing;
    return result;
  }
  CaseTable table = tables.at(spec.from);
  if (spec.where) table = selected(std::move(table), *spec.where);
  result.predicted = sweep::cell_number(aggregate_of(table, spec.value));
  if (!result.predicted) {
    result.reason = table.rows.empty()     ? "no case has these settings"
                    : table.reason.empty() ? "there is not one value but several"
                                           : table.reason;
    return result;
  }
  const bool is_same_setting =
      spec.holds && sweep::cell_number(aggregate_of(table, {Aggregate::Share, *spec.holds})) == 1.0;
  result.passes = agrees(spec.row, *result.predicted, is_same_setting);
  return result;
}

}  // namespace

std::int64_t PaperResult::scored() const {
  return std::count_if(rows.begin(), rows.end(), [](const RowResult& r) { return r.row.is_scored; });
}

std::int64_t PaperResult::passed() const {
  return std::count_if(rows.begin(), rows.end(), [](const RowResult& r) { return r.row.is_scored && r.passes; });
}

PaperResult reproduced(const Paper& paper, const ReproductionOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const std::atomic<bool> never = false;
  const std::atomic<bool>& stop = options.stop ? *options.stop : never;
  std::int64_t all = 0, done = 0;
  for (const auto& [name, sweep] : paper.sweeps) all += std::ssize(sweep.cases);
  std::mutex mutex;
  std::vector<std::vector<sweep::CaseResult>> results;
  for (const auto& [name, sweep] : paper.sweeps) {
    std::vector<sweep::CaseResult>& cases = results.emplace_back(sweep.cases.size());
    sweep::CaseRunner runner(sweep, 1);
    in_parallel(cases.size(), options.jobs, [&](std::size_t i) {
      if (stop) throw sweep::Interrupted{};
      cases[i] = runner.run(static_cast<std::int64_t>(i), stop);
      const std::lock_guard lock(mutex);
      ++done;
      if (options.progress) options.progress(done, all);
    });
  }
  const std::map<std::string, CaseTable> tables = tables_of(paper, results);
  PaperResult out{.paper = paper.name, .title = paper.title, .declarations = paper.declarations, .rows = {}};
  for (const RowSpec& row : paper.rows) out.rows.push_back(result_of(row, tables));
  out.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return out;
}

}  // namespace moeplan::reproduction
