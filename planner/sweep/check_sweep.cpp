#include "planner/sweep/check_sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/plan/plan.hpp"

namespace moeplan::sweep {

namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kFiles{
    {{"cluster", "clusters"}, {"model", "models"}, {"workload", "workloads"}}};

std::string lower_case(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

/// Whether an expression can refer to a text as a name.
bool is_name(const std::string& text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !text.empty() && is_letter(text.front()) && std::all_of(text.begin(), text.end(), [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '[' || c == ']';
  });
}

}  // namespace

void check_names(const SweepSpec& sweep, Diagnostics& wrong) {
  std::vector<const Setting*> all;
  for (const Axis& a : sweep.base) all.push_back(&a.setting);
  for (const Axis& a : sweep.axes) all.push_back(&a.setting);
  for (const DerivedSetting& d : sweep.derived) all.push_back(&d.setting);
  if (all.size() > SweepLimits::kSettings) {
    wrong.add({sweep.source}, "", fmt::format("has more than {} settings", SweepLimits::kSettings));
    return;
  }
  std::vector<std::string> taken(kSweepColumns.begin(), kSweepColumns.end());
  taken.emplace_back(kTimingColumn);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i == sweep.base.size()) {  // the remaining settings are columns along with the outputs
      taken.insert(taken.end(), sweep.outputs.begin(), sweep.outputs.end());
    }
    const Setting& s = *all[i];
    const std::string name = lower_case(s.name);  // SQL's column names are case-insensitive
    if (!is_name(s.name))
      wrong.add(s.where, s.name, "a name is letters, digits, _ and . and does not begin with a digit");
    const bool set_twice = !s.key.empty() && std::any_of(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(i),
                                                         [&](const Setting* other) { return other->key == s.key; });
    if (set_twice) {
      wrong.add(s.where, s.name, fmt::format("{} is set twice", in_quotes(s.key)));
    } else if (std::find(taken.begin(), taken.end(), name) != taken.end()) {
      wrong.add(s.where, s.name, "this name is taken already");
    }
    taken.push_back(name);
  }
  const auto is_set = [&](std::string_view key) {
    return std::any_of(all.begin(), all.end(), [&](const Setting* s) { return s->key == key; });
  };
  if (is_set("recompute") && is_set("workload.recompute")) {
    wrong.add({sweep.source}, "recompute",
              "is set next to workload.recompute, which says the same; leave one of them out");
  }
  for (const std::string_view key : {"cluster", "model"}) {
    if (!is_set(key)) {
      wrong.add({sweep.source}, "base", fmt::format("names no {}", key));
    }
  }
}

void check_values(const SweepSpec& sweep, Diagnostics& wrong) {
  const std::vector<std::string> decisions = decision_keys(sweep.kind);
  const auto check = [&](const Setting& setting, const std::string& value) {
    for (const auto& [key, folder] : kFiles) {
      if (setting.key != key) continue;
      try {
        (void)sweep_config(sweep, std::string(folder), value);
      } catch (const InputError& e) {
        for (const Diagnostic& d : e.diagnostics()) {
          wrong.add(setting.where, setting.name, fmt::format("{}: {}", d.where.file, d.message));
        }
      }
    }
    if (std::find(decisions.begin(), decisions.end(), setting.key) == decisions.end()) return;
    Node decision = planner::decision_document({});
    decision.set(setting.key, Node::plain(value));
    Diagnostics of_value;
    (void)planner::read_decision(MapReader(decision, "", of_value));
    for (const Diagnostic& d : of_value.list()) wrong.add(setting.where, setting.name, d.message);
  };
  for (const Axis& a : sweep.base) check(a.setting, a.values.front());
  for (const Axis& a : sweep.axes) {
    for (const std::string& value : a.values) check(a.setting, value);
  }
}

void add_cases(SweepSpec& sweep, Diagnostics& wrong) {
  double size = 1;
  for (const auto& together : sweep.dimensions) {
    size *= static_cast<double>(sweep.axes[together.front()].values.size());
  }
  if (size > static_cast<double>(SweepLimits::kGrid)) {
    wrong.add({sweep.source}, "axes",
              fmt::format("make {:.0f} combinations; the most are {}", size, SweepLimits::kGrid));
    return;
  }
  for (std::int64_t place = 0; place < sweep.grid_size(); ++place) {
    const std::vector<Cell> cells = sweep.cells_at(place);
    const auto holds = [&](const Expression& e) { return e.holds(cells); };
    if (std::all_of(sweep.when.begin(), sweep.when.end(), holds)) sweep.cases.push_back(place);
  }
  if (sweep.cases.empty()) wrong.add({sweep.source}, "when", "no combination of values is left");
  if (std::ssize(sweep.cases) > SweepLimits::kCases) {
    wrong.add({sweep.source}, "axes",
              fmt::format("make {} cases; the most are {}", sweep.cases.size(), SweepLimits::kCases));
  }
}

}  // namespace moeplan::sweep
