#include "planner/eplb/expert_loads.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "model/base/diagnostics.hpp"
#include "model/base/to_index.hpp"
#include "model/text/document.hpp"
#include "model/text/source_text.hpp"
#include "model/workload/routing_trace.hpp"

namespace moeplan::planner {

namespace {

using Value = nlohmann::json;
using LoadRows = std::vector<std::vector<std::int64_t>>;
constexpr std::size_t kMostBytes = std::size_t{1} << 30;

/// The place of the value at a key path such as "records[0].x[2]", or of the last step of it that is there; the whole
/// file if it is larger than what parse_json() reads.
Location place_of(const std::string& text, const std::string& file, std::string_view key) {
  if (text.size() > kConfigSizeLimit) return {file};
  try {
    const Node document = parse_json(text, file);
    const Node* node = &document;
    Location where = node->where;
    while (!key.empty()) {
      const bool is_index = key.front() == '[';
      if (is_index || key.front() == '.') key.remove_prefix(1);
      const std::string step(key.substr(0, std::min(key.find_first_of(is_index ? "]" : ".["), key.size())));
      key.remove_prefix(std::min(step.size() + (is_index ? 1 : 0), key.size()));
      const std::size_t index = is_index ? std::stoul(step) : 0;
      node = !is_index ? node->find(step) : index < node->items.size() ? &node->items[index] : nullptr;
      if (node == nullptr) return where;
      where = node->where;
    }
    return where;
  } catch (const InputError&) {  // deeper or with more values than it reads
    return {file};
  }
}

/// Reads counts out of a document, and raises InputError with their place and key path.
class CountReader {
 public:
  /// `text` is that of the document, and must outlive this.
  CountReader(std::string file, const std::string& text) : file_(std::move(file)), text_(text) {}

  [[noreturn]] void fail(const std::string& key, std::string message) const {
    throw_input_error(place_of(text_, file_, key), key, std::move(message));
  }

  /// [layers][n], or [steps][layers][n] summed over steps, of which `steps` counts the number.
  LoadRows rows(const Value& value, const std::string& key, std::size_t& steps) const {
    if (!value.is_array() || value.empty() || !value.front().is_array() || value.front().empty())
      fail(key, "expected a list of layers, each a list of counts");
    if (!value.front().front().is_array()) {
      ++steps;
      return matrix(value, key);
    }
    LoadRows sum;
    for (std::size_t s = 0; s < value.size(); ++s) {
      add(sum, matrix(value[s], fmt::format("{}[{}]", key, s)), key);
      ++steps;
    }
    return sum;
  }

  /// Counts of physical experts as those of logical ones.
  LoadRows logical(const LoadRows& physical, const LoadRows& map, const std::string& key) const {
    std::int64_t experts = 0;
    for (const auto& layer : map) experts = std::max(experts, 1 + *std::max_element(layer.begin(), layer.end()));
    if (physical.size() != map.size() || physical.front().size() != map.front().size()) {
      fail(key, fmt::format("has {} layers of {} experts, the map {} of {}", physical.size(), physical.front().size(),
                            map.size(), map.front().size()));
    }
    LoadRows out(map.size(), std::vector<std::int64_t>(to_index(experts), 0));
    for (std::size_t l = 0; l < map.size(); ++l) {
      for (std::size_t p = 0; p < map[l].size(); ++p) out[l][to_index(map[l][p])] += physical[l][p];
    }
    return out;
  }

  void add(LoadRows& sum, const LoadRows& more, const std::string& key) const {
    if (sum.empty()) {
      sum = more;
      return;
    }
    if (sum.size() != more.size() || sum.front().size() != more.front().size())
      fail(key, "has steps with different numbers of layers or experts");
    for (std::size_t l = 0; l < sum.size(); ++l) {
      for (std::size_t e = 0; e < sum[l].size(); ++e) sum[l][e] += more[l][e];
    }
  }

 private:
  LoadRows matrix(const Value& value, const std::string& key) const {
    LoadRows out;
    for (std::size_t l = 0; l < value.size(); ++l) {
      const std::string at = fmt::format("{}[{}]", key, l);
      if (!value[l].is_array() || value[l].empty() || value[l].size() != value.front().size())
        fail(at, fmt::format("expected {} counts, as in the first layer", value.front().size()));
      std::vector<std::int64_t>& row = out.emplace_back();
      for (std::size_t e = 0; e < value[l].size(); ++e) row.push_back(count(value[l][e], at, e));
    }
    return out;
  }

  std::int64_t count(const Value& value, const std::string& layer, std::size_t e) const {
    constexpr double kMost = 1e15;
    const double number = value.is_number() ? value.get<double>() : -1;
    if (number < 0 || number > kMost)
      fail(fmt::format("{}[{}]", layer, e),
           fmt::format("{} is no count; expected a number from 0 to 1e15", in_quotes(value.dump())));
    return static_cast<std::int64_t>(number);
  }

  std::string file_;
  const std::string& text_;
};

Value parsed(const std::string& text, const std::string& file) {
  try {
    return Value::parse(text);
  } catch (const Value::parse_error& e) {
    throw_input_error({file, location_at(text, e.byte, file).line}, "",
                      fmt::format("is no JSON at byte {}; expected counts as docs/frameworks.md lists them", e.byte));
  } catch (const Value::out_of_range&) {
    throw_input_error({file}, "", "has a number that is too large; expected counts up to 1e15");
  }
}

ExpertLoads from_records(const Value& document, const CountReader& reader) {
  std::size_t ignored = 0, steps = 0;
  if (!document.contains("last_physical_to_logical_map"))
    reader.fail("last_physical_to_logical_map", "is missing; expected the map that the records were made with");
  const LoadRows map = reader.rows(document["last_physical_to_logical_map"], "last_physical_to_logical_map", ignored);
  LoadRows sum;
  for (std::size_t i = 0; i < document["records"].size(); ++i) {
    const Value& record = document["records"][i];
    const std::string key = fmt::format("records[{}].global_physical_count", i);
    if (!record.is_object() || !record.contains("global_physical_count"))
      reader.fail(key, "is missing; expected layers of counts");
    const LoadRows physical = reader.rows(record["global_physical_count"], key, steps);
    reader.add(sum, reader.logical(physical, map, key), key);
  }
  if (sum.empty()) reader.fail("records", "is empty; expected the passes of a recorder");
  return {std::move(sum), fmt::format("SGLang's recorder, {} passes", steps)};
}

ExpertLoads from_json(const Value& document, const CountReader& reader) {
  std::size_t steps = 0;
  if (document.is_array()) return {reader.rows(document, "", steps), "a list of layers"};
  if (!document.is_object()) reader.fail("", "expected an object or a list");
  if (document.contains("logical_count")) {
    LoadRows rows = reader.rows(document["logical_count"], "logical_count", steps);
    return {std::move(rows), fmt::format("SGLang's logical counts, {} step{}", steps, steps == 1 ? "" : "s")};
  }
  if (document.contains("records") && document["records"].is_array()) return from_records(document, reader);
  for (const char* key : {"expert_load_window", "expert_load_pass"}) {
    if (!document.contains(key)) continue;
    if (!document.contains("physical_to_logical_map"))
      reader.fail("physical_to_logical_map",
                  fmt::format("is missing; expected it, since {} counts physical experts", key));
    std::size_t ignored = 0;
    const LoadRows map = reader.rows(document["physical_to_logical_map"], "physical_to_logical_map", ignored);
    const LoadRows physical = reader.rows(document[key], key, steps);
    return {reader.logical(physical, map, key), fmt::format("vLLM's {}, {} steps", key, steps)};
  }
  reader.fail("", "expected logical_count, records, expert_load_window or expert_load_pass");
}

/// Lines "layer,e0,e1,..." below such a header.
ExpertLoads from_lines(const std::string& text, const std::string& file) {
  ExpertLoads out{{}, "a table of layers"};
  Diagnostics wrong;
  std::size_t begin = text.find('\n'), columns = 0;
  int number = 1;
  while (begin != std::string::npos && begin + 1 < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin + 1), text.size());
    std::string line = text.substr(begin + 1, end - begin - 1);
    begin = end < text.size() ? end : std::string::npos;
    ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty()) continue;
    std::vector<std::int64_t> row;
    for (std::size_t at = 0; at <= line.size();) {
      const std::size_t comma = std::min(line.find(',', at), line.size());
      const std::string field = line.substr(at, comma - at);
      if (field.empty() || field.find_first_not_of("0123456789") != std::string::npos || field.size() > 15)
        wrong.add({file, number, 1 + static_cast<int>(at)}, row.empty() ? "layer" : fmt::format("e{}", row.size() - 1),
                  fmt::format("{} is no count; expected a whole number", in_quotes(field)));
      row.push_back(wrong.empty() ? std::stoll(field) : 0);
      at = comma + 1;
    }
    if (columns == 0) columns = row.size();
    if (row.size() != columns || columns < 2)
      wrong.add({file, number}, "",
                fmt::format("has {} fields, expected {}", row.size(), std::max<std::size_t>(columns, 2)));
    if (wrong.empty() && row.front() != std::ssize(out.layers))
      wrong.add({file, number}, "layer",
                fmt::format("is {}, expected {}: layers count from 0", row.front(), out.layers.size()));
    out.layers.emplace_back(row.begin() + 1, row.end());
  }
  if (out.layers.empty()) wrong.add({file}, "", "has no layers below its header");
  wrong.throw_if_any();
  return out;
}

ExpertLoads from_trace(const std::filesystem::path& path) {
  const RoutingTrace trace = read_routing_trace(path);
  ExpertLoads out{LoadRows(to_index(trace.layers()), std::vector<std::int64_t>(to_index(trace.experts()), 0)),
                  fmt::format("a routing trace, {} iterations", trace.iterations().size())};
  for (std::size_t i = 0; i < trace.iterations().size(); ++i) {
    for (std::int64_t l = 0; l < trace.layers(); ++l) {
      const std::vector<std::int64_t> load = trace.expert_load(i, l);
      for (std::size_t e = 0; e < load.size(); ++e) out.layers[to_index(l)][e] += load[e];
    }
  }
  return out;
}

}  // namespace

bool ExpertLoads::has_experts(std::size_t layer) const {
  return std::any_of(layers[layer].begin(), layers[layer].end(), [](std::int64_t n) { return n > 0; });
}

std::int64_t ExpertLoads::moe_layers() const {
  std::int64_t count = 0;
  for (std::size_t l = 0; l < layers.size(); ++l) count += has_experts(l) ? 1 : 0;
  return count;
}

ExpertLoads read_expert_loads(const std::filesystem::path& path) {
  const std::string file = path.string(), end = path.extension().string();
  if (end == ".pt" || end == ".pth") {
    throw_input_error({file}, "",
                      "is a file of PyTorch; make JSON of it: python -c \"import json, sys, torch; d = "
                      "torch.load(sys.argv[1], weights_only=True); json.dump({'logical_count': "
                      "d['logical_count'].tolist()}, open('loads.json', 'w'))\" " +
                          path.filename().string());
  }
  if (end == ".gz") return from_trace(path);
  const std::string text = read_text_file(path, kMostBytes);
  ExpertLoads out;
  if (end == ".csv") {
    out = text.starts_with("layer,") ? from_lines(text, file) : from_trace(path);
  } else {
    out = from_json(parsed(text, file), CountReader(file, text));
  }
  if (out.moe_layers() == 0) throw_input_error({file}, "", "has no selections of any expert; expected counts above 0");
  return out;
}

}  // namespace moeplan::planner
