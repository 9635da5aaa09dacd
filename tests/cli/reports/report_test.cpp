// `moeplan report` as a user runs it.
#include <filesystem>
#include <sstream>
#include <vector>

#include "cli/pages/figures/svg_parts.hpp"
#include "model/text/unit_text.hpp"
#include "tests/cli/reports/layout_check.hpp"
#include "tests/cli/support/cli_json.hpp"

namespace moeplan::tests::report_test {

namespace {

/// A plan of four pipeline stages with eight microbatches, in plan.yaml.
void plan_pipeline(const Cli& cli) {
  const Ran ran = cli.run({"plan",
                           "--cluster",
                           "dgx_h100",
                           "--model",
                           "mixtral_8x7b",
                           "--world",
                           "64",
                           "--pp",
                           "4",
                           "--vp",
                           "1",
                           "--tp",
                           "1",
                           "--ep",
                           "8",
                           "--micro-batch",
                           "1",
                           "--budget",
                           "1",
                           "-C",
                           "workload.global_batch=128",
                           "-o",
                           "plan.yaml",
                           "--quiet"});
  REQUIRE(ran.code == 0);
}

std::string page_of(const Cli& cli, const std::string& file) {
  const Ran ran = cli.run({"report", file, "-o", "report.html", "--quiet"});
  CAPTURE(ran.err);
  REQUIRE(ran.code == 0);
  CHECK(ran.out.empty());
  return whole_file(cli.path("report.html"));
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// The first tag that is not closed as XML wants it; "" if there is none.
std::string unbalanced(const std::string& page) {
  std::vector<std::string> open;
  for (std::size_t at = page.find('<'); at != std::string::npos; at = page.find('<', at + 1)) {
    const std::size_t end = page.find('>', at);
    if (end == std::string::npos) return page.substr(at, 40);
    const std::string tag = page.substr(at + 1, end - at - 1);
    if (tag.starts_with("!DOCTYPE")) continue;
    if (tag.empty() || contains(tag, "<")) return tag.substr(0, 40);
    if (tag.front() == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return tag;
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(tag.substr(0, tag.find_first_of(" \n")));
    }
  }
  return open.empty() ? "" : open.back();
}

/// What every page is: well-formed, small, and complete without anything that is fetched.
void check_page(const std::string& page) {
  CHECK(unbalanced(page).empty());
  CHECK(page.size() < 2'000'000);
  CHECK(page.starts_with("<!DOCTYPE html>\n"));
  CHECK(contains(page, "@media (prefers-color-scheme:dark)"));
  const std::string without_name_space = with_every(page, "xmlns=\"http://www.w3.org/2000/svg\"", "");
  for (const char* part : {"http:", "https:", "src=", "<link", "@import", "url(", "nan", "inf\""}) {
    CAPTURE(part);
    CHECK_FALSE(contains(without_name_space.substr(0, without_name_space.find("<script type")), part));
  }
}

/// The layout in wide and in narrow windows, where Chromium is found.
void check_layout(const Cli& cli) {
  if (chromium().empty()) {
    WARN("no Chromium here: the layout is not checked");
    return;
  }
  const std::string wide = layout_of(cli, "report.html", 1280);
  if (wide.empty()) {
    WARN("Chromium cannot be started here: the layout is not checked");
    return;
  }
  CHECK(wide == "width 1280, texts: ");
  CHECK(layout_of(cli, "report.html", 400) == "width 400, texts: ");
}

/// The corners of the first closed path of this style.
std::vector<std::pair<double, double>> corners_of(const std::string& page, const std::string& style) {
  const std::size_t end = page.find("z\" class=\"" + style + "\""), from = page.rfind("d=\"", end) + 3;
  std::vector<std::pair<double, double>> out;
  std::istringstream data(with_every(with_every(page.substr(from, end - from), "M", " "), "L", " "));
  for (double x = 0, y = 0; data >> x >> y;) out.emplace_back(x, y);
  return out;
}

/// A table of measured operators, and score --json of it in score.json.
void score_operators(const Cli& cli) {
  (void)cli.write("t.csv",
                  "gpu,kind,phase,dtype,m,n,k,time_us,source\n"
                  "h200_sxm,gemm,forward,bf16,4096,4096,4096,200,a trtllm log\n"
                  "h200_sxm,gemm,forward,bf16,8192,4096,4096,450,a trtllm log\n"
                  "h20,gemm,forward,bf16,4096,4096,4096,200,a trtllm log\n");
  const Ran ran = cli.run({"score", "t.csv", "--json"});
  REQUIRE(ran.code == 0);
  (void)cli.write("score.json", ran.out);
}

}  // namespace

TEST_CASE("a plan's report has the numbers of explain, in one file, and the same bytes every time") {
  const Cli cli;
  plan_pipeline(cli);
  const std::string page = page_of(cli, "plan.yaml");
  check_page(page);
  const Json j = parsed(cli.run({"explain", "plan.yaml", "--json"}));
  const double makespan = j.at("makespan_s").get<double>();
  CHECK(contains(page, "<b>" + human(Seconds(makespan)) + "</b>"));
  CHECK(contains(page, human(Seconds(j.at("lower_bound_s").get<double>()))));
  CHECK(contains(page, cli::xml_text(j.at("conclusion").get<std::string>())));
  for (const Json& s : j.at("sensitivities")) CHECK(contains(page, human(Seconds(s.at("makespan_s").get<double>()))));
  for (const Json& c : j.at("critical_path_classes"))
    CHECK(contains(page, human(Seconds(c.at("time_s").get<double>()))));
  SECTION("with all digits in its data, which are those of explain") {
    const std::string head = "<script type=\"application/json\" id=\"data\">\n";
    const std::size_t from = page.find(head) + head.size();
    Json expected = without_timing(j);
    Json& links = expected.at("links");
    while (links.size() > 32) links.erase(links.size() - 1);
    CHECK(Json::parse(page.substr(from, page.find("</script>", from) - from)) == expected);
  }
  SECTION("all stages, and the microbatches of each by number") {
    for (const char* text : {">stage 0</text>", ">stage 3</text>", "capacity 79.20 GiB"}) {
      CAPTURE(text);
      CHECK(contains(page, text));
    }
  }
  SECTION("again") { CHECK(page_of(cli, "plan.yaml") == page); }
}

TEST_CASE("no text of a plan's report covers another one, in wide and narrow windows", "[slow]") {
  const Cli cli;
  plan_pipeline(cli);
  (void)page_of(cli, "plan.yaml");
  check_layout(cli);
}

TEST_CASE("report writes each figure as a file of its own") {
  const Cli cli;
  plan_pipeline(cli);
  REQUIRE(cli.run({"report", "plan.yaml", "--svg", "figures/new", "--quiet"}).code == 0);
  for (const char* name : {"timeline", "layer", "memory", "critical_path", "sensitivities", "roofline"}) {
    CAPTURE(name);
    const std::string svg = whole_file(cli.path("figures/new/" + std::string(name) + ".svg"));
    CHECK(svg.starts_with("<svg xmlns="));
    CHECK(contains(svg, "<style>"));
    CHECK(unbalanced(svg).empty());
  }
  CHECK_FALSE(std::filesystem::exists(cli.path("figures/new/candidates.svg")));  // only with --search
}

TEST_CASE("a sweep's report has its cases, and those that no other beats") {
  const Cli cli;
  (void)cli.write("s.yaml",
                  "name: two_axes\nkind: layer\nbase: {cluster: dgx_h100, model: mixtral_8x7b, workload: default, "
                  "workload.micro_batch: 1}\naxes: {world: 8:32:2, ep: [2, 8]}\n");
  REQUIRE(cli.run({"sweep", "s.yaml", "-o", "s.sqlite", "--quiet"}).code == 0);
  const std::string page = page_of(cli, "s.sqlite");
  check_page(page);
  for (const char* text :
       {"<h1>Sweep two_axes</h1>", "6 cases of kind layer", "<h2>Pareto front</h2>", ">ep 8</text>"}) {
    CAPTURE(text);
    CHECK(contains(page, text));
  }
  const Json all = parsed(cli.run({"query", "s.sqlite", "table", "--columns", "makespan_s", "--json"}));
  for (const Json& row : all.at("rows"))
    if (row.at(0).is_number()) CHECK(contains(page, human(Seconds(row.at(0).get<double>()))));
  check_layout(cli);
}

TEST_CASE("a score's report has its errors and a point for each predicted row") {
  const Cli cli;
  score_operators(cli);
  const std::string page = page_of(cli, "score.json");
  check_page(page);
  const Json table = Json::parse(whole_file(cli.path("score.json"))).at("tables").at(0);
  for (const Json& row : table.at("rows")) {
    if (row.at("predicted_s").is_number()) CHECK(contains(page, human(Seconds(row.at("predicted_s").get<double>()))));
  }
  CHECK(contains(page, "3 rows: 2 predicted, 1 refused, 0 do not fit."));
  SECTION("the bands of errors are parallel to the diagonal, because an error is a factor and the axes logarithmic") {
    for (const char* band : {"f-band", "f-wide-band"}) {
      const auto corners = corners_of(page, band);
      REQUIRE(corners.size() == 6);
      const auto slope = [&](std::size_t from, std::size_t to) {
        return (corners[to].second - corners[from].second) / (corners[to].first - corners[from].first);
      };
      CHECK(slope(1, 2) == Approx(slope(0, 3)).epsilon(0.001));
      CHECK(slope(5, 4) == Approx(slope(0, 3)).epsilon(0.001));
    }
  }
  check_layout(cli);
}

TEST_CASE("report refuses what it cannot read or write, before it computes") {
  const Cli cli;
  (void)cli.write("other.json", "{\"schema_version\": 1}");
  (void)cli.write("other.yaml", "a: 1\n");
  (void)cli.write("broken.sqlite", "SQLite format 3 but no more");
  const auto error = [&](const std::vector<std::string>& arguments) {
    const Ran ran = cli.run(with({"report"}, arguments), kStrict);
    CHECK(ran.code == 2);
    return ran.err;
  };
  CHECK_THAT(error({"other.json", "-o", "r.html"}),
             Catch::Contains("other.json: is neither a plan file, a sweep's database nor a document of score --json"));
  CHECK_THAT(error({"other.yaml", "-o", "r.html"}), Catch::Contains("other.yaml:1:1"));
  CHECK_THAT(error({"broken.sqlite", "-o", "r.html"}), Catch::Contains("broken.sqlite"));
  CHECK_THAT(error({"missing.yaml", "-o", "r.html"}), Catch::Contains("missing.yaml"));
  CHECK_THAT(error({"other.yaml", "-o", "no/folder/r.html"}), Catch::Contains("cannot be written"));
  CHECK_THAT(error({"other.yaml"}), Catch::Contains("-o FILE for a page, --svg FOLDER for figures"));
  CHECK_THAT(error({"other.json", "-o", "r.html", "--search"}), Catch::Contains("is no plan file"));
  CHECK_FALSE(std::filesystem::exists(cli.path("r.html")));
}

}  // namespace moeplan::tests::report_test
