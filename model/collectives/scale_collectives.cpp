// Collectives on faster or slower links, and with other latencies.
#include "model/collectives/collective_models.hpp"

namespace moeplan {

namespace {

class Scaling {
 public:
  explicit Scaling(const LinkFactors& factors) : f_(factors) {}

  void apply(CollectiveModels& m) const {
    latencies(m.launch, m.network.base);
    m.network.nic_bandwidth *= f_.nic;
    if (m.network.host_memory) m.network.host_memory->bandwidth *= f_.intra_node;
    for (RingModel& ring : m.rings) apply(ring);
    for (TreeModel& tree : m.trees) apply(tree);
    if (m.nvls) {
      latencies(m.nvls->base, m.nvls->step);
      if (m.nvls->network_step) *m.nvls->network_step *= f_.latency;
      m.nvls->bandwidth *= f_.intra_node;
    }
    if (m.all_to_all) apply(*m.all_to_all);
    if (m.send_receive) {
      latencies(m.send_receive->base);
      m.send_receive->bandwidth *= f_.intra_node;
      multiply(m.send_receive->connection, f_.nic);
    }
    for (DispatcherModel& d : m.dispatchers) {
      apply(d.dispatch);
      apply(d.combine);
    }
  }

 private:
  void apply(RingModel& ring) const {
    latencies(ring.base, ring.step, ring.ramp);
    ring.bandwidth *= f_.intra_node;
    if (!ring.network) return;
    latencies(ring.network->step, ring.network->pass, ring.network->overhead);
    multiply(ring.network->bandwidth, f_.nic);
    multiply(ring.network->hop_bandwidth, f_.nic);
  }
  void apply(TreeModel& tree) const {
    latencies(tree.base, tree.step, tree.network_step);
    tree.bandwidth *= f_.nic;
    multiply(tree.hop_bandwidth, f_.nic);
  }
  void apply(AllToAllModel& a) const {
    latencies(a.base, a.peer, a.simple_base, a.ramp);
    a.ll_bandwidth *= f_.intra_node;
    a.bandwidth *= f_.intra_node;
    if (!a.network) return;
    latencies(a.network->peer, a.network->ramp);
    multiply(a.network->bandwidth, f_.nic);
    multiply(a.network->pair_bandwidth, f_.nic);
  }
  void apply(DispatchDirection& d) const {
    latencies(d.base, d.doubling, d.expert, d.ramp);
    multiply(d.link, f_.intra_node);
    multiply(d.wide_link, f_.intra_node);
    multiply(d.nic, f_.nic);
  }

  template <class... Times>
  void latencies(Times&... times) const {
    ((times *= f_.latency), ...);
  }
  static void multiply(std::optional<BytesPerSecond>& bandwidth, double factor) {
    if (bandwidth) *bandwidth *= factor;
  }

  LinkFactors f_;
};

}  // namespace

void scale(CollectiveModels& models, const LinkFactors& factors) { Scaling(factors).apply(models); }

}  // namespace moeplan
