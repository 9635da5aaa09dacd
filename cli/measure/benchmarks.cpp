#include "cli/measure/benchmarks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "model/base/whole_numbers.hpp"
#include "planner/codec.hpp"

namespace moeplan {

namespace {

constexpr std::int64_t kColumns = 256;  // of the rows that kernels work on
constexpr double kFloat = sizeof(float);

double real(std::int64_t n) { return static_cast<double>(n); }

RowList rows(std::size_t buffer, std::int64_t count) {
  RowList out{BufferId(buffer), std::vector<std::int32_t>(static_cast<std::size_t>(count))};
  std::iota(out.rows.begin(), out.rows.end(), 0);
  return out;
}

BufferShape floats(std::int64_t count, std::int64_t columns) { return {count, columns, Dtype::Fp32}; }

/// Sizes of one operation, from those of a small layer's to those of a large one's.
struct Shape {
  std::int64_t m, n, k;
};
constexpr Shape kShapes[] = {{8, 32, 32},     {16, 64, 64},     {64, 64, 64},    {32, 128, 128},
                             {128, 128, 128}, {64, 256, 256},   {256, 256, 256}, {64, 1024, 256},
                             {256, 512, 256}, {256, 1024, 256}, {512, 1024, 512}};
constexpr std::size_t kBesideShape = 8;  // of the product beside an all-to-all
constexpr std::int64_t kKernelRows[] = {4, 64, 512, 2048};
constexpr const char* kKernels[] = {"copy", "activation", "activation backward", "decode", "decode backward"};
constexpr std::int64_t kGroups = 4;  // products of a grouped GEMM
constexpr Collective kCollectives[] = {Collective::AllToAll,  Collective::AllGather, Collective::ReduceScatter,
                                       Collective::AllReduce, Collective::Broadcast, Collective::SendReceive};
constexpr std::int64_t kSizes[] = {1 << 12, 1 << 15, 1 << 17, 1 << 19, 1 << 21, 1 << 23};  // bytes
constexpr std::int64_t kPairSizes[] = {1 << 12, 1 << 17, 1 << 19, 1 << 21};

double kernel_bytes(const std::string& name, std::int64_t n) {
  const double row = real(n * kColumns) * kFloat;
  if (name == "activation") return 1.5 * row;           // up to half as many columns
  if (name == "activation backward") return 2.5 * row;  // that half and up to up
  if (name == "decode backward") return 3 * row;
  return 2 * row;
}

BenchmarkRun gemm_run(const Shape& s, std::int64_t groups) {
  BenchmarkRun out;
  out.buffers = {floats(s.m * groups, s.k), floats(s.k * groups, s.n), floats(s.m * groups, s.n)};
  GemmWork work{Gemm::Form::NN, rows(0, s.m * groups), rows(1, s.k * groups), rows(2, s.m * groups), {}};
  for (std::int64_t g = 0; g < groups; ++g) {
    work.products.push_back({{g * s.m, s.m}, {g * s.k, s.k}, {g * s.m, s.m}, false});
  }
  out.works = {std::move(work)};
  out.steps = {{Stream::Compute, {}}};
  return out;
}

BenchmarkRun kernel_run(const std::string& name, std::int64_t n) {
  BenchmarkRun out;
  out.steps = {{Stream::Compute, {}}};
  if (name == "activation" || name == "activation backward") {
    out.buffers = {floats(n, kColumns), floats(n, kColumns / 2), floats(n, kColumns)};
    if (name == "activation") {
      out.works = {ActivationWork{rows(0, n), rows(1, n), true}};
    } else {
      out.works = {ActivationBackwardWork{rows(1, n), rows(0, n), rows(2, n), true}};
    }
  } else if (name == "decode") {  // of two experts a token, each with half of the rows
    const std::int64_t tokens = ceil_div(n, 2);
    out.buffers = {floats(2 * tokens, kColumns), floats(tokens, kColumns)};
    SumRowsWork work{{BufferId(0)}, rows(1, tokens), {0}, {}, std::nullopt};
    for (std::int64_t t = 0; t < tokens; ++t) {
      work.terms.push_back({0, static_cast<std::int32_t>(t)});
      work.terms.push_back({0, static_cast<std::int32_t>(tokens + t)});
      work.begin.push_back(std::ssize(work.terms));
    }
    out.works = {std::move(work)};
  } else if (name == "decode backward") {
    out.buffers = {floats(n, kColumns), floats(n, kColumns), floats(n, 2), floats(n, kColumns), floats(n, 1)};
    DecodeBackwardWork work{BufferId(0), BufferId(1), BufferId(2), BufferId(3), rows(4, n), {}};
    for (std::int32_t i = 0; i < n; ++i) work.entries.push_back({i, i, i, i, i, 0});
    out.works = {std::move(work)};
  } else {
    out.buffers = {floats(n, kColumns), floats(n, kColumns)};
    out.works = {CopyRowsWork{rows(0, n), rows(1, n)}};
  }
  return out;
}

BenchmarkRun codec_run(WireFormat format, std::int64_t n) {
  BenchmarkRun out;
  out.buffers = {floats(n, kColumns), floats(n, kColumns)};
  CodecWork encode{format, false, rows(0, n), {}};
  for (const WirePart& p : wire_parts(format, {}, kColumns)) {
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

/// `n` bytes as the collective counts them (AlphaBeta), from buffer `from` to buffer `to`.
Work collective_work(Collective collective, std::int64_t n, std::int64_t ranks, RankId rank, std::size_t from,
                     std::size_t to) {
  const std::int64_t elements = n / size_of(Dtype::Fp32), me = rank.value();
  const auto begin = [&](std::int64_t p) { return elements * p / ranks; };
  const auto block = [&](std::int64_t p) { return piece(begin(p), begin(p + 1) - begin(p)); };
  if (collective == Collective::AllToAll || collective == Collective::SendReceive) {
    ExchangeWork work{BufferId(from), BufferId(to), {}, {}, {}, {}, false, {}, 1};
    for (std::int32_t p = 0; p < ranks; ++p) {
      if (collective == Collective::SendReceive) {  // a ring of messages, in pairs of neighbours for two ranks
        if (p == (me + 1) % ranks) work.sends.push_back({RankId(p), piece(0, elements)});
        if (p == (me + ranks - 1) % ranks) work.receives.push_back({RankId(p), piece(0, elements)});
        continue;
      }
      if (p == me) {
        work.own_from = work.own_to = block(p);
        continue;
      }
      work.sends.push_back({RankId(p), block(p)});
      // The same of every sender: what is sent to this rank has the length of its own block.
      const std::int64_t size = begin(me + 1) - begin(me);
      work.receives.push_back({RankId(p), piece(p * size, size)});
    }
    return work;
  }
  CollectiveWork work{collective, {}, me, BufferId(from), BufferId(to), {}, {}};
  std::vector<Packed> all;
  for (std::int32_t p = 0; p < ranks; ++p) {
    work.members.emplace_back(p);
    all.push_back(block(p));
  }
  const std::vector<Packed> own{block(me)};
  switch (collective) {
    case Collective::AllGather: work.from_blocks = own, work.to_blocks = all; break;
    case Collective::ReduceScatter: work.from_blocks = all, work.to_blocks = own; break;
    case Collective::Broadcast: work.from_blocks = work.to_blocks = {piece(0, elements)}; break;
    default: work.from_blocks = work.to_blocks = all;
  }
  return work;
}

/// Works between two short ones on the compute stream: what hands over to them, and to what they hand over.
BenchmarkRun between(std::vector<BufferShape> buffers, std::vector<std::pair<Work, Stream>> works) {
  BenchmarkRun out;
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

/// Room for n bytes, and for what all others send of uneven parts.
BufferShape room(double n, std::int64_t ranks) {
  return floats(static_cast<std::int64_t>(n / kFloat) + ranks * ranks, 1);
}

}  // namespace

std::vector<Benchmark> benchmarks(std::int64_t ranks) {
  using Kind = Benchmark::Kind;
  std::vector<Benchmark> out;
  constexpr std::int64_t kAlone = 1;
  for (const std::int64_t groups : {std::int64_t{1}, kGroups}) {
    for (std::size_t i = 0; i < std::size(kShapes); ++i) {
      const Shape& s = kShapes[i];
      out.push_back({groups == 1 ? Kind::Gemm : Kind::GroupedGemm,
                     fmt::format("{}{} x {} x {}", groups == 1 ? "" : fmt::format("{} of ", groups), s.m, s.n, s.k),
                     real(2 * s.m * s.n * s.k * groups),
                     real((s.m * s.k + s.k * s.n + s.m * s.n) * groups) * kFloat,
                     {},
                     kAlone,
                     i});
    }
  }
  for (const char* kernel : kKernels) {
    for (std::size_t i = 0; i < std::size(kKernelRows); ++i) {
      out.push_back({Kind::Kernel, kernel, 0, kernel_bytes(kernel, kKernelRows[i]), {}, kAlone, i});
    }
  }
  for (const CodecEntry& codec : codecs()) {
    out.push_back({Kind::Codec, std::string(codec.name), 0, real(kKernelRows[2] * kColumns) * kFloat, {}, kAlone});
  }
  for (const Collective c : kCollectives) {
    for (std::int64_t p = ranks; p >= 2; p /= 2) {
      if (p < ranks && 2 * p < ranks) break;  // two numbers of ranks tell what a further one costs
      for (const std::int64_t n : kSizes) {
        out.push_back({Kind::Collective, std::string(name_of<Collective>(kCollectiveNames, c)), 0, real(n), c, p});
      }
    }
  }
  for (const std::int64_t n : kPairSizes)
    out.push_back({Kind::Pair, "all_to_all beside all_gather", 0, real(n), {}, ranks});
  const Shape& large = kShapes[kBesideShape];
  out.push_back({Kind::Beside,
                 "product beside all_to_all",
                 real(2 * large.m * large.n * large.k),
                 real(kSizes[4]),
                 {},
                 2,
                 kBesideShape});
  return out;
}

BenchmarkRun run_of(const Benchmark& b, RankId rank) {
  if (rank.value() >= b.ranks) return {};
  switch (b.kind) {
    case Benchmark::Kind::Gemm: return gemm_run(kShapes[b.size], 1);
    case Benchmark::Kind::GroupedGemm: return gemm_run(kShapes[b.size], kGroups);
    case Benchmark::Kind::Kernel: return kernel_run(b.name, kKernelRows[b.size]);
    case Benchmark::Kind::Codec:
      for (const CodecEntry& codec : codecs()) {
        if (codec.name == b.name) return codec_run(codec.format, kKernelRows[2]);
      }
      return {};
    case Benchmark::Kind::Collective:
      return between(
          {room(b.bytes, b.ranks), room(b.bytes, b.ranks)},
          {{collective_work(b.collective, static_cast<std::int64_t>(b.bytes), b.ranks, rank, 0, 1), Stream::Inter}});
    case Benchmark::Kind::Pair: {
      const auto n = static_cast<std::int64_t>(b.bytes);
      return between({room(b.bytes, b.ranks), room(b.bytes, b.ranks), room(b.bytes, b.ranks), room(b.bytes, b.ranks)},
                     {{collective_work(Collective::AllToAll, n, b.ranks, rank, 0, 1), Stream::Inter},
                      {collective_work(Collective::AllGather, n, b.ranks, rank, 2, 3), Stream::Intra}});
    }
    case Benchmark::Kind::Beside: {
      BenchmarkRun gemm = gemm_run(kShapes[b.size], 1);
      const std::size_t first = gemm.buffers.size();
      gemm.buffers.insert(gemm.buffers.end(), 2, room(b.bytes, b.ranks));
      return between(
          gemm.buffers,
          {{gemm.works.front(), Stream::Copy},
           {collective_work(Collective::AllToAll, static_cast<std::int64_t>(b.bytes), b.ranks, rank, first, first + 1),
            Stream::Inter}});
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
    if (b.kind == Benchmark::Kind::Codec) {
      sum += (t.back().end - t.front().start).value() / 2;
    } else {
      const OperationTime& one = b.kind == Benchmark::Kind::Beside ? t[1] : t.front();
      sum += (one.end - one.start).value();
    }
  }
  const bool communicates = b.kind == Benchmark::Kind::Collective || b.kind == Benchmark::Kind::Pair;
  return communicates ? end - begin : sum / static_cast<double>(ranks);
}

}  // namespace moeplan
