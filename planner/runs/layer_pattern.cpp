#include <cctype>
#include <charconv>

#include "planner/runs/job_words.hpp"

namespace moeplan::runs {

namespace {

/// A parser of sums of lists: sum = product {"+" product}; product = atom {"*" number}; atom = "[" digits "]" | "(" sum
/// ")".
class PatternParser {
 public:
  PatternParser(std::string_view text, std::size_t most) : most_(most) {
    for (const char c : text) {
      if (std::isspace(static_cast<unsigned char>(c)) == 0 && c != '"' && c != '\'') text_ += c;
    }
  }

  std::optional<std::vector<bool>> whole() {
    auto out = sum(0);
    return out && at_ == text_.size() ? out : std::nullopt;
  }

 private:
  using Result = std::optional<std::vector<bool>>;

  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  Result sum(int depth) {
    Result out = product(depth);
    while (out && take('+')) {
      const Result next = product(depth);
      if (!next || out->size() + next->size() > most_) return std::nullopt;
      out->insert(out->end(), next->begin(), next->end());
    }
    return out;
  }

  Result product(int depth) {
    Result out = atom(depth);
    while (out && take('*')) {
      std::size_t times = 0;
      const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), times);
      if (error != std::errc{} || times > most_ || out->size() * times > most_) return std::nullopt;
      at_ = static_cast<std::size_t>(end - text_.data());
      const std::vector<bool> once = *out;
      out->clear();
      for (std::size_t i = 0; i < times; ++i) out->insert(out->end(), once.begin(), once.end());
    }
    return out;
  }

  Result atom(int depth) {
    constexpr int kDeepest = 32;
    if (depth < kDeepest && take('(')) {
      Result out = sum(depth + 1);
      return out && take(')') ? out : std::nullopt;
    }
    if (!take('[')) return std::nullopt;
    std::vector<bool> out;
    while (!take(']')) {
      if (!out.empty() && !take(',')) return std::nullopt;
      if (out.size() >= most_ || (!take('0') && !take('1'))) return std::nullopt;
      out.push_back(text_[at_ - 1] == '1');
    }
    return out;
  }

  std::string text_;
  std::size_t most_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<std::vector<bool>> layer_pattern(std::string_view text, std::size_t most) {
  return PatternParser(text, most).whole();
}

}  // namespace moeplan::runs
