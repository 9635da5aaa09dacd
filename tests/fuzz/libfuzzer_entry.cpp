// The entry point of libFuzzer: the reader named by MOEPLAN_FUZZ_READER, on the fuzzer's texts (scripts/fuzz).
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "model/base/diagnostics.hpp"
#include "tests/fuzz/readers.hpp"

namespace {

const moeplan::tests::Reader& chosen() {
  static const std::vector<moeplan::tests::Reader> all = moeplan::tests::readers(MOEPLAN_SOURCE_DIR);
  const char* name = std::getenv("MOEPLAN_FUZZ_READER");
  for (const moeplan::tests::Reader& reader : all) {
    if (name != nullptr && reader.name == name) return reader;
  }
  std::fputs("MOEPLAN_FUZZ_READER is to be one of:", stderr);
  for (const moeplan::tests::Reader& reader : all) std::fprintf(stderr, " %s", reader.name.c_str());
  std::fputs("\n", stderr);
  std::exit(2);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const moeplan::tests::Reader& reader = chosen();
  try {
    reader.read(std::string(reinterpret_cast<const char*>(data), size));
  } catch (const moeplan::InputError&) {
  }
  return 0;
}
