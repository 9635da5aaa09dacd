// to_yaml of model/base/document.hpp.
#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <catch2/catch.hpp>

#include "model/text/document.hpp"
#include "model/text/source_text.hpp"

namespace moeplan::tests::write_yaml_test {

namespace {

rc::Gen<std::string> odd_text() {
  static const std::vector<std::string> kOdd{"",
                                             "null",
                                             "~",
                                             "true",
                                             "no",
                                             "010",
                                             "0x10",
                                             "1e3",
                                             ".inf",
                                             "-",
                                             "- a",
                                             "...",
                                             "---",
                                             "a: b",
                                             "a #b",
                                             "#",
                                             "\"",
                                             "'",
                                             "\\",
                                             "\n",
                                             "\t",
                                             " a",
                                             "a ",
                                             "[a]",
                                             "{a}",
                                             "a,b",
                                             "*a",
                                             "&a",
                                             "!a",
                                             "%a",
                                             "@a",
                                             "`a",
                                             "|",
                                             ">",
                                             "? a",
                                             ":",
                                             "a:",
                                             "a\nb",
                                             "=",
                                             "<<",
                                             "\r\n",
                                             "\x7f",
                                             "\x1b[0m",
                                             "-1",
                                             "-a",
                                             "\xc3\xa9",
                                             "\xe2\x82\xac",
                                             "\xf0\x9f\x92\xa1",
                                             "\xc2\x85",
                                             "\xe2\x80\xa8",
                                             "\xef\xbb\xbf",
                                             "\xef\xbf\xbd",
                                             "450 GB/s"};
  const auto pieces = rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(kOdd));
  return rc::gen::oneOf(
      rc::gen::elementOf(kOdd),
      rc::gen::map(rc::gen::container<std::string>(rc::gen::inRange<char>(0, 127)), [](std::string s) { return s; }),
      rc::gen::map(pieces, [](const std::vector<std::string>& some) {
        std::string text;
        for (std::size_t i = 0; i < some.size() && i < 8; ++i) text += some[i];
        return text;
      }));
}

Node random_node(int depth) {
  const int kind = *rc::gen::inRange(0, depth > 0 ? 8 : 4);
  if (kind == 0) return {};
  if (kind < 4) {
    Node n = Node::text(*odd_text());
    n.is_string = *rc::gen::arbitrary<bool>();
    return n;
  }
  const int size = *rc::gen::inRange(0, 4);
  Node n = kind < 6 ? Node::list() : Node::map();
  for (int i = 0; i < size; ++i) {
    if (kind < 6) {
      n.items.push_back(random_node(depth - 1));
    } else {
      n.set((*odd_text()).substr(0, kLongestKey / 2), random_node(depth - 1));
    }
  }
  return n;
}

bool valid_keys(const Node& node) {
  for (const Node& n : node.items) {
    if (!valid_keys(n)) return false;
  }
  for (const Entry& e : node.entries) {
    if (first_invalid_utf8(e.key) || !valid_keys(e.value)) return false;  // cut within a character
  }
  return true;
}

}  // namespace

TEST_CASE("What is written as YAML reads back the same") {
  rc::prop("any tree of odd texts", [] {
    Node tree = Node::map();
    for (const char* key : {"a", "b", "c", "d"}) tree.set(key, random_node(4));
    RC_PRE(valid_keys(tree));
    const std::string text = to_yaml(tree);
    const Node back = parse_yaml(text, "written");
    if (!back.same_content(tree)) RC_FAIL(text);
    RC_ASSERT(to_yaml(back) == text);
  });
  SECTION("in blocks of two spaces, lists of scalars in one line, quotes only where they are needed") {
    Node d = Node::map();
    d.set("name", Node::text("a b"));
    d.set("flag", Node::boolean(true));
    d.set("text", Node::text("true"));
    d.set("sizes", parse_yaml("[1, 2.5, 450 GB/s, \"x: y\"]", "f"));
    d.set("links", parse_yaml("[{a: 1, b: {c: 2}}, {}, [], [[1]], null]", "f"));
    CHECK(to_yaml(d) ==
          "name: a b\n"
          "flag: true\n"
          "text: \"true\"\n"
          "sizes: [1, 2.5, 450 GB/s, \"x: y\"]\n"
          "links:\n"
          "  - a: 1\n"
          "    b:\n"
          "      c: 2\n"
          "  - {}\n"
          "  - []\n"
          "  -\n"
          "    - [1]\n"
          "  - null\n");
  }
  SECTION("bytes that are not UTF-8 become the replacement character, because the text must be readable again") {
    CHECK(parse_yaml(to_yaml(Node::text("a\xff"
                                        "b")),
                     "f")
              .scalar ==
          "a\xef\xbf\xbd"
          "b");
  }
  SECTION("numbers read back exactly") {
    for (const double x : {0.1, 1e-9, 3.06e-7, 1e300, 12345.678901, -2.0}) {
      CHECK(std::stod(to_yaml(Node::number(x))) == x);
    }
    CHECK(to_yaml(Node::integer(-9'000'000'000'000'000'000LL)) == "-9000000000000000000\n");
  }
}

}  // namespace moeplan::tests::write_yaml_test
