#include "model/program/resolve.hpp"

#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <map>
#include <numeric>

#include "tests/support/programs.hpp"

namespace moeplan::tests::resolve_test {

namespace {

using Counts = std::vector<std::int64_t>;
using Experts = Rows::Experts;
using Kind = RowStep::Kind;

const RoutingId kRouting(0);
const GroupId kEp(0), kDp(1);

RowStep over(Kind kind, GroupId group) { return {.kind = kind, .group = group}; }
RowStep chunk(std::int64_t index, std::int64_t count) {
  return {.kind = Kind::Chunk, .group = {}, .index = index, .count = count};
}

RankId rank(std::int64_t r) { return RankId(static_cast<std::int32_t>(r)); }

/// 4 ranks in groups of 2 that hold 3 experts (2 and 1); source s sends 10 s + e rows to expert e.
Program small() {
  Counts counts;
  for (std::int64_t s = 0; s < 4; ++s) {
    for (std::int64_t e = 0; e < 3; ++e) counts.push_back(10 * s + e);
  }
  return moe_program(4, 2, RoutingCounts::dense(4, 3, counts));
}

Counts rows(const Program& p, Experts experts, std::vector<RowStep> path, int r) {
  const Rows slice = Rows::routed(kRouting, experts, std::move(path));
  const Counts by_expert = rows_by_expert(p, slice, rank(r));
  CHECK(row_count(p, slice, rank(r)) == std::accumulate(by_expert.begin(), by_expert.end(), std::int64_t{0}));
  return by_expert;
}

/// One collective of `bytes` on each rank of a group of `n`.
Program one_collective(Collective collective, std::int64_t n, std::int64_t bytes) {
  Program p;
  p.world_size = n;
  p.groups = {{"all", n, 1}};
  p.buffers = {{"x", 1, Dtype::Int8}};
  Operation op;
  op.work = Communication{.collective = collective, .group = GroupId(0)};
  op.reads = op.writes = {{BufferId(0), Rows::fixed(bytes)}};
  p.blocks = {{"b", {op}}};
  p.stages.front() = {{.block = BlockId(0)}};
  return p;
}

const Operation& only(const Program& p) { return p.blocks[0].operations[0]; }

std::int64_t sum(const std::vector<Flow>& flows) {
  std::int64_t bytes = 0;
  for (const Flow& f : flows) bytes += f.bytes;
  return bytes;
}

/// A routing of any numbers over `world` sources, in one of the compact forms or dense.
RoutingCounts any_counts(std::int64_t world, std::int64_t experts) {
  const int form = *rc::gen::inRange(0, 3);
  const auto number = rc::gen::inRange<std::int64_t>(0, 50);
  if (form == 0) return RoutingCounts::uniform(world, experts, *number);
  const auto n = static_cast<std::size_t>(form == 1 ? experts : world * experts);
  Counts counts = *rc::gen::container<Counts>(n, number);
  return form == 1 ? RoutingCounts::by_expert(world, counts) : RoutingCounts::dense(world, experts, counts);
}

}  // namespace

TEST_CASE("experts are held in contiguous shares, at equal intervals one more where they do not divide") {
  SECTION("7 experts on 3 ranks are 3, 2, 2") {
    const Program p = moe_program(6, 3, RoutingCounts::uniform(6, 7, 1));
    Counts sizes;
    std::int64_t next = 0;
    for (int r = 0; r < 3; ++r) {
      const ExpertRange range = local_experts(p, kRouting, rank(r));
      CHECK(range.first == next);
      next = range.last;
      sizes.push_back(range.size());
      CHECK(local_experts(p, kRouting, rank(r + 3)).first == range.first);
    }
    CHECK(next == 7);
    CHECK(sizes == Counts{3, 2, 2});
  }
  SECTION("2 experts on 4 ranks leave two without") {
    const Program p = moe_program(4, 4, RoutingCounts::uniform(4, 2, 5));
    Counts sizes;
    for (int r = 0; r < 4; ++r) sizes.push_back(local_experts(p, kRouting, rank(r)).size());
    CHECK(sizes == Counts{1, 0, 1, 0});
    CHECK(row_count(p, Rows::routed(kRouting, Experts::Local, {over(Kind::Union, kEp)}), rank(3)) == 0);
  }
}

TEST_CASE("rows of a slice follow its path to the sources") {
  const Program p = small();
  SECTION("fixed rows, and rows for each expert held") {
    CHECK(row_count(p, Rows::fixed(9), rank(3)) == 9);
    Rows own = Rows::fixed(9);
    own.path = {over(Kind::Share, kEp)};
    CHECK(row_count(p, own, rank(2)) == 4);
    CHECK(row_count(p, own, rank(3)) == 5);
    CHECK(row_count(p, Rows::per_expert(kRouting, 9), rank(2)) == 9 * 2);
    CHECK(row_count(p, Rows::per_expert(kRouting, 9), rank(3)) == 9 * 1);
  }
  SECTION("no step: the rank's own tokens") {
    CHECK(rows(p, Experts::All, {}, 2) == Counts{20, 21, 22});
    CHECK(rows(p, Experts::Local, {}, 2) == Counts{20, 21});
    CHECK(rows(p, Experts::Local, {}, 3) == Counts{32});
  }
  SECTION("behind: what the holder one position before holds, cyclically") {
    Rows slice = Rows::routed(kRouting, Experts::Behind, {});
    slice.behind = 1;
    CHECK(rows_by_expert(p, slice, rank(3)) == Counts{30, 31});
    CHECK(rows_by_expert(p, slice, rank(2)) == Counts{22});
  }
  SECTION("union: the tokens of all members, over the group of two neighbours or over every second rank") {
    CHECK(rows(p, Experts::All, {over(Kind::Union, kEp)}, 3) == Counts{20 + 30, 21 + 31, 22 + 32});
    CHECK(rows(p, Experts::Local, {over(Kind::Union, kDp)}, 3) == Counts{12 + 32});
  }
  SECTION("union of unions: all ranks") {
    CHECK(rows(p, Experts::All, {over(Kind::Union, kEp), over(Kind::Union, kDp)}, 0) ==
          Counts{0 + 10 + 20 + 30, 4 + 60, 8 + 60});
  }
  SECTION("share: of 21 rows the first of two gets 10 and the second 11") {
    CHECK(rows(p, Experts::All, {over(Kind::Share, kEp)}, 2) == Counts{10, 10, 11});
    CHECK(rows(p, Experts::All, {over(Kind::Share, kEp)}, 3) == Counts{15, 16, 16});
  }
  SECTION("chunk: of 22 rows the thirds are 7, 7 and 8") {
    CHECK(rows(p, Experts::All, {chunk(0, 3)}, 2) == Counts{6, 7, 7});
    CHECK(rows(p, Experts::All, {chunk(1, 3)}, 2) == Counts{7, 7, 7});
    CHECK(rows(p, Experts::All, {chunk(2, 3)}, 2) == Counts{7, 7, 8});
  }
  SECTION("copies: as often as the group has members") {
    CHECK(rows(p, Experts::All, {over(Kind::Copies, kEp)}, 2) == Counts{40, 42, 44});
  }
  SECTION("steps are taken from the rank: its share of the union is not the union of shares") {
    CHECK(rows(p, Experts::All, {over(Kind::Share, kEp), over(Kind::Union, kEp)}, 3) == Counts{25, 26, 27});
    CHECK(rows(p, Experts::All, {over(Kind::Union, kEp), over(Kind::Share, kEp)}, 3) ==
          Counts{10 + 15, 10 + 16, 11 + 16});
  }
}

TEST_CASE("shares and chunks are the whole") {
  CHECK(rc::check("sums over a group's shares, and over chunks, are the rows themselves", [] {
    const std::int64_t ep = *rc::gen::inRange<std::int64_t>(1, 5), groups = *rc::gen::inRange<std::int64_t>(1, 4);
    const std::int64_t world = ep * groups, experts = *rc::gen::inRange<std::int64_t>(1, 9);
    const Program p = moe_program(world, ep, any_counts(world, experts));
    const RankId r = rank(*rc::gen::inRange<std::int64_t>(0, world));
    // Over data-parallel ranks, so that all of a group's members look at the same union.
    const Rows whole = Rows::routed(kRouting, Experts::All, {over(Kind::Union, kEp)});
    const Rows share = Rows::routed(kRouting, Experts::All, {over(Kind::Share, kEp), over(Kind::Union, kEp)});
    std::int64_t shares = 0, chunks = 0, direct = 0;
    for (std::int64_t q = 0; q < ep; ++q) shares += row_count(p, share, p.group(kEp).member(r, q));
    const std::int64_t pieces = *rc::gen::inRange<std::int64_t>(1, 6);
    for (std::int64_t i = 0; i < pieces; ++i) {
      chunks += row_count(p, Rows::routed(kRouting, Experts::All, {chunk(i, pieces), over(Kind::Union, kEp)}), r);
    }
    for (std::int64_t q = 0; q < ep; ++q) {
      for (std::int64_t e = 0; e < experts; ++e) {
        direct += p.routings[0].counts.at(p.group(kEp).member(r, q), ExpertId(static_cast<std::int32_t>(e)));
      }
    }
    RC_ASSERT(row_count(p, whole, r) == direct);
    RC_ASSERT(shares == direct);
    RC_ASSERT(chunks == direct);
  }));
}

TEST_CASE("all-to-all moves what the slices say") {
  SECTION("dispatch of the small program: rank 2 sends its 22 rows for expert 2 to rank 3, which sends 30 + 31 back") {
    const Program p = small();
    const std::int64_t row = kColumns * 2;  // bf16
    CHECK(group_flows(p, p.blocks[0].operations[0], rank(3)) ==
          std::vector<Flow>{{rank(2), rank(3), 22 * row}, {rank(3), rank(2), (30 + 31) * row}});
    CHECK(message_size(p, p.blocks[0].operations[0], rank(2)) == (20 + 21 + 22) * row);
  }
  SECTION("combine is dispatch backwards") {
    const Program p = small();
    std::vector<Flow> back = group_flows(p, p.blocks[0].operations[2], rank(0));
    for (Flow& f : back) std::swap(f.from, f.to);
    std::sort(back.begin(), back.end(), [](const Flow& a, const Flow& b) { return a.from < b.from; });
    CHECK(back == group_flows(p, p.blocks[0].operations[0], rank(0)));
  }
  SECTION("fixed rows: an equal part to each; of 10 bytes for 4 ranks 2, 3, 2, 3") {
    const Program p = one_collective(Collective::AllToAll, 4, 10);
    CHECK(flows_from(p, only(p), rank(0)) ==
          std::vector<Flow>{{rank(0), rank(1), 3}, {rank(0), rank(2), 2}, {rank(0), rank(3), 3}});
    CHECK(message_size(p, only(p), rank(0)) == 10);
  }
}

TEST_CASE("bytes are conserved") {
  CHECK(rc::check("sent, received, held", [] {
    const std::int64_t ep = *rc::gen::inRange<std::int64_t>(1, 6), groups = *rc::gen::inRange<std::int64_t>(1, 3);
    const std::int64_t world = ep * groups, experts = *rc::gen::inRange<std::int64_t>(1, 9);
    const Program p = moe_program(world, ep, any_counts(world, experts));
    for (const Block& block : p.blocks) {
      for (const Operation& op : block.operations) {
        const Communication* c = op.communication();
        if (!c) continue;
        for (std::int64_t r = 0; r < world; ++r) {
          const std::vector<Flow> all = group_flows(p, op, rank(r));
          std::vector<Flow> sent, received;
          for (const Flow& f : all) {
            RC_ASSERT(f.bytes > 0);
            RC_ASSERT(f.from != f.to);
            if (f.from == rank(r)) sent.push_back(f);
            if (f.to == rank(r)) received.push_back(f);
          }
          RC_ASSERT(std::is_sorted(all.begin(), all.end(), [](const Flow& a, const Flow& b) {
            return std::pair(a.from, a.to) < std::pair(b.from, b.to);
          }));
          RC_ASSERT(flows_from(p, op, rank(r)) == sent);
          RC_ASSERT(flows_to(p, op, rank(r)) == received);
          if (c->collective != Collective::AllToAll) continue;
          // What a rank keeps is in its input and in its output.
          const std::int64_t kept = byte_count(p, op.reads[0], rank(r)) - sum(sent);
          RC_ASSERT(kept >= 0);
          RC_ASSERT(byte_count(p, op.writes[0], rank(r)) == kept + sum(received));
          RC_ASSERT(message_size(p, op, rank(r)) == byte_count(p, op.reads[0], rank(r)));
        }
      }
    }
  }));
}

TEST_CASE("an all-to-all in parts is the whole") {
  CHECK(rc::check("every flow is in exactly one part", [] {
    const std::int64_t of = *rc::gen::inRange<std::int64_t>(1, 5), block = *rc::gen::inRange<std::int64_t>(1, 4);
    const std::int64_t ep = of * block, experts = *rc::gen::inRange<std::int64_t>(1, 9);
    const Program p = moe_program(ep, ep, any_counts(ep, experts));
    for (const std::size_t which : {std::size_t{0}, std::size_t{2}}) {
      const Operation& whole = p.blocks[0].operations[which];
      std::map<std::pair<RankId, RankId>, std::int64_t> parts, expected;
      for (const Flow& f : group_flows(p, whole, rank(0))) expected[{f.from, f.to}] = f.bytes;
      std::int64_t message = 0;
      for (std::int64_t first = 0; first < of;) {
        const std::int64_t count = *rc::gen::inRange<std::int64_t>(1, of - first + 1);
        Operation part = whole;
        part.work = Communication{Collective::AllToAll, kEp, first, count, of};
        message += message_size(p, part, rank(ep - 1));
        for (const Flow& f : group_flows(p, part, rank(0))) {
          RC_ASSERT(parts.emplace(std::pair(f.from, f.to), f.bytes).second);
          const std::int64_t step = (f.to.value() / block - f.from.value() / block + of) % of;
          RC_ASSERT(step >= first);
          RC_ASSERT(step < first + count);
        }
        first += count;
      }
      RC_ASSERT(parts == expected);
      RC_ASSERT(message == message_size(p, whole, rank(ep - 1)));
    }
  }));
}

TEST_CASE("rings and chains carry what MODELS section 0 and 2 say") {
  const std::int64_t n = 4, s = 4000;
  const auto per_link = [&](Collective collective, std::int64_t input) {
    const Program p = one_collective(collective, n, input);
    const std::vector<Flow> flows = group_flows(p, only(p), rank(0));
    std::vector<std::int64_t> bytes;
    for (const Flow& f : flows) {
      CHECK(f.to.value() == (f.from.value() + 1) % n);
      bytes.push_back(f.bytes);
    }
    return bytes;
  };
  SECTION("all-gather of an output of S: (n - 1) / n S, because all blocks but the receiver's pass") {
    CHECK(per_link(Collective::AllGather, s / n) == Counts(4, (n - 1) * s / n));
    const Program p = one_collective(Collective::AllGather, n, s / n);
    CHECK(message_size(p, only(p), rank(1)) == s);
  }
  SECTION("reduce-scatter of an input of S: (n - 1) / n S") {
    CHECK(per_link(Collective::ReduceScatter, s) == Counts(4, (n - 1) * s / n));
    const Program p = one_collective(Collective::ReduceScatter, n, s);
    CHECK(message_size(p, only(p), rank(1)) == s);
  }
  SECTION("all-reduce of S: 2 (n - 1) / n S, a reduce-scatter and an all-gather") {
    CHECK(per_link(Collective::AllReduce, s) == Counts(4, 2 * (n - 1) * s / n));
  }
  SECTION("broadcast of S: S on each of n - 1 links of the chain, none back to position 0") {
    CHECK(per_link(Collective::Broadcast, s) == Counts(3, s));
  }
  SECTION("a group of one sends nothing") {
    for (const auto& [collective, name] : kCollectiveNames) {
      CAPTURE(name);
      const Program p = one_collective(collective, 1, s);
      CHECK(group_flows(p, only(p), rank(0)).empty());
    }
  }
  SECTION("10 bytes over 4 ranks: the ring's blocks are 2, 3, 2, 3, and each link lacks one of them") {
    CHECK(per_link(Collective::ReduceScatter, 10) == Counts{10 - 2, 10 - 3, 10 - 2, 10 - 3});
    CHECK(per_link(Collective::AllReduce, 10) == Counts(4, 2 * 10 - 2 - 3));
  }
  SECTION("unequal inputs of an all-gather: each link lacks the receiver's own") {
    // Rank r of small() gathers its own rows over the pair: 60 + 3 of rank 2, 90 + 3 of rank 3.
    Program p = small();
    Operation& op = p.blocks[0].operations[0];
    op.work = Communication{.collective = Collective::AllGather, .group = kEp};
    const std::int64_t row = kColumns * 2;
    CHECK(group_flows(p, op, rank(2)) == std::vector<Flow>{{rank(2), rank(3), 63 * row}, {rank(3), rank(2), 93 * row}});
    CHECK(message_size(p, op, rank(2)) == (63 + 93) * row);
  }
}

TEST_CASE("a computation's products, FLOPs and bytes follow from its slices") {
  Program p = small();
  SECTION("grouped: one product for each expert held, of the rows that came for it") {
    const ComputeLoad load = compute_load(p, p.blocks[0].operations[1], rank(2));
    CHECK(load.products == std::vector<GemmShape>{{20 + 30, kHidden, kColumns}, {21 + 31, kHidden, kColumns}});
    CHECK(load.flops == 2.0 * (50 + 52) * kHidden * kColumns);
    CHECK(load.bytes == 2 * (102 * kColumns + 2 * kColumns * kHidden + 102 * kHidden));
  }
  SECTION("TN multiplies columns by columns over the rows: a weight's gradient") {
    Operation op = p.blocks[0].operations[1];
    op.work = Gemm{.form = Gemm::Form::TN, .grouped = true};
    std::swap(op.reads[1], op.writes[0]);
    const ComputeLoad load = compute_load(p, op, rank(3));
    CHECK(load.products == std::vector<GemmShape>{{kColumns, kHidden, 22 + 32}});
    CHECK(load.flops == 2.0 * kColumns * kHidden * (22 + 32));
  }
  SECTION("not grouped: one product of all rows; NT gives the columns of the output") {
    Operation op = p.blocks[0].operations[1];
    op.work = Gemm{.form = Gemm::Form::NT};
    op.reads = {{BufferId(0), Rows::fixed(7)}, {BufferId(0), Rows::fixed(kHidden)}};
    op.writes = {{BufferId(3), Rows::fixed(7)}};
    CHECK(compute_load(p, op, rank(0)).products == std::vector<GemmShape>{{7, kHidden, kColumns}});
  }
  SECTION(
      "attention: 4 FLOPs a token, key and column; causal meets the keys before; a window bounds them; backward is 2.5 "
      "times") {
    Operation op;
    const std::int64_t tokens = 32, length = 16, columns = 8;
    op.reads = op.writes = {{BufferId(0), Rows::fixed(tokens)}};
    AttentionCore attention{.sequence_length = length, .heads = {1, 1, columns, columns}};
    const auto flops = [&] {
      op.work = attention;
      return compute_load(p, op, rank(0)).flops;
    };
    CHECK(flops() == 4.0 * tokens * length * columns / 2);
    attention.window = length;
    CHECK(flops() == 4.0 * tokens * length * columns / 2);
    attention.window = 4;  // the first 4 of 16 meet 2 on average, the others 4
    CHECK(flops() == 4.0 * columns * tokens * (4.0 * 2 + 12.0 * 4) / 16);
    attention.window = 0;
    attention.causal = false;
    CHECK(flops() == 4.0 * tokens * length * columns);
    attention.window = 4;
    CHECK(flops() == 4.0 * tokens * 4 * columns);
    attention.backward = true;
    CHECK(flops() == 2.5 * 4.0 * tokens * 4 * columns);
  }
}

}  // namespace moeplan::tests::resolve_test
