#include "cuda_runtime/measure/benchmarks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "model/base/whole_numbers.hpp"
#include "model/costs/codec.hpp"
#include "model/costs/measured_cost.hpp"

namespace moeplan::runtime {

namespace {

double real(std::int64_t n) { return static_cast<double>(n); }

RowList rows(std::size_t buffer, std::int64_t count) {
  RowList out{BufferId(buffer), std::vector<std::int32_t>(static_cast<std::size_t>(count))};
  std::iota(out.rows.begin(), out.rows.end(), 0);
  return out;
}

BufferShape floats(std::int64_t count, std::int64_t columns) { return {count, columns, Dtype::Fp32}; }

constexpr const char* kKernels[] = {"copy", "activation", "activation backward", "decode", "decode backward"};
constexpr Collective kCollectives[] = {Collective::AllToAll,  Collective::AllGather, Collective::ReduceScatter,
                                       Collective::AllReduce, Collective::Broadcast, Collective::SendReceive};

double kernel_bytes(const std::string& name, std::int64_t n, const BenchmarkSizes& sizes) {
  const double row = real(n * sizes.columns * size_of(sizes.dtype));
  if (name == "activation" || name == "decode") return 1.5 * row;  // reads a row, writes half the columns or rows
  if (name == "activation backward") return 2.5 * row;             // reads that half and a row, writes a row
  if (name == "decode backward") return 3 * row;
  return 2 * row;
}

/// The form of products; in fp8 the only one that all GPUs have.
Gemm::Form form_of(const Benchmark& b) {
  if (b.phase == GemmPhase::Wgrad) return Gemm::Form::TN;
  return b.phase == GemmPhase::Dgrad || b.dtype == Dtype::Fp8 ? Gemm::Form::NT : Gemm::Form::NN;
}

Dtype result_of(const Benchmark& b) {
  if (b.phase == GemmPhase::Wgrad) return Dtype::Fp32;
  return b.dtype == Dtype::Fp8 ? Dtype::Bf16 : b.dtype;
}

/// The benchmark's products, which have one shape.
BenchmarkExecution gemm_run(const Benchmark& b) {
  const GemmShape& s = b.products.front();
  const bool is_sum = b.phase == GemmPhase::Wgrad;
  const Gemm::Form form = form_of(b);
  struct Matrix {
    std::int64_t rows, columns;
  };
  const Matrix left = is_sum ? Matrix{s.k, s.m} : Matrix{s.m, s.k},
               right = form == Gemm::Form::NT ? Matrix{s.n, s.k} : Matrix{s.k, s.n};
  const std::int64_t groups = std::ssize(b.products);
  BenchmarkExecution out;
  out.buffers = {{left.rows * groups, left.columns, b.dtype},
                 {right.rows * groups, right.columns, b.dtype},
                 {s.m * groups, s.n, result_of(b)}};
  GemmWork work{form,
                rows(0, left.rows * groups),
                rows(1, right.rows * groups),
                rows(2, s.m * groups),
                {},
                /*are_separate=*/b.kind == Benchmark::Kind::Operator};
  for (std::int64_t g = 0; g < groups; ++g) {
    work.products.push_back(
        {{g * left.rows, left.rows}, {g * right.rows, right.rows}, {g * s.m, s.m}, /*accumulates=*/is_sum});
  }
  out.works = {std::move(work)};
  out.steps = {{Stream::Compute, {}}};
  out.random = {BufferId(0), BufferId(1)};
  return out;
}

BenchmarkExecution kernel_run(const std::string& name, std::int64_t n, const BenchmarkSizes& sizes) {
  const auto wide = [&](std::int64_t count) { return BufferShape{count, sizes.columns, sizes.dtype}; };
  BenchmarkExecution out;
  out.steps = {{Stream::Compute, {}}};
  if (name == "activation" || name == "activation backward") {
    out.buffers = {wide(n), {n, sizes.columns / 2, sizes.dtype}, wide(n)};
    if (name == "activation") {
      out.works = {ActivationWork{rows(0, n), rows(1, n), true}};
    } else {
      out.works = {ActivationBackwardWork{rows(1, n), rows(0, n), rows(2, n), true}};
    }
  } else if (name == "decode") {  // two experts per token, each with half of the rows
    const std::int64_t tokens = ceil_div(n, 2);
    out.buffers = {wide(2 * tokens), wide(tokens)};
    SumRowsWork work{{BufferId(0)}, rows(1, tokens), {0}, {}, std::nullopt};
    for (std::int64_t t = 0; t < tokens; ++t) {
      work.terms.push_back({0, static_cast<std::int32_t>(t)});
      work.terms.push_back({0, static_cast<std::int32_t>(tokens + t)});
      work.begin.push_back(std::ssize(work.terms));
    }
    out.works = {std::move(work)};
  } else if (name == "decode backward") {
    out.buffers = {wide(n), wide(n), floats(n, 2), wide(n), floats(n, 1)};
    DecodeBackwardWork work{BufferId(0), BufferId(1), BufferId(2), BufferId(3), rows(4, n), {}};
    for (std::int32_t i = 0; i < n; ++i) work.entries.push_back({i, i, i, i, i, 0});
    out.works = {std::move(work)};
  } else {
    out.buffers = {wide(n), wide(n)};
    out.works = {CopyRowsWork{rows(0, n), rows(1, n)}};
  }
  return out;
}

BenchmarkExecution codec_run(WireFormat format, const BenchmarkSizes& sizes) {
  const std::int64_t n = sizes.rows[sizes.codec_rows];
  BenchmarkExecution out;
  out.buffers = {{n, sizes.columns, sizes.dtype}, {n, sizes.columns, sizes.dtype}};
  out.random = {BufferId(0)};
  CodecWork encode{format, false, rows(0, n), {}};
  for (const WirePart& p : wire_parts(format, {}, sizes.columns)) {
    encode.wire.push_back(rows(out.buffers.size(), n));
    out.buffers.push_back({n, p.columns, p.dtype});
  }
  CodecWork decode = encode;
  decode.decodes = true;
  decode.rows = rows(1, n);
  out.works = {std::move(encode), std::move(decode)};
  out.steps = {{Stream::Compute, {}}, {Stream::Compute, {}}};
  return out;
}

Packed piece(std::int64_t first, std::int64_t count) {
  Packed out;
  out.append({first, count});
  return out;
}

/// A collective over the benchmark's bytes, in the definition of AlphaBeta, from buffer `from` to buffer `to`.
Work collective_work(const Benchmark& b, Collective collective, RankId rank, std::size_t from, std::size_t to) {
  const std::vector<RankId> members = b.members();
  const std::int64_t elements = static_cast<std::int64_t>(b.bytes) / size_of(b.dtype), ranks = b.ranks;
  const std::int64_t me = std::find(members.begin(), members.end(), rank) - members.begin();
  const auto begin = [&](std::int64_t p) { return elements * p / ranks; };
  const auto block = [&](std::int64_t p) { return piece(begin(p), begin(p + 1) - begin(p)); };
  if (collective == Collective::AllToAll || collective == Collective::SendReceive) {
    ExchangeWork work{BufferId(from), BufferId(to), {}, {}, {}, {}, false, {}, 1};
    for (std::int64_t p = 0; p < ranks; ++p) {
      const RankId peer = members[static_cast<std::size_t>(p)];
      if (collective == Collective::SendReceive) {  // a ring of messages; for two ranks an exchange
        if (p == (me + 1) % ranks) work.sends.push_back({peer, piece(0, elements)});
        if (p == (me + ranks - 1) % ranks) work.receives.push_back({peer, piece(0, elements)});
        continue;
      }
      if (p == me) {
        work.own_from = work.own_to = block(p);
        continue;
      }
      work.sends.push_back({peer, block(p)});
      // All senders send equal amounts: the length of this rank's own block.
      const std::int64_t size = begin(me + 1) - begin(me);
      work.receives.push_back({peer, piece(p * size, size)});
    }
    return work;
  }
  CollectiveWork work{collective, members, me, BufferId(from), BufferId(to), {}, {}};
  std::vector<Packed> all;
  for (std::int64_t p = 0; p < ranks; ++p) all.push_back(block(p));
  const std::vector<Packed> own{block(me)};
  switch (collective) {
    case Collective::AllGather: work.from_blocks = own, work.to_blocks = all; break;
    case Collective::ReduceScatter: work.from_blocks = all, work.to_blocks = own; break;
    case Collective::Broadcast: work.from_blocks = work.to_blocks = {piece(0, elements)}; break;
    default: work.from_blocks = work.to_blocks = all;
  }
  return work;
}

/// Encloses works between two short ones on the compute stream, on which they depend and which depend on them.
BenchmarkExecution between(std::vector<BufferShape> buffers, std::vector<std::pair<Work, Stream>> works) {
  BenchmarkExecution out;
  out.buffers = std::move(buffers);
  const std::size_t small = out.buffers.size();
  out.buffers.insert(out.buffers.end(), 2, floats(1, 1));
  out.works.push_back(CopyRowsWork{rows(small, 1), rows(small + 1, 1)});
  out.steps.push_back({Stream::Compute, {}});
  std::vector<std::size_t> all;
  for (auto& [work, stream] : works) {
    all.push_back(out.works.size());
    out.works.push_back(std::move(work));
    out.steps.push_back({stream, {0}});
  }
  out.works.push_back(CopyRowsWork{rows(small, 1), rows(small + 1, 1)});
  out.steps.push_back({Stream::Compute, all});
  return out;
}

/// A buffer for the benchmark's bytes, with a margin for uneven blocks of all senders.
BufferShape room(const Benchmark& b) {
  return {static_cast<std::int64_t>(b.bytes) / size_of(b.dtype) + b.ranks * b.ranks, 1, b.dtype};
}

/// Groups of products in a row on one stream, then an all-to-all on another, which start together.
BenchmarkExecution concurrent_run(const Benchmark& b, RankId rank, std::size_t groups) {
  BenchmarkExecution gemm = gemm_run(b);
  const std::size_t first = gemm.buffers.size();
  gemm.buffers.insert(gemm.buffers.end(), 2, room(b));
  std::vector<std::pair<Work, Stream>> works(groups, {gemm.works.front(), Stream::Copy});
  works.emplace_back(collective_work(b, Collective::AllToAll, rank, first, first + 1), Stream::Inter);
  BenchmarkExecution out = between(gemm.buffers, std::move(works));
  out.random = gemm.random;
  return out;
}

/// The group shapes on which collectives are measured, all ranks first. Two numbers of ranks determine the cost of a
/// further rank, within a node and between nodes.
std::vector<GroupShape> group_shapes(std::int64_t ranks, std::int64_t nodes) {
  std::vector<GroupShape> out;
  const std::int64_t local = ranks / nodes;
  if (nodes > 1) {
    out.push_back({ranks, nodes});
    if (local > 1) out.push_back({nodes, nodes});
  }
  for (std::int64_t p = local; p >= 2; p /= 2) {
    if (p < local && 2 * p < local) break;
    out.push_back({p, 1});
  }
  return out;
}

/// Name, FLOPs and bytes of a benchmark of products.
void set_work(Benchmark& b) {
  const GemmShape& s = b.products.front();
  const double count = real(std::ssize(b.products));
  b.flops = count * real(2 * s.m * s.n * s.k);
  b.bytes = count * real((s.m * s.k + s.k * s.n) * size_of(b.dtype) + s.m * s.n * size_of(result_of(b)));
  const std::string several = count > 1 ? fmt::format("{} of ", b.products.size()) : "";
  b.name = fmt::format("{}{} x {} x {} in {}", several, s.m, s.n, s.k, name_of<Dtype>(kDtypeNames, b.dtype));
}

class Maker {
 public:
  Maker(BenchmarkScale scale, const MeasuredRanks& ranks)
      : sizes_(sizes_of(scale)),
        scale_(scale),
        ranks_(ranks.all),
        nodes_(ranks.nodes),
        multiply_fp8_(ranks.multiply_fp8),
        computing_(ranks.share_processors ? GroupShape{1, 1} : GroupShape{ranks.all, ranks.nodes}) {}

  std::vector<Benchmark> all() {
    computations();
    if (ranks_ > 1) communications();
    return std::move(out_);
  }

 private:
  using Kind = Benchmark::Kind;

  Benchmark& add(Kind kind, std::string name, std::size_t size, double bytes, const GroupShape& group) {
    return out_.emplace_back(Benchmark{.kind = kind,
                                       .name = std::move(name),
                                       .bytes = bytes,
                                       .ranks = group.ranks,
                                       .size = size,
                                       .dtype = sizes_.dtype,
                                       .scale = scale_,
                                       .nodes = group.nodes,
                                       .ranks_of_machine = ranks_ / nodes_});
  }

  void product(Kind kind, std::size_t size, Dtype dtype) {
    Benchmark& b = add(kind, "", size, 0, computing_);
    b.dtype = dtype;
    const std::int64_t count = kind == Kind::GroupedGemm ? sizes_.groups : 1;
    b.products.assign(static_cast<std::size_t>(count), sizes_.products[size]);
    set_work(b);
  }

  void computations() {
    for (std::size_t i = 0; i < sizes_.products.size(); ++i) product(Kind::Gemm, i, sizes_.dtype);
    for (std::size_t i = 0; i < sizes_.grouped; ++i) product(Kind::GroupedGemm, i, sizes_.dtype);
    if (sizes_.sustained > 0) product(Kind::Sustained, sizes_.products.size() - 1, sizes_.dtype);
    for (const Dtype dtype : sizes_.peaks) {
      if (dtype != Dtype::Fp8 || multiply_fp8_) product(Kind::Peak, sizes_.products.size() - 1, dtype);
    }
    for (const char* kernel : kKernels) {
      for (std::size_t i = 0; i < sizes_.rows.size(); ++i) {
        add(Kind::Kernel, kernel, i, kernel_bytes(kernel, sizes_.rows[i], sizes_), computing_);
      }
    }
    const double coded = real(sizes_.rows[sizes_.codec_rows] * sizes_.columns * size_of(sizes_.dtype));
    for (const CodecEntry& codec : codecs()) add(Kind::Codec, std::string(codec.name), 0, coded, computing_);
  }

  void communications() {
    for (const Collective c : kCollectives) {
      for (const GroupShape& group : group_shapes(ranks_, nodes_)) {
        for (const std::int64_t n : sizes_.bytes) {
          add(Kind::Collective, std::string(name_of<Collective>(kCollectiveNames, c)), 0, real(n), group).collective =
              c;
        }
      }
    }
    for (const std::int64_t n : sizes_.paired) {
      add(Kind::Pair, "all_to_all and all_gather", 0, real(n), {ranks_, nodes_});
    }
    const GroupShape two{2, ranks_ == nodes_ ? 2 : 1};
    const auto concurrent = [&](Kind kind, const char* name) {
      Benchmark& b =
          add(kind, name, sizes_.concurrent, real(sizes_.concurrent_bytes), computing_.ranks > 1 ? computing_ : two);
      const GemmShape& s = sizes_.products[sizes_.concurrent];
      b.flops = real(sizes_.groups * 2 * s.m * s.n * s.k);
      b.products.assign(static_cast<std::size_t>(sizes_.groups), s);
    };
    concurrent(Kind::Concurrent, "products during all_to_all");
    if (sizes_.concurrent_products > 0) concurrent(Kind::ConcurrentExchange, "all_to_all during products");
  }

  const BenchmarkSizes& sizes_;
  BenchmarkScale scale_;
  std::int64_t ranks_, nodes_;
  bool multiply_fp8_;
  GroupShape computing_;
  std::vector<Benchmark> out_;
};

}  // namespace

std::vector<RankId> Benchmark::members() const {
  const std::int64_t together = ranks / nodes;
  std::vector<RankId> out;
  for (std::int64_t i = 0; i < ranks; ++i) {
    out.emplace_back(static_cast<std::size_t>(i / together * ranks_of_machine + i % together));
  }
  return out;
}

std::vector<Benchmark> benchmarks(BenchmarkScale scale, const MeasuredRanks& ranks) {
  return Maker(scale, ranks).all();
}

std::vector<Benchmark> operator_benchmarks(bool multiplies_fp8) {
  const OperatorSizes& sizes = operator_sizes();
  std::vector<Benchmark> out;
  const auto add = [&](std::int64_t groups, GemmPhase phase, std::int64_t tokens, const OperatorSizes::Weights& w,
                       Dtype dtype = Dtype::Bf16) {
    const GemmShape shape = phase == GemmPhase::Forward ? GemmShape{tokens, w.outputs, w.inputs}
                            : phase == GemmPhase::Dgrad ? GemmShape{tokens, w.inputs, w.outputs}
                                                        : GemmShape{w.inputs, w.outputs, tokens};
    Benchmark& b = out.emplace_back(Benchmark{.kind = Benchmark::Kind::Operator,
                                              .name = "",
                                              .ranks = 1,
                                              .products = std::vector(static_cast<std::size_t>(groups), shape),
                                              .phase = phase,
                                              .dtype = dtype,
                                              .scale = BenchmarkScale::Gpus,
                                              .ranks_of_machine = 1});
    set_work(b);
  };
  for (const auto& [phase, name] : kGemmPhaseNames) {
    for (const OperatorSizes::Weights& w : sizes.weights) {
      for (const std::int64_t tokens : sizes.tokens) add(1, phase, tokens, w);
    }
    for (const OperatorSizes::Experts& e : sizes.experts) {
      for (const std::int64_t rows : sizes.rows_of_expert) add(e.local, phase, rows, e.weights);
    }
  }
  if (!multiplies_fp8) return out;
  for (const OperatorSizes::Weights& w : sizes.weights) {
    for (const std::int64_t tokens : sizes.tokens) add(1, GemmPhase::Forward, tokens, w, Dtype::Fp8);
  }
  return out;
}

BenchmarkExecution run_of(const Benchmark& b, RankId rank) {
  const std::vector<RankId> members = b.members();
  if (std::find(members.begin(), members.end(), rank) == members.end()) return {};
  const BenchmarkSizes& sizes = sizes_of(b.scale);
  const auto work = [&](Collective c, std::size_t from) { return collective_work(b, c, rank, from, from + 1); };
  switch (b.kind) {
    case Benchmark::Kind::Gemm:
    case Benchmark::Kind::Peak:
    case Benchmark::Kind::Operator:
    case Benchmark::Kind::GroupedGemm: return gemm_run(b);
    case Benchmark::Kind::Sustained: {
      BenchmarkExecution out = gemm_run(b);
      out.works.resize(static_cast<std::size_t>(sizes.sustained), out.works.front());
      out.steps.resize(out.works.size(), out.steps.front());
      return out;
    }
    case Benchmark::Kind::Kernel: return kernel_run(b.name, sizes.rows[b.size], sizes);
    case Benchmark::Kind::Codec:
      for (const CodecEntry& codec : codecs()) {
        if (codec.name == b.name) return codec_run(codec.format, sizes);
      }
      return {};
    case Benchmark::Kind::Collective: return between({room(b), room(b)}, {{work(b.collective, 0), Stream::Inter}});
    case Benchmark::Kind::Pair:
      return between({room(b), room(b), room(b), room(b)},
                     {{work(Collective::AllToAll, 0), Stream::Inter}, {work(Collective::AllGather, 2), Stream::Intra}});
    case Benchmark::Kind::Concurrent: return concurrent_run(b, rank, 1);
    case Benchmark::Kind::ConcurrentExchange: {
      BenchmarkExecution out = concurrent_run(b, rank, static_cast<std::size_t>(sizes.concurrent_products));
      out.steps.back().after = {out.works.size() - 2};  // ends the all-to-all's time, whether products go on or not
      return out;
    }
  }
  return {};
}

double time_of(const Benchmark& b, const std::vector<std::vector<OperationTime>>& times) {
  double begin = 0, end = 0, sum = 0;
  std::int64_t ranks = 0;
  for (const auto& t : times) {
    if (t.empty()) continue;
    ++ranks;
    begin = std::max(begin, t.front().end.value());
    end = std::max(end, t.back().start.value());
    if (b.kind == Benchmark::Kind::Sustained) {  // the second half: clocks have fallen by then
      const std::size_t half = t.size() / 2;
      sum += (t.back().end - t[half].start).value() / static_cast<double>(t.size() - half);
    } else if (b.kind == Benchmark::Kind::Codec) {
      sum += (t.back().end - t.front().start).value() / 2;
    } else {
      const OperationTime& one = b.kind == Benchmark::Kind::Concurrent ? t[1] : t.front();
      sum += (one.end - one.start).value();
    }
  }
  const bool communicates = b.kind == Benchmark::Kind::Collective || b.kind == Benchmark::Kind::Pair ||
                            b.kind == Benchmark::Kind::ConcurrentExchange;
  return communicates ? end - begin : sum / static_cast<double>(ranks);
}

}  // namespace moeplan::runtime
