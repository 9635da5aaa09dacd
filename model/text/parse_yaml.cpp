#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "model/text/document.hpp"
#include "model/text/source_text.hpp"

namespace moeplan {

namespace {

/// Builds the tree from the parser's events, and refuses what YAML allows and we do not.
class YamlTreeBuilder : public YAML::EventHandler {
 public:
  explicit YamlTreeBuilder(const std::string& file) : file_(short_name(file)) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    Node node;
    // An absent value has no location; it gets the location of its key.
    node.where = !levels_.empty() && levels_.back().has_key ? levels_.back().key_where : place(mark);
    place_node(std::move(node));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    fail(mark, "aliases (*name) are not supported; use include: or write the value again");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    Node node;
    node.where = place(mark);
    const bool was_quoted = tag == "!";
    // yaml-cpp writes these two as one byte, not as UTF-8.
    if (first_invalid_utf8(value)) fail(mark, "the escapes \\N and \\_ are not supported; write \\x85 or \\xa0");
    if (!was_quoted && (value.empty() || value == "null" || value == "~")) {
      place_node(std::move(node));
      return;
    }
    node.kind = Node::Kind::Scalar;
    node.is_string = was_quoted;
    node.scalar = value;
    place_node(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Kind::List);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Kind::Map);
  }
  void OnMapEnd() override { close(); }

  [[nodiscard]] Node take() { return std::move(root_); }

 private:
  struct Level {
    Node node;
    std::set<std::string> keys;  // all keys of a map so far
    std::string key;
    Location key_where;
    bool has_key = false;
  };

  Location place(const YAML::Mark& mark) const { return {file_, mark.line + 1, mark.column + 1}; }
  [[noreturn]] void fail(const YAML::Mark& mark, std::string message) const {
    throw InputError({place(mark), "", std::move(message)});
  }
  void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) const {
    if (anchor != YAML::NullAnchor)
      fail(mark, "anchors (&name) are not supported; use include: or write the value again");
  }
  void refuse_tag(const YAML::Mark& mark, const std::string& tag) const {
    if (!tag.empty() && tag != "?" && tag != "!")
      fail(mark, fmt::format("tags ({}) are not supported", in_quotes(tag)));
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Node::Kind kind) {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    if (levels_.size() >= kDeepestNesting) fail(mark, fmt::format("nested deeper than {} levels", kDeepestNesting));
    Level level;
    level.node.kind = kind;
    level.node.where = place(mark);
    levels_.push_back(std::move(level));
  }

  void close() {
    Node node = std::move(levels_.back().node);
    levels_.pop_back();
    place_node(std::move(node));
  }

  void place_node(Node node) {
    if (++nodes_ > kMostNodes) throw InputError({node.where, "", fmt::format("more than {} values", kMostNodes)});
    if (levels_.empty()) {
      root_ = std::move(node);
      return;
    }
    Level& level = levels_.back();
    if (level.node.kind == Node::Kind::List) {
      level.node.items.push_back(std::move(node));
    } else if (!level.has_key) {
      if (node.kind != Node::Kind::Scalar) {
        throw InputError({node.where, "", "a map's key is expected to be plain text"});
      }
      if (node.scalar.size() > kLongestKey) {
        throw InputError({node.where, "", fmt::format("a key of more than {} bytes", kLongestKey)});
      }
      if (!level.keys.insert(node.scalar).second) {
        throw InputError({node.where, "", fmt::format("duplicate key {}", in_quotes(node.scalar))});
      }
      level.key = node.scalar;
      level.key_where = node.where;
      level.has_key = true;
    } else {
      level.node.entries.push_back({std::move(level.key), level.key_where, std::move(node)});
      level.has_key = false;
    }
  }

  std::string file_;
  std::vector<Level> levels_;
  std::size_t nodes_ = 0;
  Node root_;
};

/// yaml-cpp keeps every token of the outermost flow collection, about 230 bytes each, before it reports the first.
void refuse_too_many_indicators(std::string_view text, const std::string& name) {
  constexpr std::string_view kIndicators = "[]{},:?";
  const auto count =
      std::count_if(text.begin(), text.end(), [&](char c) { return kIndicators.find(c) != std::string_view::npos; });
  if (static_cast<std::size_t>(count) <= kMostNodes + kMostNodes / 2) return;
  throw InputError({{name}, "", fmt::format("more than {} values", kMostNodes)});
}

}  // namespace

Node parse_yaml(std::string_view source, const std::string& name) {
  const std::string_view text = checked_text(source, name);
  refuse_too_many_indicators(text, name);
  std::istringstream in{std::string(text)};
  YamlTreeBuilder builder(name);
  try {
    YAML::Parser parser(in);
    if (!parser.HandleNextDocument(builder)) {
      Node empty;
      empty.where = {name, 1, 1};
      return empty;
    }
    YamlTreeBuilder second(name);
    if (parser.HandleNextDocument(second)) {
      throw InputError({second.take().where, "", "a second document (---) in one file; expected one"});
    }
  } catch (const YAML::Exception& e) {
    throw InputError({{name, e.mark.line + 1, e.mark.column + 1}, "", fmt::format("not valid YAML: {}", e.msg)});
  }
  return builder.take();
}

}  // namespace moeplan
