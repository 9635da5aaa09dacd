// The zfp codec. The headers of libzfp are included in its source file only.
#pragma once

#include <cstdint>
#include <memory>

#include "cuda_runtime/codecs/row_codec.hpp"

namespace moeplan::runtime {

/// The codec of make_row_codec(). Raises InputError for fewer than 3 or more than 32 bits per value.
[[nodiscard]] std::unique_ptr<RowCodec> make_zfp_codec(std::int64_t bits_per_value);

}  // namespace moeplan::runtime
