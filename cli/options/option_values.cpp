#include "cli/options/option_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/base/diagnostics.hpp"
#include "model/text/unit_text.hpp"

namespace moeplan::cli {

Seconds duration_option(const std::string& option, const std::string& text) {
  const auto wrong = [&](const std::string& message) -> InputError {
    return InputError(Diagnostic{{option}, "", message});
  };
  const bool minutes = text.size() > 1 && text.back() == 'm';
  const Parsed<Seconds> parsed = parse_seconds(minutes ? text.substr(0, text.size() - 1) + "s" : text);
  if (const auto* e = std::get_if<TextError>(&parsed)) throw wrong(e->message);
  const Seconds value = std::get<Seconds>(parsed) * (minutes ? 60 : 1);
  constexpr double kMost = 86'400;
  if (!(value.value() > 0 && value.value() <= kMost)) throw wrong("expected more than 0 and at most a day");
  return value;
}

double token_count_option(const std::string& option, const std::string& text) {
  constexpr std::array<std::pair<char, double>, 5> kLetters{
      {{'K', 1e3}, {'M', 1e6}, {'B', 1e9}, {'G', 1e9}, {'T', 1e12}}};
  double unit = 1;
  std::string number = text;
  for (const auto& [letter, size] : kLetters) {
    if (number.empty() || number.back() != letter) continue;
    unit = size;
    number.pop_back();
    break;
  }
  if (!number.empty() && number.back() == ' ') number.pop_back();
  const Parsed<double> parsed = parse_number(number);
  const auto* value = std::get_if<double>(&parsed);
  if (!value || !(*value > 0) || !(*value * unit <= 1e18)) {
    throw InputError(Diagnostic{
        {option}, "", fmt::format("{} is no number of tokens; expected e.g. 500B, 15T or 2.5e12", in_quotes(text))});
  }
  return *value * unit;
}

std::vector<BytesPerSecond> bandwidth_list_option(const std::string& option, const std::string& text) {
  std::vector<BytesPerSecond> out;
  Diagnostics wrong;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const Parsed<BytesPerSecond> rate = parse_bytes_per_second(text.substr(begin, end - begin));
    if (const auto* error = std::get_if<TextError>(&rate)) wrong.add({option}, "", error->message);
    if (const auto* value = std::get_if<BytesPerSecond>(&rate)) {
      if (value->value() > 0) out.push_back(*value);
      if (!(value->value() > 0)) wrong.add({option}, "", "expected bandwidths above 0");
    }
    begin = end + 1;
  }
  wrong.throw_if_any();
  return out;
}

}  // namespace moeplan::cli
