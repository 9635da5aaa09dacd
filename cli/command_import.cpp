// moeplan import hf-config FILE [-o F]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/commands.hpp"
#include "cli/inputs.hpp"
#include "model/specs/hf_config.hpp"

namespace moeplan {

namespace {

std::string with_commas(std::int64_t n) {
  std::string digits = fmt::format("{}", n);
  for (auto i = static_cast<std::ptrdiff_t>(digits.size()) - 3; i > 0; i -= 3) {
    digits.insert(static_cast<std::size_t>(i), ",");
  }
  return digits;
}

void import_hf_config(const std::string& file, const std::string& output) {
  const Node document = load_document(file);
  if (!is_hf_config(document)) {
    throw InputError({{file}, "", "is no Hugging Face configuration: it has neither model_type nor architectures"});
  }
  const Node model_doc = load_model_document(file);
  const ModelSpec model = read_model(model_doc);
  const ParameterCounts counts = count_parameters(model);
  const auto line = [](const char* what, std::int64_t n) {
    fmt::print("{:<36} {:>22}  {:8.3f} B\n", what, with_commas(n), static_cast<double>(n) * 1e-9);
  };
  fmt::print("{}: {} layers, {} of them with experts\n", model.name, model.num_layers(), model.num_moe_layers());
  line("total parameters", counts.total);
  line("active parameters", counts.active);
  line("active without embeddings", counts.active_without_embeddings);
  if (counts.mtp > 0) line("multi-token-prediction layers, apart", counts.mtp);
  if (output.empty()) return;
  write_file_atomically(output, to_yaml(model_doc));
  fmt::print("written to {}\n", output);
}

}  // namespace

void add_import_command(CLI::App& app, ExitCode&) {
  auto* import = app.add_subcommand("import", "Convert what others wrote into configurations of ours");
  import->require_subcommand(1);
  auto* hf =
      import->add_subcommand("hf-config", "A Hugging Face config.json: prints its parameters, writes a model file");
  auto file = std::make_shared<std::string>();
  auto output = std::make_shared<std::string>();
  hf->add_option("file", *file, "config.json")->required();
  hf->add_option("-o,--output", *output, "Where to write the model");
  hf->callback([file, output] { import_hf_config(*file, *output); });
}

}  // namespace moeplan
