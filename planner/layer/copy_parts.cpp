#include "planner/layer/copy_parts.hpp"

namespace moeplan::planner {

void CopyParts::move(const char* what, const Slice& weights, bool home) {
  const std::vector<std::int32_t> before = b_.last();
  Slice homes = weights, copies = weights;
  homes.rows.experts = Rows::Experts::Homes;
  copies.rows.experts = Rows::Experts::Copies;
  const GroupId holders = b_.program().routings[l_.routing.index()].holders;
  b_.after(before, collective(what, home ? OpClass::ExpertGradientTransfer : OpClass::ExpertTransfer, Stream::Replicas,
                              {.collective = Collective::Broadcast, .group = holders, .reduces = home},
                              home ? copies : homes, home ? homes : copies));
  b_.continue_after(before);
}

std::int32_t CopyParts::wait(bool at_start) {
  Operation op{.name = "wait for copies",
               .op_class = OpClass::ExpertTransfer,
               .stream = at_start ? Stream::Compute : Stream::Copy,
               .work = Wait{Stream::Replicas},
               .reads = {},
               .writes = {},
               .after = {}};
  if (at_start) return b_.then(std::move(op));
  const std::vector<std::int32_t> before = b_.last();
  const std::int32_t id = b_.after({}, std::move(op));
  b_.continue_after(before);
  return id;
}

}  // namespace moeplan::planner
