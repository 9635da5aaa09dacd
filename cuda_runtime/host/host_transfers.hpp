// The exchanges and collectives of work.hpp as messages between ranks.
#pragma once

#include <cstdint>

#include "cuda_runtime/host/host_compute.hpp"
#include "cuda_runtime/host/mailbox.hpp"

namespace moeplan::runtime {

/// Performs this rank's part of an exchange and returns once it is complete. `tag` identifies all its messages.
void transfer(const ExchangeWork& work, HostBuffers buffers, Mailbox& mailbox, std::int32_t tag);

/// Performs this rank's part of a collective: all-gather, reduce-scatter and all-reduce along a ring through the
/// members in their order, broadcast along a chain.
void transfer(const CollectiveWork& work, HostBuffers buffers, Mailbox& mailbox, std::int32_t tag);

}  // namespace moeplan::runtime
