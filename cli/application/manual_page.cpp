#include "cli/application/manual_page.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>

#include "cli/application/option_parts.hpp"
#include "cli/application/version.hpp"

namespace moeplan::cli {

namespace {

/// Text that troff prints as it is.
std::string troff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  if (out.starts_with(".") || out.starts_with("'")) out.insert(0, "\\&");
  return out;
}

std::string value_name(const OptionParts& option) {
  if (!option.values.empty()) return fmt::format("{{{}}}", fmt::join(option.values, ","));
  return option.value;
}

std::string synopsis(const std::string& name, const CLI::App& command) {
  std::string out = fmt::format(".B {}\n", troff(name));
  for (const OptionParts& o : option_parts(command)) {
    if (!o.argument.empty()) {
      const std::string argument = fmt::format("\\fI{}\\fR", troff(o.argument));
      out += o.is_required ? argument + "\n" : "[" + argument + "]\n";
    } else if (o.is_required) {
      out += fmt::format("\\fB{}\\fR \\fI{}\\fR\n", troff(o.names.back()), troff(value_name(o)));
    }
  }
  if (!subcommands(command).empty()) out += "\\fICOMMAND\\fR\n";
  return out + "[\\fIOPTIONS\\fR]\n";
}

/// Lines of troff may also break after a comma.
std::string breakable(const std::string& text) {
  std::string out;
  for (const char c : text) {
    out += c;
    if (c == ',') out += "\\:";
  }
  return out;
}

std::string options(const CLI::App& command) {
  std::string out;
  for (const OptionParts& o : option_parts(command)) {
    std::string label;
    for (const std::string& name : o.names)
      label += fmt::format("{}\\fB{}\\fR", label.empty() ? "" : ", ", troff(name));
    if (!o.argument.empty()) label = fmt::format("\\fI{}\\fR", troff(o.argument));
    const std::string value = value_name(o);
    if (!value.empty() && o.argument.empty()) label += fmt::format(" \\fI{}\\fR", troff(value));
    if (!o.argument.empty() && !o.values.empty()) label += " " + breakable(troff(value));
    out += fmt::format(".TP\n{}\n{}{}\n", label, troff(o.about), o.is_required ? " (required)" : "");
  }
  return out;
}

/// Nested commands such as `import megatron`, one after another.
std::string nested(const std::string& name, const CLI::App& command) {
  std::string out;
  for (const CLI::App* sub : subcommands(command)) {
    const std::string full = name + " " + sub->get_name();
    out += fmt::format(".SH {}\n{}\n.PP\n{}{}", troff(full), troff(sub->get_description()), synopsis(full, *sub),
                       options(*sub));
    out += nested(full, *sub);
  }
  return out;
}

constexpr const char* kEnd = R"(.SH EXIT STATUS
.TP
.B 0
done
.TP
.B 1
a check failed (\fB\-\-max\-error\fR, \fB\-\-max\-mape\fR, \fBreproduce\fR)
.TP
.B 2
bad input
.TP
.B 3
nothing is feasible
.TP
.B 130
interrupted
.SH ENVIRONMENT
.TP
.B MOEPLAN_CONFIGS
the folder of clusters, GPUs, models and workloads, instead of
.I ../share/moeplan/configs
relative to the executable
.TP
.B MOEPLAN_PYTHON
the Python that runs PyTorch for
.BR "moeplan profile \-\-operators" ,
instead of
.I python3
)";

std::string head(const std::string& name, const std::string& about) {
  std::string title = name;
  std::transform(title.begin(), title.end(), title.begin(), [](unsigned char c) { return std::toupper(c); });
  return fmt::format(".TH \"{}\" 1 \"\" \"moeplan {}\" \"moeplan manual\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n",
                     troff(title), version(), troff(name), troff(about));
}

std::string page_of(const CLI::App& command) {
  const std::string name = "moeplan " + command.get_name();
  return head("moeplan-" + command.get_name(), command.get_description()) + synopsis(name, command) + ".SH OPTIONS\n" +
         options(command) + nested(name, command) + kEnd + ".SH SEE ALSO\n.BR moeplan (1)\n";
}

std::string main_page(const CLI::App& app) {
  std::string commands = ".SH COMMANDS\n", pages;
  for (const CLI::App* sub : subcommands(app)) {
    commands += fmt::format(".TP\n.B {}\n{}\n", troff(sub->get_name()), troff(sub->get_description()));
    pages += fmt::format("{}.BR moeplan\\-{} (1)", pages.empty() ? "" : ",\n", troff(sub->get_name()));
  }
  return head("moeplan", "plan Mixture-of-Experts models on GPU clusters") + synopsis("moeplan", app) +
         ".SH DESCRIPTION\n" + troff(app.get_description()) +
         "\n.PP\nThe documentation is in\n.IR share/doc/moeplan .\n" + commands + ".SH OPTIONS\n" + options(app) +
         kEnd + ".SH SEE ALSO\n" + pages + "\n";
}

}  // namespace

std::map<std::string, std::string> manual_pages(const CLI::App& app) {
  std::map<std::string, std::string> pages{{"moeplan.1", main_page(app)}};
  for (const CLI::App* sub : subcommands(app))
    pages.emplace(fmt::format("moeplan-{}.1", sub->get_name()), page_of(*sub));
  return pages;
}

}  // namespace moeplan::cli
