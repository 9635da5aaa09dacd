// The JSON documents and plan files that the executable writes, against docs/schema.
#include <charconv>
#include <map>
#include <regex>
#include <set>

#include "model/text/document.hpp"
#include "tests/cli/support/cli_json.hpp"
#include "tests/cli/support/json_schema.hpp"

namespace moeplan::tests::schema_test {

using moeplan::Entry;
using moeplan::Node;

namespace {

const std::filesystem::path kSchemas = MOEPLAN_SOURCE_DIR "/docs/schema";

template <class Number>
bool read_all(const std::string& text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

/// YAML 1.2's core schema.
Json as_json(const Node& node) {
  Json out;
  switch (node.kind) {
    case Node::Kind::Null: return nullptr;
    case Node::Kind::List:
      out = Json::array();
      for (const Node& item : node.items) out.push_back(as_json(item));
      return out;
    case Node::Kind::Map:
      out = Json::object();
      for (const Entry& e : node.entries) out[e.key] = as_json(e.value);
      return out;
    case Node::Kind::Scalar: break;
  }
  if (node.is_string) return node.scalar;
  if (node.scalar == "true" || node.scalar == "false") return node.scalar == "true";
  std::int64_t integer = 0;
  if (read_all(node.scalar, integer)) return integer;
  double number = 0;
  const bool starts_as_number = node.scalar.find_first_of("0123456789") < 2;
  if (starts_as_number && read_all(node.scalar, number)) return number;
  return node.scalar;
}

Json plan_file(const Cli& cli, const std::string& file) {
  return as_json(moeplan::parse_yaml(whole_file(cli.path(file)), file));
}

using Words = std::set<std::string>;

/// All names of properties in a schema.
void add_properties(const Json& schema, Words& names) {
  if (!schema.is_structured()) return;
  if (schema.is_object() && schema.contains("properties"))
    for (const auto& [name, property] : schema.at("properties").items()) names.insert(name);
  for (const Json& part : schema) add_properties(part, names);
}

/// The keys that a source of a reader asks a MapReader for by name.
void add_keys_read(const std::string& source, Words& keys) {
  const std::string text = whole_file(MOEPLAN_SOURCE_DIR "/model/" + source);
  const std::regex read(
      R"re([.](?:find|has|text|integer|number|boolean|quantity|choice|map|list)(?:_or)?(?:_empty)?(?:<\w+>)?\("(\w+)")re");
  for (std::sregex_iterator i(text.begin(), text.end(), read), end; i != end; ++i) keys.insert((*i)[1].str());
}

/// The words of the parts of a page's sentences and tables that are code.
Words code_words(std::string page) {
  const std::string fence = "```";
  for (std::size_t at = page.find(fence); at != std::string::npos; at = page.find(fence))
    page.erase(at, page.find(fence, at + 1) + fence.size() - at);
  Words out;
  const std::regex code("`([^`]+)`"), word(R"(\w+)");
  for (std::sregex_iterator i(page.begin(), page.end(), code), end; i != end; ++i) {
    const std::string span = (*i)[1].str();
    for (std::sregex_iterator w(span.begin(), span.end(), word); w != end; ++w) out.insert(w->str());
  }
  return out;
}

/// Writes the YAML files that a page shows; the first line of each names it: "# ours.yaml".
void write_examples(const Cli& cli, const std::string& page) {
  const std::string text = whole_file(MOEPLAN_SOURCE_DIR "/docs/" + page), fence = "```yaml\n# ";
  for (std::size_t at = text.find(fence); at != std::string::npos; at = text.find(fence, at + 1)) {
    const std::size_t name = at + fence.size(), end = text.find("```", name);
    (void)cli.write(text.substr(name, text.find_first_of(":\n", name) - name), text.substr(name - 2, end - name + 2));
  }
}

/// What the commands print, each with its schema.
using Documents = std::vector<std::pair<std::string, Json>>;

Documents of_plan(const Cli& cli, const std::vector<std::string>& plan) {
  Documents out;
  out.emplace_back("plan.json", parsed(cli.run(with(plan, {"--json", "--top", "3", "-o", "a.yaml"}))));
  REQUIRE(cli.run(with(plan, {"-C", "cluster.gpu.memory_efficiency=0.5", "-o", "b.yaml"})).code == 0);
  for (const char* file : {"a.yaml", "b.yaml"}) out.emplace_back("plan_file.json", plan_file(cli, file));
  out.emplace_back("simulate.json", parsed(cli.run({"simulate", "a.yaml", "--json"})));
  out.emplace_back("explain.json", parsed(cli.run({"explain", "a.yaml", "--json", "--quiet"})));
  out.emplace_back("compare.json", parsed(cli.run({"compare", "a.yaml", "b.yaml", "--json"})));
  return out;
}

Documents of_collectives(const Cli& cli) {
  const std::vector<std::string> base{"collective", "--cluster", "dgx_h100", "--world", "16", "--json"};
  Documents out;
  const auto add = [&](const std::vector<std::string>& more) {
    out.emplace_back("collective.json", parsed(cli.run(with(base, more))));
  };
  for (const std::string op : {"all_to_all", "all_gather", "reduce_scatter", "all_reduce", "broadcast"}) {
    add({"--op", op, "--sizes", "1KiB:1MiB:1024"});
  }
  add({"--op", "all_reduce", "--algorithm", "tree", "--sizes", "1MiB:1MiB:2"});
  add({"--op", "all_to_all", "--algorithm", "2dh", "--sizes", "1MiB:1MiB:2"});
  add({"--routing", "zipf:1.0", "--sizes", "1MiB:4MiB:2"});
  add({"--traffic", cli.write("t.csv", "src,dst,bytes\n0,1,1000\n1,9,500\n")});
  add({"--traffic", cli.write("f.csv", "src,dst,bytes,finish_s\n0,1,1000,1\n1,9,500,1\n")});
  return out;
}

Documents of_nothing_feasible(const Cli& cli) {
  const Ran ran = cli.run({"plan", "--cluster", "dgx_h100", "--model", "mixtral_8x7b", "--world", "8", "--json", "-C",
                           "cluster.gpu.memory=4 GB"});
  REQUIRE(ran.code == 3);
  return {{"plan.json", Json::parse(ran.out)}};
}

Documents of_sizes(const Cli& cli) {
  const std::vector<std::string> size{
      "size",     "--model", "schemoe_gpt2_tiny_moe",         "--cluster", "dgx_h100=2", "--cluster",
      "hgx_h200", "-C",      "workload.sequence_length=1024", "--json"};
  const Ran none = cli.run(with(size, {"--tokens-per-day", "900T", "--max-gpus", "16"}));
  REQUIRE(none.code == 3);
  return {{"size.json", parsed(cli.run(with(size, {"--tokens-per-day", "500B"})))},
          {"size.json", parsed(cli.run(with(size, {"--gpus", "20", "--tokens", "1T"})))},
          {"size.json", Json::parse(none.out)}};
}

Documents of_queries(const Cli& cli) {
  const std::string file = cli.write(
      "s.yaml",
      "name: s\nkind: layer\nbase: {cluster: dgx_h100, model: mixtral_8x7b, world: 8, workload.micro_batch: 1}\n"
      "axes: {ep: [3, 4, 8], workload.dtype: [bf16, fp16]}\n");
  REQUIRE(cli.run({"sweep", file, "-o", "s.sqlite", "--quiet"}).code == 0);
  Documents out;
  for (const std::vector<std::string>& query : {std::vector<std::string>{"best", "--price", "2"},
                                                {"pivot", "--rows", "ep", "--columns", "workload.dtype"},
                                                {"pareto"},
                                                {"diff", "s.sqlite"},
                                                {"table"}}) {
    out.emplace_back("query.json", parsed(cli.run(with(with({"query", "s.sqlite"}, query), {"--json"}))));
  }
  return out;
}

void check_valid(const Cli& cli, const Documents& documents) {
  std::string arguments;
  for (const auto& [schema, document] : documents) {
    CAPTURE(schema);
    const std::vector<std::string> errors = schema_errors(document, schema);
    CHECK(errors == std::vector<std::string>{});
    const std::string name = "document" + std::to_string(arguments.size()) + ".json";
    arguments += " " + schema + " " + cli.write(name, document.dump());
  }
  const std::string script = MOEPLAN_SOURCE_DIR "/tests/cli/support/check_schemas.py";
  const std::string report = cli.path("report");
  const std::string command = "python3 " + script + " " + kSchemas.string() + arguments + " >" + report + " 2>&1";
  const int code = WEXITSTATUS(std::system(command.c_str()));
  CAPTURE(whole_file(report));
  if (code == 77 || code == 127) {
    WARN("second opinion skipped: python3-jsonschema is not installed");
    return;
  }
  CHECK(code == 0);
}

}  // namespace

TEST_CASE("The schemas of docs/schema are strict and in the part of JSON Schema that is checked") {
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(kSchemas)) {
    const std::string file = entry.path().filename();
    if (entry.path().extension() != ".json") continue;
    files.insert(file);
    CHECK(schema_flaws(file) == std::vector<std::string>{});
    CHECK(schema_file(file).at("$schema") == "https://json-schema.org/draft/2020-12/schema");
  }
  for (const char* file :
       {"plan_file", "plan", "simulate", "explain", "compare", "collective", "query", "validate", "validate_suite"}) {
    CHECK(files.contains(file + std::string(".json")));
  }
}

TEST_CASE("The JSON that is printed and the plan files that are written follow docs/schema") {
  const Cli cli;
  SECTION("of a model on nodes from a template") {
    check_valid(cli, of_plan(cli, {"plan", "--cluster", "dgx_h100", "--model", "mixtral_8x7b", "--world", "16"}));
    check_valid(cli, of_plan(cli, {"plan", "--cluster", "dgx_h100", "--model", "mixtral_8x7b", "--world", "16",
                                   "--framework", "megatron"}));
  }
  SECTION("of latent attention, shared experts and pipeline stages") {
    check_valid(cli, of_plan(cli, {"plan",
                                   "--cluster",
                                   "hgx_h200",
                                   "--model",
                                   "deepseek_v3",
                                   "--world",
                                   "16",
                                   "--pp",
                                   "2",
                                   "--ep",
                                   "8",
                                   "--tp",
                                   "1",
                                   "--cp",
                                   "1",
                                   "--esp",
                                   "1",
                                   "-C",
                                   "workload.micro_batch=1",
                                   "-C",
                                   "workload.global_batch=32",
                                   "-C",
                                   "workload.recompute=full",
                                   "-C",
                                   "cluster.gpu.memory=2 TB"}));
  }
  SECTION("of a PCIe tree, and a capacity factor") {
    check_valid(
        cli, of_plan(cli, {"plan", "--cluster", "parm_testbed_b", "--model", "gpt2_moe", "--workload", "parm_grid"}));
  }
  SECTION("of rows that travel in chunks, over several levels and through codecs") {
    check_valid(cli, of_plan(cli, {"plan", "--cluster", "parm_testbed_b", "--model", "gpt2_moe", "--workload",
                                   "parm_grid", "--all-to-all", "2dh", "--pipeline-degree", "2", "--codec", "int8/zfp",
                                   "-C", "workload.codecs={int8: {}, zfp: {}}"}));
    check_valid(cli, of_plan(cli, {"plan", "--cluster", "dgx_h100", "--model", "mixtral_8x7b", "--world", "16", "--ep",
                                   "8", "--codec", "fp8_block/none", "-C", "workload.codecs={fp8_block: {}}", "-C",
                                   "workload.precision=fp8_block"}));
  }
  SECTION("of a gate that changes the routing, and of capacities that change") {
    const std::vector<std::string> plan{"plan",    "--cluster", "dgx_h100", "--model", "schemoe_gpt2_tiny_moe",
                                        "--world", "16"};
    check_valid(cli, of_plan(cli, with(plan, {"-C", "workload.gate={kind: topology}"})));
    check_valid(
        cli, of_plan(cli, with(plan, {"-C", "workload.capacity_factor=1", "-C", "workload.capacity_factors=[1, 2]"})));
  }
  SECTION("where nothing fits") { check_valid(cli, of_nothing_feasible(cli)); }
  SECTION("of sizes") { check_valid(cli, of_sizes(cli)); }
  SECTION("of collectives") { check_valid(cli, of_collectives(cli)); }
  SECTION("of questions to a sweep") { check_valid(cli, of_queries(cli)); }
}

TEST_CASE("Every key of a cluster, GPU, model or workload is in its schema, and in the tables of its page") {
  struct Input {
    const char *schema, *page;
    std::vector<std::string> readers;
  };
  const Input input = GENERATE(
      Input{"cluster.json", "clusters.md", {"machine/cluster.cpp", "machine/machine_reader.cpp", "machine/gpu.cpp"}},
      Input{"model.json", "models.md", {"transformer/model_spec.cpp", "transformer/read_token_mixer.cpp"}},
      Input{"workload.json", "workloads.md", {"workload/workload.cpp", "workload/routing.cpp", "workload/gate.cpp"}});
  CAPTURE(input.page);
  Words properties, keys;
  add_properties(schema_file(input.schema), properties);
  for (const std::string& reader : input.readers) add_keys_read(reader, keys);
  REQUIRE(keys.size() > 30);
  for (const std::string& key : keys) {
    CAPTURE(key);
    CHECK(properties.contains(key));
  }
  const Words page = code_words(whole_file(std::string(MOEPLAN_SOURCE_DIR "/docs/") + input.page));
  for (const std::string& key : properties) {
    CAPTURE(key);
    CHECK(page.contains(key));
  }
}

TEST_CASE("The files that the pages of clusters, models and workloads show can be planned with") {
  const Cli cli;
  for (const char* page : {"clusters.md", "models.md", "workloads.md"}) write_examples(cli, page);
  const Json plan = parsed(cli.run({"plan", "--cluster", "./ours.yaml", "--model", "./our_model.yaml", "--workload",
                                    "./our_workload.yaml", "--pp", "1", "--tp", "1", "--budget", "1", "--json"}));
  CHECK(plan.at("cluster") == "ours");
  CHECK(plan.at("gpu") == "our_gpu");
  CHECK(plan.at("model") == "our_model");
  CHECK(plan.at("workload").at("name") == "our_workload");
}

TEST_CASE("The schema checker finds what is wrong, or valid documents would prove nothing") {
  const Cli cli;
  const Ran ran =
      cli.run({"collective", "--cluster", "dgx_h100", "--op", "all_reduce", "--sizes", "1MiB:4MiB:2", "--json"});
  const Json good = parsed(ran);
  REQUIRE(schema_errors(good, "collective.json").empty());
  const auto broken = [&](const char* pointer, const Json& value) {
    Json document = good;
    document[Json::json_pointer(pointer)] = value;
    return !schema_errors(document, "collective.json").empty();
  };
  CHECK(broken("/surprise", 1));
  CHECK(broken("/results/1/surprise", 1));
  CHECK(broken("/schema_version", 2));
  CHECK(broken("/world_size", "16"));
  CHECK(broken("/world_size", 1.5));
  CHECK(broken("/world_size", -1));
  CHECK(broken("/op", "all_to_one"));
  CHECK(broken("/results/0/time_s", nullptr));
  for (const auto& [key, value] : good.items()) {
    Json document = good;
    document.erase(key);
    CAPTURE(key);
    CHECK_FALSE(schema_errors(document, "collective.json").empty());
  }
}

}  // namespace moeplan::tests::schema_test
