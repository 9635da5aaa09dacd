// Exchanges and collectives of work.hpp as messages.
#pragma once

#include <cstdint>

#include "cuda_runtime/host/host_compute.hpp"
#include "cuda_runtime/host/mailbox.hpp"

namespace moeplan::runtime {

/// Returns once this rank's part is over. `tag`: of all its messages.
void transfer(const ExchangeWork& work, HostBuffers buffers, Mailbox& mailbox, std::int32_t tag);

/// All-gather, reduce-scatter and all-reduce along a ring through the members in their order, broadcast along a chain.
void transfer(const CollectiveWork& work, HostBuffers buffers, Mailbox& mailbox, std::int32_t tag);

}  // namespace moeplan::runtime
