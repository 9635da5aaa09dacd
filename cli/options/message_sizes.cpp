#include "cli/options/message_sizes.hpp"

#include <fmt/format.h>

#include <cctype>
#include <cmath>
#include <optional>
#include <string_view>

#include "model/base/diagnostics.hpp"
#include "model/text/unit_text.hpp"

namespace moeplan::cli {

namespace {

class SizesReader {
 public:
  std::vector<std::int64_t> read(const std::string& text) {
    const std::size_t first = text.find(':');
    const std::size_t second = first == std::string::npos ? first : text.find(':', first + 1);
    if (second == std::string::npos || text.find(':', second + 1) != std::string::npos) {
      complain("", fmt::format("{} is not MIN:MAX:FACTOR; write e.g. 1KiB:1GiB:2", in_quotes(text)));
    }
    wrong_.throw_if_any();
    const auto least = size("MIN", text.substr(0, first));
    const auto most = size("MAX", text.substr(first + 1, second - first - 1));
    const auto factor = factor_of(text.substr(second + 1));
    if (least && most && *least > *most) {
      complain("MIN", fmt::format("{} is more than MAX, {}", human(Bytes(*least)), human(Bytes(*most))));
    }
    wrong_.throw_if_any();
    return steps(*least, *most, *factor);
  }

 private:
  void complain(std::string part, std::string message) { wrong_.add({"--sizes"}, std::move(part), std::move(message)); }

  /// With a unit, or as nccl-tests writes sizes: 512K, 1M, 1G, powers of two.
  std::optional<double> size(const std::string& part, const std::string& written) {
    std::string text = written;
    static constexpr std::string_view kLetters = "kKmMgG";
    const std::size_t digits = text.find_first_not_of("0123456789");
    if (digits > 0 && digits + 1 == text.size() && kLetters.find(text.back()) != std::string_view::npos) {
      text.back() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.back())));
      text += "iB";
    }
    const auto parsed = parse_bytes(text);
    if (const auto* error = std::get_if<TextError>(&parsed)) {
      complain(part, error->message);
      return std::nullopt;
    }
    const double bytes = std::get<Bytes>(parsed).value();
    if (bytes >= 1 && bytes <= kLargestSize && bytes == std::floor(bytes)) return bytes;
    complain(part, fmt::format("{} is not a whole number of bytes from 1 B to 1 TiB", in_quotes(text)));
    return std::nullopt;
  }

  std::optional<double> factor_of(const std::string& text) {
    const auto parsed = parse_number(text);
    if (const auto* error = std::get_if<TextError>(&parsed)) {
      complain("FACTOR", error->message);
      return std::nullopt;
    }
    const double factor = std::get<double>(parsed);
    if (factor > 1) return factor;
    complain("FACTOR", fmt::format("is {}; expected a number > 1", in_quotes(text)));
    return std::nullopt;
  }

  std::vector<std::int64_t> steps(double least, double most, double factor) {
    std::vector<std::int64_t> sizes;
    for (double bytes = least; bytes <= most; bytes *= factor) {
      const auto whole = static_cast<std::int64_t>(bytes);
      if (!sizes.empty() && sizes.back() == whole) {
        // With a factor close to 1, many steps fall within one byte: there are either more than 100 sizes, or too few
        // distinguishable ones.
        if (factor < 1.01) complain("FACTOR", "is too near to 1 for sizes so small: they are whole bytes");
        wrong_.throw_if_any();
        continue;
      }
      if (sizes.size() == kMostSizes) {
        complain("", fmt::format("are more than {} sizes; take a larger FACTOR", kMostSizes));
        wrong_.throw_if_any();
      }
      sizes.push_back(whole);
    }
    return sizes;
  }

  Diagnostics wrong_;
};

}  // namespace

std::vector<std::int64_t> parse_message_sizes(const std::string& text) { return SizesReader().read(text); }

}  // namespace moeplan::cli
