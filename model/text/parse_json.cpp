#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "model/text/document.hpp"
#include "model/text/source_text.hpp"

namespace moeplan {

namespace {

/// Input iterator that counts how far the parser has read: it reads one character at a time.
class ReadingIterator {
 public:
  using difference_type = std::ptrdiff_t;
  using value_type = char;
  using pointer = const char*;
  using reference = const char&;
  using iterator_category = std::input_iterator_tag;

  ReadingIterator(const char* at, const char** reached) : at_(at), reached_(reached) {}
  reference operator*() const { return *at_; }
  ReadingIterator& operator++() {
    *reached_ = ++at_;
    return *this;
  }
  bool operator==(const ReadingIterator& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  const char** reached_;
};

/// Source locations of tokens. The parser only reports that it has read a token, up to `reached` (for a number one
/// character further, unless the text ends there), so the start of the token is searched for backwards. Tokens are
/// reported in order, so lines are counted only once.
class TokenPlaces {
 public:
  TokenPlaces(std::string file, std::string_view text, const char* const* reached)
      : file_(std::move(file)), text_(text), reached_(reached) {}

  [[nodiscard]] Location read_so_far() { return place(offset() == 0 ? 0 : offset() - 1); }
  /// A brace, bracket or literal of `length` characters that has just been read.
  [[nodiscard]] Location fixed(std::size_t length) { return place(offset() - length); }
  [[nodiscard]] Location number() {
    static constexpr std::string_view kCharacters = "0123456789+-.eE";
    std::size_t start = offset();
    if (start > 0 && kCharacters.find(text_[start - 1]) == std::string_view::npos) --start;
    while (start > 0 && kCharacters.find(text_[start - 1]) != std::string_view::npos) --start;
    return place(start);
  }
  [[nodiscard]] Location string() { return place(start_of_string()); }
  [[nodiscard]] std::size_t start_of_string() const {
    std::size_t quote = offset() - 1;  // the closing quote; quotes inside are escaped by an odd number of backslashes
    std::size_t backslashes = 0;
    do {
      quote = text_.rfind('"', quote - 1);
      for (backslashes = 0; backslashes < quote && text_[quote - 1 - backslashes] == '\\';) ++backslashes;
    } while (backslashes % 2 == 1);
    return quote;
  }

 private:
  [[nodiscard]] std::size_t offset() const { return static_cast<std::size_t>(*reached_ - text_.data()); }
  [[nodiscard]] Location place(std::size_t at) {
    for (; counted_ < at; ++counted_) {
      if (text_[counted_] != '\n') continue;
      ++line_;
      line_start_ = counted_ + 1;
    }
    return {file_, line_, static_cast<int>(at - std::min(at, line_start_)) + 1};
  }

  std::string file_;
  std::string_view text_;
  const char* const* reached_;
  std::size_t counted_ = 0;
  std::size_t line_start_ = 0;
  int line_ = 1;
};

/// Words for numbers that JSON has not but that Python's json module writes, and the text with a string of the same
/// length in place of each.
struct NumberWords {
  std::map<std::size_t, std::string> words;  // by offset
  std::string text;

  explicit NumberWords(std::string_view source) : text(source) {
    bool in_string = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (in_string && text[i] == '\\') {
        ++i;
      } else if (text[i] == '"') {
        in_string = !in_string;
      } else if (!in_string) {
        i += note(i);
      }
    }
  }

 private:
  /// Replaces the word at this offset, if there is one; returns the number of its characters but one.
  std::size_t note(std::size_t at) {
    for (const std::string_view word : {"-Infinity", "Infinity", "NaN"}) {
      if (text.compare(at, word.size(), word) != 0) continue;
      const std::size_t end = at + word.size();
      if (end < text.size() && std::isalnum(static_cast<unsigned char>(text[end])) != 0) return 0;
      words.emplace(at, word);
      text.replace(at, word.size(), '"' + std::string(word.size() - 2, '?') + '"');
      return word.size() - 1;
    }
    return 0;
  }
};

class JsonTreeBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  JsonTreeBuilder(TokenPlaces places, const std::map<std::size_t, std::string>& number_words)
      : places_(std::move(places)), number_words_(number_words) {}

  bool null() override { return attach({}, places_.fixed(4)); }
  bool boolean(bool value) override { return attach(Node::boolean(value), places_.fixed(value ? 4 : 5)); }
  bool number_integer(number_integer_t value) override { return attach(Node::integer(value), places_.number()); }
  bool number_unsigned(number_unsigned_t value) override { return attach_number(fmt::format("{}", value)); }
  bool number_float(number_float_t, const string_t& text) override { return attach_number(text); }
  bool string(string_t& value) override {
    const auto word = number_words_.find(places_.start_of_string());
    const Location where = places_.string();
    if (word == number_words_.end()) return attach(Node::text(value), where);
    Node node = Node::integer(0);
    node.scalar = word->second;
    return attach(std::move(node), where);
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Node::map()); }
  bool start_array(std::size_t) override { return open(Node::list()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& value) override {
    Level& level = levels_.back();
    level.key_where = places_.string();
    if (value.size() > kLongestKey) {
      throw InputError({level.key_where, "", fmt::format("a key of more than {} bytes", kLongestKey)});
    }
    if (!level.keys.insert(value).second) {
      throw InputError({level.key_where, "", fmt::format("duplicate key {}", in_quotes(value))});
    }
    level.key = value;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& e) override {
    std::string what = e.what();
    if (const auto colon = what.find(": "); colon != std::string::npos) what = what.substr(colon + 2);
    for (char& c : what) {
      if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f) c = '?';
    }
    throw InputError({places_.read_so_far(), "", fmt::format("not valid JSON: {}", what.substr(0, 160))});
  }

  [[nodiscard]] Node take() { return std::move(root_); }

 private:
  struct Level {
    Node node;
    std::set<std::string> keys;  // all keys of a map so far
    std::string key;
    Location key_where;
  };

  bool open(Node node) {
    node.where = places_.fixed(1);
    if (levels_.size() >= kDeepestNesting) {
      throw InputError({node.where, "", fmt::format("nested deeper than {} levels", kDeepestNesting)});
    }
    Level level;
    level.node = std::move(node);
    levels_.push_back(std::move(level));
    return true;
  }
  bool close() {
    Node node = std::move(levels_.back().node);
    levels_.pop_back();
    const Location where = node.where;
    return attach(std::move(node), where);
  }
  bool attach_number(std::string text) {
    Node node = Node::integer(0);
    node.scalar = std::move(text);
    return attach(std::move(node), places_.number());
  }
  bool attach(Node node, Location where) {
    if (++nodes_ > kMostNodes) throw InputError({std::move(where), "", fmt::format("more than {} values", kMostNodes)});
    node.where = std::move(where);
    if (levels_.empty()) {
      root_ = std::move(node);
    } else if (Level& level = levels_.back(); level.node.kind == Node::Kind::List) {
      level.node.items.push_back(std::move(node));
    } else {
      level.node.entries.push_back({level.key, level.key_where, std::move(node)});
    }
    return true;
  }

  TokenPlaces places_;
  const std::map<std::size_t, std::string>& number_words_;
  std::vector<Level> levels_;
  std::size_t nodes_ = 0;
  Node root_;
};

}  // namespace

Node parse_json(std::string_view source, const std::string& name) {
  const NumberWords source_text(checked_text(source, name));
  const std::string_view text = source_text.text;
  const char* reached = text.data();
  JsonTreeBuilder builder(TokenPlaces(short_name(name), text, &reached), source_text.words);
  nlohmann::json::sax_parse(ReadingIterator(text.data(), &reached),
                            ReadingIterator(text.data() + text.size(), &reached), &builder);
  return builder.take();
}

}  // namespace moeplan
