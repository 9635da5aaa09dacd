#include "model/text/reader.hpp"

#include <array>
#include <catch2/catch.hpp>

#include "tests/support/checks.hpp"

namespace moeplan::tests::reader_test {

using moeplan::tests::error_of;

namespace {

enum class Colour { Red, Green };
constexpr std::array<std::pair<Colour, std::string_view>, 2> kColours{{{Colour::Red, "red"}, {Colour::Green, "green"}}};

/// Reads `text` by `read(MapReader&)` and returns what is wrong with it.
template <class Read>
std::string complaints(const std::string& text, Read read) {
  const Node document = parse_yaml(text, "f");
  return error_of([&] {
    Diagnostics diagnostics;
    MapReader reader(document, "", diagnostics);
    read(reader);
    reader.finish();
    diagnostics.throw_if_any();
  });
}

}  // namespace

TEST_CASE("A strict reader says what is wrong, where, and what was meant") {
  SECTION("the two messages of the house style") {
    // Line 12 and 14 of a cluster file.
    const std::string text =
        "\n\n\n\n\n\n\n\n\n\nlinks:\n  - bandwidth: \"450\"\n    beta: 0.1 ns/B\n  -   bta: 0.1 ns/B\n";
    const Node document = parse_yaml(text, "configs/clusters/h100x8.yaml");
    const std::string error = error_of([&] {
      Diagnostics diagnostics;
      MapReader reader(document, "", diagnostics);
      for (const auto& [node, path] : reader.list("links")) {
        MapReader link(*node, path, diagnostics);
        (void)link.quantity_or<BytesPerSecond>("bandwidth", BytesPerSecond(1));
        (void)link.quantity_or<SecondsPerByte>("beta", SecondsPerByte(1));
        link.finish();
      }
      reader.finish();
      diagnostics.throw_if_any();
    });
    CHECK(error ==
          "configs/clusters/h100x8.yaml:12:16: links[0].bandwidth: \"450\" has no unit; write e.g. \"450 GB/s\" or "
          "\"3600 "
          "Gbps\"\n"
          "configs/clusters/h100x8.yaml:14:7: links[1].bta: unknown key; did you mean \"beta\"?");
  }
  SECTION("all that is wrong is found in one pass") {
    const std::string error = complaints("a: x\nb: 12\nc: 5 GBs\nd: [1]\ne: yes\nf: gren\nh:\n", [](MapReader& r) {
      CHECK(r.integer("a", 1, 9) == 1);
      CHECK(r.integer("b", 1, 9) == 1);
      CHECK(r.quantity<BytesPerSecond>("c") == BytesPerSecond(1));
      CHECK(r.number("d", 0, 1) == 0);
      CHECK_FALSE(r.boolean("e"));
      CHECK(r.choice<Colour>("f", kColours) == Colour::Red);
      CHECK(r.text("g").empty());
      CHECK(r.text("h").empty());
    });
    CHECK(error ==
          "f:1:4: a: \"x\" is not a whole number; expected 1 to 9\n"
          "f:2:4: b: 12 is out of range; expected 1 to 9\n"
          "f:3:4: c: \"5 GBs\" has unknown unit \"GBs\"; did you mean \"GB/s\"?; write e.g. \"450 GB/s\" or \"3600 "
          "Gbps\"\n"
          "f:4:4: d: expected a number, found a list\n"
          "f:5:4: e: \"yes\" is neither true nor false\n"
          "f:6:4: f: \"gren\" is not known; did you mean \"green\"?\n"
          "f:1:1: g: missing key\n"
          "f:7:1: h: has no value");
  }
}

TEST_CASE("A reader gives text its type, by its own rules and not by YAML's") {
  SECTION("010, 0x10, no and on are neither numbers nor truths") {
    const std::string error = complaints("a: 010\nb: 0x10\nc: no\nd: on\ne: True\n", [](MapReader& r) {
      (void)r.integer("a", 0);
      (void)r.integer("b", 0);
      (void)r.boolean("c");
      (void)r.boolean("d");
      (void)r.boolean("e");
    });
    CHECK(error ==
          "f:1:4: a: \"010\" has leading zeros; write 10; expected 0 to 1000000000000\n"
          "f:2:4: b: \"0x10\" is not a whole number; expected 0 to 1000000000000\n"
          "f:3:4: c: \"no\" is neither true nor false\n"
          "f:4:4: d: \"on\" is neither true nor false\n"
          "f:5:4: e: \"True\" is neither true nor false");
  }
  SECTION("numbers are finite and in their range") {
    for (const char* text : {"nan", "inf", ".inf", "-.inf", ".nan", "1e999", "2", "-0.001", "0x1", "1 s"}) {
      INFO(text);
      CHECK(complaints(std::string("a: ") + text, [](MapReader& r) { CHECK(r.number("a", 0, 1) == 0); }) != "");
      CHECK(complaints(std::string("a: ") + text + " GB", [](MapReader& r) { (void)r.quantity<Seconds>("a"); }) != "");
    }
    CHECK(complaints("a: 1.5", [](MapReader& r) { (void)r.number("a", 0, 1); }) ==
          "f:1:4: a: 1.5 is out of range; expected 0 to 1");
  }
  SECTION("a quantity is positive unless said otherwise") {
    CHECK(complaints("a: 0", [](MapReader& r) { (void)r.quantity<Seconds>("a"); }) ==
          "f:1:4: a: \"0\" is out of range; expected more than 0");
    CHECK(complaints("a: -1 us", [](MapReader& r) { (void)r.quantity<Seconds>("a", Sign::NonNegative); }) ==
          "f:1:4: a: \"-1 us\" is out of range; expected 0 or more");
    CHECK(complaints("a: 0", [](MapReader& r) {
            CHECK(r.quantity<Seconds>("a", Sign::NonNegative) == Seconds(0));
          }).empty());
  }
  SECTION("what is absent or null takes its fallback") {
    CHECK(complaints("a:\n", [](MapReader& r) {
            CHECK(r.integer_or("a", 7, 0) == 7);
            CHECK(r.number_or("b", 0.5, 0, 1) == 0.5);
            CHECK(r.boolean_or("c", true));
            CHECK(r.text_or("d", "x") == "x");
            CHECK(r.choice_or<Colour>("e", Colour::Green, kColours) == Colour::Green);
            CHECK(r.quantity_or<Seconds>("f", Seconds(3)) == Seconds(3));
            CHECK(r.list_or_empty("g").empty());
            CHECK_FALSE(r.has("a"));
          }).empty());
  }
}

TEST_CASE("A misspelt key is one error, that of the unknown key") {
  const auto read = [](MapReader& r) {
    const std::int64_t experts = r.integer("num_experts", 1);
    if (r.integer("top_k", 1) > experts) r.complain("top_k", "is more than num_experts");
    (void)r.integer_or("groups", 1, 1);
  };
  SECTION("and its value is read, so that no other one looks wrong") {
    CHECK(complaints("num_expert: 8\ntop_k: 2\n", read) ==
          "f:1:1: num_expert: unknown key; did you mean \"num_experts\"?");
  }
  SECTION("and a wrong value of it is located") {
    CHECK(complaints("num_expert: many\ntop_k: 1\n", read) ==
          "f:1:13: num_experts: \"many\" is not a whole number; expected 1 to 1000000000000\n"
          "f:1:1: num_expert: unknown key; did you mean \"num_experts\"?");
  }
  SECTION("whereas a key that no other is close to is missing") {
    CHECK(complaints("top_k: 1\ncolour: red\n", read) ==
          "f:1:1: num_experts: missing key\nf:2:1: colour: unknown key; one of groups, num_experts, top_k");
    CHECK(complaints("top_k: 1\ngroup: 1\n", read) ==
          "f:1:1: num_experts: missing key\nf:2:1: group: unknown key; did you mean \"groups\"?");
  }
  SECTION("but a key that is known is never taken for a misspelt one") {
    CHECK(complaints("aaa1: 1\n", [](MapReader& r) {
            (void)r.integer("aaa2", 0);
            (void)r.integer("aaa1", 0);
          }) == "f:1:1: aaa2: missing key");
  }
  SECTION("and of two known keys that are equally close, the missing one is meant") {
    CHECK(complaints("node_a: 1\nnode_c: 2\n", [](MapReader& r) {
            (void)r.integer("node_a", 0);
            (void)r.integer("node_b", 0);
          }) == "f:2:1: node_c: unknown key; did you mean \"node_b\"?");
  }
  SECTION("also of a nested map and a list") {
    CHECK(complaints("routin: {shape: zipf}\nlink: [1, 2]\n",
                     [](MapReader& r) {
                       CHECK(r.map("routing").text("shape") == "zipf");
                       CHECK(r.list("links").size() == 2);
                     }) ==
          "f:1:1: routin: unknown key; did you mean \"routing\"?\nf:2:1: link: unknown key; did you mean \"links\"?");
  }
}

TEST_CASE("Nested maps and lists keep their key paths") {
  SECTION("a missing map is reported once, because its keys are not the mistake") {
    CHECK(complaints("x: 1\n", [](MapReader& r) {
            (void)r.integer("x", 0);
            MapReader inner = r.map("routing");
            (void)inner.text("shape");
            (void)inner.integer("seed", 0);
            inner.finish();
          }) == "f:1:1: routing: missing key");
  }
  SECTION("wrong kinds") {
    CHECK(complaints("a: 1\nb: {c: 2}\n", [](MapReader& r) {
            (void)r.map("a");
            (void)r.list("b");
          }) == "f:1:4: a: expected a map, found a single value\nf:2:4: b: expected a list, found a map");
    CHECK(complaints("", [](MapReader&) {}) == "f:1:1: is empty; expected a map of keys");
    CHECK(complaints("[1]", [](MapReader&) {}) == "f:1:1: expected a map, found a list");
    CHECK(complaints("text", [](MapReader&) {}) == "f:1:1: expected a map, found a single value");
  }
  SECTION("a key in the other spelling of English is the same key, written twice it is unknown") {
    const auto read = [](MapReader& r) {
      CHECK(r.has("normaliser"));
      CHECK(r.integer("normaliser", 0) == 7);
      CHECK(r.integer_or("behavior", 1, 0) == 8);
    };
    CHECK(complaints("normalizer: 7\nbehaviour: 8\n", read).empty());
    CHECK(complaints("normaliser: 7\nnormalizer: 9\nbehaviour: 8\n", read)
              .starts_with("f:2:1: normalizer: unknown key; did you mean \"normaliser\"?"));
    CHECK(complaints("hidden_sise: 7\n", [](MapReader& r) {
            (void)r.integer("hidden_size", 0);
          }).find("hidden_sise: unknown key; did you mean \"hidden_size\"?") != std::string::npos);
    CHECK(complaints("behaviour: -1\nnormalizer: 7\n", [](MapReader& r) {
            (void)r.integer_or("behavior", 1, 0);
            (void)r.integer("normaliser", 0);
          }).starts_with("f:1:12: behavior: "));
  }
  SECTION("fifty thousand unknown keys are counted, not listed") {
    std::string text;
    for (int i = 0; i < 50'000; ++i) text += "k" + std::to_string(i) + ": 1\n";
    const std::string error = complaints(text, [](MapReader& r) { (void)r.integer_or("known", 1, 0); });
    CHECK(error.starts_with("f:1:1: k0: unknown key"));
    CHECK(error.ends_with("\nf: 49900 more errors are not shown"));
  }
}

}  // namespace moeplan::tests::reader_test
