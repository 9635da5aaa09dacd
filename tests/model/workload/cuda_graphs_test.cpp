#include "model/workload/cuda_graphs.hpp"

#include <catch2/catch.hpp>

namespace moeplan::tests::cuda_graphs_test {

TEST_CASE("What CUDA graphs capture is named by one word, or by Megatron-LM's modules") {
  CHECK(parse_cuda_graphs("none") == CudaGraphs::None);
  CHECK(parse_cuda_graphs("full_iteration") == CudaGraphs::FullIteration);
  const auto two = parse_cuda_graphs("moe_router+attn");
  REQUIRE(two);
  CHECK(two->has(GraphModule::Attention));
  CHECK(two->has(GraphModule::MoeRouter));
  CHECK_FALSE(two->has(GraphModule::Moe));
  CHECK(name_of(*two) == "attn+moe_router");
  CHECK_FALSE(parse_cuda_graphs("attn+moe_ruter"));
  CHECK(cuda_graphs_error("attn+moe_ruter") == "\"moe_ruter\" is not known; did you mean \"moe_router\"?");
}

}  // namespace moeplan::tests::cuda_graphs_test
