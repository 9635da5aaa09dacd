#include "planner/search/search_space.hpp"

#include <algorithm>
#include <thread>

namespace moeplan::planner {

int SearchSpace::thread_count() const {
  return threads > 0 ? threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace moeplan::planner
