#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>

#include "model/base/document.hpp"

namespace moeplan {

namespace {

constexpr std::size_t kDeepest = 64;

/// Where the parser has read to: it pulls one character at a time, so this is the place of the token at hand.
struct Cursor {
  int line = 1;
  int column = 0;
};

class CountingIterator {
 public:
  using difference_type = std::ptrdiff_t;
  using value_type = char;
  using pointer = const char*;
  using reference = const char&;
  using iterator_category = std::input_iterator_tag;

  CountingIterator(const char* at, Cursor* cursor) : at_(at), cursor_(cursor) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    if (*at_ == '\n') {
      ++cursor_->line;
      cursor_->column = 0;
    } else {
      ++cursor_->column;
    }
    ++at_;
    return *this;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  Cursor* cursor_;
};

class TreeBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  TreeBuilder(std::string file, const Cursor* cursor) : file_(std::move(file)), cursor_(cursor) {}

  bool null() override { return place({}); }
  bool boolean(bool value) override { return place(Node::boolean(value)); }
  bool number_integer(number_integer_t value) override { return place(Node::integer(value)); }
  bool number_unsigned(number_unsigned_t value) override {
    Node node = Node::integer(0);
    node.scalar = fmt::format("{}", value);
    return place(std::move(node));
  }
  bool number_float(number_float_t, const string_t& text) override {
    Node node = Node::integer(0);
    node.scalar = text;
    return place(std::move(node));
  }
  bool string(string_t& value) override { return place(Node::text(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Node::map()); }
  bool start_array(std::size_t) override { return open(Node::list()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& value) override {
    if (levels_.back().node.find(value)) {
      throw InputError({here(), "", fmt::format("duplicate key {}", in_quotes(value))});
    }
    levels_.back().key = value;
    levels_.back().key_where = here();
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& e) override {
    std::string what = e.what();
    if (const auto colon = what.find(": "); colon != std::string::npos) what = what.substr(colon + 2);
    for (char& c : what) {
      if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f) c = '?';
    }
    throw InputError({here(), "", fmt::format("not valid JSON: {}", what.substr(0, 160))});
  }

  [[nodiscard]] Node take() { return std::move(root_); }

 private:
  struct Level {
    Node node;
    std::string key;
    Location key_where;
  };

  Location here() const { return {file_, cursor_->line, std::max(1, cursor_->column)}; }

  bool open(Node node) {
    if (levels_.size() >= kDeepest) throw InputError({here(), "", fmt::format("nested deeper than {} levels", kDeepest)});
    node.where = here();
    levels_.push_back({std::move(node), "", {}});
    return true;
  }
  bool close() {
    Node node = std::move(levels_.back().node);
    levels_.pop_back();
    return attach(std::move(node));
  }
  bool place(Node node) {
    node.where = here();
    return attach(std::move(node));
  }
  bool attach(Node node) {
    if (levels_.empty()) {
      root_ = std::move(node);
    } else if (Level& level = levels_.back(); level.node.kind == Node::Kind::List) {
      level.node.items.push_back(std::move(node));
    } else {
      level.node.entries.push_back({level.key, level.key_where, std::move(node)});
    }
    return true;
  }

  std::string file_;
  const Cursor* cursor_;
  std::vector<Level> levels_;
  Node root_;
};

}  // namespace

Node parse_json(std::string_view text, const std::string& name) {
  Cursor cursor;
  TreeBuilder builder(name, &cursor);
  nlohmann::json::sax_parse(CountingIterator(text.data(), &cursor),
                            CountingIterator(text.data() + text.size(), &cursor), &builder);
  return builder.take();
}

}  // namespace moeplan
