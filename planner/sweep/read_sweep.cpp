#include "planner/sweep/read_sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "model/text/reader.hpp"
#include "planner/sweep/axis_values.hpp"
#include "planner/sweep/check_sweep.hpp"

namespace moeplan::sweep {

namespace {

bool is_path(std::string_view key) {
  constexpr std::array<std::string_view, 3> kSections{"cluster", "model", "workload"};
  return std::any_of(kSections.begin(), kSections.end(), [&](std::string_view file) {
    return key.size() > file.size() + 1 && key.starts_with(file) && key[file.size()] == '.';
  });
}

std::string joined(const std::vector<std::string>& texts) { return fmt::format("{}", fmt::join(texts, ", ")); }

class SweepReader {
 public:
  SweepReader(const Node& document, const std::string& source) : document_(document) { sweep_.source = source; }

  SweepSpec read(const std::vector<std::string>& overrides) {
    MapReader r(document_, "", wrong_);
    sweep_.name = r.text("name");
    sweep_.kind = r.choice<SweepKind>("kind", kSweepKindNames);
    settings_ = {"cluster", "model", "workload", "world"};
    for (std::string& key : decision_keys(sweep_.kind)) settings_.push_back(std::move(key));
    if (r.has("base")) read_base(r.map("base"));
    for (const std::string& text : overrides) read_override(text);
    read_axes(r);
    if (r.has("derived")) read_derived(r.map("derived"));
    read_conditions(r);
    read_outputs(r);
    constexpr std::int64_t kMostSimulated = 1'000'000;
    if (sweep_.kind == SweepKind::Plan) sweep_.budget = r.integer_or("budget", 64, 1, kMostSimulated);
    r.finish();
    check_names(sweep_, wrong_);
    wrong_.throw_if_any();
    check_values(sweep_, wrong_);
    add_cases(sweep_, wrong_);
    wrong_.throw_if_any();
    return std::move(sweep_);
  }

 private:
  bool is_setting(const std::string& key) const {
    return is_path(key) || std::find(settings_.begin(), settings_.end(), key) != settings_.end();
  }

  std::string no_setting(const std::string& key) const {
    if (key == "recompute") return "is decided by a search; what it may decide is said by workload.recompute";
    return fmt::format(
        "{} is no setting of a sweep of this kind{}; settings are paths such as cluster.gpu.memory, and {}",
        in_quotes(key), suggestion(key, settings_).starts_with("; did") ? suggestion(key, settings_) : "",
        joined(settings_));
  }

  void read_base(const MapReader& base) {
    for (const Entry& e : base.node().entries) {
      const std::string path = "base." + e.key;
      if (!is_setting(e.key)) {
        wrong_.add(e.where, path, no_setting(e.key));
      } else if (e.value.kind != Node::Kind::Scalar) {
        wrong_.add(e.value.where, path, "expected one value; several stand in axes");
      } else {
        sweep_.base.push_back({{e.key, e.key, e.where}, {e.value.scalar}});
      }
    }
  }

  void read_override(const std::string& text) {
    const Location where{"-C " + text};
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || !is_setting(text.substr(0, equals))) {
      wrong_.add(where, "", "expected SETTING=VALUE, e.g. workload.global_batch=512 or world=64");
      return;
    }
    const std::string key = text.substr(0, equals);
    std::erase_if(sweep_.base, [&](const Axis& a) { return a.setting.key == key; });
    sweep_.base.push_back({{key, key, where}, {text.substr(equals + 1)}});
  }

  void read_axes(MapReader& r) {
    if (r.has("axes")) {
      const MapReader axes = r.map("axes");
      for (const Entry& e : axes.node().entries) {
        if (add_axis(e, "axes." + e.key, Repeats::Refused)) sweep_.dimensions.push_back({sweep_.axes.size() - 1});
      }
    }
    for (const auto& [node, path] : r.list_or_empty("zip")) {
      std::vector<std::size_t> together;
      const MapReader group(*node, path, wrong_);
      for (const Entry& e : group.node().entries) {
        if (!add_axis(e, path + "." + e.key, Repeats::Allowed)) continue;
        together.push_back(sweep_.axes.size() - 1);
        const std::size_t first = sweep_.axes[together.front()].values.size(), now = sweep_.axes.back().values.size();
        if (now == first) continue;
        wrong_.add(e.where, path + "." + e.key,
                   fmt::format("has {} values, the first of this group has {}", now, first));
      }
      if (together.empty()) continue;
      check_combinations(together, node->where, path);
      sweep_.dimensions.push_back(together);
    }
    if (sweep_.axes.empty() && wrong_.empty()) r.complain("", "has neither axes nor zip: nothing varies");
  }

  /// Checks that combinations of values are distinct. Single values may repeat on axes that vary together.
  void check_combinations(const std::vector<std::size_t>& together, const Location& where, const std::string& path) {
    std::set<std::vector<std::string>> seen;
    std::size_t count = kMostAxisValues;
    for (const std::size_t axis : together) count = std::min(count, sweep_.axes[axis].values.size());
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<std::string> values;
      for (const std::size_t axis : together) values.push_back(sweep_.axes[axis].values[i]);
      const std::string text = joined(values);
      if (!seen.insert(std::move(values)).second) {
        wrong_.add(where, path, fmt::format("{} occur together twice", in_quotes(text)));
      }
    }
  }

  bool add_axis(const Entry& e, const std::string& path, Repeats repeats) {
    Axis axis{{e.key, e.key, e.where}, {}};
    if (e.value.kind == Node::Kind::Map) {
      MapReader named(e.value, path, wrong_);
      axis.setting.key = named.text_or("key", "");
      if (const Node* values = named.find("values")) {
        axis.values = axis_values(*values, path + ".values", wrong_, repeats);
      } else {
        named.complain("", "has no values");
      }
      named.finish();
      if (!axis.setting.key.empty() && !is_setting(axis.setting.key)) {
        wrong_.add(e.where, path + ".key", no_setting(axis.setting.key));
      }
    } else {
      if (!is_setting(e.key)) {
        wrong_.add(e.where, path,
                   no_setting(e.key) + "; a name of your own is written {key: SETTING, values: [...]}, or without key");
      }
      axis.values = axis_values(e.value, path, wrong_, repeats);
    }
    if (axis.values.empty()) return false;
    sweep_.axes.push_back(std::move(axis));
    return true;
  }

  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const Axis& a : sweep_.base) out.push_back(a.setting.name);
    for (std::string& name : sweep_.columns()) out.push_back(std::move(name));
    return out;
  }

  void add_expression(const Node& node, const std::string& path, auto&& add) {
    if (node.kind != Node::Kind::Scalar) {
      wrong_.add(node.where, path, "expected an expression such as world % tp == 0");
      return;
    }
    wrong_.collect([&] { add(Expression(node.scalar, names(), node.where, path)); });
  }

  void read_derived(const MapReader& derived) {
    for (const Entry& e : derived.node().entries) {
      add_expression(e.value, "derived." + e.key, [&](Expression expression) {
        sweep_.derived.push_back({{e.key, is_setting(e.key) ? e.key : "", e.where}, std::move(expression)});
      });
    }
  }

  void read_conditions(MapReader& r) {
    const Node* when = r.find("when");
    if (!when) return;
    const auto add = [&](Expression expression) { sweep_.when.push_back(std::move(expression)); };
    if (when->kind != Node::Kind::List) return add_expression(*when, "when", add);
    for (std::size_t i = 0; i < when->items.size(); ++i) {
      add_expression(when->items[i], fmt::format("when[{}]", i), add);
    }
  }

  void read_outputs(MapReader& r) {
    const std::vector<std::string> possible = possible_outputs(sweep_.kind);
    for (const auto& [node, path] : r.list_or_empty("outputs")) {
      const std::string& name = node->scalar;
      if (node->kind != Node::Kind::Scalar || std::find(possible.begin(), possible.end(), name) == possible.end()) {
        wrong_.add(node->where, path,
                   fmt::format("{} is no output of a sweep of this kind{}; possible are {}", in_quotes(name),
                               suggestion(name, possible).starts_with("; did") ? suggestion(name, possible) : "",
                               joined(possible)));
      } else if (std::find(sweep_.outputs.begin(), sweep_.outputs.end(), name) != sweep_.outputs.end()) {
        wrong_.add(node->where, path, fmt::format("{} occurs twice", in_quotes(name)));
      } else {
        sweep_.outputs.push_back(name);
      }
    }
    if (!r.has("outputs")) sweep_.outputs = usual_outputs(sweep_.kind);
    // Outputs that are settings are removed: the setting already has a column.
    const std::vector<std::string> columns = sweep_.columns();
    std::erase_if(sweep_.outputs, [&](const std::string& output) {
      return std::find(columns.begin(), columns.end(), output) != columns.end();
    });
  }

  const Node& document_;
  Diagnostics wrong_;
  SweepSpec sweep_;
  std::vector<std::string> settings_;
};

}  // namespace

SweepSpec read_sweep(const Node& document, const std::string& source, const std::vector<std::string>& overrides) {
  return SweepReader(document, source).read(overrides);
}

}  // namespace moeplan::sweep
