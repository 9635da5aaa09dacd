#include "model/costs/codec.hpp"

#include <catch2/catch.hpp>

#include "model/costs/compute.hpp"
#include "planner/lowering/feasibility.hpp"
#include "planner/lowering/lower.hpp"
#include "tests/support/small_cases.hpp"

namespace moeplan::tests::codec_test {

using namespace moeplan::planner;
using moeplan::tests::small;
using moeplan::tests::SmallCase;

namespace {

std::int64_t bytes_of(const std::vector<WirePart>& parts) {
  std::int64_t bytes = 0;
  for (const WirePart& p : parts) bytes += p.columns * size_of(p.dtype);
  return bytes;
}

/// A small model on two nodes whose workload allows these codecs.
tests::Small case_of(std::set<WireFormat> allowed, const std::string& dtype) {
  SmallCase c;
  c.nodes = 2;
  c.mode = "forward";
  c.dtype = dtype;
  tests::Small s = small(c);
  s.workload.codecs.allowed = std::move(allowed);
  return s;
}

Candidate candidate_of(const std::string& codec) {
  Candidate c;
  c.degrees = {.pp = 1, .dp = 8, .cp = 1, .tp = 1, .edp = 1, .ep = 8, .esp = 1};
  c.codec = *parse_codec_pair(codec);
  return c;
}

struct Sent {
  std::int64_t messages = 0;
  std::int64_t bytes = 0;
  Seconds codec;  // time to encode and decode on rank 0
};

/// What rank 0 sends in the all-to-alls of one direction of one MoE layer.
Sent sent_of(const tests::Small& s, const std::string& codec, OpClass way) {
  const Program p = lower_iteration(s.model, s.workload, candidate_of(codec), s.cluster.ranks_per_node());
  for (const Block& block : p.blocks) {
    Sent sent;
    for (const Operation& op : block.operations) {
      if (op.op_class == OpClass::Codec) sent.codec += compute_time(p, op, RankId(0), s.cluster.gpu);
      if (op.op_class != way || !op.communication()) continue;
      ++sent.messages;
      for (const Flow& f : flows_from(p, op, RankId(0))) sent.bytes += f.bytes;
    }
    if (sent.messages > 0) return sent;
  }
  return {};
}

}  // namespace

TEST_CASE("What a codec sends of a row") {
  constexpr std::int64_t kColumns = 1024;
  const CodecOptions options;
  const std::int64_t fp32 = kColumns * 4;
  SECTION("fp16: half of fp32") { CHECK(bytes_of(wire_parts(WireFormat::Fp16, options, kColumns)) * 2 == fp32); }
  SECTION("zfp: so many bits a value, 8 unless the workload says otherwise: a quarter of fp32") {
    CHECK(bytes_of(wire_parts(WireFormat::Zfp, options, kColumns)) * 4 == fp32);
    CodecOptions twelve = options;
    twelve.zfp_bits = 12;
    CHECK(bytes_of(wire_parts(WireFormat::Zfp, twelve, kColumns)) == kColumns * 12 / 8);
    CHECK(bytes_of(wire_parts(WireFormat::Zfp, twelve, 3)) == 5);  // 36 bits in whole bytes
  }
  SECTION("int8: a quarter of fp32, and a scale and a zero point of 4 bytes a row in messages of their own") {
    const std::vector<WirePart> parts = wire_parts(WireFormat::Int8, options, kColumns);
    CHECK(parts.size() == 3);
    CHECK(bytes_of(parts) == fp32 / 4 + 2 * 4);
    CodecOptions symmetric = options;
    symmetric.int8_row_messages = 1;
    CHECK(bytes_of(wire_parts(WireFormat::Int8, symmetric, kColumns)) == fp32 / 4 + 4);
  }
}

TEST_CASE("fp8 in blocks: a quarter of fp32, and a scale of 4 bytes per 128 values in a message of its own") {
  const std::vector<WirePart> parts = wire_parts(WireFormat::Fp8Block, {}, 1024);
  CHECK(parts.size() == 2);
  CHECK(bytes_of(parts) == 1024 + 8 * 4);
  CHECK(bytes_of(wire_parts(WireFormat::Fp8Block, {}, 130)) == 130 + 2 * 4);
}

TEST_CASE("The name of a pair of codecs") {
  for (const char* name : {"none", "fp16", "int8", "zfp", "int8/none", "none/zfp", "fp16/int8"}) {
    CAPTURE(name);
    REQUIRE(parse_codec_pair(name));
    CHECK(codec_pair_name(*parse_codec_pair(name)) == name);
    CHECK(codec_pair_error(name).empty());
  }
  SECTION("is short where both ways are the same") {
    CHECK(codec_pair_name(*parse_codec_pair("zfp/zfp")) == "zfp");
    CHECK(codec_pair_name(*parse_codec_pair("none/none")) == "none");
  }
  SECTION("unknown names, with the nearest") {
    for (const char* name : {"", "/", "zfp/", "zfp/none/int8", "ZFP", "int9"}) {
      CAPTURE(name);
      CHECK_FALSE(parse_codec_pair(name));
      CHECK_FALSE(codec_pair_error(name).empty());
    }
    CHECK(codec_pair_error("int8/fp15") == "\"fp15\" is not known; did you mean \"fp16\"?");
  }
}

TEST_CASE("Rows travel as the codec makes them") {
  const tests::Small s = case_of({WireFormat::Fp16, WireFormat::Int8, WireFormat::Zfp}, "fp32");
  const Sent plain = sent_of(s, "none", OpClass::Dispatch);
  const std::int64_t rows = plain.bytes / (s.model.hidden_size * 4);
  REQUIRE(plain.messages == 1);
  REQUIRE(rows > 0);
  SECTION("bytes and messages") {
    const Sent fp16 = sent_of(s, "fp16", OpClass::Dispatch), zfp = sent_of(s, "zfp", OpClass::Dispatch);
    const Sent int8 = sent_of(s, "int8", OpClass::Dispatch);
    CHECK(fp16.bytes * 2 == plain.bytes);
    CHECK(zfp.bytes * 4 == plain.bytes);
    CHECK(fp16.messages == 1);
    CHECK(zfp.messages == 1);
    CHECK(int8.messages == 3);  // ScheMoE's three all-to-alls
    CHECK(int8.bytes == plain.bytes / 4 + rows * 8);
  }
  SECTION("other codecs there and back") {
    CHECK(sent_of(s, "zfp/none", OpClass::Dispatch).bytes * 4 == plain.bytes);
    CHECK(sent_of(s, "zfp/none", OpClass::Combine).bytes == sent_of(s, "none", OpClass::Combine).bytes);
    CHECK(sent_of(s, "none/fp16", OpClass::Dispatch).bytes == plain.bytes);
    CHECK(sent_of(s, "none/fp16", OpClass::Combine).bytes * 2 == sent_of(s, "none", OpClass::Combine).bytes);
  }
}

TEST_CASE("A codec takes the time of its throughput, or of a memory-bound kernel") {
  tests::Small s = case_of({WireFormat::Zfp}, "fp32");
  const double size = 4.0 * static_cast<double>(s.model.hidden_size);
  // In a forward block with the codec there alone: encoded at the sources, decoded at the holders; rank 0 has as many
  // rows of each, since routing is uniform: top_k of each of its tokens.
  const double tokens = 128, rows = tokens * 2, launch = s.cluster.gpu.launch_overhead.value();
  SECTION("without a figure: rows are read and what is sent of them is written, or the other way round") {
    const double bytes = rows * size * (1 + 0.25);
    const double rate = s.cluster.gpu.hbm_bandwidth.value() * s.cluster.gpu.memory_efficiency;
    CHECK(sent_of(s, "zfp/none", OpClass::Dispatch).codec.value() == Approx(2 * (launch + bytes / rate)));
  }
  SECTION("with a measured one: bytes of rows over it") {
    s.cluster.gpu.codec_throughput[WireFormat::Zfp] = BytesPerSecond(50e9);
    CHECK(sent_of(s, "zfp/none", OpClass::Dispatch).codec.value() == Approx(2 * (launch + rows * size / 50e9)));
  }
  SECTION("with a measured start-up: of every call, in place of the launch of a kernel") {
    s.cluster.gpu.codec_startup[WireFormat::Zfp] = Seconds(1.4e-3);
    const double bytes = rows * size * (1 + 0.25);
    const double rate = s.cluster.gpu.hbm_bandwidth.value() * s.cluster.gpu.memory_efficiency;
    CHECK(sent_of(s, "zfp/none", OpClass::Dispatch).codec.value() == Approx(2 * (1.4e-3 + bytes / rate)));
    s.cluster.gpu.codec_throughput[WireFormat::Zfp] = BytesPerSecond(50e9);
    CHECK(sent_of(s, "zfp/none", OpClass::Dispatch).codec.value() == Approx(2 * (1.4e-3 + rows * size / 50e9)));
  }
}

TEST_CASE("A codec is refused where it is not allowed or of no use") {
  const auto reason = [](const tests::Small& s, const std::string& codec) {
    return infeasibility(s.model, s.workload, candidate_of(codec), s.cluster.ranks_per_node()).value_or("").text;
  };
  CHECK(reason(case_of({WireFormat::Zfp}, "fp32"), "fp16") == "the workload does not allow the codec");
  CHECK(reason(case_of({WireFormat::Zfp}, "fp32"), "zfp/fp16") == "the workload does not allow the codec");
  CHECK(reason(case_of({WireFormat::Zfp}, "fp32"), "zfp").empty());
  CHECK(reason(case_of({WireFormat::Fp16}, "bf16"), "fp16") == "the codec makes rows no smaller");
  tests::Small wide = case_of({WireFormat::Zfp}, "bf16");
  wide.workload.codecs.zfp_bits = 16;
  CHECK(reason(wide, "zfp") == "the codec makes rows no smaller");
}

TEST_CASE("A codec that sends less in as few messages is never slower than another, unless its kernel is") {
  tests::Small s = case_of({WireFormat::Zfp, WireFormat::Int8, WireFormat::Fp16}, "fp32");
  const auto never = [&](WireFormat a, WireFormat b) {
    return never_slower(a, b, s.workload, s.cluster.gpu, s.model.hidden_size);
  };
  CHECK(never(WireFormat::Zfp, WireFormat::Int8));  // int8 has a message of scales too
  CHECK(never(WireFormat::Zfp, WireFormat::Fp16));
  CHECK_FALSE(never(WireFormat::Int8, WireFormat::Fp16));  // fewer bytes, more messages
  CHECK_FALSE(never(WireFormat::Fp16, WireFormat::Zfp));
  SECTION("what the experts multiply as it arrives cannot be compared with what is decoded") {
    s.workload.codecs.allowed.insert(WireFormat::Fp8Block);
    CHECK(never(WireFormat::Zfp, WireFormat::Fp8Block));
    s.workload.precision = Precision::Mxfp8;
    CHECK(never(WireFormat::Zfp, WireFormat::Fp8Block));
    s.workload.precision = Precision::Fp8Block;
    CHECK_FALSE(never(WireFormat::Zfp, WireFormat::Fp8Block));
  }
  SECTION("a throughput beside a count of bytes cannot be compared") {
    s.cluster.gpu.codec_throughput[WireFormat::Zfp] = BytesPerSecond(50e9);
    CHECK_FALSE(never(WireFormat::Zfp, WireFormat::Fp16));
  }
  SECTION("throughputs can") {
    s.cluster.gpu.codec_throughput[WireFormat::Zfp] = BytesPerSecond(50e9);
    s.cluster.gpu.codec_throughput[WireFormat::Fp16] = BytesPerSecond(400e9);
    CHECK_FALSE(never(WireFormat::Zfp, WireFormat::Fp16));
    s.cluster.gpu.codec_throughput[WireFormat::Zfp] = BytesPerSecond(500e9);
    CHECK(never(WireFormat::Zfp, WireFormat::Fp16));
  }
  SECTION("a longer start-up is slower for few rows") {
    s.cluster.gpu.codec_startup[WireFormat::Zfp] = Seconds(1.4e-3);
    CHECK_FALSE(never(WireFormat::Zfp, WireFormat::Fp16));
    s.cluster.gpu.codec_startup[WireFormat::Fp16] = Seconds(1.4e-3);
    CHECK(never(WireFormat::Zfp, WireFormat::Fp16));
  }
}

}  // namespace moeplan::tests::codec_test
