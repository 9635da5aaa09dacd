// Every reader on good texts, on what was found by fuzzing (tests/fuzz/corpus/READER/), and on random damage to both:
// it reads, or raises InputError. MOEPLAN_FUZZ_RUNS=100000 damages each text so often, MOEPLAN_FUZZ_READER names one.
#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <random>

#include "model/base/diagnostics.hpp"
#include "tests/fuzz/readers.hpp"
#include "tests/support/checks.hpp"

namespace moeplan::tests::replay_test {

namespace {

constexpr std::array kPieces{"0",    "-1",   "1e308", "1e-320", "nan",  ".inf",  "99999999999999999999",
                             "''",   "\"",   "[",     "]",      "{",    "}",     ":",
                             ": ",   ",",    "\n",    "\t",     "#",    "\xff",  "\\",
                             "null", "\n- ", "\n  ",  "true",   "GB/s", "0.5 %", "&a",
                             "*a",   "!!",   "<<:"};

/// The text with a few random changes.
std::string damaged(std::string text, std::mt19937_64& random) {
  const auto below = [&](std::size_t n) { return n == 0 ? 0 : random() % n; };
  for (std::size_t changes = 1 + below(4); changes > 0; --changes) {
    const std::size_t at = below(text.size() + 1), length = below(std::min<std::size_t>(text.size() - at, 40) + 1);
    switch (below(6)) {
      case 0: text.erase(at, length); break;
      case 1: text.insert(at, text.substr(at, length)); break;
      case 2: text.insert(at, kPieces[below(kPieces.size())]); break;
      case 3: text.replace(at, length, kPieces[below(kPieces.size())]); break;
      case 4: text.insert(below(text.size() + 1), text.substr(at, length)); break;
      default:
        if (at < text.size()) text[at] = static_cast<char>(random());
    }
  }
  return text;
}

/// What went wrong; "" if the text was read, or refused as it should be.
std::string complaint(const Reader& reader, const std::string& text) {
  try {
    reader.read(text);
  } catch (const InputError& e) {
    return std::string_view(e.what()).empty() ? "refused without a word" : "";
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

std::size_t damages() {
  const char* text = std::getenv("MOEPLAN_FUZZ_RUNS");
  return text == nullptr ? 40 : static_cast<std::size_t>(std::max(1, std::atoi(text)));
}

}  // namespace

TEST_CASE("Readers read or refuse whatever they are given", "[slow]") {
  const std::filesystem::path source = MOEPLAN_SOURCE_DIR;
  const char* only = std::getenv("MOEPLAN_FUZZ_READER");
  for (const Reader& reader : readers(source)) {
    if (only != nullptr && reader.name != only) continue;
    CAPTURE(reader.name);
    const std::vector<std::string> texts = reader.texts(source);
    REQUIRE_FALSE(texts.empty());
    std::mt19937_64 random(20261123);  // NOLINT: the same damage every time
    for (const std::string& text : texts) {
      CHECK(complaint(reader, text).empty());
      for (std::size_t i = 0; i < damages(); ++i) {
        const std::string bad = damaged(text, random);
        if (const std::string what = complaint(reader, bad); !what.empty()) {
          FAIL_CHECK(reader.name << ": " << what << "\n--- of:\n" << bad);
        }
      }
    }
  }
}

TEST_CASE("The good texts of readers are good") {
  for (const Reader& reader : readers(MOEPLAN_SOURCE_DIR)) {
    CAPTURE(reader.name);
    for (const std::string& text : reader.examples) CHECK(error_of([&] { reader.read(text); }) == "");
  }
}

}  // namespace moeplan::tests::replay_test
