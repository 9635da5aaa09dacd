// The report of `moeplan price collective` and `moeplan price dispatch`: the time of a communication, and how it comes
// about.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/base/quantity.hpp"

namespace moeplan::cli {

/// One timed communication.
struct CommunicationTime {
  std::string name;  // "all_gather", "dispatch", ...
  Seconds time;
  std::string bound;      // the part that decides
  std::string algorithm;  // "ring LL128", "deepep normal"
  std::vector<std::pair<std::string, Seconds>> parts = {};
  std::string beyond_data = {};  // "" if the figures were fitted to groups of such a size
};

struct CommunicationPrice {
  std::string kind;  // "collective" or "dispatch"
  std::string cluster;
  std::string what;  // "32 MiB on 80 ranks of 10 nodes"
  /// What the file says about the figures that answer, by the part of the file; "" is the whole.
  std::vector<std::pair<std::string, std::string>> origins = {};
  std::vector<CommunicationTime> times = {};
};

[[nodiscard]] std::string communication_price_page(const CommunicationPrice& price);
[[nodiscard]] std::string communication_price_json(const CommunicationPrice& price);

}  // namespace moeplan::cli
