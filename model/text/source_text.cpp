#include "model/text/source_text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace moeplan {

namespace {

unsigned byte_at(std::string_view text, std::size_t i) { return static_cast<unsigned char>(text[i]); }

/// The length of the well-formed sequence at `i`, or 0.
std::size_t sequence_length(std::string_view text, std::size_t i) {
  const unsigned lead = byte_at(text, i);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xc2 && lead <= 0xdf   ? 2
                             : lead >= 0xe0 && lead <= 0xef ? 3
                             : lead >= 0xf0 && lead <= 0xf4 ? 4
                                                            : 0;
  if (length == 0 || i + length > text.size()) return 0;
  for (std::size_t j = 1; j < length; ++j) {
    if ((byte_at(text, i + j) & 0xc0) != 0x80) return 0;
  }
  const unsigned second = byte_at(text, i + 1);
  const bool well_formed = !(lead == 0xe0 && second < 0xa0) && !(lead == 0xed && second > 0x9f) &&
                           !(lead == 0xf0 && second < 0x90) && !(lead == 0xf4 && second > 0x8f);
  return well_formed ? length : 0;
}

}  // namespace

Location location_at(std::string_view text, std::size_t offset, const std::string& name) {
  const std::string_view before = text.substr(0, offset);
  const std::size_t newline = before.rfind('\n');
  const std::size_t line_start = newline == std::string_view::npos ? 0 : newline + 1;
  return {name, static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1,
          static_cast<int>(before.size() - line_start) + 1};
}

std::optional<std::size_t> first_invalid_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = sequence_length(text, i);
    if (length == 0) return i;
    i += length;
  }
  return std::nullopt;
}

std::string_view checked_text(std::string_view text, const std::string& name) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  if (text.find('\0') != std::string_view::npos) {
    throw InputError({{name}, "", "is not a text file (it holds NUL bytes)"});
  }
  const auto control = std::find_if(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && c != '\t' && c != '\n' && c != '\r') || byte == 0x7f;
  });
  if (control != text.end()) {
    const auto offset = static_cast<std::size_t>(control - text.begin());
    throw InputError({location_at(text, offset, name), "",
                      fmt::format("control character 0x{:02x}; write it as an escape", byte_at(text, offset))});
  }
  if (const auto offset = first_invalid_utf8(text)) {
    throw InputError(
        {location_at(text, *offset, name), "", fmt::format("byte 0x{:02x} is not UTF-8", byte_at(text, *offset))});
  }
  return text;
}

std::string short_name(const std::string& name) {
  constexpr std::size_t kBegin = 64, kEnd = 192;
  return name.size() <= kBegin + 3 + kEnd ? name : name.substr(0, kBegin) + "..." + name.substr(name.size() - kEnd);
}

}  // namespace moeplan
