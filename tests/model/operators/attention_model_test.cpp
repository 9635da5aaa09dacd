#include "model/operators/attention_model.hpp"

#include <catch2/catch.hpp>

namespace moeplan::tests::attention_model_test {

using Catch::Detail::Approx;

namespace {

/// 100 SMs of 1 TFLOP/s, with a softmax and a memory that take no time.
AttentionModel machine() {
  AttentionModel m;
  m.math = FlopsPerSecond(100e12);
  m.softmax = 1e30;
  m.memory = BytesPerSecond(1e30);
  return m;
}
constexpr std::int64_t kSms = 100;
constexpr double kStep = 2.0 * 128 * 128 * 256 / 1e12;  // seconds of 128 queries by 128 keys with head_dim 128

}  // namespace

TEST_CASE("FLOPs of attention are those of its products, half of them if causal") {
  const AttentionShape full{.batch = 2, .sequence_length = 1024, .query_heads = 8, .kv_heads = 2, .is_causal = false};
  CHECK(attention_flops(full) == 2.0 * 2 * 8 * 1024 * 1024 * 256);
  AttentionShape causal = full;
  causal.is_causal = true;
  CHECK(attention_flops(causal) == attention_flops(full) / 2);
  causal.is_backward = true;
  CHECK(attention_flops(causal) == attention_flops(full) / 2 * 5 / 2);
}

TEST_CASE("A block for each SM takes as long as one block, one more takes twice as long") {
  AttentionShape s{.batch = 1, .sequence_length = 128, .query_heads = 100, .kv_heads = 100, .is_causal = false};
  CHECK(attention_call_time(machine(), kSms, s).value() == Approx(kStep));
  s.query_heads = 101;
  CHECK(attention_call_time(machine(), kSms, s).value() == Approx(2 * kStep));
}

TEST_CASE("A single causal head takes as long as its longest block") {
  const AttentionShape s{.batch = 1, .sequence_length = 1024, .query_heads = 1, .kv_heads = 1};
  CHECK(attention_call_time(machine(), kSms, s).value() == Approx(8 * kStep));
  AttentionModel pairs = machine();
  pairs.subtiles = 2;
  CHECK(attention_call_time(pairs, kSms, s).value() == Approx(15 * kStep));
}

TEST_CASE("Many causal heads share the SMs evenly") {
  const AttentionShape s{.batch = 100, .sequence_length = 4096, .query_heads = 64, .kv_heads = 8};
  const double steps = 6400 * 32 * 33 / 2.0;
  CHECK(attention_call_time(machine(), kSms, s).value() == Approx(steps * kStep / 100));
}

TEST_CASE("A window of keys touches a tile more than it has, and the operands are read whole") {
  AttentionShape s{.batch = 100, .sequence_length = 4096, .query_heads = 64, .kv_heads = 8, .window = 128};
  const double steps = 6400 * (1 + 31 * 2.0);
  CHECK(attention_call_time(machine(), kSms, s).value() == Approx(steps * kStep / 100));
  CHECK(attention_flops(s) == 2.0 * 6400 * (4096 * 128 - 128 * 128 / 2) * 256);
  AttentionModel slow = machine();
  slow.memory = BytesPerSecond(1e9);
  AttentionShape all = s;
  all.window = 0;
  CHECK(attention_cost(slow, kSms, s).memory == attention_cost(slow, kSms, all).memory);
  AttentionModel pairs = machine();
  pairs.subtiles = 2;  // both tiles of a block meet the keys of either
  CHECK(attention_call_time(pairs, kSms, s).value() == Approx(6400 * (1 + 2 + 30 * 3.0) * kStep / 100));
  s.window = 4096;
  CHECK(attention_flops(s) == attention_flops(all));
  CHECK(attention_call_time(machine(), kSms, s) == attention_call_time(machine(), kSms, all));
}

TEST_CASE("Idle SMs take parts of the keys if the kernel splits them") {
  AttentionModel m = machine();
  const AttentionShape s{.batch = 1, .sequence_length = 128 * 64, .query_heads = 1, .kv_heads = 1, .is_causal = false};
  CHECK(attention_call_time(m, kSms, s).value() == Approx(64 * kStep));
  m.split = Seconds(1e-12);  // 64 blocks leave too few SMs idle
  CHECK(attention_call_time(m, kSms, s).value() == Approx(64 * kStep));
  m.math = FlopsPerSecond(1000e12);  // of 1,000 SMs: eight for each block
  CHECK(attention_call_time(m, 1000, s).value() == Approx(64 / 8 * kStep));
}

TEST_CASE("Traffic counts queries, keys, values and the output once") {
  AttentionModel m = machine();
  m.math = FlopsPerSecond(1e30);
  m.memory = BytesPerSecond(1e12);
  const AttentionShape s{.batch = 2, .sequence_length = 1024, .query_heads = 8, .kv_heads = 2};
  CHECK(attention_call_time(m, kSms, s).value() == Approx(2 * 1024 * 2.0 * 128 * (8 + 2 + 2 + 8) / 1e12));
  m.preparation = AttentionPreparation::Cache;
  CHECK(attention_call_time(m, kSms, s).value() == Approx(2 * 1024 * 2.0 * 128 * (8 + 2 + 2 + 8 + 2 * 4) / 1e12));
}

}  // namespace moeplan::tests::attention_model_test
