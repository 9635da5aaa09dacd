// The rounds of a search that vary its best candidates.
#pragma once

#include "planner/search/ranking.hpp"

namespace moeplan::planner {

/// Prices other micro batches, interleaved stages and stages in a V for the best pipelines; for two of them even if the
/// search is cut, since these often halve the time.
void refine_pipelines(Ranking& ranking);

/// Prices the best candidates whose experts span nodes with deduplicated rows, too: by their linear exchanges, which
/// take the most of the time there, they would not be among those that are varied next.
void deduplicate_rows(Ranking& ranking);

/// Prices other strategies for the MoE layers of the best candidates with different degrees: at most three for each,
/// those with which the layer alone is fastest.
void vary_strategies(Ranking& ranking);

/// Prices overlap of microbatches for the candidates so far; without a pipeline with smaller micro batches too.
void overlap_microbatches(Ranking& ranking);

/// Simulates the fastest candidate, if its microbatches overlap, with delayed weight gradients.
void delay_weight_gradients(Ranking& ranking);

/// Simulates the fastest candidate with a strategy of its own for each kind of MoE layer (strategies_by_kind.hpp).
/// Frameworks have one for all layers.
void vary_kinds(Ranking& ranking);

/// Searches the orders of the first candidates, which are sorted by makespan (planner/lowering/ordered.hpp). An order
/// whose simulation is faster becomes a candidate of its own; all are sorted again.
void search_orders(Ranking& ranking);

}  // namespace moeplan::planner
