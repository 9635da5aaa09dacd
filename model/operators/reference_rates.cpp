#include "model/operators/reference_rates.hpp"

namespace moeplan {

namespace {

double ratio(double to, double from) { return from > 0 && to > 0 ? to / from : 1; }

/// The factor of the products' rate in `format`.
double math_factor(const RateFactors& f, MathFormat format) { return operand_bytes(format) < 2 ? f.fp8 : f.bf16; }

}  // namespace

RateFactors rate_factors(const ReferenceRates& from, const ReferenceRates& to) {
  const double bf16 = ratio(to.bf16.value(), from.bf16.value());
  return {.bf16 = bf16,
          .fp8 = from.fp8 > FlopsPerSecond(0) && to.fp8 > FlopsPerSecond(0) ? to.fp8 / from.fp8 : bf16,
          .sms = ratio(static_cast<double>(to.num_sms), static_cast<double>(from.num_sms)),
          .memory = ratio(to.hbm_bandwidth.value(), from.hbm_bandwidth.value()),
          .launch = ratio(to.launch_overhead.value(), from.launch_overhead.value())};
}

void scale(GemmModel& m, const RateFactors& f) {
  const double math = math_factor(f, m.format);
  m.launch *= f.launch;
  m.math *= math;
  m.l2 *= math;
  m.tile_start *= f.sms / math;  // an SM of the other GPU is math / sms times as fast
  m.k_step *= f.sms / math;
  m.read *= f.memory;
  m.write *= f.memory;
  m.quantise *= f.memory;
}

void scale(GroupedGemmModel& m, const RateFactors& f) {
  const double math = math_factor(f, m.format);
  m.launch *= f.launch;
  m.math *= math;
  m.l2 *= math;
  m.tile_start *= f.sms / math;
  m.tile *= f.sms / math;
  m.k_step *= f.sms / math;
  m.memory *= f.memory;
}

void scale(AttentionModel& m, const RateFactors& f) {
  const double math = math_factor(f, m.format);
  m.launch *= f.launch;
  m.math *= math;
  m.softmax *= math;
  m.start *= f.sms / math;
  m.memory *= f.memory;
}

void scale(FusedMoeModel& m, const RateFactors& f) {
  for (Seconds* t : {&m.sort, &m.router, &m.router_token, &m.fixed, &m.local_expert}) *t *= f.launch;
  m.around *= f.memory;
}

void scale(KernelModel& m, const RateFactors& f) {
  m.launch *= f.launch;
  m.ramp *= f.launch;
  m.memory *= f.memory;
}

ReferenceRates read_reference_rates(MapReader map, std::int64_t num_sms) {
  const ReferenceRates rates{.num_sms = num_sms,
                             .bf16 = map.quantity<FlopsPerSecond>("bf16"),
                             .fp8 = map.quantity_or<FlopsPerSecond>("fp8", FlopsPerSecond(0)),
                             .hbm_bandwidth = map.quantity<BytesPerSecond>("hbm_bandwidth"),
                             .launch_overhead = map.quantity<Seconds>("launch_overhead", Sign::NonNegative)};
  map.finish();
  return rates;
}

}  // namespace moeplan
