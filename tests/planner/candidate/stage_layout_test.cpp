#include "planner/candidate/stage_layout.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "model/base/random.hpp"
#include "model/costs/model_flops.hpp"
#include "tests/support/small_cases.hpp"

namespace moeplan::tests::stage_layout_test {

using namespace moeplan::planner;
using moeplan::tests::any_of;

namespace {

constexpr std::int64_t kSequence = 64;

/// Layers that cost different amounts: a dense layer each of these hidden sizes.
ModelSpec model_of(const std::vector<std::int64_t>& hidden_sizes, std::int64_t vocabulary = 1000) {
  tests::SmallCase c;
  c.vocabulary = vocabulary;
  ModelSpec model = read_model(tests::model_text_document(c));
  model.layers.clear();
  for (const std::int64_t h : hidden_sizes) model.layers.push_back({1, {{0, Ffn{h, true, false}}}});
  return model;
}

double cost_of(const ModelSpec& model, const std::vector<LayerSpec>& layers, bool head) {
  ModelSpec none = model;
  none.layers.clear();
  ModelSpec some = none;
  for (const LayerSpec& layer : layers) some.layers.push_back({1, {layer}});
  const double shell = forward_flops_per_token(none, kSequence);
  return forward_flops_per_token(some, kSequence) - (head ? 0 : shell);
}

/// The largest cost of a part, least over all ways to cut layers begin .. end into `parts`.
double least_maximum(const ModelSpec& model, const std::vector<LayerSpec>& layers, std::size_t begin,
                     std::int64_t parts) {
  const auto from = layers.begin() + static_cast<std::ptrdiff_t>(begin);
  if (parts == 1) return cost_of(model, {from, layers.end()}, true);
  double least = 1e300;
  for (std::size_t end = begin + 1; end + static_cast<std::size_t>(parts) - 1 <= layers.size(); ++end) {
    const double own = cost_of(model, {from, layers.begin() + static_cast<std::ptrdiff_t>(end)}, false);
    least = std::min(least, std::max(own, least_maximum(model, layers, end, parts - 1)));
  }
  return least;
}

}  // namespace

TEST_CASE("A model is cut into parts that cover it in order") {
  Random random(1);
  for (int i = 0; i < 60; ++i) {
    std::vector<std::int64_t> sizes(1 + random.below(8));
    for (std::int64_t& h : sizes) h = any_of<std::int64_t>(random, {16, 256, 1024, 4096});
    const ModelSpec model = model_of(sizes, any_of<std::int64_t>(random, {8, 1000, 50'000}));
    std::vector<LayerSpec> layers;
    for (const RepeatedLayers& run : model.layers) layers.push_back(run.pattern.front());
    for (std::int64_t parts = 1; parts <= std::ssize(sizes); ++parts) {
      CAPTURE(sizes, parts, model.vocab_size);
      const std::vector<StagePart> cut = stage_parts(model, kSequence, parts);
      REQUIRE(std::ssize(cut) == parts);
      std::vector<LayerSpec> all;
      double most = 0;
      for (std::size_t p = 0; p < cut.size(); ++p) {
        CHECK_FALSE(cut[p].layers.empty());
        CHECK(cut[p].embedding == (p == 0));
        CHECK(cut[p].head == (p + 1 == cut.size()));
        all.insert(all.end(), cut[p].layers.begin(), cut[p].layers.end());
        most = std::max(most, cost_of(model, cut[p].layers, cut[p].head));
      }
      CHECK(all == layers);
      // Against all ways to cut it.
      CHECK(most == Approx(least_maximum(model, layers, 0, parts)).epsilon(1e-9));
    }
  }
}

TEST_CASE("A model is cut for a V so that the two parts of each stage together are least at most") {
  Random random(2);
  for (int i = 0; i < 40; ++i) {
    const std::int64_t stages = 2 + static_cast<std::int64_t>(random.below(2));
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(2 * stages) + random.below(4));
    for (std::int64_t& h : sizes) h = any_of<std::int64_t>(random, {16, 256, 1024, 4096});
    const ModelSpec model = model_of(sizes, any_of<std::int64_t>(random, {8, 1000, 50'000}));
    CAPTURE(sizes, stages, model.vocab_size);
    std::vector<LayerSpec> layers;
    for (const RepeatedLayers& run : model.layers) layers.push_back(run.pattern.front());
    // The largest stage of parts that begin at these layers.
    const auto largest = [&](const std::vector<std::size_t>& first) {
      std::vector<double> sums(static_cast<std::size_t>(stages), 0.0);
      for (std::size_t p = 0; p < first.size(); ++p) {
        const std::size_t end = p + 1 < first.size() ? first[p + 1] : layers.size();
        const std::vector<LayerSpec> part(layers.begin() + static_cast<std::ptrdiff_t>(first[p]),
                                          layers.begin() + static_cast<std::ptrdiff_t>(end));
        sums[std::min(p, first.size() - 1 - p)] += cost_of(model, part, p + 1 == first.size());
      }
      return *std::max_element(sums.begin(), sums.end());
    };
    Candidate c;
    c.degrees.pp = stages;
    c.virtual_stages = 2;
    c.pipeline = PipelineShape::V;
    Workload workload{};
    workload.sequence_length = kSequence;
    const std::vector<StagePart> cut = stage_parts(model, workload, c);
    REQUIRE(std::ssize(cut) == 2 * stages);
    std::vector<std::size_t> own;
    std::vector<LayerSpec> all;
    for (const StagePart& part : cut) {
      own.push_back(all.size());
      CHECK_FALSE(part.layers.empty());
      all.insert(all.end(), part.layers.begin(), part.layers.end());
    }
    CHECK(all == layers);
    // Against all ways to cut it: the first part begins at layer 0, the others at any of the rest.
    std::vector<bool> begins(layers.size() - 1, false);
    std::fill(begins.end() - (2 * stages - 1), begins.end(), true);
    double least = 1e300;
    do {
      std::vector<std::size_t> first{0};
      for (std::size_t l = 0; l < begins.size(); ++l) {
        if (begins[l]) first.push_back(l + 1);
      }
      least = std::min(least, largest(first));
    } while (std::next_permutation(begins.begin(), begins.end()));
    CHECK(largest(own) == Approx(least).epsilon(1e-9));
  }
}

TEST_CASE("Of equally good cuts the one with the fullest last parts is taken because first stages keep the most") {
  const auto layers_by_part = [](const ModelSpec& model, std::int64_t parts) {
    std::vector<std::size_t> out;
    for (const StagePart& p : stage_parts(model, kSequence, parts)) out.push_back(p.layers.size());
    return out;
  };
  // A head of 8 words costs nearly nothing, but more than nothing.
  CHECK(layers_by_part(model_of(std::vector<std::int64_t>(6, 256), 8), 4) == std::vector<std::size_t>{1, 2, 2, 1});
  CHECK(layers_by_part(model_of(std::vector<std::int64_t>(7, 256), 8), 4) == std::vector<std::size_t>{2, 2, 2, 1});
  // Here one layer decides.
  CHECK(layers_by_part(model_of({4096, 16, 16, 16, 16}, 8), 3) == std::vector<std::size_t>{1, 1, 3});
}

TEST_CASE("Layers of multi-token prediction weigh on the last part, with an output head each") {
  ModelSpec model = model_of(std::vector<std::int64_t>(12, 1024), 1000);
  model.num_mtp_layers = 2;
  const auto layers_by_part = [&](std::int64_t mtp_layers) {
    std::vector<std::size_t> out;
    for (const StagePart& p : stage_parts(model, kSequence, 3, mtp_layers)) {
      CHECK(p.mtp_layers == (p.head ? mtp_layers : 0));
      out.push_back(p.layers.size());
    }
    return out;
  };
  CHECK(layers_by_part(0) == std::vector<std::size_t>{4, 4, 4});
  CHECK(layers_by_part(2) == std::vector<std::size_t>{5, 5, 2});
  Workload w{};
  w.sequence_length = kSequence;
  w.mtp_layers = 2;
  Candidate c;
  c.degrees.pp = 3;
  for (const PipelineShape shape : {PipelineShape::Interleaved, PipelineShape::V}) {
    c.pipeline = shape;
    c.virtual_stages = 2;
    CHECK(stage_parts(model, w, c).back().mtp_layers == 2);
  }
}

TEST_CASE("Stages hold what their parts do, and all of them together the model") {
  tests::SmallCase c;
  c.moe_layers = 5;
  const ModelSpec model = read_model(tests::model_text_document(c));
  const Degrees degrees{.pp = 2, .dp = 4, .tp = 2, .edp = 2, .ep = 4};
  const auto sum = [&](std::int64_t virtual_stages) {
    UnitParameters total;
    for (const StageParameters& s : stage_parameters(model, kSequence, degrees, virtual_stages)) {
      total += s.all;
      CHECK(s.largest.dense <= s.all.dense);
      CHECK(s.largest.expert <= s.all.expert);
    }
    return total;
  };
  const auto experts = static_cast<double>(c.experts * c.moe_layers * 3 * c.expert_hidden * c.hidden);
  for (const std::int64_t v : {1, 2, 3}) {
    CAPTURE(v);
    CHECK(sum(v).expert == experts / 4);
    CHECK(sum(v).dense == (static_cast<double>(count_parameters(model).total) - experts) / 2);
  }
}

}  // namespace moeplan::tests::stage_layout_test
