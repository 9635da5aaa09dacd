#include "model/text/document.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>

#include "model/text/unreadable_file.hpp"
#include "tests/support/checks.hpp"

namespace moeplan::tests::document_test {

using moeplan::tests::error_of;
using moeplan::tests::repeated;
using moeplan::tests::TemporaryDirectory;

namespace {

std::string yaml_error(const std::string& text) {
  return error_of([&] { return parse_yaml(text, "f"); });
}
std::string json_error(const std::string& text) {
  return error_of([&] { return parse_json(text, "f"); });
}

std::string scalar_of(const Node& document, std::string_view key) {
  const Node* n = document.find(key);
  return n ? n->scalar : "(none)";
}

}  // namespace

TEST_CASE("A YAML document is a tree whose nodes know their place") {
  const Node d = parse_yaml("name: x\nlinks:\n  - {a: 1, b: [2, 3]}\nempty:\nnone: null\nquoted: \"null\"\n", "f");
  REQUIRE(d.kind == Node::Kind::Map);
  CHECK(scalar_of(d, "name") == "x");
  const Node& link = d.find("links")->items.at(0);
  CHECK(link.find("a")->where == Location{"f", 3, 9});
  CHECK(link.find("b")->items.at(1).where == Location{"f", 3, 19});
  CHECK(d.entries.at(1).where == Location{"f", 2, 1});
  CHECK(d.find("empty")->kind == Node::Kind::Null);
  CHECK(d.find("empty")->where == Location{"f", 4, 1});  // the key's place: the value has none
  CHECK(d.find("none")->kind == Node::Kind::Null);
  CHECK(scalar_of(d, "quoted") == "null");

  SECTION("scalars stay text, because 010, no and 0x10 mean what their reader says") {
    const Node s = parse_yaml("a: 010\nb: no\nc: 0x10\nd: .inf\ne: 1e999\nf: 12:30:00\n", "f");
    CHECK(scalar_of(s, "a") == "010");
    CHECK(scalar_of(s, "b") == "no");
    CHECK(scalar_of(s, "c") == "0x10");
    CHECK(scalar_of(s, "d") == ".inf");
    CHECK(scalar_of(s, "e") == "1e999");
    CHECK(scalar_of(s, "f") == "12:30:00");
  }
  SECTION("line ends and byte order mark do not matter") {
    CHECK(parse_yaml("a: 1\r\nb:\r\n  - x\r\n", "f").same_content(parse_yaml("a: 1\nb: [x]\n", "f")));
    CHECK(parse_yaml("\xef\xbb\xbf"
                     "a: 1\n",
                     "f")
              .find("a")
              ->where == Location{"f", 1, 4});
    CHECK(parse_json("\xef\xbb\xbf{\"a\": 1}", "f").same_content(parse_yaml("a: 1", "f")));
  }
  SECTION("an empty text is nothing, and JSON's is an error") {
    CHECK(parse_yaml("", "f").kind == Node::Kind::Null);
    CHECK(parse_yaml("# only a comment\n\n", "f").kind == Node::Kind::Null);
    CHECK(json_error("").starts_with("f:1:1: not valid JSON: "));
  }
}

TEST_CASE("A JSON document is the same tree") {
  const Node d = parse_json("{\"a\": 1,\n \"b\": [true, null, \"x\\\"y\\\\\"],\n \"c\": 1.50e3\n}\n", "f");
  CHECK(scalar_of(d, "a") == "1");
  CHECK(scalar_of(d, "c") == "1.50e3");
  CHECK(d.find("b")->items.at(2).scalar == "x\"y\\");

  SECTION("places are those where the token begins, because there the eye looks") {
    CHECK(d.where == Location{"f", 1, 1});
    CHECK(d.entries.at(0).where == Location{"f", 1, 2});
    CHECK(d.find("a")->where == Location{"f", 1, 7});
    CHECK(d.find("b")->where == Location{"f", 2, 7});
    CHECK(d.find("b")->items.at(0).where == Location{"f", 2, 8});
    CHECK(d.find("b")->items.at(1).where == Location{"f", 2, 14});
    CHECK(d.find("b")->items.at(2).where == Location{"f", 2, 20});
    CHECK(d.find("c")->where == Location{"f", 3, 7});  // a number that ends at a line end
    CHECK(parse_json("17", "f").where == Location{"f", 1, 1});
    CHECK(parse_json("  -1 ", "f").where == Location{"f", 1, 3});
    CHECK(parse_json(" \"\\\\\\\"\"", "f").where == Location{"f", 1, 2});
  }
  SECTION("whole numbers of 64 bits keep their digits") {
    CHECK(parse_json("18446744073709551615", "f").scalar == "18446744073709551615");
    CHECK(parse_json("-9223372036854775808", "f").scalar == "-9223372036854775808");
  }
}

TEST_CASE("What a document may not hold is refused with its place") {
  SECTION("duplicate keys, because a reader would silently drop one") {
    CHECK(yaml_error("a: 1\nb: {x: 1, x: 2}\n") == "f:2:11: duplicate key \"x\"");
    CHECK(yaml_error("a: 1\n\"a\": 2\n") == "f:2:1: duplicate key \"a\"");
    CHECK(json_error("{\"a\": 1,\n \"a\": 2}") == "f:2:2: duplicate key \"a\"");
  }
  SECTION("two escapes that the parser does not write as UTF-8, unlike their numbers") {
    CHECK(yaml_error("a: \"b\\N\"") == "f:1:4: the escapes \\N and \\_ are not supported; write \\x85 or \\xa0");
    CHECK(yaml_error("a: \"b\\_\"") == "f:1:4: the escapes \\N and \\_ are not supported; write \\x85 or \\xa0");
    CHECK(parse_yaml("a: \"b\\x85\\xa0\"", "f").find("a")->scalar == "b\u0085\u00a0");
  }
  SECTION("anchors, aliases and tags, because includes say it better and no expansion can explode") {
    const std::string hint = " are not supported; use include: or write the value again";
    CHECK(yaml_error("a: &x 1\n") == "f:1:4: anchors (&name)" + hint);
    CHECK(yaml_error("a: &a [x]\nb: &b [*a, *a, *a]\nc: [*b, *b, *b]\n") == "f:1:4: anchors (&name)" + hint);
    CHECK(yaml_error("a: *x\n") == "f:1:4: not valid YAML: the referenced anchor is not defined");
    CHECK(yaml_error("a: !!int 3\n") == "f:1:4: tags (\"tag:yaml.org,2002:int\") are not supported");
    CHECK(yaml_error("a: !python/object {}\n") == "f:1:4: tags (\"!python/object\") are not supported");
  }
  SECTION("a second document") {
    CHECK(yaml_error("a: 1\n---\nb: 2\n").ends_with("a second document (---) in one file; expected one"));
  }
  SECTION("keys that are no text, or too long to be written again") {
    CHECK(yaml_error("[a]: 1\n").ends_with("a map's key is expected to be plain text"));
    CHECK(yaml_error("? {a: 1}\n: 1\n").ends_with("a map's key is expected to be plain text"));
    CHECK(yaml_error(": 1\n").ends_with("a map's key is expected to be plain text"));
    CHECK(yaml_error(std::string(201, 'k') + ": 1") == "f:1:1: a key of more than 200 bytes");
    CHECK(json_error("{\"" + std::string(201, 'k') + "\": 1}") == "f:1:2: a key of more than 200 bytes");
    CHECK(yaml_error(std::string(200, 'k') + ": 1").empty());
  }
  SECTION("bytes that are no text") {
    CHECK(yaml_error(std::string("a: 1\0b", 6)) == "f: is not a text file (it holds NUL bytes)");
    CHECK(json_error(std::string("\0\0", 2)) == "f: is not a text file (it holds NUL bytes)");
    CHECK(yaml_error("a: 1\nb: \x04\nc: 3\n") == "f:2:4: control character 0x04; write it as an escape");
    CHECK(yaml_error("a: 1\nb: \xff\n") == "f:2:4: byte 0xff is not UTF-8");
    CHECK(yaml_error("\xff\xfe"
                     "a") == "f:1:1: byte 0xff is not UTF-8");
    for (const char* text :
         {"\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\x80", "\xf0\x80\x80\x80", "\xe0\x80\x80"}) {
      CHECK(yaml_error(text).ends_with("is not UTF-8"));
      CHECK(json_error(std::string("\"") + text + "\"").ends_with("is not UTF-8"));
    }
    CHECK(yaml_error("a: \xf0\x9f\x92\xa1 \xe2\x82\xac \xc3\xa9\n").empty());
  }
  SECTION("truncated texts") {
    for (const char* text :
         {"a: [1, 2", "a: {b: 1", "a: \"x", "a: 'x", "a: {b: [1, {c: ", "a: \"\\", "a: \"\\x4", "%YAML"}) {
      INFO(text);
      CHECK(yaml_error(text) != "");
    }
    for (const char* text : {"{",    "[1,", "{\"a\"", "{\"a\":", "\"x",  "\"\\",    "\"\\u12",  "tru",
                             "-",    "1e",  "[1]]",   "{} {}",   "nan",  "NaNs",    "Infinite", "010",
                             "0x10", "+1",  "'a'",    "{a: 1}",  "[1,]", "// c\n1", "1e999",    "-1e999"}) {
      INFO(text);
      CHECK(json_error(text).starts_with("f:1:"));
    }
    CHECK(json_error("{\"a\": 1,\n  oops}").starts_with("f:2:3: not valid JSON: "));
  }
  SECTION("tabs as indentation") { CHECK(yaml_error("a:\n\t- 1\n\t- 2\n") != ""); }
}

TEST_CASE("No text makes the parser crash, hang or swell", "[slow]") {
  const auto start = std::chrono::steady_clock::now();
  struct Case {
    std::string what;
    std::string text;
    std::string expected;  // the end of the message; "" where the text is valid
  };
  std::string stairs;
  for (std::size_t i = 0; i < 20'000 && stairs.size() < kConfigSizeLimit; ++i) stairs += std::string(i, ' ') + "a:\n";
  const std::string deep = "nested deeper than 64 levels";
  const std::vector<Case> cases{
      {"open brackets", repeated("[", 20'000), deep},
      {"brackets", repeated("[", 20'000) + repeated("]", 20'000), deep},
      {"open braces", repeated("{", 20'000), deep},
      {"maps in maps", repeated("{a: ", 20'000), deep},
      {"lists in maps in lists", repeated("[{a: ", 20'000), deep},
      {"dashes", repeated("- ", 20'000) + "1", deep},
      {"question marks", repeated("? ", 20'000), deep},
      {"block levels", stairs, deep},
      {"one long line", "a: " + std::string(10'000'000, 'x'), ""},
      {"one long quoted line", "a: \"" + std::string(1'000'000, 'x') + "\"", ""},
      {"a deeply indented line", std::string(1'000'000, ' ') + "a: 1", ""},
      {"4 Mi brackets", std::string(kConfigSizeLimit, '['), "more than 1000000 values"},
      {"4 Mi commas", "[" + std::string(kConfigSizeLimit, ','), "more than 1000000 values"},
      {"a million values", "a: [" + repeated("1,\n", 1'000'001) + "]", "more than 1000000 values"},
      {"100,000 keys", "", ""},
  };
  for (Case c : cases) {
    if (c.what == "100,000 keys") {
      for (int i = 0; i < 100'000; ++i) c.text += "k" + std::to_string(i) + ": 1\n";
    }
    INFO(c.what);
    const std::string error = yaml_error(c.text);
    CHECK(error.ends_with(c.expected));
    CHECK(error.empty() == c.expected.empty());
  }
  CHECK(json_error(repeated("[", 20'000)) == "f:1:65: " + deep);
  CHECK(json_error(repeated("{\"a\":", 20'000)) == "f:1:321: " + deep);
  CHECK(json_error("[" + repeated("1,", 1'000'001) + "1]").ends_with("more than 1000000 values"));
  CHECK(json_error("\"" + repeated("\\\"", 200'000) + "\"").empty());  // looking back for a string's start is linear
  CHECK(json_error("\"" + repeated("\\\\", 200'000) + "\"").empty());

  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  WARN("hostile texts: " << elapsed.count() << " s, " << usage.ru_maxrss / 1024 << " MiB at most");
#ifndef __SANITIZE_ADDRESS__
  CHECK(usage.ru_maxrss < 1 << 20);  // KiB
#endif
}

TEST_CASE("Includes are merged below the including file", "[slow]") {
  const TemporaryDirectory dir;
  dir.write("gpus/h.yaml", "gpu: {name: h, peak: 1 TFLOP/s}\n");
  dir.write("base.json", R"({"gpu": {"name": "base", "memory": "1 GB"}, "nodes": 2, "list": [1, 2]})");

  SECTION("later ones win over earlier ones, the file itself over all, maps key by key") {
    const auto path = dir.write("c.yaml", "include: [base.json, gpus/h.yaml]\nnodes: 4\nlist: [3]\n");
    const Node expected =
        parse_yaml("gpu: {name: h, memory: 1 GB, peak: 1 TFLOP/s}\nnodes: 4\nlist: [3]\n", "expected");
    CHECK(load_document(path).same_content(expected));
    CHECK(load_document(path).find("gpu")->find("peak")->where.file == (dir.path() / "gpus/h.yaml").string());
  }
  SECTION("a cycle is refused at the include that closes it") {
    dir.write("a.yaml", "x: 1\ninclude: b.yaml\n");
    const auto b = dir.write("b.yaml", "include: ./a.yaml\n");
    CHECK(error_of([&] { return load_document(b); }) ==
          (dir.path() / "./a.yaml").string() + ":2:10: include: include cycle: \"b.yaml\" includes itself");
    const auto self = dir.write("self.yaml", "include: self.yaml\n");
    CHECK(error_of([&] { return load_document(self); }).ends_with("include cycle: \"self.yaml\" includes itself"));
  }
  SECTION("missing files, directories and other things are refused at the place that names them") {
    const auto refused = [&](const std::string& include) {
      const auto path = dir.write("c.yaml", "include: " + include + "\n");
      const std::string error = error_of([&] { return load_document(path); });
      REQUIRE(error.starts_with(path.string() + ":1:"));
      return error.substr(error.find("include: ") + 9);
    };
    dir.write("empty.yaml", "");
    dir.write("list.yaml", "[1]");
    std::filesystem::create_symlink("loop.yaml", dir.path() / "loop.yaml");
    CHECK(refused("none.yaml") == "\"none.yaml\" is no readable file");
    CHECK(refused("gpus") == "\"gpus\" is no readable file");
    CHECK(refused("loop.yaml") == "\"loop.yaml\" is no readable file");
    CHECK(refused("/dev/zero") == "\"/dev/zero\" is no readable file");
    CHECK(refused(std::string(5000, 'x')).ends_with("is no readable file"));
    CHECK(refused("") == "expected a path, or a list of paths, relative to this file");
    CHECK(refused("{a: 1}") == "expected a path, or a list of paths, relative to this file");
    CHECK(refused("[[base.json]]") == "expected a path, or a list of paths, relative to this file");
    CHECK(refused("[base.json, empty.yaml]") == "\"empty.yaml\" holds no map of keys");
    CHECK(refused("list.yaml") == "\"list.yaml\" holds no map of keys");
  }
  SECTION("includes that multiply are bounded") {
    for (int i = 0; i < 30; ++i) {
      const std::string next = std::to_string(i + 1) + ".yaml";
      dir.write(std::to_string(i) + ".yaml", "include: [" + next + ", " + next + "]\n");
    }
    dir.write("30.yaml", "a: 1\n");
    CHECK(error_of([&] { return load_document(dir.path() / "0.yaml"); }).ends_with("more than 256 files are included"));
    dir.write("large.yaml", "a: " + std::string(1'000'000, 'x') + "\n");
    const auto five = dir.write("five.yaml", "include: [large.yaml, large.yaml, large.yaml, large.yaml, large.yaml]\n");
    CHECK(error_of([&] { return load_document(five); }).ends_with("together with the files included so far"));
  }
}

TEST_CASE("Only whole regular files within the limit are read") {
  const TemporaryDirectory dir;
  const auto message = [&](const std::filesystem::path& path) {
    const std::string error = error_of([&] { return read_text_file(path, 10); });
    return error.substr(std::min(error.size(), path.string().size()));
  };
  CHECK(message(dir.path() / "none") == ": no such file");
  CHECK(message(dir.path()) == ": is a directory; expected a file");
  CHECK(message("/dev/zero") == ": is not a regular file");
  CHECK(message(dir.write("f", "0123456789a")) == ": is larger than 10 B, the most that such a file may have");
  CHECK(read_text_file(dir.write("g", "0123456789"), 10) == "0123456789");
  CHECK(error_of([&] {
          return load_document(dir.write("h.yaml", std::string(kConfigSizeLimit + 1, '#')));
        }).ends_with(": is larger than 4.000 MiB, the most that such a file may have"));
}

TEST_CASE("An override sets one value by its key path") {
  const auto overridden = [](const std::string& path, const std::string& value) {
    Node d = parse_yaml("a: {b: [{c: 1}, {c: 2}]}\nn:\n", "f");
    override_value(d, path, value, "-C x");
    return d;
  };
  SECTION("existing values are replaced, missing maps are made") {
    CHECK(overridden("a.b[1].c", "[3, 4]").same_content(parse_yaml("a: {b: [{c: 1}, {c: [3, 4]}]}\nn:\n", "e")));
    CHECK(overridden("n.x.y", "5 GB").same_content(parse_yaml("a: {b: [{c: 1}, {c: 2}]}\nn: {x: {y: 5 GB}}\n", "e")));
    CHECK(overridden("a", "").find("a")->kind == Node::Kind::Null);
  }
  SECTION("a wrong path or value is an input error that names its origin") {
    const auto refused = [&](const std::string& path, const std::string& value = "1") {
      return error_of([&] { return overridden(path, value); });
    };
    CHECK(refused("a.b[2].c") == "-C x: a.b[2].c: there is no element [2] in a list of 2");
    CHECK(refused("a[0]") == "-C x: a[0]: there is no element [0]");
    CHECK(refused("a.b.c") == "-C x: a.b.c: \"c\" is not inside a map");
    CHECK(refused("a.") == "-C x: a.: the key path ends in a dot");
    CHECK(refused("a.b[0].") == "-C x: a.b[0].: the key path ends in a dot");
    for (const char* path : {"", ".", "a..b", "a.b[0]c", "a.b[", "a.b[x]", "a.b[-1]", "a.b[]"}) {
      INFO(path);
      CHECK(refused(path) != "");
    }
    CHECK(refused(repeated("a.", 100'000) + "a").ends_with("the key path has more than 64 steps"));
    CHECK(refused("a", "[1").starts_with("-C x:1:"));
    CHECK(refused("a", "*b").starts_with("-C x:1:1: "));
  }
}

TEST_CASE("A file that cannot be read to its end is refused") {
  CHECK(error_of([] { (void)read_text_file("/proc/self/mem"); }) ==
        "/proc/self/mem: cannot be read: Input/output error");
  CHECK_THROWS_AS(read_text_file("/proc/self/mem"), UnreadableFile);
}

TEST_CASE("A file of which the system tells nothing is not taken for one that does not exist") {
  const TemporaryDirectory dir;
  const auto circle = dir.path() / "circle.yaml";
  std::filesystem::create_symlink(circle, circle);
  const std::string error = circle.string() + ": cannot be read: Too many levels of symbolic links";
  CHECK_THROWS_AS(file_status(circle), UnreadableFile);
  CHECK(error_of([&] { (void)read_text_file(circle); }) == error);
  for (const auto& name : {std::string("none"), std::string(300, 'x')})
    CHECK(file_status(dir.path() / name).type() == std::filesystem::file_type::not_found);
}

TEST_CASE("A file is written as a whole or not at all") {
  const TemporaryDirectory dir;
  SECTION("new, then replaced, with nothing left beside it") {
    write_file_atomically(dir.path() / "f", "one");
    write_file_atomically(dir.path() / "f", "two");
    CHECK(read_text_file(dir.path() / "f") == "two");
    CHECK(dir.files() == 1);
  }
  SECTION("on failure the old file stays and no temporary file does") {
    CHECK(error_of([&] { write_file_atomically(dir.path() / "none/f", "x"); }) ==
          (dir.path() / "none/f").string() + ": cannot be written: No such file or directory");
    std::filesystem::create_directory(dir.path() / "d");
    CHECK(error_of([&] { write_file_atomically(dir.path() / "d", "x"); }) ==
          (dir.path() / "d").string() + ": cannot be written: Is a directory");
    CHECK(dir.files() == 1);

    dir.write("old", "old");
    rlimit before{};
    ::getrlimit(RLIMIT_FSIZE, &before);
    const rlimit small{1000, before.rlim_max};  // the disk is full after 1000 bytes
    ::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, &small);
    const std::string error = error_of([&] { write_file_atomically(dir.path() / "old", std::string(100'000, 'n')); });
    ::setrlimit(RLIMIT_FSIZE, &before);
    CHECK(error == (dir.path() / "old").string() + ": cannot be written: File too large");
    CHECK(read_text_file(dir.path() / "old") == "old");
    CHECK(dir.files() == 2);
  }
  SECTION("a link stays a link, a device stays a device") {
    dir.write("real", "old");
    std::filesystem::create_symlink("real", dir.path() / "link");
    write_file_atomically(dir.path() / "link", "new");
    CHECK(std::filesystem::is_symlink(dir.path() / "link"));
    CHECK(read_text_file(dir.path() / "real") == "new");
    write_file_atomically("/dev/null", "x");
    CHECK(std::filesystem::is_character_file("/dev/null"));
  }
  SECTION("a link to a file that does not exist yet makes it") {
    std::filesystem::create_directory(dir.path() / "d");
    std::filesystem::create_symlink("d/new", dir.path() / "second");
    std::filesystem::create_symlink(dir.path() / "second", dir.path() / "first");
    write_file_atomically(dir.path() / "first", "new");
    CHECK(std::filesystem::is_symlink(dir.path() / "first"));
    CHECK(read_text_file(dir.path() / "d/new") == "new");
  }
  SECTION("links in a circle are refused") {
    std::filesystem::create_symlink("b", dir.path() / "a");
    std::filesystem::create_symlink("a", dir.path() / "b");
    CHECK(error_of([&] {
            write_file_atomically(dir.path() / "a", "x");
          }).ends_with("cannot be written: Too many levels of symbolic links"));
    CHECK(std::filesystem::is_symlink(dir.path() / "a"));
  }
  SECTION("a name may be as long as the file system allows") {
    const std::filesystem::path path = dir.path() / std::string(255, 'n');
    write_file_atomically(path, "x");
    CHECK(read_text_file(path) == "x");
  }
  SECTION("the temporary file of another process is left alone") {
    const std::filesystem::path taken = dir.path() / fmt::format(".moeplan-{}-0.tmp", ::getpid());
    std::filesystem::create_symlink("/dev/full", taken);
    write_file_atomically(dir.path() / "f", "x");
    CHECK(read_text_file(dir.path() / "f") == "x");
    CHECK(std::filesystem::is_symlink(taken));
  }
}

}  // namespace moeplan::tests::document_test
