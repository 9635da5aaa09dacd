#include "cuda_runtime/validate/suite.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "model/base/sha256.hpp"
#include "model/costs/codec.hpp"
#include "planner/layer/all_to_all.hpp"
#include "planner/layer/schedule.hpp"
#include "planner/report/json_parts.hpp"

namespace moeplan::validate {

namespace {

/// A list of known names, or `all`, represented by an empty list.
std::vector<std::string> names(MapReader& reader, const std::string& key, const std::vector<std::string>& known) {
  const Node* node = reader.find(key);
  if (node == nullptr || (node->kind == Node::Kind::Scalar && node->scalar == "all")) return {};
  std::vector<std::string> out;
  for (const auto& [item, path] : reader.list(key)) {
    if (!known.empty() && std::find(known.begin(), known.end(), item->scalar) == known.end()) {
      reader.diagnostics().add(
          item->where, path,
          fmt::format("{} is not known{}", in_quotes(item->scalar), suggestion(item->scalar, known)));
    }
    out.push_back(item->scalar);
  }
  return out;
}

std::vector<std::string> schedule_names() {
  std::vector<std::string> out;
  for (const auto& s : planner::schedules()) out.emplace_back(s->name());
  return out;
}

template <class T>
bool asks_for(const std::vector<T>& wanted, const T& value) {
  return wanted.empty() || std::find(wanted.begin(), wanted.end(), value) != wanted.end();
}

std::string key_of(const planner::LayerCase& layer) { return sha256(to_yaml(planner::layer_case_document(layer))); }

}  // namespace

Suite read_suite(const std::filesystem::path& path) {
  const Node document = load_document(path);
  Diagnostics wrong;
  MapReader d(document, "", wrong);
  Suite out;
  out.name = d.text("name");
  const std::string cluster = d.text("cluster"), model = d.text("model"), workload = d.text("workload");
  const std::vector<std::string> overrides = names(d, "overrides", {});
  MapReader degrees = d.map("degrees");
  constexpr std::int64_t kMostRanks = 4096;
  out.base.degrees.tp = degrees.integer_or("tp", 1, 1, kMostRanks);
  out.base.degrees.ep = degrees.integer_or("ep", 1, 1, kMostRanks);
  out.base.degrees.esp = degrees.integer_or(degrees.either("esp", "etp"), 1, 1, kMostRanks);
  degrees.finish();
  out.base.micro_batch = d.integer_or("micro_batch", 1, 1);
  out.schedules = names(d, "schedules", schedule_names());
  out.all_to_alls = names(d, "all_to_alls", planner::all_to_all_names());
  out.codecs = names(d, "codecs", {});
  for (const std::string& codec : out.codecs) {
    if (!parse_codec_pair(codec)) d.complain("codecs", codec_pair_error(codec));
  }
  for (const std::string& n : names(d, "pipeline_degrees", {})) {
    const auto value = parse_integer(n);
    const auto* count = std::get_if<long long>(&value);
    if (count == nullptr || *count < 1 || *count > planner::kMostChunks) {
      d.complain("pipeline_degrees", fmt::format("{} is none; expected 1 to {}", in_quotes(n), planner::kMostChunks));
    } else {
      out.pipeline_degrees.push_back(*count);
    }
  }
  d.finish();
  wrong.throw_if_any();
  Degrees& base = out.base.degrees;
  const std::int64_t world = std::lcm(base.tp, base.ep * base.esp);
  base.dp = world / base.tp;
  base.edp = world / (base.ep * base.esp);
  const auto beside = [&](const std::string& name) {
    const bool is_path = name.find('/') != std::string::npos;
    return is_path && !std::filesystem::path(name).is_absolute() ? (path.parent_path() / name).string() : name;
  };
  out.inputs = planner::load_inputs(beside(cluster), beside(model), beside(workload), overrides);
  return out;
}

std::vector<planner::LayerCase> cases_of(const Suite& suite, const planner::LayerCase& layer) {
  std::vector<planner::LayerCase> out;
  for (const planner::LayerStrategy& run :
       planner::layer_strategies(layer.hidden_size, layer.workload, layer.candidate, layer.ranks_per_node)) {
    if (!asks_for(suite.schedules, run.schedule.name()) || !asks_for(suite.all_to_alls, run.all_to_all.name()) ||
        !asks_for(suite.codecs, codec_pair_name(run.codec)) || !asks_for(suite.pipeline_degrees, run.pipeline_degree)) {
      continue;
    }
    out.push_back(layer);
    out.back().candidate = run.in(layer.candidate);
  }
  if (out.empty()) throw InputError(Diagnostic{{suite.name}, "", "nothing that the suite asks for can run"});
  return out;
}

SuiteStore::SuiteStore(std::filesystem::path file, bool resumes) : file_(std::move(file)) {
  if (!resumes) {
    std::filesystem::remove(file_);
    return;
  }
  std::ifstream in(file_);
  for (std::string line; std::getline(in, line);) {
    // The case of a truncated line is executed again.
    const planner::Json j = planner::Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (j.is_object() && j.contains("case") && j.contains("answer")) answers_[j["case"]] = j["answer"].dump();
  }
}

std::optional<Answer> SuiteStore::find(const planner::LayerCase& layer) const {
  const auto it = answers_.find(key_of(layer));
  return it == answers_.end() ? std::nullopt : std::optional(read_answer(it->second));
}

void SuiteStore::add(const planner::LayerCase& layer, const Answer& answer) {
  const std::string key = key_of(layer), text = answer_text(answer);
  std::ofstream out(file_, std::ios::app);
  out << planner::Json{{"case", key}, {"answer", planner::Json::parse(text)}}.dump() << '\n';
  out.flush();
  if (!out)
    throw InputError(Diagnostic{{file_.string()}, "", fmt::format("cannot be written: {}", std::strerror(errno))});
  answers_[key] = text;
}

}  // namespace moeplan::validate
