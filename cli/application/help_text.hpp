// The text of --help: what CLI11 prints, in the words and the width of our pages.
#pragma once

#include <memory>

namespace CLI {
class FormatterBase;
}  // namespace CLI

namespace moeplan::cli {

/// Formats options as "--tp N", with what their values may be in the text, and wraps at the width of a page.
[[nodiscard]] std::shared_ptr<CLI::FormatterBase> help_formatter();

}  // namespace moeplan::cli
