// The page of `plan` as its reader sees it: the answer in five lines, tables below, details on request, 100 columns.
#include <algorithm>
#include <catch2/catch.hpp>

#include "model/text/unit_text.hpp"
#include "tests/cli/support/cli_json.hpp"

namespace moeplan::tests::plan_page_test {

namespace {

using Arguments = std::vector<std::string>;

Arguments planned(const std::string& cluster, const std::string& model, const std::string& world) {
  return {"plan", "--cluster", cluster, "--model", model, "--world", world};
}

/// The page's first lines up to an empty one, each with its continuation lines.
std::vector<std::string> answer_of(const std::string& page) {
  std::vector<std::string> out;
  for (const std::string& line : lines_of(page.substr(0, page.find("\n\n")))) {
    if (!line.starts_with("    "))
      out.push_back(line);
    else if (!out.empty())
      out.back() += line.substr(line.find_first_not_of(' ') - 1);
  }
  return out;
}

void check_width(const std::string& page) {
  for (const std::string& line : lines_of(page)) {
    CAPTURE(line);
    CHECK(line.size() <= 100);
  }
}

}  // namespace

TEST_CASE("The page of a plan begins with five lines of answer, and no line has more than 100 columns") {
  const Arguments arguments = GENERATE(planned("hgx_h200", "mixtral_8x7b", "32"),
                                       with(planned("dgx_h100", "mixtral_8x22b", "64"), {"--framework", "megatron"}),
                                       with(planned("dgx_h800", "deepseek_v3", "256"), {"--top", "9", "-v"}),
                                       with(planned("gb200_nvl72", "mixtral_8x7b", "72"), {"--budget", "4"}));
  CAPTURE(arguments);
  const Cli cli;
  const Ran ran = cli.run(with(arguments, {"-o", "plan.yaml"}));
  REQUIRE(ran.code == 0);
  check_width(ran.out);
  const std::vector<std::string> lines = answer_of(ran.out);
  REQUIRE(lines.size() == 5);
  CHECK_THAT(lines[0], Catch::Matches("  run            pp [0-9x]+ tp [0-9]+ (sp )?(cp [0-9]+ )?dp [0-9]+ ep [0-9]+"
                                      "( etp [0-9]+)? \\| micro batch [0-9]+ \\| [a-z0-9_]+ \\| experts contiguous"));
  CHECK_THAT(lines[1], Catch::Matches("  speed          step time [0-9.]+ m?s, [0-9]+ tokens/s/GPU, MFU [0-9.]+%"));
  CHECK_THAT(lines[2], Catch::Matches("  memory         [0-9.]+ of [0-9.]+ GiB per GPU \\([0-9]+%\\), recompute .+"));
  CHECK_THAT(lines[3], Catch::Matches("  losses         exposed communication [0-9.]+ m?s \\([0-9.]+% of the step\\), "
                                      "bubble [0-9.]+%(; (launches by the host take|in CUDA graphs) .+)?"));
  CHECK_THAT(lines[4], Catch::Matches("  certainty      [0-9.]+% above the provable limit; prediction error .+"));
  CHECK(ran.out.find('\x1b') == std::string::npos);  // no terminal, no escape codes
  for (const char* command : {"simulate", "explain"}) check_width(cli.run({command, "plan.yaml"}).out);
}

TEST_CASE("Where launches by the host take a considerable part of the critical path, the losses say what saves them") {
  const Cli cli;
  const Arguments selective{"--recompute", "selective"},
      small = with(planned("hgx_b200", "qwen3_30b_a3b", "32"), selective),
      large = with(planned("hgx_b200", "qwen3_235b_a22b", "128"), selective);
  const std::string graphs = "workload.cuda_graph=attn+moe_router+moe_preprocess";
  const auto losses = [&](const Arguments& arguments) {
    return answer_of(cli.run(with(arguments, {"--budget", "4", "--no-ep-overlap", "-o", "plan.yaml"})).out).at(3);
  };
  const auto contains_share = [&] {
    const Json e = parsed(cli.run({"explain", "plan.yaml", "--json"}));
    double share = 0;
    for (const Json& b : e.at("critical_path_bottlenecks"))
      if (b.at("limited_by") == "host CPU: launches of operations") share = b.at("share").get<double>();
    CHECK(share > 0.1);
    return Catch::Contains(fmt::format("; launches by the host take {:.1f}% of the critical path", 100 * share));
  };
  SECTION("CUDA graphs of the model's modules, with the time of this plan under them") {
    const std::string text = losses(large);
    CHECK_THAT(text, contains_share());
    const double captured =
        parsed(cli.run({"simulate", "plan.yaml", "-C", graphs, "--json"})).at("makespan_s").get<double>();
    CHECK_THAT(text, Catch::Contains(fmt::format(": in CUDA graphs (-C {}) the step takes {} (-", graphs,
                                                 human(Seconds(captured)))));
    CHECK_THAT(losses(with(large, {"-C", graphs})), !Catch::Contains("cuda_graph="));
  }
  SECTION("another plan, where that would be faster under them") {
    const Arguments wide = with(planned("dgx_h100", "qwen3_30b_a3b", "16"), selective);
    const std::string text = answer_of(cli.run(with(wide, {"--budget", "4", "-o", "plan.yaml"})).out).at(3),
                      before = fmt::format(": in CUDA graphs (-C {}) a step of another plan takes ", graphs);
    REQUIRE_THAT(text, contains_share() && Catch::Contains(before));
    const double step = std::stod(text.substr(text.find(before) + before.size()));
    const Json searched = parsed(cli.run(with(wide, {"-C", graphs, "--json"})));
    CHECK(searched.at("best").at("makespan_s").get<double>() < 1.001 * step);
  }
  SECTION("that another plan may be, where the graphs save less than 1% of the step") {
    const std::string text = losses(small);
    CHECK_THAT(text, contains_share() &&
                         Catch::EndsWith(fmt::format(
                             "of the critical path: another plan may be faster in CUDA graphs (-C {})", graphs)));
  }
  SECTION("only modules that the framework captures") {
    CHECK_THAT(losses(with(small, {"--framework", "megatron@0.14", "-C", "cluster.gpu.host_time_per_operation=1 ms"})),
               Catch::Contains("(-C workload.cuda_graph=attn) ") && Catch::Contains(" takes "));
  }
}

TEST_CASE("Proofs, counts of the search and origins of numbers are shown with --verbose alone") {
  const Arguments plan = planned("dgx_h100", "schemoe_gpt2_tiny_moe", "8");
  const Cli cli;
  const std::string page = cli.run(plan).out;
  for (const char* option : {"-v", "--verbose"}) {
    const std::string verbose = cli.run(with(plan, {option})).out;
    CHECK(verbose.starts_with(page));
    for (const char* moved :
         {"any candidate  cannot take less than", "this schedule  cannot take less than", "simulated",
          "Time by class on the binding rank", "Not feasible, by reason", "priced by"}) {
      CAPTURE(moved);
      CHECK_THAT(verbose, Catch::Contains(moved));
      CHECK_THAT(page, !Catch::Contains(moved));
    }
  }
  CHECK_THAT(page, Catch::Contains("numbers of this cluster are assumed, not measured: see --verbose"));
}

TEST_CASE("The stages of a pipeline are shown with what they hold, and their layers add up") {
  const std::string page = Cli().run(with(planned("dgx_h100", "mixtral_8x7b", "32"), {"--pp", "4", "--vp", "2"})).out;
  const std::vector<std::string> lines = lines_of(page);
  auto line = std::find_if(lines.begin(), lines.end(), [](const auto& l) { return l.starts_with("  stage   holds"); });
  REQUIRE(line != lines.end());
  int layers = 0;
  std::string stages;
  for (++line; line != lines.end() && std::isdigit(static_cast<unsigned char>((*line)[2])); ++line) {
    const std::string name = line->substr(2, line->find(' ', 2) - 2);
    const auto dash = name.find('-');
    const int count = dash == std::string::npos ? 1 : std::stoi(name.substr(dash + 1)) - std::stoi(name) + 1;
    layers += count * std::stoi(line->substr(10));
    stages = name;
  }
  CHECK(stages.ends_with('4'));
  CHECK(layers == 32);  // Mixtral 8x7B
}

TEST_CASE("Candidates are listed by time, with the idea of each where some are variants of one") {
  const Cli cli;
  const auto rows = [&](const Arguments& more) {
    const Arguments fixed = with(planned("dgx_h100", "mixtral_8x7b", "32"), {"--recompute", "selective"});
    const std::vector<std::string> lines = lines_of(cli.run(with(fixed, more)).out);
    auto line = std::find_if(lines.begin(), lines.end(), [](const auto& l) { return l.starts_with("   # "); });
    REQUIRE(line != lines.end());
    std::vector<std::string> out{*line};
    for (line += 2; line != lines.end() && std::isdigit(static_cast<unsigned char>((*line)[3])); ++line)
      out.push_back(*line);
    return out;
  };
  SECTION("a variant stands before a slower idea, and has the number of its own") {
    const std::vector<std::string> table = rows({"--schedule", "baseline", "--tp", "1", "--ep", "8", "--top", "7"});
    REQUIRE(table.size() == 8);
    CHECK(table[0].starts_with("   # idea  schedule "));
    std::vector<int> ideas;
    double slowest = 0;
    for (std::size_t i = 1; i < table.size(); ++i) {
      const std::size_t unit = table[i].find(" s ");
      REQUIRE(unit != std::string::npos);
      const double time = std::stod(table[i].substr(table[i].rfind(' ', unit - 1)));
      CHECK(time >= slowest);
      slowest = time;
      const int idea = std::stoi(table[i].substr(4, 5)),
                most = ideas.empty() ? 0 : *std::max_element(ideas.begin(), ideas.end());
      CHECK(idea <= most + 1);
      ideas.push_back(idea);
    }
    CHECK(ideas.back() > 1);
    CHECK(*std::max_element(ideas.begin(), ideas.end()) < 7);
  }
  SECTION("and the column is left out where every candidate is an idea of its own") {
    CHECK(rows({"--top", "3"})[0].starts_with("   #  schedule "));
  }
}

TEST_CASE("The experts' tensor-parallel size is etp, as in --etp or its alias --esp") {
  const Arguments plan = with(planned("dgx_h100", "schemoe_gpt2_tiny_moe", "8"), {"--ep", "4"});
  const Cli cli;
  const std::string page = cli.run(with(plan, {"--etp", "2"})).out;
  CHECK_THAT(page, Catch::Contains(" ep 4 etp 2 | "));
  CHECK(page == cli.run(with(plan, {"--esp", "2"})).out);
}

TEST_CASE(
    "The default global batch is the least multiple of the GPUs from 256 sequences on, and said to be a default") {
  const Cli cli;
  const auto plan = [&](const std::string& world, const Arguments& more) {
    return cli.run(with(planned("dgx_h100", "schemoe_gpt2_tiny_moe", world), with({"--budget", "1"}, more))).out;
  };
  const std::string is_default = " sequences by default; -C workload.global_batch=N sets another";
  for (const auto& [world, batch] : {std::pair("8", "256"), std::pair("24", "264"), std::pair("512", "512")}) {
    CAPTURE(world);
    CHECK_THAT(plan(world, {}), Catch::Contains("  global batch   " + (batch + is_default)));
  }
  for (const Arguments& chosen : {Arguments{"-C", "workload.global_batch=256"}, Arguments{"--workload", "parm_grid"}})
    CHECK_THAT(plan("8", chosen), !Catch::Contains(is_default));
  SECTION("but on a million GPUs it stays, and the page ends soon with what would fit") {
    const Ran ran = cli.run(planned("dgx_h100", "deepseek_v3", "1048576"));
    CHECK(ran.code == 3);
    CHECK_THAT(ran.err, Catch::Contains("no feasible plan among ") && Catch::Contains("global batch"));
  }
  SECTION("and simulated from disk it is the same, because the plan records it as an override") {
    (void)plan("24", {"-o", "plan.yaml"});
    const Ran again = cli.run({"simulate", "plan.yaml", "--inputs", "disk"});
    CHECK(again.code == 0);
    CHECK(again.err.empty());
    CHECK_THAT(again.out, Catch::Contains("264 sequences") && Catch::Contains("as the plan predicts"));
  }
}

TEST_CASE("A page of what is infeasible says first what would fit, in 100 columns") {
  const Ran ran = Cli().run(with(planned("dgx_h100", "qwen3_235b_a22b", "56"), {"--recompute", "selective"}));
  CHECK(ran.code == 3);
  check_width(ran.err);
  CHECK(ran.err.starts_with("no feasible plan among "));
  CHECK_THAT(ran.err, Catch::Contains("  lacks          ") && Catch::Contains("--recompute full") &&
                          Catch::Contains("Not feasible, by reason:"));
}

TEST_CASE("plan says how many GPUs of each rack it uses where whole racks do not divide the job") {
  const Cli cli;
  const Arguments job = with(planned("gb300_nvl72", "schemoe_gpt2_tiny_moe", "96"), {"--budget", "1"});
  const std::string line = "48 of the 72 GPUs of each are used, since 72 do not divide the job";
  CHECK_THAT(unwrapped(cli.run(job).out), Catch::Contains(line));
  CHECK_THAT(unwrapped(cli.run(with(job, {"-C", "cluster.template.used_per_node=72"})).out), !Catch::Contains(line));
  const Ran wrong = cli.run(with(job, {"-C", "cluster.template.used_per_node=73"}));
  CHECK(wrong.code == 2);
  CHECK_THAT(wrong.err, Catch::Contains("used_per_node"));
}

TEST_CASE("Where a plan does not fit on a part of a rack, a larger part is named") {
  const Ran ran = Cli().run(planned("gb200_nvl72", "gpt_oss_120b", "8"));
  CHECK(ran.code != 0);
  CHECK_THAT(unwrapped(ran.err), Catch::Contains("a plan fits on 16 GPUs"));
}

TEST_CASE("A layout and the workload do not contradict each other about multi-token prediction") {
  const Arguments job =
      with(planned("dgx_h100", "deepseek_v3", "256"), {"--pp", "2", "--layout", "Et*30|t*31L", "--budget", "1"});
  const Ran ran = Cli().run(with(job, {"-C", "workload.mtp_layers=1"}));
  CHECK(ran.code == 2);
  CHECK_THAT(ran.err, Catch::Contains("--layout: has 0 layers of multi-token prediction (m), and workload.mtp_layers "
                                      "is 1"));
}

}  // namespace moeplan::tests::plan_page_test
