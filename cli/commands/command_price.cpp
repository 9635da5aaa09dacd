// moeplan price gemm|grouped_gemm|attention|moe|kernel|collective|dispatch --gpu G --precision F ... [--library L]
// [--json]
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <set>

#include "cli/commands/commands.hpp"
#include "cli/commands/price_communication.hpp"
#include "cli/pages/price_report.hpp"
#include "model/base/diagnostics.hpp"
#include "model/operators/operator_models.hpp"
#include "model/text/origins.hpp"
#include "model/text/reader.hpp"
#include "planner/plan/inputs.hpp"
#include "profiler/tables/operator_table.hpp"

namespace moeplan::cli {

namespace {

/// The options of all kinds; each kind offers those of its own.
struct PriceOptions {
  std::string gpu, precision = "bf16", phase = "forward", library, kernel;
  profiler::OperatorRow row;
  bool full = false, json = false;
};

struct GpuModels {
  Node document;
  OperatorModels models;
};

GpuModels models_of(const std::string& gpu) {
  Node document = load_document(planner::find_config("operators", gpu));
  OperatorModels models = read_operator_models(document);
  return {std::move(document), std::move(models)};
}

[[noreturn]] void refuse(const std::string& option, std::string message) {
  throw InputError(Diagnostic{{option}, "", std::move(message)});
}

/// The enumerator that an option names. Raises InputError with the nearest name.
template <class E>
E chosen_name(const char* option, Names<E> names, const std::string& text, std::string_view what) {
  if (const std::optional<E> value = named(names, text)) return *value;
  refuse(option, fmt::format("{} is no {}{}", in_quotes(text), what, suggestion(text, all_names(names))));
}

MathFormat format_of(const PriceOptions& o) {
  return chosen_name<MathFormat>("--precision", kMathFormatNames, o.precision, "format of products");
}

GemmPhase gemm_phase_of(const PriceOptions& o) {
  return chosen_name<GemmPhase>("--phase", kGemmPhaseNames, o.phase, "phase of a product");
}

bool is_backward(const PriceOptions& o) {
  if (o.phase == "forward" || o.phase == "backward") return o.phase == "backward";
  const std::vector<std::string> known{"forward", "backward"};
  refuse("--phase",
         fmt::format("{} is neither forward nor backward{}", in_quotes(o.phase), suggestion(o.phase, known)));
}

/// "there are a, b", and which of them `name` is close to, if any.
std::string there_are(const std::vector<std::string>& names, const std::string& name) {
  const std::string nearest = nearest_name(name, names).empty() ? "" : suggestion(name, names);
  return fmt::format("there are {}{}", fmt::join(names, ", "), nearest);
}

/// The first model that `answers`, of the library that was asked for.
template <class Model, class Answers>
const Model& chosen(const std::vector<Model>& models, const PriceOptions& o, std::string_view kind, Answers answers) {
  std::vector<std::string> libraries;
  for (const Model& m : models) {
    if (!answers(m)) continue;
    if (o.library.empty() || m.library == o.library) return m;
    libraries.push_back(m.library);
  }
  if (!libraries.empty()) {
    refuse("--library", fmt::format("{} is no library with {} figures in {} on {}; {}", in_quotes(o.library), kind,
                                    o.precision, o.gpu, there_are(libraries, o.library)));
  }
  std::set<std::string_view> formats;
  for (const Model& m : models) formats.insert(name_of(Names<MathFormat>(kMathFormatNames), m.format));
  refuse("--precision", fmt::format("configs/operators/{}.yaml has no {} figures in {}{}; {}", o.gpu, kind, o.precision,
                                    o.phase == "forward" ? "" : ", " + o.phase,
                                    formats.empty() ? "there are none of this kind"
                                                    : fmt::format("there are {}", fmt::join(formats, ", "))));
}

/// The key path of an entry of a list of models.
template <class Model>
std::string path_of(std::string_view list, const std::vector<Model>& models, const Model& entry) {
  return fmt::format("{}[{}]", list, &entry - models.data());
}

PriceReport report_of(std::string kind, const PriceOptions& o, const Node& document, std::string_view path) {
  return {.kind = std::move(kind),
          .gpu = o.gpu,
          .format = o.precision,
          .phase = o.phase,
          .library = "",
          .origin = origin_at(document, path),
          .time = {},
          .parts = {},
          .bound = "",
          .tile = "",
          .flops = Flops(profiler::flops_of(o.row))};
}

/// The key path of the factors of training for products in `format`.
std::string training_path(std::string_view products, MathFormat format) {
  return fmt::format("training.{}{}", products, format == MathFormat::Fp8 ? ".fp8" : "");
}

/// Adds to the library and its origin the factor by which a training step's math is slower, and where it is from.
void note_training(PriceReport& r, const Node& document, std::string_view path, double slowdown) {
  if (slowdown != 1) r.library += fmt::format(", {} times slower in math", slowdown);
  r.origin += fmt::format("; in training: {}", origin_at(document, path));
}

/// Whether the figures of training were asked for by the name of their library.
bool asks_for_training(const PriceOptions& o, const OperatorModels& models) {
  return models.training && o.library == models.training->library;
}

PriceReport priced_gemm(const PriceOptions& o) {
  const auto [document, models] = models_of(o.gpu);
  const MathFormat format = format_of(o);
  const GemmPhase phase = gemm_phase_of(o);
  const bool trains = asks_for_training(o, models);
  PriceOptions any = o;
  if (trains) any.library = "";
  const GemmModel& model = chosen(models.gemm, any, "gemm", [&](const GemmModel& m) { return m.format == format; });
  const GemmShape shape = profiler::gemm_shape(o.row);
  const GemmCost cost = trains ? *training_gemm_cost(models, format, shape, {.phase = phase, .quantises = false})
                               : gemm_cost(model, models.num_sms, shape, {.phase = phase});
  PriceReport r = report_of("gemm", o, document, path_of("gemm", models.gemm, model));
  r.library = model.library;
  if (trains) note_training(r, document, training_path("gemm", format), models.training->gemm.of(phase, format));
  r.time = cost.time();
  r.parts = {{"launch", cost.launch}, {"quantisation", cost.quantisation}, {"math", cost.math},
             {"memory", cost.memory}, {"overlapped", cost.overlapped},     {"extra", cost.extra}};
  r.bound = cost.bound();
  r.tile = fmt::format("{} x {}", cost.tile_rows, cost.tile_columns);
  if (cost.splits > 1) r.tile += fmt::format(", {} splits of k", cost.splits);
  return r;
}

PriceReport priced_grouped_gemm(const PriceOptions& o) {
  const auto [document, models] = models_of(o.gpu);
  const MathFormat format = format_of(o);
  const GemmPhase phase = gemm_phase_of(o);
  const std::vector<GemmShape> products = profiler::grouped_shapes(o.row);
  if (products.empty())
    refuse("--rows", fmt::format("is {}; expected a number, or one of each expert: 64|0|3", in_quotes(o.row.rows)));
  PriceReport r = report_of("grouped_gemm", o, document, "grouped_gemm");
  GroupedGemmCost cost;
  if (asks_for_training(o, models)) {
    const auto separate = training_grouped_gemm_cost(models, format, products, {.phase = phase, .quantises = false});
    if (!separate)
      refuse("--precision", fmt::format("configs/operators/{}.yaml has no gemm figures in {}", o.gpu, o.precision));
    cost = *separate;
    r.library = o.library + ", one product after another";
    r.origin = origin_at(document, training_path("grouped_gemm", format));
  } else {
    const GroupedGemmModel& model =
        chosen(models.grouped_gemm, o, "grouped_gemm", [&](const GroupedGemmModel& m) { return m.format == format; });
    cost = grouped_gemm_cost(model, models.num_sms, products, {.phase = phase});
    r.library = model.library;
    r.origin = origin_at(document, path_of("grouped_gemm", models.grouped_gemm, model));
  }
  r.time = cost.time();
  r.parts = {{"launch", cost.launch}, {"math", cost.math}, {"memory", cost.memory}, {"overlapped", cost.overlapped}};
  r.bound = cost.bound();
  r.tile = fmt::format("{} x {}", cost.tile_rows, cost.tile_columns);
  return r;
}

PriceReport priced_attention(PriceOptions o) {
  const auto [document, models] = models_of(o.gpu);
  const MathFormat format = format_of(o);
  const bool backward = is_backward(o);
  o.row.causal = o.full ? 0 : 1;
  if (o.row.kv_heads == 0) o.row.kv_heads = o.row.query_heads;
  const AttentionModel* trained = training_attention_model(models, backward);
  const bool is_training = trained && o.library.empty() && trained->format == format;
  const AttentionModel& model =
      is_training ? *trained : chosen(models.attention, o, "attention", [&](const AttentionModel& m) {
        return m.format == format && m.is_backward == backward;
      });
  const AttentionShape shape = profiler::attention_shape(o.row);
  const AttentionCost cost =
      is_training ? *training_attention_cost(models, shape) : attention_cost(model, models.num_sms, shape);
  PriceReport r = report_of("attention", o, document, path_of("attention", models.attention, model));
  r.library = model.library;
  if (is_training) {
    note_training(r, document, backward ? "training.attention_backward" : "training.attention",
                  models.training->attention_of(backward).slowdown);
  }
  r.time = cost.time();
  r.parts = {{"launch", cost.launch}, {"math", cost.blocks}, {"memory", cost.memory}, {"tokens", cost.tokens}};
  r.bound = cost.bound();
  return r;
}

PriceReport priced_moe(const PriceOptions& o) {
  const auto [document, models] = models_of(o.gpu);
  const MathFormat format = format_of(o);
  const FusedMoeModel& model =
      chosen(models.fused_moe, o, "fused_moe", [&](const FusedMoeModel& m) { return m.format == format; });
  if (o.row.experts % o.row.ep != 0)
    refuse("--ep", fmt::format("{} does not divide {} experts", o.row.ep, o.row.experts));
  if (o.row.top_k > o.row.experts) refuse("--top-k", fmt::format("{} of {} experts", o.row.top_k, o.row.experts));
  const auto loads = profiler::expert_loads(o.row);
  if (!loads)
    refuse("--loads",
           fmt::format("is {}; expected balanced, random or rows of each expert: 64|0|3", in_quotes(o.row.loads)));
  const FusedMoeCost cost =
      fused_moe_cost(model, products_of(models, model), models.num_sms, profiler::layer_shape(o.row), *loads);
  PriceReport r = report_of("fused_moe", o, document, path_of("fused_moe", models.fused_moe, model));
  r.library = model.library;
  r.time = cost.time();
  r.parts = {{"launches", cost.fixed},
             {"routing", cost.routing},
             {"around", cost.around},
             {"up product", cost.up.time()},
             {"down product", cost.down.time()}};
  r.bound = cost.bound();
  r.tile = fmt::format("{} x {} and {} x {}", cost.up.tile_rows, cost.up.tile_columns, cost.down.tile_rows,
                       cost.down.tile_columns);
  return r;
}

PriceReport priced_kernel(const PriceOptions& o) {
  const auto [document, models] = models_of(o.gpu);
  const bool backward = is_backward(o);
  std::set<std::string> kernels;
  std::vector<std::string> implementations;
  for (const KernelModel& m : models.kernels) {
    if (m.is_backward != backward) continue;
    kernels.insert(m.kernel);
    if (m.kernel == o.kernel) implementations.push_back(m.implementation);
  }
  if (implementations.empty()) {
    const std::vector<std::string> names(kernels.begin(), kernels.end());
    refuse("--kernel", fmt::format("configs/operators/{}.yaml has no figures of {}, {}; {}", o.gpu, in_quotes(o.kernel),
                                   o.phase, there_are(names, o.kernel)));
  }
  const KernelModel* model = find_kernel_model(models, o.kernel, o.library, backward);
  if (!model) {
    refuse("--library", fmt::format("{} is no implementation of {} with figures on {}; {}", in_quotes(o.library),
                                    o.kernel, o.gpu, there_are(implementations, o.library)));
  }
  const KernelCost cost = kernel_cost(*model, profiler::kernel_elements(o.row));
  PriceReport r = report_of(o.kernel, o, document, path_of("kernels", models.kernels, *model));
  r.format = "";
  r.library = model->implementation;
  r.time = cost.time();
  r.parts = {{"launch", cost.launch}, {"memory", cost.memory}, {"host", cost.host}};
  r.bound = cost.bound();
  return r;
}

/// A subcommand with the options that all kinds have.
CLI::App* add_kind(CLI::App& price, const std::string& kind, const std::string& what,
                   const std::shared_ptr<PriceOptions>& o, PriceReport (*priced)(PriceOptions)) {
  CLI::App* c = price.add_subcommand(kind, what);
  o->row.kind = kind == "moe" ? "fused_moe" : kind;
  c->add_option("--gpu", o->gpu, "A name of `moeplan list operator-models`, or a path")->required();
  c->add_option("--library", o->library, "Library whose figures are used (default: those that price plans)");
  c->add_option("--phase", o->phase, "The phase of training")->capture_default_str();
  if (kind != "kernel") c->add_option("--precision", o->precision, "The format of the operands")->capture_default_str();
  c->add_flag("--json", o->json, "Print JSON");
  c->callback([o, priced] {
    o->row.phase = o->phase;
    const PriceReport report = priced(*o);
    fmt::print("{}", o->json ? price_json(report) : price_page(report));
  });
  return c;
}

CLI::Option* add_size(CLI::App* c, const std::string& option, std::int64_t& value, const std::string& what) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  return c->add_option(option, value, what)->check(CLI::Range(std::int64_t{1}, kMost));
}

void add_gemm(CLI::App& price) {
  auto o = std::make_shared<PriceOptions>();
  CLI::App* c = add_kind(price, "gemm", "One matrix product: m x n outputs, k terms", o,
                         [](PriceOptions x) { return priced_gemm(x); });
  add_size(c, "--m", o->row.m, "Rows of the output")->required();
  add_size(c, "--n", o->row.n, "Columns of the output")->required();
  add_size(c, "--k", o->row.k, "Terms of the sum")->required();
}

void add_grouped_gemm(CLI::App& price) {
  auto o = std::make_shared<PriceOptions>();
  o->row.groups = 1;
  CLI::App* c = add_kind(price, "grouped_gemm", "The products of a GPU's experts", o,
                         [](PriceOptions x) { return priced_grouped_gemm(x); });
  add_size(c, "--groups", o->row.groups, "Experts on the GPU, if all have the same rows");
  c->add_option("--rows", o->row.rows, "Tokens of each expert: 64, or 64|0|3")->required();
  add_size(c, "--m", o->row.m, "Rows of the output, in weight gradients");
  add_size(c, "--n", o->row.n, "Columns of the output")->required();
  add_size(c, "--k", o->row.k, "Terms of the sum, in forward and dgrad");
}

void add_attention(CLI::App& price) {
  auto o = std::make_shared<PriceOptions>();
  o->row.batch = 1;
  o->row.head_dim = 128;
  CLI::App* c = add_kind(price, "attention", "Self-attention without cache", o, priced_attention);
  add_size(c, "--sequence-length", o->row.sequence_length, "Tokens of a sequence")->required();
  add_size(c, "--query-heads", o->row.query_heads, "Heads of queries")->required();
  add_size(c, "--kv-heads", o->row.kv_heads, "Heads of keys and values (default: those of queries)");
  add_size(c, "--head-dim", o->row.head_dim, "Size of a head of queries and keys")->capture_default_str();
  add_size(c, "--v-head-dim", o->row.v_head_dim, "Size of a head of values (default: head-dim)");
  add_size(c, "--batch", o->row.batch, "Sequences")->capture_default_str();
  CLI::Option* window = add_size(c, "--window", o->row.window,
                                 "Keys that a query attends to: its own and those before it (default: all)");
  c->add_flag("--full", o->full, "Without the causal mask")->excludes(window);
}

void add_moe(CLI::App& price) {
  auto o = std::make_shared<PriceOptions>();
  o->row.ep = o->row.tp = 1;
  o->row.loads = "balanced";
  CLI::App* c = add_kind(price, "moe", "A fused mixture-of-experts layer of inference, without communication", o,
                         [](PriceOptions x) { return priced_moe(x); });
  add_size(c, "--tokens", o->row.tokens, "Tokens of the whole ep group")->required();
  add_size(c, "--hidden", o->row.hidden, "Size of a token")->required();
  add_size(c, "--expert-hidden", o->row.expert_hidden, "Size of an expert's activation, before the split by tp")
      ->required();
  add_size(c, "--experts", o->row.experts, "Experts of the model")->required();
  add_size(c, "--top-k", o->row.top_k, "Experts of a token")->required();
  add_size(c, "--ep", o->row.ep, "GPUs that share the experts")->capture_default_str();
  add_size(c, "--tp", o->row.tp, "GPUs that share each expert")->capture_default_str();
  c->add_option("--loads", o->row.loads, "balanced, random, or the rows of each expert of the GPU: 64|0|3")
      ->capture_default_str();
}

void add_kernel(CLI::App& price) {
  auto o = std::make_shared<PriceOptions>();
  CLI::App* c = add_kind(price, "kernel", "A memory-bound kernel", o, [](PriceOptions x) { return priced_kernel(x); });
  c->add_option("--kernel", o->kernel, "rms_norm, swiglu, rope, cast_fp8, ...")->required();
  add_size(c, "--m", o->row.m, "Rows: tokens")->required();
  add_size(c, "--n", o->row.n, "Columns; of rotary kernels the heads of queries and keys times head_dim")->required();
}

}  // namespace

void add_price_command(CLI::App& app, ExitCode&) {
  auto* c = app.add_subcommand("price", "The time of one operator or of one communication, and what bounds it");
  c->require_subcommand(1);
  add_gemm(*c);
  add_grouped_gemm(*c);
  add_attention(*c);
  add_moe(*c);
  add_kernel(*c);
  add_price_collective(*c);
  add_price_dispatch(*c);
}

}  // namespace moeplan::cli
