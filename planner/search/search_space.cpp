#include "planner/search/search_space.hpp"

#include "model/base/in_parallel.hpp"

namespace moeplan::planner {

int SearchSpace::thread_count() const { return threads_or_cores(threads); }

}  // namespace moeplan::planner
