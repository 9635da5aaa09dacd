#include "planner/candidate/pipeline_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "model/base/diagnostics.hpp"

namespace moeplan::planner {

namespace {

/// Expands repeats. Fails with a message at the first character that does not belong.
class Expansion {
 public:
  explicit Expansion(std::string_view text) : text_(text) {}

  std::optional<std::string> all() {
    std::optional<std::string> out = sequence(0);
    if (out && at_ < text_.size()) return fail();
    return out;
  }
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  std::nullopt_t fail() {
    if (error_.empty()) {
      const std::string rest = at_ < text_.size() ? in_quotes(text_.substr(at_)) : "its end";
      error_ = fmt::format(
          "{} is no pipeline layout at {}; expected letters of E, t, m, L, parts separated by |, "
          "repeats as t*4 or (tt|)*3",
          in_quotes(text_), rest);
    }
    return std::nullopt;
  }

  std::optional<std::string> sequence(int depth) {
    constexpr int kDeepest = 8;
    if (depth > kDeepest) return fail();
    std::string out;
    while (at_ < text_.size() && text_[at_] != ')') {
      const std::optional<std::string> item = repeated(depth);
      if (!item) return std::nullopt;
      out += *item;
      if (out.size() > kLongestLayout) {
        error_ = fmt::format("{} has more than {} letters", in_quotes(text_), kLongestLayout);
        return std::nullopt;
      }
    }
    return out;
  }

  std::optional<std::string> repeated(int depth) {
    std::optional<std::string> item;
    const char c = text_[at_];
    if (c == '(') {
      ++at_;
      item = sequence(depth + 1);
      if (!item) return std::nullopt;
      if (at_ == text_.size()) return fail();
      ++at_;
    } else if (c == ',' || c == ' ') {
      ++at_;
      return "";
    } else if (std::string_view("EtmL|").find(c) != std::string_view::npos) {
      ++at_;
      item = std::string(1, c);
    } else {
      return fail();
    }
    if (at_ == text_.size() || text_[at_] != '*') return item;
    ++at_;
    std::size_t times = 0;
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9' && times <= kLongestLayout)
      times = times * 10 + static_cast<std::size_t>(text_[at_++] - '0');
    if (at_ == begin) return fail();
    std::string out;
    for (std::size_t i = 0; i < times && out.size() <= kLongestLayout; ++i) out += *item;
    return out;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string error_;
};

bool is_empty(const LayoutPart& p) { return p == LayoutPart{}; }

/// The part that these letters describe; none if they are not in the order E, t, m, L.
std::optional<LayoutPart> part_of(std::string_view letters) {
  constexpr std::string_view kOrder = "EtmL";
  LayoutPart part;
  std::size_t last = 0;
  for (const char c : letters) {
    const std::size_t order = kOrder.find(c);
    const bool is_second = (c == 'E' && part.embedding) || (c == 'L' && part.head);
    if (order < last || is_second) return std::nullopt;
    last = order;
    if (c == 'E') part.embedding = true;
    if (c == 't') ++part.layers;
    if (c == 'm') ++part.mtp_layers;
    if (c == 'L') part.head = true;
  }
  return part;
}

}  // namespace

std::int64_t PipelineLayout::layers() const {
  std::int64_t sum = 0;
  for (const LayoutPart& p : parts) sum += p.layers;
  return sum;
}

std::int64_t PipelineLayout::mtp_layers() const {
  std::int64_t sum = 0;
  for (const LayoutPart& p : parts) sum += p.mtp_layers;
  return sum;
}

std::string PipelineLayout::text() const {
  std::string out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += '|';
    if (parts[i].embedding) out += 'E';
    out.append(static_cast<std::size_t>(parts[i].layers), 't');
    out.append(static_cast<std::size_t>(parts[i].mtp_layers), 'm');
    if (parts[i].head) out += 'L';
  }
  return out;
}

std::variant<PipelineLayout, std::string> parse_layout(std::string_view text) {
  Expansion expansion(text);
  const std::optional<std::string> letters = expansion.all();
  if (!letters) return expansion.error();
  PipelineLayout layout;
  for (std::size_t begin = 0; begin <= letters->size();) {
    const std::size_t end = std::min(letters->find('|', begin), letters->size());
    const std::string own = letters->substr(begin, end - begin);
    const std::optional<LayoutPart> part = part_of(own);
    const std::size_t number = layout.parts.size() + 1;
    if (!part) return fmt::format("part {} of the layout, {}, is not in the order E, t, m, L", number, in_quotes(own));
    if (is_empty(*part)) return fmt::format("part {} of the layout is empty", number);
    if (part->embedding != (number == 1))
      return fmt::format("the embedding E must be in the first part of the layout only, not in part {}", number);
    layout.parts.push_back(*part);
    begin = end + 1;
  }
  for (std::size_t i = 0; i < layout.parts.size(); ++i) {
    if (layout.parts[i].head != (i + 1 == layout.parts.size()))
      return "the output head L must be in the last part of the layout only";
  }
  return layout;
}

PipelineLayout even_layout(std::int64_t layers, std::int64_t mtp_layers, std::int64_t parts) {
  PipelineLayout out;
  for (const auto& [embedding, head] : {std::pair{0, 0}, std::pair{1, 1}, std::pair{1, 0}, std::pair{0, 1}}) {
    if ((layers + embedding + head) % parts != 0) continue;
    const std::int64_t each = (layers + embedding + head) / parts;
    out.parts.assign(static_cast<std::size_t>(parts), {.layers = each});
    out.parts.front().layers -= embedding;
    out.parts.back().layers -= head;
    out.parts.front().embedding = out.parts.back().head = true;
    out.parts.back().mtp_layers = mtp_layers;
    return out;
  }
  return out;
}

}  // namespace moeplan::planner
