// The zfp codec, whose library's headers stay in one source.
#pragma once

#include <cstdint>
#include <memory>

#include "cuda_runtime/codecs/row_codec.hpp"

namespace moeplan::runtime {

/// See make_row_codec(). Raises InputError for fewer than 3 or more than 32 bits a value.
[[nodiscard]] std::unique_ptr<RowCodec> make_zfp_codec(std::int64_t bits_per_value);

}  // namespace moeplan::runtime
