#include "model/workload/fusions.hpp"

#include <catch2/catch.hpp>

namespace moeplan::tests::fusions_test {

TEST_CASE("Fusions are read and written by name") {
  CHECK(name_of(Fusions::Default) == "attention+router+permute+scale_buffers+scale_swizzle+cross_entropy");
  CHECK(parse_fusions("none") == Fusions::None);
  CHECK(parse_fusions("scale_swizzle+cross_entropy+permute+router+scale_buffers+attention") == Fusions::Default);
  CHECK(name_of(*parse_fusions("norm_quantise+router")) == "router+norm_quantise");
  CHECK_FALSE(parse_fusions("routr"));
  CHECK(fusions_error("router+norm_quantize") == "\"norm_quantize\" is not known; did you mean \"norm_quantise\"?");
  CHECK(fusions_error("permutes+router+paddings") ==
        "\"permutes\" is not known; did you mean \"permute\"? \"paddings\" is not known; did you mean \"padding\"?");
}

}  // namespace moeplan::tests::fusions_test
