#include "planner/layer/schedule.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <tuple>

#include "model/costs/memory.hpp"
#include "planner/candidate/stage_layout.hpp"
#include "planner/layer/chunk_order.hpp"
#include "planner/lowering/feasibility.hpp"
#include "tests/support/layer_cases.hpp"

namespace moeplan::tests::schedule_test {

using namespace moeplan::planner;

namespace {

/// tp, ep, esp: shards and tensor parallelism, each alone, both, neither.
const std::vector<std::tuple<int, int, int>> kLayouts{{1, 8, 1}, {1, 2, 4}, {2, 4, 1}, {4, 4, 2}, {2, 1, 4}, {1, 1, 8}};

bool fits(const Candidate& c, const Workload& w) { return !infeasibility(layer_model(), w, c, kLayerPerNode); }

/// Of a block: how much the all-to-alls bring to each rank, what it keeps included, and how much their slices hold.
/// Phases of one exchange have slices of their own.
std::pair<std::vector<double>, std::vector<double>> brought_and_wanted(const Program& p, const Block& block) {
  std::vector<double> into(kLayerWorld), output(kLayerWorld);
  for (const Operation& op : block.operations) {
    const Communication* c = op.communication();
    if (!c || c->collective != Collective::AllToAll) continue;
    for (std::int32_t r = 0; r < kLayerWorld; ++r) {
      const auto i = static_cast<std::size_t>(r);
      output[i] += static_cast<double>(byte_count(p, op.writes.front(), RankId(r)));
      into[i] += static_cast<double>(message_size(p, op, RankId(r)));
      for (const Flow& flow : group_flows(p, op, RankId(r))) {
        if (flow.from == RankId(r)) into[i] -= static_cast<double>(flow.bytes);
        if (flow.to == RankId(r)) into[i] += static_cast<double>(flow.bytes);
      }
    }
  }
  return {into, output};
}

}  // namespace

TEST_CASE("Gathered tokens are as many bytes whatever experts they selected") {
  for (const RoutingShape shape : {RoutingShape::Uniform, RoutingShape::HotExpert}) {
    Workload w = layer_workload();
    w.capacity_factor.reset();
    w.routing = {.shape = shape, .sampled = true};
    Candidate c = layer_candidate("baseline", 1, kLayerWorld, 1);
    c.all_to_all = "all_gather";
    REQUIRE(fits(c, w));
    const Program p = layer_program(c, w);
    const auto bytes_sent = [&](const std::string& name, Collective collective) {
      for (const Operation& op : p.blocks.front().operations) {
        if (op.name != name) continue;
        CHECK(op.communication()->collective == collective);
        std::int64_t bytes = 0;
        for (const Flow& f : flows_from(p, op, RankId(0))) bytes += f.bytes;
        return bytes;
      }
      return std::int64_t{-1};
    };
    // In rings a rank passes on the rows of all ranks but one: 7 x 64 tokens of 64 fp32 values.
    CHECK(bytes_sent("dispatch", Collective::AllGather) == 7 * kLayerTokens * kLayerM * 4);
    CHECK(bytes_sent("combine", Collective::ReduceScatter) == 7 * kLayerTokens * kLayerM * 4);
  }
  SECTION("but not among shards of experts, whose partial sums nothing adds up") {
    Candidate c = layer_candidate("parm_s1", 1, 4, 2);
    CHECK(fits(c, layer_workload()));
    c.all_to_all = "all_gather";
    CHECK_FALSE(fits(c, layer_workload()));
  }
}

TEST_CASE("Every schedule with every all-to-all and number of chunks does the whole work of the layer once", "[slow]") {
  Workload skewed = layer_workload();
  skewed.capacity_factor.reset();
  skewed.routing = {.shape = RoutingShape::Zipf, .sampled = true};
  std::map<std::string, int> ran;
  for (const Workload& w : {layer_workload(), skewed}) {
    for (const auto& [tp, ep, esp] : kLayouts) {
      // Without tensor parallelism of its own a schedule repeats the work of a tensor-parallel group on its ranks.
      const double once = expert_flops(layer_program(layer_candidate("baseline", 1, ep, esp), w), 0) / tp;
      for (const auto& schedule : schedules()) {
        for (const auto& all_to_all : all_to_alls()) {
          for (const std::int64_t chunks : {1, 2, 4}) {
            Candidate c = layer_candidate(std::string(schedule->name()), tp, ep, esp, chunks);
            c.all_to_all = all_to_all->name();
            if (!fits(c, w)) continue;
            CAPTURE(schedule->name(), all_to_all->name(), chunks, tp, ep, esp, w.capacity_factor.has_value());
            ++ran[std::string(schedule->name())];
            const Program p = layer_program(c, w);
            const double all = once * (splits_tokens(*schedule) ? 1 : tp);
            if (w.capacity_factor) {
              CHECK(expert_flops(p, 0) == all);
            } else {
              CHECK(expert_flops(p, 0) == Approx(all).epsilon(0.02));  // other ranks, other draws
            }
            CHECK(expert_flops(p, 1) == 2 * expert_flops(p, 0));
            // Bytes out of all ranks are bytes into them, and what is brought is what is wanted.
            if (all_to_all->name() == "linear") {
              for (const Block& block : p.blocks) {
                const auto [into, output] = brought_and_wanted(p, block);
                CHECK(into == output);
              }
            }
            if (!w.capacity_factor && chunks > 2) continue;
            CHECK(layer_time(p) > 0);
          }
        }
      }
    }
  }
  for (const auto& schedule : schedules()) {
    CAPTURE(schedule->name());
    CHECK(ran[std::string(schedule->name())] > 0);
  }
}

TEST_CASE("Whole iterations of every schedule have memory and a time") {
  const ModelSpec model = layer_model();
  const Workload w = layer_workload();
  for (const auto& [tp, ep, esp] : kLayouts) {
    for (const auto& schedule : schedules()) {
      const Candidate c = layer_candidate(std::string(schedule->name()), tp, ep, esp, 2);
      if (!fits(c, w)) continue;
      CAPTURE(schedule->name(), tp, ep, esp);
      const Program p = lower_iteration(model, w, c, kLayerPerNode);
      const auto memory = [&](const Program& program) {
        return memory_use(program, stage_parameters(model, w.sequence_length, c.degrees, 1), w, c.degrees);
      };
      CHECK(memory(p).activations.value() > 0);
      CHECK(layer_time(p) > 0);
    }
  }
}

TEST_CASE("same_as() names a schedule that takes as long") {
  for (const Mode mode : {Mode::Train, Mode::Forward}) {
    const Workload w = layer_workload(mode);
    for (const auto& [tp, ep, esp] : kLayouts) {
      for (const auto& schedule : schedules()) {
        for (const std::int64_t chunks : {1, 2}) {
          for (const std::string codec : {"none", "zfp"}) {
            Candidate c = layer_candidate(std::string(schedule->name()), tp, ep, esp, chunks);
            c.codec = *parse_codec_pair(codec);
            const std::string_view other = schedule->same_as(c.degrees, c, mode);
            if (other.empty() || !fits(c, w)) continue;
            CAPTURE(schedule->name(), other, tp, ep, esp, chunks, codec);
            Candidate same = c;
            same.schedule = other;
            REQUIRE(fits(same, w));
            CHECK(layer_time(layer_program(c, w)) == layer_time(layer_program(same, w)));
          }
        }
      }
    }
  }
}

TEST_CASE("OptSche's tasks start as eq. (13) and (14) say") {
  for (const std::int64_t r : {2, 3}) {
    Candidate c = layer_candidate("opt_sche", 1, 8, 1, r);
    c.codec = *parse_codec_pair("zfp");
    const Program p = layer_program(c, layer_workload(Mode::Forward));
    const Timeline t = simulate(p, tests::toy_cluster(2, 4));
    const auto spans = [&](const std::string& name) {
      std::vector<TimelineSpan> out;
      for (const TimelineSpan& s : t.spans) {
        const Operation& op = p.blocks[s.block.index()].operations[static_cast<std::size_t>(s.operation)];
        if (s.rank == RankId(0) && op.name == name) out.push_back(s);
      }
      return out;
    };
    const auto c1 = spans("zfp encode"), a1 = spans("dispatch"), a2 = spans("combine");
    const auto n = static_cast<std::size_t>(r);
    REQUIRE(c1.size() == 2 * n);  // C1 of all chunks, then C2
    REQUIRE(a1.size() == n);
    CHECK(a1[0].start == c1[0].end);
    CHECK(a2[0].start == std::max(c1[n].end, a1[n - 1].end));
    for (std::size_t i = 1; i < n; ++i) {
      CHECK(a1[i].start == std::max(c1[i].end, a1[i - 1].end));
      CHECK(a2[i].start == std::max(c1[n + i].end, a2[i - 1].end));
    }
  }
}

TEST_CASE("With codecs OptSche is no slower than each step for all chunks, and without them it is that") {
  for (const std::int64_t r : {2, 4}) {
    Candidate c = layer_candidate("opt_sche", 1, 8, 1, r);
    CHECK(layer_program(c) == layer_program(layer_candidate("pipelined", 1, 8, 1, r)));
    c.codec = *parse_codec_pair("zfp");
    Candidate plain = c;
    plain.schedule = "pipelined";
    CHECK(layer_time(layer_program(c)) <= layer_time(layer_program(plain)));
  }
}

TEST_CASE("Deferred weight gradients are the same work beside the all-to-all back") {
  for (const auto& [name, plain] :
       std::vector<std::pair<std::string, std::string>>{{"s1_deferred", "parm_s1"}, {"s2_deferred", "parm_s2"}}) {
    const Program p = layer_program(layer_candidate(name, 2, 4, 2));
    const Program in_line = layer_program(layer_candidate(plain, 2, 4, 2));
    CAPTURE(name);
    CHECK(p.blocks[0].operations == in_line.blocks[0].operations);
    CHECK(expert_flops(p, 1) == expert_flops(in_line, 1));
    CHECK(layer_time(p) < layer_time(in_line));
  }
}

TEST_CASE("Tapered chunks end with half ones, which gains where computation is long") {
  Workload w = layer_workload();
  w.capacity_factor = 6.0;  // 96 rows for each expert from each rank: whole chunks
  const Candidate c = layer_candidate("s1_tapered", 1, 8, 1, 3);
  const Program p = layer_program(c, w);
  std::vector<double> dispatched;
  for (const Operation& op : p.blocks[0].operations) {
    if (op.op_class == OpClass::Dispatch) dispatched.push_back(static_cast<double>(message_size(p, op, RankId(0))));
  }
  CHECK(dispatched == std::vector<double>{dispatched[0], 2 * dispatched[0], dispatched[0]});
  // OptSche's streams with A1 + A2 = 2, E = 6: what is exposed is the first dispatch and the last return.
  const auto makespan = [](const std::vector<std::int64_t>& widths) {  // in twelfths
    OrderProblem problem;
    for (const std::int64_t width : widths) {
      for (std::size_t k = 0; k < kChunkTasks; ++k) {
        const auto task = static_cast<ChunkTask>(k);
        const std::int64_t time = task == ChunkTask::Expert ? 6 * width : communicates(task) ? width : 0;
        OrderTask t{SimTime(time), communicates(task) ? 1 : 0, {}};
        if (k > 0) t.after.push_back(static_cast<std::int32_t>(problem.size()) - 1);
        problem.push_back(std::move(t));
      }
    }
    const OrderResult best = exact_order(problem);
    CHECK(best.proved);
    return best.makespan;
  };
  CHECK(makespan({4, 4, 4}) == SimTime(4 + 6 * 12 + 4));
  CHECK(makespan({3, 6, 3}) == SimTime(3 + 6 * 12 + 3));
}

TEST_CASE("SAA takes between the longer of its parts and both in turn") {
  const auto time_of = [](const std::string& schedule) {
    return layer_time(layer_program(layer_candidate(schedule, 2, 4, 2), layer_workload(Mode::Forward)));
  };
  const Candidate c = layer_candidate("parm_s2_aas", 2, 4, 2);
  const Program p = layer_program(c, layer_workload(Mode::Forward));
  const auto alone = [&](OpClass op_class) {
    Program one = p;
    std::erase_if(one.blocks[0].operations, [&](const Operation& op) { return op.op_class != op_class; });
    for (Operation& op : one.blocks[0].operations) op.after.clear();
    return layer_time(one);
  };
  const double shorter = std::min(alone(OpClass::Combine), alone(OpClass::TensorParallel));
  CHECK(time_of("parm_s2") <= time_of("parm_s2_aas"));
  CHECK(time_of("parm_s2") >= time_of("parm_s2_aas") - shorter - 1e-12);
  // A phase for each rank gathers what has not been summed: N_ESP times as much.
  const Program code = layer_program(layer_candidate("parm_s2_code", 2, 4, 2), layer_workload(Mode::Forward));
  CHECK(sent(code, 0, OpClass::Combine) == sent(p, 0, OpClass::Combine));
  CHECK(sent(code, 0, OpClass::TensorParallel) == 2 * sent(p, 0, OpClass::TensorParallel));
}

TEST_CASE("Pipe-A2A takes as long as the longer of its streams, not as both") {
  // [ScheMoE] eq. (16)-(18): max(m t1, (P - m) t2) against m t1 + (P - m) t2.
  Candidate c = layer_candidate("baseline", 1, 8, 1);
  c.all_to_all = "pipe";
  const Program p = layer_program(c, layer_workload(Mode::Forward));
  const auto dispatch = [&](std::optional<Stream> stream, bool in_turn) {
    Program one = p;
    std::vector<Operation>& ops = one.blocks[0].operations;
    std::erase_if(
        ops, [&](const Operation& op) { return op.op_class != OpClass::Dispatch || (stream && op.stream != *stream); });
    for (Operation& op : ops) {
      op.after.clear();
      if (in_turn) op.stream = Stream::Inter;
    }
    return layer_time(one);
  };
  const double inside = dispatch(Stream::Intra, false), across = dispatch(Stream::Inter, false);
  CHECK(dispatch({}, true) == Approx(inside + across));
  CHECK(dispatch({}, false) == Approx(std::max(inside, across)));
}

TEST_CASE("Dense encoding multiplies by masks, sparse encoding moves rows") {
  const auto encoding = [](Encoding e) {
    Workload w = layer_workload(Mode::Forward);
    w.encoding = e;
    return layer_program(layer_candidate("baseline", 1, 8, 1), w);
  };
  const auto flops = [](const Program& p) {
    return class_sum(p, 0, OpClass::Permute, [&](const Operation& op) { return compute_load(p, op, RankId(0)).flops; });
  };
  SECTION("2 T E C M multiply-adds there, and back: each token meets each row of each expert") {
    const double capacity = 2 * 2.0 * kLayerTokens / 8;
    CHECK(flops(encoding(Encoding::Dense)) == 2 * (2 * kLayerTokens * 8 * capacity * kLayerM));
  }
  SECTION("none in the sparse form, whose bytes are those of T tokens and k f T rows") {
    const Program p = encoding(Encoding::Sparse);
    CHECK(flops(p) == 0);
    CHECK(compute_load(p,
                       *std::find_if(p.blocks[0].operations.begin(), p.blocks[0].operations.end(),
                                     [](const Operation& op) { return op.name == "encode"; }),
                       RankId(0))
              .bytes == (1 + 2 * 2) * kLayerTokens * kLayerM * 4);
  }
}

TEST_CASE("Dense encoding's mask and weights are kept from forward to backward") {
  const auto memory = [](Encoding e, Mode mode) {
    Workload w = layer_workload(mode);
    w.encoding = e;
    const Candidate c = layer_candidate("baseline", 1, 8, 1);
    return memory_use(layer_program(c, w), {StageParameters{}}, w, c.degrees);
  };
  const double capacity = 2 * 2.0 * kLayerTokens / 8;
  const double mask = kLayerTokens * 8 * capacity * 4;  // fp32: a value for each token and each row of each expert
  const double choices = kLayerTokens * 2 * 2 * 4;      // of the sparse form: two experts and two weights a token
  SECTION("in the place of the choices that the sparse form's backward reads") {
    const MemoryUse dense = memory(Encoding::Dense, Mode::Train), sparse = memory(Encoding::Sparse, Mode::Train);
    const double locations = 2 * kLayerTokens * capacity * 4;  // of both choices, in fp32
    CHECK((dense.activations - sparse.activations).value() == 2 * mask + locations - choices);
  }
  SECTION("and without a backward only the weights are there while the experts run, which need most") {
    const MemoryUse dense = memory(Encoding::Dense, Mode::Forward), sparse = memory(Encoding::Sparse, Mode::Forward);
    CHECK((dense.working - sparse.working).value() == mask - choices);
  }
}

TEST_CASE("Dense encoding passes over every token and row as GShard's code does") {
  Workload w = layer_workload(Mode::Train);
  w.encoding = Encoding::Dense;
  const Program p = layer_program(layer_candidate("baseline", 1, 8, 1), w);
  const double capacity = 2 * 2.0 * kLayerTokens / 8;
  const double elements = kLayerTokens * 8 * capacity;
  const auto passes = [&](std::size_t block) {
    double bytes = 0, flops = 0;
    for (const Operation& op : p.blocks[block].operations) {
      if (op.op_class != OpClass::Permute) continue;
      const ComputeLoad load = compute_load(p, op, RankId(0));
      flops += load.flops;
      if (load.flops == 0) bytes += static_cast<double>(load.bytes);
    }
    return std::pair(bytes / elements, flops);
  };
  // Forward, in fp32: two outer products are written, added (8 read, 4 written), compared with zero (4, 1) and cast (1,
  // 4). The location of a choice among an expert's rows, an eighth of the elements, is written in 64 bits, cast (8, 4)
  // and read for the outer product.
  const double choice = 2.0 * 2 * 4 * kLayerTokens / elements, d_choice = 2.0 * 4 * kLayerTokens / elements;
  CHECK(passes(0).first == Approx(2 * 4 + 12 + 5 + 5 + 2 * (8 + 12 + 4) / 8.0 + 4 * choice));
  // Backward the gradient of each outer product is read, and its locations; three products: encode, decode, and the
  // gradient of the weights.
  CHECK(passes(1).first == Approx(2 * 4 + 2 * 4 / 8.0 + 2 * d_choice));
  CHECK(passes(0).second == 2 * 2 * elements * kLayerM);
  CHECK(passes(1).second == 3 * 2 * elements * kLayerM);
}

TEST_CASE("Python keeps the tensors of a gate in fp32 until the gate returns") {
  Workload w = layer_workload(Mode::Forward);
  w.dtype = Dtype::Fp16;
  w.encoding = Encoding::DenseFp32;
  w.capacity_factor = 64;  // masks need most
  const Program p = layer_program(layer_candidate("baseline", 1, 8, 1), w);
  // Per token and row of an expert: whole numbers of 64 bits for the location of each of two choices; per expert two
  // outer products and their sum in fp32, a byte of the mask, and the weights in the layer's format.
  const double rows = kLayerTokens * 64 * 2 * kLayerTokens / 8.0, gate = rows * (2 * 8 + 8 * (3 * 4 + 1 + 2));
  const double working = memory_use(p, {StageParameters{}}, w, Degrees{.dp = 8, .ep = 8}).working.value();
  CHECK(working > gate);
  CHECK(working < 1.01 * gate);
}

TEST_CASE("Flexible all-to-all gives experts one product each, else each has one for every source") {
  const auto products = [](ExpertLayout layout) {
    Workload w = layer_workload(Mode::Forward);
    w.expert_layout = layout;
    const Program p = layer_program(layer_candidate("baseline", 1, 4, 1), w);
    for (const Operation& op : p.blocks[0].operations) {
      if (op.name == "expert up projection") return compute_load(p, op, RankId(0)).products;
    }
    return std::vector<GemmShape>{};
  };
  const std::int64_t capacity = 2 * 2 * kLayerTokens / 8;
  CHECK(products(ExpertLayout::Merged) == std::vector<GemmShape>(2, {4 * capacity, kLayerH, kLayerM}));
  CHECK(products(ExpertLayout::BySource) == std::vector<GemmShape>(2 * 4, {capacity, kLayerH, kLayerM}));
}

TEST_CASE("Data and model parallelism of the layer are degrees of the baseline") {
  const double bytes = 4, b = kLayerTokens, n = kLayerWorld;
  SECTION("ep 1, esp 1: nothing is dispatched, and the gradients of all experts are reduced, 2 N a H^2 elements") {
    const Candidate c = layer_candidate("baseline", 1, 1, 1);
    const Program layer = layer_program(c);
    for (const Operation& op : layer.blocks[0].operations) {
      if (op.communication()) CHECK(flows_from(layer, op, RankId(0)).empty());
    }
    const Program p = lower_iteration(layer_model(), layer_workload(), c, kLayerPerNode);
    double reduced = 0;
    for (const Block& block : p.blocks) {
      for (const Operation& op : block.operations) {
        if (op.communication() && op.name.starts_with("expert gradient"))
          reduced += static_cast<double>(message_size(p, op, RankId(0)));
      }
    }
    CHECK(reduced == 2.0 * 8 * kLayerM * kLayerH * 4);
  }
  SECTION("ep 1, esp N: every rank has a part of every expert and sees all tokens, N B H elements gathered") {
    const Program p = layer_program(layer_candidate("baseline", 1, 1, 8));
    const auto message = [&](std::size_t block, const std::string& name) {
      double total = 0;
      for (const Operation& op : p.blocks[block].operations) {
        if (op.name == name) total += static_cast<double>(message_size(p, op, RankId(0)));
      }
      return total;
    };
    CHECK(message(0, "all-gather") == n * b * kLayerM * bytes);
    CHECK(message(0, "expert all-reduce") == 2 * 2 * n * b * kLayerM * bytes);  // k f rows a token
    CHECK(message(1, "all-gather") == n * b * kLayerM * bytes);
    CHECK(message(1, "reduce-scatter") == n * b * kLayerM * bytes);
  }
}

}  // namespace moeplan::tests::schedule_test
