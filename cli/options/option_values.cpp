#include "cli/options/option_values.hpp"

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

}  // namespace moeplan::cli
