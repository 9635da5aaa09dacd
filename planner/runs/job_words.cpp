#include "planner/runs/job_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>

#include "model/text/document.hpp"
#include "model/text/source_text.hpp"
#include "profiler/tables/table_text.hpp"

namespace moeplan::runs {

namespace {

constexpr std::string_view kFirstOfLog = "------------------------ arguments ------------------------";
constexpr std::string_view kLastOfLog = "-------------------- end of arguments";

/// A name in a log or a configuration, and the argument that sets it.
struct ArgumentOfField {
  std::string_view field, argument;
  bool is_inverse = false;  // the argument switches the field off
};
constexpr std::array kArgumentsOfFields{
    ArgumentOfField{"num-moe-experts", "num-experts"},
    ArgumentOfField{"fp8", "fp8-format"},
    ArgumentOfField{"virtual-pipeline-model-parallel-size", "num-virtual-stages-per-pipeline-rank"},
    ArgumentOfField{"gated-linear-unit", "swiglu"},
    ArgumentOfField{"add-bias-linear", "disable-bias-linear", true},
    ArgumentOfField{"share-embeddings-and-output-weights", "untie-embeddings-and-output-weights", true},
    ArgumentOfField{"grad-reduce-in-fp32", "grad-reduce-in-bf16", true},
    ArgumentOfField{"sequence-length", "seq-length"}};

/// The mixed precision recipes of Megatron-Bridge, as arguments.
struct MixedPrecision {
  std::string_view name, arguments;
};
constexpr std::array kMixedPrecisions{
    MixedPrecision{"bf16_mixed", "--bf16"},
    MixedPrecision{"16_mixed", "--fp16"},
    MixedPrecision{"32", ""},
    MixedPrecision{"bf16_with_fp8_delayed_scaling_mixed", "--bf16 --fp8-format hybrid --fp8-recipe delayed"},
    MixedPrecision{"bf16_with_fp8_current_scaling_mixed", "--bf16 --fp8-format e4m3 --fp8-recipe tensorwise"},
    MixedPrecision{"bf16_with_fp8_subchannel_scaling_mixed", "--bf16 --fp8-format e4m3 --fp8-recipe blockwise"},
    MixedPrecision{"bf16_with_mxfp8_mixed", "--bf16 --fp8-format e4m3 --fp8-recipe mxfp8"}};

/// Where a line of a script is inside quotation marks.
class Quotes {
 public:
  /// Passes the next character; whether it is outside, and no mark itself.
  bool pass(char c) {
    const bool opens = mark_ == 0 && (c == '\'' || c == '"'), closes = mark_ != 0 && c == mark_;
    if (opens || closes) mark_ = opens ? c : '\0';
    return !opens && !closes && mark_ == 0;
  }
  [[nodiscard]] bool is_open() const { return mark_ != 0; }

 private:
  char mark_ = 0;  // that is open; 0: none
};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// Adds the argument that sets a field, "moe_router_topk" to "8"; a field that is off or None adds nothing.
void add_field(const std::string& field, const std::string& value, JobWords& out) {
  std::string name = field;
  std::replace(name.begin(), name.end(), '_', '-');
  const auto known = std::find_if(kArgumentsOfFields.begin(), kArgumentsOfFields.end(),
                                  [&](const ArgumentOfField& a) { return a.field == name; });
  const bool is_inverse = known != kArgumentsOfFields.end() && known->is_inverse;
  if (known != kArgumentsOfFields.end()) name = known->argument;
  const std::string flat = lower(value);
  const bool is_off = flat == "false", is_on = flat == "true";
  if (flat == "none" || flat == "null" || flat.empty()) return;
  if (is_off != is_inverse && (is_off || is_on)) return;
  out.words.push_back("--" + name);
  if (!is_off && !is_on) out.words.push_back(value);
}

JobWords words_of_log(std::string_view text) {
  JobWords out;
  const std::size_t begin = text.find(kFirstOfLog) + kFirstOfLog.size();
  const std::string_view table = text.substr(begin, std::min(text.find(kLastOfLog, begin), text.size()) - begin);
  for (std::string_view line : profiler::split(table, '\n')) {
    const std::size_t dots = line.find(" ..");
    if (dots == std::string_view::npos) continue;
    const std::vector<std::string_view> before = profiler::words(line.substr(0, dots));
    const std::size_t value = line.find_first_not_of('.', line.find_first_not_of(' ', dots));
    if (before.empty() || value == std::string_view::npos) continue;
    const std::string field(before.back()), text_of_value(profiler::trimmed(line.substr(value)));
    if (field == "world_size") out.world = profiler::whole_number(text_of_value);
    add_field(field, text_of_value, out);
  }
  return out;
}

std::string scalar_text(const Node& node) {
  if (node.kind != Node::Kind::List) return node.scalar;
  std::vector<std::string> each;
  for (const Node& item : node.items) each.push_back(scalar_text(item));
  return fmt::format("[{}]", fmt::join(each, ", "));
}

/// Maps are sections; keys with dashes are arguments as they are.
void add_yaml(const Node& node, JobWords& out) {
  for (const Entry& e : node.entries) {
    if (e.value.kind == Node::Kind::Map) {
      add_yaml(e.value, out);
    } else if (e.key == "mixed_precision") {
      const auto recipe = std::find_if(kMixedPrecisions.begin(), kMixedPrecisions.end(),
                                       [&](const MixedPrecision& m) { return m.name == e.value.scalar; });
      if (recipe == kMixedPrecisions.end()) out.notes.push_back("mixed_precision " + e.value.scalar + " is not known");
      if (recipe == kMixedPrecisions.end()) continue;
      for (const std::string_view word : profiler::words(recipe->arguments)) out.words.emplace_back(word);
    } else {
      add_field(e.key.starts_with("--") ? e.key.substr(2) : e.key, scalar_text(e.value), out);
    }
  }
}

/// A script, line after line.
class ScriptReader {
 public:
  JobWords read(std::string_view text) {
    std::string line;
    for (const std::string_view raw : profiler::split(text, '\n')) {
      read_sbatch(raw);
      line += without_comment(raw);
      if (line.ends_with('\\')) {
        line.back() = ' ';
        continue;
      }
      if (has_open_quote(line)) {
        line += ' ';
        continue;
      }
      read_statements(line);
      line.clear();
    }
    read_statements(line);
    settle_world();
    out_.variables = std::move(values_);
    return std::move(out_);
  }

 private:
  void read_sbatch(std::string_view raw) {
    if (!raw.starts_with("#SBATCH")) return;
    for (const std::string_view word : profiler::words(raw)) {
      const std::size_t equals = word.find('=');
      if (equals == std::string_view::npos) continue;
      const auto value = profiler::whole_number(word.substr(equals + 1));
      if (value && (word.starts_with("--nodes") || word.starts_with("-N"))) nodes_ = *value;
      if (value && (word.starts_with("--gpus-per-node") || word.starts_with("--ntasks-per-node")))
        per_node_ = std::max(per_node_, *value);
    }
  }

  /// The line's statements, which semicolons outside quotes separate.
  void read_statements(std::string_view line) {
    std::size_t begin = 0;
    Quotes quotes;
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (!quotes.pass(line[i]) || line[i] != ';') continue;
      read_line(profiler::trimmed(line.substr(begin, i - begin)));
      begin = i + 1;
    }
    read_line(profiler::trimmed(line.substr(begin)));
  }

  static bool has_open_quote(std::string_view line) {
    Quotes quotes;
    for (const char c : line) (void)quotes.pass(c);
    return quotes.is_open();
  }

  /// The line up to a # at the start of a word, quotes respected.
  static std::string without_comment(std::string_view raw) {
    Quotes quotes;
    for (std::size_t i = 0; i < raw.size(); ++i) {
      if (quotes.pass(raw[i]) && raw[i] == '#' && (i == 0 || raw[i - 1] == ' ' || raw[i - 1] == '\t'))
        return std::string(profiler::trimmed(raw.substr(0, i)));
    }
    return std::string(profiler::trimmed(raw));
  }

  /// The name at the start of a line, and what follows it.
  static std::pair<std::string, std::string_view> name_of(std::string_view line) {
    for (const std::string_view word : {"export ", "local ", "declare ", "readonly "}) {
      if (line.starts_with(word)) line = profiler::trimmed(line.substr(word.size()));
    }
    std::size_t end = 0;
    while (end < line.size() && (std::isalnum(static_cast<unsigned char>(line[end])) != 0 || line[end] == '_')) ++end;
    return {std::string(line.substr(0, end)), line.substr(end)};
  }

  void read_line(std::string_view line) {
    if (line.empty()) return;
    const auto [name, rest] = name_of(line);
    if (!is_array_ && !name.empty() && (rest.starts_with("=(") || rest.starts_with("+=("))) {
      is_array_ = true;
      end_values();
      return read_words(rest.substr(rest.find('(') + 1));
    }
    if (!is_array_ && !name.empty() && rest.starts_with('=')) return assign(name, rest.substr(1));
    const bool is_command = std::isalpha(static_cast<unsigned char>(line.front())) != 0 || line.front() == '}' ||
                            line.front() == '$' || line.front() == '"';
    if (!is_array_ && is_command) end_values();
    read_words(line);
  }

  /// A="4", ARGUMENTS="--a 1 --b 2"; only the first word is the value.
  void assign(const std::string& name, std::string_view text) {
    const std::vector<std::string> words = split_words(text);
    const std::string value = words.empty() ? "" : words.front();
    values_[name] = value;
    if (value.find("--") == std::string::npos) return;
    end_values();
    for (const std::string_view w : profiler::words(value)) out_.words.emplace_back(w);
    end_values();
  }

  /// Words of a command or of an array, which an unmatched parenthesis ends.
  void read_words(std::string_view line) {
    for (std::string& word : split_words(line)) {
      const auto open = std::count(word.begin(), word.end(), '('), close = std::count(word.begin(), word.end(), ')');
      const bool ends = is_array_ && close > open;
      if (ends) word.erase(word.rfind(')'), 1);
      if (!word.empty()) out_.words.push_back(std::move(word));
      if (!ends) continue;
      is_array_ = false;
      end_values();
    }
  }

  void end_values() { out_.words.emplace_back(kEndOfValues); }

  /// Words, with quotes taken off and variables replaced outside single quotes.
  std::vector<std::string> split_words(std::string_view line) {
    std::vector<std::string> out;
    std::string word;
    bool is_word = false;
    char quote = 0;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const char c = line[i];
      if (quote == 0 && (c == '\'' || c == '"')) {
        quote = c;
        is_word = true;
      } else if (c == quote) {
        quote = 0;
      } else if (c == '$' && quote != '\'') {
        const std::string value = variable(line, i);
        if (quote == 0 && value.find(' ') != std::string::npos) {  // as many words as the value has
          for (const std::string_view w : profiler::words(value)) out.emplace_back(w);
          is_word = false;
          continue;
        }
        word += value;
        is_word = true;
      } else if (quote == 0 && (c == ' ' || c == '\t' || c == ';')) {
        if (is_word) out.push_back(word);
        word.clear();
        is_word = false;
      } else {
        word += c;
        is_word = true;
      }
    }
    if (is_word) out.push_back(word);
    return out;
  }

  /// The value of the variable or the sum at line[i], a dollar; `i` moves to its last character.
  std::string variable(std::string_view line, std::size_t& i) {
    if (line.substr(i).starts_with("$((")) {
      const std::size_t end = line.find("))", i);
      if (end == std::string_view::npos) return "$";
      const std::string value = arithmetic(line.substr(i + 3, end - i - 3));
      i = end + 1;
      return value;
    }
    std::size_t begin = i + 1, end = begin;
    const bool is_braced = begin < line.size() && line[begin] == '{';
    if (is_braced) {
      end = std::min(line.find('}', begin), line.size());
      const std::string_view inside = line.substr(begin + 1, end - begin - 1);
      i = end;
      const std::size_t minus = inside.find(":-");
      const std::string name(inside.substr(0, std::min(minus, inside.find_first_of(":?[@"))));
      return value_of(name, minus == std::string_view::npos ? "" : std::string(inside.substr(minus + 2)),
                      inside.find('[') != std::string_view::npos);
    }
    while (end < line.size() && (std::isalnum(static_cast<unsigned char>(line[end])) != 0 || line[end] == '_')) ++end;
    if (end == begin) return "$";
    i = end - 1;
    return value_of(std::string(line.substr(begin, end - begin)), "", false);
  }

  std::string value_of(const std::string& name, const std::string& fallback, bool is_array) {
    if (const auto it = values_.find(name); it != values_.end() && !it->second.empty()) return it->second;
    if (is_array) return "";  // its elements were read where it is written
    return fallback.empty() ? "$" + name : fallback;
  }

  /// Integers with + - * /, from left to right; the text if it is something else.
  std::string arithmetic(std::string_view text) {
    std::string spaced;
    for (const char c : text) {
      const bool is_operator = c == '+' || c == '-' || c == '*' || c == '/';
      spaced += is_operator ? std::string{' ', c, ' '} : std::string(1, c);
    }
    std::optional<std::int64_t> total;
    char op = '+';
    for (const std::string_view word : profiler::words(spaced)) {
      if (word == "+" || word == "-" || word == "*" || word == "/") {
        op = word.front();
        continue;
      }
      const std::string name(word.starts_with('$') ? word.substr(1) : word);
      const auto known = values_.find(name);
      const auto value = profiler::whole_number(known == values_.end() ? name : known->second);
      if (!value || (op == '/' && *value == 0)) return std::string(text);
      if (!total) {
        total = *value;
      } else {
        total = op == '+'   ? *total + *value
                : op == '-' ? *total - *value
                : op == '*' ? *total * *value
                            : *total / *value;
      }
    }
    return total ? fmt::format("{}", *total) : std::string(text);
  }

  void settle_world() {
    for (std::size_t i = 0; i < out_.words.size(); ++i) {
      const std::size_t equals = out_.words[i].find('=');
      std::string name = out_.words[i].substr(0, equals);
      std::replace(name.begin(), name.end(), '_', '-');
      const std::string text = equals != std::string::npos ? out_.words[i].substr(equals + 1)
                               : i + 1 < out_.words.size() ? out_.words[i + 1]
                                                           : "";
      const auto value = profiler::whole_number(text);
      if (value && name == "--nnodes") nodes_ = *value;
      if (value && name == "--nproc-per-node") per_node_ = *value;
    }
    if (per_node_ > 0) out_.world = std::max<std::int64_t>(1, nodes_) * per_node_;
  }

  std::map<std::string, std::string> values_;
  std::int64_t nodes_ = 0, per_node_ = 0;
  bool is_array_ = false;  // inside NAME=( ... )
  JobWords out_{};
};

}  // namespace

Location place_of_word(std::string_view text, std::string_view word, const std::string& file) {
  const auto is_part = [&](std::size_t at) {  // of a longer word
    const char c = at < text.size() ? text[at] : ' ';
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
  };
  for (std::size_t at = text.rfind(word); at != std::string_view::npos; at = text.rfind(word, at - 1)) {
    const bool is_whole = !is_part(at + word.size()) && (at == 0 || !is_part(at - 1));
    if (is_whole) return location_at(text, at, file);
    if (at == 0) break;
  }
  return {file};
}

JobWords job_words(std::string_view text, const std::string& file) {
  if (text.find(kFirstOfLog) != std::string_view::npos) return words_of_log(text);
  if (!file.ends_with(".yaml") && !file.ends_with(".yml")) return ScriptReader().read(text);
  JobWords out;
  add_yaml(parse_yaml(text, file), out);
  return out;
}

}  // namespace moeplan::runs
