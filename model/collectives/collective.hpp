// The collectives of a communication library.
#pragma once

#include <array>
#include <string_view>
#include <utility>

namespace moeplan {

enum class Collective { AllToAll, AllGather, ReduceScatter, AllReduce, Broadcast, SendReceive };

inline constexpr std::array<std::pair<Collective, std::string_view>, 6> kCollectiveNames{
    {{Collective::AllToAll, "all_to_all"},
     {Collective::AllGather, "all_gather"},
     {Collective::ReduceScatter, "reduce_scatter"},
     {Collective::AllReduce, "all_reduce"},
     {Collective::Broadcast, "broadcast"},
     {Collective::SendReceive, "send_receive"}}};

}  // namespace moeplan
