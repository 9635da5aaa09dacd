#include "planner/sweep/sweep_spec.hpp"

#include <fmt/format.h>

#include "planner/plan/inputs.hpp"

namespace moeplan::sweep {

std::vector<std::string> SweepSpec::columns() const {
  std::vector<std::string> out;
  for (const Axis& a : axes) out.push_back(a.setting.name);
  for (const DerivedSetting& d : derived) out.push_back(d.setting.name);
  return out;
}

std::int64_t SweepSpec::grid_size() const {
  std::int64_t size = 1;
  for (const auto& together : dimensions) size *= std::ssize(axes[together.front()].values);
  return size;
}

std::vector<std::size_t> SweepSpec::choices_at(std::int64_t place) const {
  std::vector<std::size_t> choices(axes.size());
  for (auto together = dimensions.rbegin(); together != dimensions.rend(); ++together) {
    const std::int64_t n = std::ssize(axes[together->front()].values);
    for (const std::size_t axis : *together) choices[axis] = static_cast<std::size_t>(place % n);
    place /= n;
  }
  return choices;
}

std::vector<Cell> SweepSpec::cells_at(std::int64_t place) const {
  std::vector<Cell> cells;
  for (const Axis& a : base) cells.push_back(cell_of(a.values.front()));
  const std::vector<std::size_t> choices = choices_at(place);
  for (std::size_t i = 0; i < axes.size(); ++i) cells.push_back(cell_of(axes[i].values[choices[i]]));
  for (const DerivedSetting& d : derived) cells.push_back(d.expression.value(cells));
  return cells;
}

std::vector<Assignment> SweepSpec::assignments_at(std::int64_t place) const {
  std::vector<Assignment> out;
  for (const Axis& a : base) out.push_back({a.setting.key, a.values.front()});
  const std::vector<std::size_t> choices = choices_at(place);
  for (std::size_t i = 0; i < axes.size(); ++i) out.push_back({axes[i].setting.key, axes[i].values[choices[i]]});
  if (derived.empty()) return out;
  const std::vector<Cell> cells = cells_at(place);
  const std::size_t first = cells.size() - derived.size();
  for (std::size_t i = 0; i < derived.size(); ++i) {
    out.push_back({derived[i].setting.key, cell_text(cells[first + i])});
  }
  return out;
}

std::filesystem::path sweep_config(const SweepSpec& sweep, const std::string& kind, const std::string& name) {
  const std::filesystem::path path(name);
  if (name.find('/') == std::string::npos || path.is_absolute()) return planner::find_config(kind, name);
  return std::filesystem::path(sweep.source).parent_path() / path;
}

std::string text_of(const std::vector<Assignment>& assignments) {
  std::string text;
  for (const Assignment& a : assignments) text += fmt::format("{}={}\n", a.key, a.value);
  return text;
}

}  // namespace moeplan::sweep
