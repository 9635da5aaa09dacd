// Matrix products in fp32, by Eigen.
#include <Eigen/Core>

#include "cuda_runtime/host/host_compute.hpp"

namespace moeplan::runtime {

namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Map = Eigen::Map<Matrix>;

/// Rows of a buffer as an fp32 matrix: in place if they are contiguous fp32, otherwise a copy.
class Operand {
 public:
  Operand(HostBuffers buffers, const RowList& list, const Product::Range& range, bool is_read)
      : buffer_(buffers[list.buffer.index()]), rows_(std::span(list.rows).subspan(at(range.first), at(range.rows))) {
    bool together = buffer_.is_fp32();
    for (std::size_t i = 1; i < rows_.size() && together; ++i) together = rows_[i] == rows_[i - 1] + 1;
    in_place_ = together && (rows_.empty() || rows_.front() >= 0);
    if (in_place_) return;
    copy_.resize(range.rows, buffer_.shape().columns);
    if (!is_read) return;
    for (std::size_t i = 0; i < rows_.size(); ++i) buffer_.load_row(rows_[i], row(i));
  }

  Map matrix() {
    float* data = in_place_ ? (rows_.empty() ? nullptr : buffer_.floats(rows_.front())) : copy_.data();
    return {data, static_cast<Eigen::Index>(rows_.size()), buffer_.shape().columns};
  }
  /// Writes a copy back to the buffer.
  void finish() {
    if (in_place_) return;
    for (std::size_t i = 0; i < rows_.size(); ++i) buffer_.store_row(rows_[i], row(i));
  }

 private:
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
  std::span<float> row(std::size_t i) { return {copy_.data() + i * buffer_.columns(), buffer_.columns()}; }

  HostBuffer& buffer_;
  std::span<const std::int32_t> rows_;
  bool in_place_ = false;
  Matrix copy_;
};

}  // namespace

void compute(const GemmWork& work, HostBuffers buffers) {
  for (const Product& p : work.products) {
    if (p.c.rows == 0) continue;
    Operand a(buffers, work.a, p.a, true), b(buffers, work.b, p.b, true), c(buffers, work.c, p.c, p.accumulates);
    Map out = c.matrix();
    if (!p.accumulates) out.setZero();
    switch (work.form) {
      case Gemm::Form::NN: out.noalias() += a.matrix() * b.matrix(); break;
      case Gemm::Form::NT: out.noalias() += a.matrix() * b.matrix().transpose(); break;
      case Gemm::Form::TN: out.noalias() += a.matrix().transpose() * b.matrix(); break;
    }
    c.finish();
  }
}

}  // namespace moeplan::runtime
