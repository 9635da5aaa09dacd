#include "planner/report/paper_forms.hpp"

#include <catch2/catch.hpp>

#include "tests/support/small_cases.hpp"
#include "tests/support/spec_files.hpp"

namespace moeplan::tests::paper_forms_test {

using namespace moeplan::planner;

namespace {

/// Parm's grid at N_MP = N_ESP = 2 on 8 GPUs of testbed B: B = 4, L = 1024, M = 1024, E = N_EP = 4, k = 2, f = 1.2.
struct ParmLayer {
  Cluster cluster = built_cluster("parm_testbed_b", 8);
  ModelSpec model;
  Workload workload;
  Candidate plan;

  ParmLayer() {
    SmallCase c;
    c.hidden = 1024;
    c.expert_hidden = 4096;
    c.experts = 4;
    c.top_k = 2;
    c.sequence = 1024;
    c.dtype = "fp32";
    const Small s = small(c);
    model = s.model;
    workload = s.workload;
    workload.capacity_factor = 1.2;
    workload.micro_batch = 4;
    plan.degrees = {.dp = 4, .tp = 2, .ep = 4, .esp = 2};
    plan.micro_batch = 4;
  }
};

}  // namespace

TEST_CASE("The papers' closed forms of a plan's layer") {
  const ParmLayer layer;
  const Problem problem(layer.model, layer.workload, layer.cluster);
  const PaperForms forms = paper_forms(problem, layer.plan, layer_roofline(problem, layer.plan));
  REQUIRE(forms.parm);
  const ParmForms& p = *forms.parm;
  const double blm = 4.0 * 1024 * 1024 * 4, x = 1.2 * 2 * blm, y = x * 2 / 2;
  SECTION("message sizes: x = f k BLM, y = x N_ESP / N_MP") {
    CHECK(p.input.value() == blm);
    CHECK(p.dispatched.value() == Approx(x));
    CHECK(p.exchanged.value() == Approx(y));
  }
  SECTION("times are those of the cluster's measured collectives, FSMoE's") {
    const double a2a_y = 175e-6 + y * 0.306e-9;
    const double gather = 32e-6 + blm * 0.168e-9, gather_x = 32e-6 + x * 0.168e-9;
    CHECK(p.s1.value() == Approx(2 * a2a_y + gather));
    CHECK(p.in_turn.value() == Approx(2 * a2a_y + gather_x));
    CHECK(p.s2 < p.in_turn);  // the gather inside nodes hides under the exchange between them
    CHECK(p.s2.value() >= 2 * a2a_y);
    CHECK(p.baseline.value() ==
          Approx(32e-6 + 2 * blm * 0.168e-9 + 71.1e-6 + 2 * x * 0.335e-9 + 2 * (175e-6 + 2 * x * 0.306e-9)));
  }
  SECTION("algorithm 1 takes the less of t_D1 and t_D2, whose lines are exact where times are lines") {
    REQUIRE(p.choice);
    CHECK(p.choice->t_d1.value() == Approx(p.s1.value()));
    CHECK((p.choice->schedule == ParmChoice::S1) == (p.choice->t_d1 <= p.choice->t_d2));
  }
  SECTION("what overlaps is what the simulated layer takes less than its parts") {
    REQUIRE(forms.overlap);
    CHECK(forms.overlap->hidden == forms.overlap->in_turn - forms.overlap->time);
    CHECK(forms.overlap->bound >= 1);
    CHECK(forms.overlap->bound <= 2);
  }
  SECTION("S_max: a dispatch's part inside the two nodes next to that between them") {
    REQUIRE(forms.pipe);
    const PipeForms& pipe = *forms.pipe;
    CHECK(pipe.between > pipe.inside);
    CHECK(pipe.most() == Approx((pipe.inside + pipe.between) / pipe.between));
  }
}

TEST_CASE("Without tensor parallelism there is no choice; without an exchange, no form") {
  ParmLayer layer;
  layer.plan.degrees = {.dp = 8, .ep = 4, .esp = 2};
  const Problem problem(layer.model, layer.workload, layer.cluster);
  const PaperForms forms = paper_forms(problem, layer.plan, {});
  REQUIRE(forms.parm);
  CHECK_FALSE(forms.parm->choice);
  CHECK(forms.parm->s1 == forms.parm->s2);
  CHECK_FALSE(forms.overlap);
  layer.plan.degrees = {.dp = 8, .edp = 8};
  CHECK_FALSE(paper_forms(problem, layer.plan, {}).parm);
}

}  // namespace moeplan::tests::paper_forms_test
