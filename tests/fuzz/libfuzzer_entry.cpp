// The entry points of libFuzzer: the reader named by MOEPLAN_FUZZ_READER, on the fuzzer's texts (scripts/fuzz). With
// MOEPLAN_FUZZ_SEEDS the program writes the good texts of every reader into FOLDER/READER/ instead, and ends.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "model/base/diagnostics.hpp"
#include "tests/fuzz/readers.hpp"

namespace {

const std::vector<moeplan::tests::Reader>& all_readers() {
  static const std::vector<moeplan::tests::Reader> all = moeplan::tests::readers(MOEPLAN_SOURCE_DIR);
  return all;
}

const moeplan::tests::Reader& chosen() {
  const char* name = std::getenv("MOEPLAN_FUZZ_READER");
  for (const moeplan::tests::Reader& reader : all_readers()) {
    if (name != nullptr && reader.name == name) return reader;
  }
  std::fputs("MOEPLAN_FUZZ_READER is to be one of:", stderr);
  for (const moeplan::tests::Reader& reader : all_readers()) std::fprintf(stderr, " %s", reader.name.c_str());
  std::fputs("\n", stderr);
  std::exit(2);
}

void write_seeds(const std::filesystem::path& folder) {
  for (const moeplan::tests::Reader& reader : all_readers()) {
    std::filesystem::create_directories(folder / reader.name);
    int number = 0;
    for (const std::string& text : reader.texts(MOEPLAN_SOURCE_DIR)) {
      std::ofstream(folder / reader.name / std::to_string(number), std::ios::binary) << text;
      ++number;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  if (const char* folder = std::getenv("MOEPLAN_FUZZ_SEEDS"); folder != nullptr) {
    write_seeds(folder);
    std::exit(0);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const moeplan::tests::Reader& reader = chosen();
  try {
    reader.read(std::string(reinterpret_cast<const char*>(data), size));
  } catch (const moeplan::InputError&) {
  }
  return 0;
}
