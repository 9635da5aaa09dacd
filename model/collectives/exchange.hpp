// The exchange of tokens of a mixture-of-experts layer by a dispatcher's name: a kernel with measured figures, or
// NCCL's collectives.
//
//   nccl_all_to_all             an all-to-all of k rows a token, there and back
//   all_gather_reduce_scatter   every rank gathers the tokens of all; the results are reduced and scattered
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/collectives/collective_models.hpp"

namespace moeplan {

enum class ExchangeDirection { Dispatch, Combine };

struct ExchangeRequest {
  std::string dispatcher, mode;  // mode "": any
  std::string dispatch_format, combine_format;
  GroupShape group = {};
  double tokens = 0;  // of each rank
  double hidden = 0, top_k = 1, experts = 1;
  double sms = 0;  // 0: the dispatcher's own number
};

/// A time with its parts, or the reason why there is none.
struct Exchange {
  std::optional<Seconds> time = {};
  std::string reason = {};  // "" with a time
  std::vector<std::pair<std::string, Seconds>> parts = {};
  std::string bound = {};
  std::string algorithm = {};
  std::int64_t measured_ranks = 1;            // the largest group that the numbers were fitted to
  std::optional<Collective> collective = {};  // of NCCL that makes the exchange; none: a kernel of its own
};

[[nodiscard]] Exchange exchange(const CollectiveModels& models, const ExchangeRequest& request,
                                ExchangeDirection direction);

}  // namespace moeplan
