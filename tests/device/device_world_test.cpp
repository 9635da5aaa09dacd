// The back end of GPUs on a device that a CPU stands in for: what it asks for, and what it says when something fails.
#include "cuda_runtime/device/device_world.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <numeric>

#include "cuda_runtime/device/loopback_session.hpp"
#include "cuda_runtime/reference/number_formats.hpp"
#include "tests/device/two_ranks.hpp"
#include "tests/support/checks.hpp"

namespace moeplan::tests::device_world_test {

using namespace moeplan::runtime;
using namespace moeplan::tests::two_ranks;

TEST_CASE("Ranks on one device exchange rows and add them up, in whatever order it runs their streams") {
  const bool captures = GENERATE(false, true);
  const std::size_t slab = GENERATE(std::size_t{0}, std::size_t{1} << 16U);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    FakeDevice device(seed);
    const std::string error = error_of(device, {.captures = captures, .slab = slab}, [](RankId rank, Backend& backend) {
      prepare(rank, backend);
      for (int i = 1; i <= 3; ++i) {
        const double mine = 10.0 * i + rank.value(), others = 10.0 * i + 1 - rank.value();
        backend.clear(BufferId(0));
        backend.write_row(BufferId(0), 0, std::vector<double>(8, mine));
        run(backend);
        if (backend.read_row(BufferId(0), 2) != std::vector<double>(8, others)) throw std::logic_error("not exchanged");
        if (backend.read_row(BufferId(1), 0) != std::vector<double>(8, mine + others))
          throw std::logic_error("not added");
        if (backend.read_row(BufferId(0), 3) != std::vector<double>(8, 0)) throw std::logic_error("not zero");
      }
    });
    CHECK(error.empty());
    INFO(error);
    CHECK(device.is_clean());
    // An exchange of two messages, the sums' own blocks, both blocks gathered: 5 copies a rank and
    // run, or the first run and the graph.
    CHECK(device.calls("copy") == 2 * 5 * (captures ? 2 : 3));
    CHECK(device.calls("launch graph") == (captures ? 2 : 0));
  }
}

TEST_CASE("Whatever call of a device fails, all ranks end with its message and nothing is kept") {
  std::size_t seen = 0;
  for (const std::string call :
       {"allocate", "copy_in", "copy_out", "make_stream", "make_event", "record", "wait", "copy", "clear", "launch",
        "begin_capture", "end_capture", "launch graph", "is_over", "hold"}) {
    for (std::size_t n = 0; n < 40; n += 3) {
      FakeDevice device(n);
      device.fail(call, n);
      const std::string error =
          error_of(device, {.time_out = Seconds(2), .captures = true, .slab = 0}, [](RankId rank, Backend& backend) {
            prepare(rank, backend);
            backend.write_row(BufferId(0), 0, std::vector<double>(8, 1.0));
            run(backend);
            run(backend);
            (void)backend.read_row(BufferId(0), 2);
          });
      CHECK(device.is_clean());
      if (device.calls(call) <= n) break;  // it is not called so often
      CHECK(error == call + ": made to fail");
      ++seen;
    }
  }
  CHECK(seen > 40);
}

namespace {

/// What NCCL is to a rank that is a process: calls on its stream, of which the others make theirs.
class OwnTransport final : public DeviceTransport {
 public:
  OwnTransport(FakeDevice& device, std::byte* memory) : device_(device), memory_(memory) {}

  void prepare(std::size_t, Stream, std::span<const DevicePart>) override {}
  void transfer(std::size_t, std::span<const DevicePart> parts) override {
    ++transfers;
    const auto& e = std::get<DeviceExchange>(*parts.front().transfer);
    device_.copy(parts.front().stream, e.receives.front().data, e.sends.front().data, e.sends.front().bytes);
  }
  void meet(Seconds) override {}
  void align(DeviceStream stream) override {
    ++aligned;
    device_.clear(stream, memory_, 1);
  }
  void check() override {}
  void abort() noexcept override { graphs_at_abort = device_.calls("end_capture") - device_.calls("release graph"); }

  int transfers = 0, aligned = 0;
  std::optional<std::size_t> graphs_at_abort;

 private:
  FakeDevice& device_;
  std::byte* memory_;
};

}  // namespace

TEST_CASE("A rank that is a process of its own keeps its iteration as a graph, what it sends with it") {
  FakeDevice device(6);
  std::byte* token = device.allocate(1);
  OwnTransport transport(device, token);
  const bool hangs = GENERATE(false, true);
  {
    DeviceWorld world(device, transport, {RankId(0)}, {.time_out = Seconds(0.05), .captures = true, .slab = 0});
    Backend& backend = world.backend(0);
    const BufferId a(0);
    backend.allocate(std::vector<BufferShape>{{3, 8, Dtype::Fp32}});
    backend.prepare(CopyRowsWork{{a, {0}}, {a, {1}}}, "copy");
    const RankId other(1);
    backend.prepare(ExchangeWork{a, a, {{other, {{{8, 8}}}}}, {{other, {{{16, 8}}}}}, {}, {}, false, {}, 1},
                    "exchange");
    const auto run_once = [&](double value) {
      backend.write_row(a, 0, std::vector<double>(8, value));
      backend.begin();
      backend.enqueue(0, Stream::Compute, {});
      backend.enqueue(1, Stream::Inter, std::vector<std::size_t>{0});
      const auto times = backend.finish();
      CHECK(times[1].start >= times[0].end);
      CHECK(backend.read_row(a, 2) == std::vector<double>(8, value));
    };
    run_once(1);
    run_once(2);
    if (hangs) {
      device.hang();
      CHECK_THROWS_WITH(run_once(3), "rank 0: copy: not over within 0.05 s");
    } else {
      run_once(3);
    }
  }
  CHECK(transport.transfers == 2);  // in the first run, and in the graph
  CHECK(transport.aligned == 3);    // before each, outside of it
  CHECK(device.calls("launch graph") == 2);
  CHECK(device.calls("release graph") == 1);
  if (hangs) {
    CHECK(transport.graphs_at_abort == 0U);  // a communicator ends after the graphs that use it
  } else {
    CHECK_FALSE(transport.graphs_at_abort);
  }
  device.release(token);
  if (!hangs) CHECK(device.is_clean());
}

TEST_CASE("Ranks that have nothing to do in a run wait for the others") {
  FakeDevice device(5);
  const std::string error = error_of(device, {.slab = 0}, [](RankId rank, Backend& backend) {
    const BufferId a(0);
    backend.allocate(std::vector<BufferShape>{{2, 8, Dtype::Fp32}});
    backend.prepare(CopyRowsWork{{a, {0}}, {a, {1}}}, "copy");
    for (const std::int32_t busy : {1, 2, 0}) {  // rank 1 alone, nobody, rank 0 alone
      backend.write_row(a, 0, std::vector<double>(8, 1.0 + busy));
      backend.begin();
      if (rank.value() == busy) backend.enqueue(0, Stream::Compute, {});
      const auto times = backend.finish();
      if (times.size() != 1) throw std::logic_error("a time for each operation");
      const bool is_copied = backend.read_row(a, 1) == std::vector<double>(8, 1.0 + busy);
      if (is_copied != (rank.value() == busy)) throw std::logic_error("not the busy rank's copy");
    }
  });
  CHECK(error.empty());
  CHECK(device.is_clean());
}

TEST_CASE("A run that does not end is told by its operation and the time-out") {
  FakeDevice device(1);
  device.hang();
  const std::string error = error_of(device, {.time_out = Seconds(0.05), .slab = 0}, [](RankId rank, Backend& backend) {
    prepare(rank, backend);
    run(backend);
  });
  CHECK(error == "rank 0: copy: not over within 0.05 s");
}

TEST_CASE("A rank that gives up ends the others' waiting") {
  FakeDevice device(1);
  std::atomic<int> waiting = 0;
  const std::string error = error_of(device, {.slab = 0}, [&](RankId rank, Backend& backend) {
    prepare(rank, backend);
    if (rank.value() == 1) throw ExecutionError("rank 1: has had enough");
    ++waiting;
    run(backend);
    ++waiting;
  });
  CHECK(error == "rank 1: has had enough");
  CHECK(waiting == 1);
  CHECK(device.is_clean());
}

TEST_CASE("Ranks of a session talk to each other, and run one case after the other") {
  FakeDevice device(7);
  {
    LoopbackSession session(device, 2, {.slab = 0});
    session.run([&](Peers& peers) {
      for (int i = 0; i < 3; ++i) {
        const auto backend = session.make_backend(peers.rank(), {});
        prepare(peers.rank(), *backend);
        backend->write_row(BufferId(0), 0, std::vector<double>(8, i + peers.rank().value()));
        run(*backend);
        if (backend->read_row(BufferId(1), 0) != std::vector<double>(8, 2 * i + 1)) throw std::logic_error("not added");
        const auto all = peers.gather("rank " + std::to_string(peers.rank().value()));
        const bool is_first = peers.rank().value() == 0;
        const std::vector<std::string> expected{"rank 0", "rank 1"};
        if (all != (is_first ? expected : std::vector<std::string>())) throw std::logic_error("not gathered");
        if (peers.broadcast(is_first ? "go on" : "") != "go on") throw std::logic_error("not heard");
      }
    });
  }
  CHECK(device.is_clean());
  std::string said;
  try {
    LoopbackSession session(device, 2, {.slab = 0});
    session.run([&](Peers& peers) {
      const auto backend = session.make_backend(peers.rank(), {});
      prepare(peers.rank(), *backend);
      if (peers.rank().value() == 0) throw ExecutionError("rank 0: no more");
      run(*backend);
    });
  } catch (const ExecutionError& e) {
    said = e.what();
  }
  CHECK(said == "rank 0: no more");
}

TEST_CASE("What GPUs do not compute is refused before anything runs") {
  FakeDevice device(1);
  const auto refused = [&](const Work& work, const std::vector<BufferShape>& shapes) {
    return tests::error_of([&] {
      LoopbackTransport transport(device, 0);
      DeviceWorld world(device, transport, {RankId(0)}, {.slab = 0});
      world.backend(0).allocate(shapes);
      world.backend(0).prepare(work, "an operation");
    });
  };
  const BufferId a(0), b(1), c(2);
  CHECK(refused(AddWork{}, {{1, 1, Dtype::Fp8}}) == "execution: fp8 is not computed with on GPUs, but in products");
  CHECK(refused(TopKWork{{a, {0}}, {b, {0}}, 65}, {{1, 128, Dtype::Fp32}, {1, 130, Dtype::Fp32}}) ==
        "execution: an operation: a token of 65 experts; GPUs choose at most 64");
  const GemmWork mixed{Gemm::Form::NN, {a, {0}}, {b, {0}}, {c, {0}}, {{{0, 1}, {0, 1}, {0, 1}, false}}};
  const std::string formats =
      "execution: an operation: products of several number formats are not computed on GPUs, except sums in fp32";
  CHECK(refused(mixed, {{1, 1, Dtype::Bf16}, {1, 1, Dtype::Fp32}, {1, 1, Dtype::Bf16}}) == formats);
  CHECK(refused(mixed, {{1, 1, Dtype::Fp32}, {1, 1, Dtype::Fp32}, {1, 1, Dtype::Bf16}}) == formats);
  CHECK(refused(mixed, {{1, 1, Dtype::Bf16}, {1, 1, Dtype::Bf16}, {1, 1, Dtype::Fp32}}).empty());
  const std::string of_fp8 =
      "execution: an operation: fp8 is not computed with on GPUs, but in products of form NT with results in bf16";
  CHECK(refused(mixed, {{1, 1, Dtype::Fp8}, {1, 1, Dtype::Fp8}, {1, 1, Dtype::Bf16}}) == of_fp8);
  GemmWork rows_by_rows = mixed;
  rows_by_rows.form = Gemm::Form::NT;
  CHECK(refused(rows_by_rows, {{1, 1, Dtype::Fp8}, {1, 1, Dtype::Fp8}, {1, 1, Dtype::Fp32}}) == of_fp8);
  CHECK(refused(rows_by_rows, {{1, 1, Dtype::Fp8}, {1, 1, Dtype::Bf16}, {1, 1, Dtype::Bf16}}) == of_fp8);
  CHECK(refused(rows_by_rows, {{1, 1, Dtype::Fp8}, {1, 1, Dtype::Fp8}, {1, 1, Dtype::Bf16}}).empty());
}

TEST_CASE("A device multiplies rows of fp8 that were written as numbers and copied") {
  constexpr std::int64_t kSize = 16;
  FakeDevice device(3);
  {
    LoopbackTransport transport(device, 0);
    DeviceWorld world(device, transport, {RankId(0)}, {.slab = 0});
    Backend& backend = world.backend(0);
    const std::vector<BufferShape> shapes{
        {kSize, kSize, Dtype::Fp8}, {kSize, kSize, Dtype::Fp8}, {kSize, kSize, Dtype::Bf16}};
    backend.allocate(shapes);
    std::vector<std::int32_t> rows(kSize);
    std::iota(rows.begin(), rows.end(), 0);
    const BufferId a(0), b(1), c(2);
    backend.prepare(CopyRowsWork{{a, rows}, {b, rows}}, "copy");
    const Product::Range all{0, kSize};
    backend.prepare(GemmWork{Gemm::Form::NT, {a, rows}, {b, rows}, {c, rows}, {{all, all, all, false}}}, "product");
    Random random(5);
    std::vector<std::vector<double>> numbers;
    for (std::int64_t r = 0; r < kSize; ++r) {
      std::vector<double> row(kSize);
      for (double& v : row) v = 2 * random.uniform() - 1;
      backend.write_row(a, r, row);
      for (double& v : row) v = from_fp8(to_fp8(static_cast<float>(v)));
      numbers.push_back(std::move(row));
    }
    backend.begin();
    const std::vector<std::size_t> none;
    backend.enqueue(0, Stream::Compute, none);
    backend.enqueue(1, Stream::Compute, none);
    (void)backend.finish();
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      CHECK(backend.read_row(b, static_cast<std::int64_t>(i)) == numbers[i]);
      const std::vector<double> product = backend.read_row(c, static_cast<std::int64_t>(i));
      for (std::size_t j = 0; j < numbers.size(); ++j) {
        const double exact = std::inner_product(numbers[i].begin(), numbers[i].end(), numbers[j].begin(), 0.0);
        CHECK(product[j] == Approx(exact).epsilon(unit_roundoff(Dtype::Bf16)).margin(1e-6));
      }
    }
  }
  CHECK(device.is_clean());
}

TEST_CASE("A token sent to an expert that the gate did not choose is an error") {
  FakeDevice device(1);
  const std::string error = error_of(device, {.slab = 0}, [](RankId, Backend& backend) {
    const BufferId choice(0), rows(1);
    backend.allocate(std::vector<BufferShape>{{1, 2, Dtype::Fp32}, {2, 8, Dtype::Fp32}});
    const SumRowsWork decode{{rows}, {rows, {1}}, {0, 1}, {{0, 0, 0, 5}}, choice};
    backend.prepare(decode, "decode");
    backend.begin();
    backend.enqueue(0, Stream::Compute, {});
    (void)backend.finish();
  });
  CHECK(error == "rank 0: a token was sent to an expert that the gate did not choose");
}

TEST_CASE("Products of rows that lie apart work on copies of them") {
  FakeDevice device(3);
  LoopbackTransport transport(device, 0);
  DeviceWorld world(device, transport, {RankId(0)}, {.slab = 0});
  Backend& backend = world.backend(0);
  const BufferId a(0), b(1), c(2);
  backend.allocate(std::vector<BufferShape>{{3, 2, Dtype::Fp32}, {2, 2, Dtype::Fp32}, {3, 2, Dtype::Fp32}});
  // Rows 2 and 0 of A by B to rows 0 and 2 of C; then C += the same; then rows of nobody.
  GemmWork work{Gemm::Form::NN, {a, {2, 0}}, {b, {0, 1}}, {c, {0, 2}}, {{{0, 2}, {0, 2}, {0, 2}, false}}};
  backend.prepare(work, "product");
  work.products.front().accumulates = true;
  backend.prepare(work, "again");
  backend.prepare(GemmWork{Gemm::Form::NN, {a, {}}, {b, {}}, {c, {1}}, {{{0, 0}, {0, 0}, {0, 1}, false}}}, "empty");
  backend.write_row(a, 0, std::vector<double>{1, 2});
  backend.write_row(a, 2, std::vector<double>{3, 4});
  backend.write_row(b, 0, std::vector<double>{5, 6});
  backend.write_row(b, 1, std::vector<double>{7, 8});
  backend.write_row(c, 1, std::vector<double>{9, 9});
  backend.begin();
  for (std::size_t i = 0; i < 3; ++i) backend.enqueue(i, Stream::Compute, {});
  (void)backend.finish();
  CHECK(backend.read_row(c, 0) == std::vector<double>{2 * (3 * 5 + 4 * 7), 2 * (3 * 6 + 4 * 8)});
  CHECK(backend.read_row(c, 2) == std::vector<double>{2 * (1 * 5 + 2 * 7), 2 * (1 * 6 + 2 * 8)});
  CHECK(backend.read_row(c, 1) == std::vector<double>{0, 0});  // nothing was added up
}

TEST_CASE("Products that do not write to the same rows are asked for at once") {
  FakeDevice device(4);
  {
    LoopbackTransport transport(device, 0);
    DeviceWorld world(device, transport, {RankId(0)}, {.slab = 0});
    Backend& backend = world.backend(0);
    const BufferId a(0), b(1), c(2);
    constexpr std::int64_t kGroups = 3;
    backend.allocate(std::vector<BufferShape>{
        {2 * kGroups, 1, Dtype::Fp32}, {2 * kGroups, 1, Dtype::Fp32}, {kGroups, 1, Dtype::Fp32}});
    // Of each of three sums, the terms of two sources; the second source of the last one has none.
    GemmWork work{Gemm::Form::TN, {a, {0, 1, 2, 3, 4}}, {b, {0, 1, 2, 3, 4}}, {c, {0, 1, 2}}, {}};
    for (std::int64_t g = 0; g < kGroups; ++g) {
      work.products.push_back({{2 * g, 1}, {2 * g, 1}, {g, 1}, false});
      const std::int64_t rows = g + 1 < kGroups ? 1 : 0;
      work.products.push_back({{2 * g + rows, rows}, {2 * g + rows, rows}, {g, 1}, true});
    }
    backend.prepare(work, "sums");
    for (std::int64_t r = 0; r < 2 * kGroups; ++r) {
      backend.write_row(a, r, std::vector<double>{static_cast<double>(r + 1)});
      backend.write_row(b, r, std::vector<double>{10});
    }
    backend.begin();
    backend.enqueue(0, Stream::Compute, {});
    (void)backend.finish();
    CHECK(backend.read_row(c, 0) == std::vector<double>{10 * 1 + 10 * 2});
    CHECK(backend.read_row(c, 1) == std::vector<double>{10 * 3 + 10 * 4});
    CHECK(backend.read_row(c, 2) == std::vector<double>{10 * 5});
  }
  CHECK(device.calls("multiply") == 2);
  CHECK(device.is_clean());
}

}  // namespace moeplan::tests::device_world_test
