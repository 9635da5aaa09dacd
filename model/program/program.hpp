// The Program: the intermediate representation that is both simulated and executed.
//
// A Program is written once for all ranks. An operation names buffer slices, and a slice says symbolically which rows
// it holds on the executing rank ("the tokens of my expert-parallel group for my local experts"). Bytes, FLOPs and the
// communication matrix are derived from slices (resolve.hpp), never stored separately, so that an executor performs
// exactly what the simulator prices. A Program's size does not depend on the numbers of ranks, layers or microbatches:
// ranks differ only in their rows, groups are given by size and stride, equal layers and microbatches are repeats.
//
// Semantics. A Program is a sequence of blocks and repeats; every pipeline stage has its own sequence. A rank executes
// its sequence in order. Within a block, operations of one stream execute in the order listed (FIFO), each also after
// those in its `after` list; different streams overlap. A rank enters the next block (or the next iteration of a
// repeat) when all its operations of the previous one have ended, except those on background streams: these stay FIFO
// across blocks, and only a Wait waits for them. Ranks wait for each other only through communication.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "model/base/ids.hpp"
#include "model/machine/cluster.hpp"
#include "model/machine/dtype.hpp"
#include "model/operators/math_format.hpp"
#include "model/program/op_class.hpp"
#include "model/workload/routing.hpp"

namespace moeplan {

/// A partition of the ranks into groups of `size` members, `stride` apart: r belongs to { base + i stride }, at
/// position (r / stride) mod size. Every group of Megatron-LM's rank order has this form.
struct GroupFamily {
  std::string name;
  std::int64_t size = 1;
  std::int64_t stride = 1;

  [[nodiscard]] std::int64_t position(RankId r) const { return r.value() / stride % size; }
  [[nodiscard]] RankId member(RankId r, std::int64_t position_in_group) const {
    return RankId(static_cast<std::int32_t>(r.value() + (position_in_group - position(r)) * stride));
  }
  /// The member `shift` positions ahead, cyclically.
  [[nodiscard]] RankId shifted(RankId r, std::int64_t shift) const {
    return member(r, ((position(r) + shift) % size + size) % size);
  }
  /// The member at position 0, which identifies the group.
  [[nodiscard]] RankId base(RankId r) const { return member(r, 0); }
  bool operator==(const GroupFamily&) const = default;
};

using RoutingId = Id<struct RoutingTag>;

/// A slot for an expert on a rank.
struct ExpertSlot {
  ExpertId expert;
  bool is_home = true;  // the one of the expert's slots that keeps the optimizer states; the others hold copies
  bool operator==(const ExpertSlot&) const = default;
};

/// Group-limited routing: a token's experts belong to at most `per_token` of `count` equal groups of consecutive ones.
struct ExpertGroups {
  std::int64_t count = 1;
  std::int64_t per_token = 1;
  bool operator==(const ExpertGroups&) const = default;
};

/// The routing of tokens to experts in the MoE layers of one kind. Each rank is the source of its own shard of tokens:
/// if tensor-parallel ranks hold the same tokens, their shards together are those tokens.
///
/// If experts are placed, every rank holds the same number of slots, and everything said here of experts (shares, rows
/// of experts, All, Local ...) applies to slots. The counts determine which tokens of a source go to which slot of an
/// expert: the first tokens to its first slot, and so on. Schedules, all-to-alls and engines therefore need not know
/// about placements.
struct RoutingTable {
  RoutingCounts counts;    // by source (a rank's position in its pipeline stage) and expert (or slot)
  GroupId holders;         // position p of this family holds the p-th contiguous share of the experts (share_begin)
  std::int64_t top_k = 1;  // experts per token
  /// By slot; none: an empty slot, without weights or tokens. Every expert has one home. Empty vector: no placement,
  /// expert e is the only expert of slot e.
  std::vector<std::optional<ExpertSlot>> slots = {};
  ExpertGroups groups{};
  bool operator==(const RoutingTable&) const = default;

  [[nodiscard]] std::int64_t num_experts() const;
};

/// One step of the path from the executing rank to the sources whose token rows a slice holds.
struct RowStep {
  enum class Kind {
    Union,  // the rows of all members of the group, concatenated (two members may represent the same tokens); with
            // `count` > 1, only those of one of `count` equal blocks of members in order of position: the block `index`
            // blocks before the rank's own, cyclically
    Share,  // of each expert's rows, the part that belongs to this rank's position in the group
    Chunk,  // of each expert's rows, `width` of `count` parts, starting with part `index`
    Copies,  // the same rows once per member of the group (partial sums of expert shards before they are added)
    Leader   // the rows on the member at position 0 of the group, none on the others
  };
  Kind kind;
  GroupId group{};
  std::int64_t index = 0;
  std::int64_t count = 1;
  std::int64_t width = 1;
  bool operator==(const RowStep&) const = default;
};

/// The rows that a slice holds on the executing rank.
struct Rows {
  enum class Kind {
    Fixed,      // `each` rows on every rank; with Share steps, the rank's part of them
    Tokens,     // `each` tokens of every source reached by `path`
    PerExpert,  // `each` rows for every expert of `experts` (weights); empty slots have none
    Routed      // counts[source][expert] over the sources reached by `path` and the experts of `experts`
  };
  enum class Experts {
    All,
    Local,   // the rank's own experts
    Held,    // the experts of all members of a group of family `holders`: the rank's own group, or the one `behind`
             // groups before it among the routing's holders, cyclically (the groups then consist of neighbouring ranks
             // and divide the routing's groups)
    Behind,  // the experts of the member `behind` positions before the rank in the holders' group, cyclically
    Paired,  // the experts of the member at the rank's own position XOR `behind`: groups of 2, 4, 8 ...
    Homes,   // placed experts whose home is this rank
    Copies   // placed experts that this rank holds copies of
  };

  Kind kind = Kind::Fixed;
  std::int64_t each = 0;
  RoutingId routing{};
  Experts experts = Experts::All;
  std::int64_t behind = 0;
  GroupId holders{};
  bool distinct = false;  // each token routed to these experts once, however many of them it selected
  std::vector<RowStep> path{};

  [[nodiscard]] static Rows fixed(std::int64_t rows);
  [[nodiscard]] static Rows tokens(std::int64_t of_each_source, std::vector<RowStep> path);
  [[nodiscard]] static Rows per_expert(RoutingId routing, std::int64_t rows_each, Experts experts = Experts::Local);
  [[nodiscard]] static Rows routed(RoutingId routing, Experts experts, std::vector<RowStep> path);
  bool operator==(const Rows&) const = default;
};

/// The memory of a buffer that lies in another one: from element `first` of it. Both have the same format.
struct BufferPart {
  BufferId of;
  std::int64_t first = 0;
  bool operator==(const BufferPart&) const = default;
};

struct Buffer {
  std::string name;
  std::int64_t columns = 0;
  Dtype dtype = Dtype::Bf16;
  std::optional<BufferPart> part = {};
  bool operator==(const Buffer&) const = default;
};

struct Slice {
  BufferId buffer;
  Rows rows;
  bool operator==(const Slice&) const = default;
};

/// The streams of a rank. Replicas and Pipeline are background streams; Host is the rank's host CPU; HostMemory
/// copies to and from its memory.
enum class Stream : std::uint8_t { Compute, Intra, Inter, Copy, Replicas, Pipeline, Host, HostMemory };
inline constexpr std::array<std::pair<Stream, std::string_view>, 8> kStreamNames{{{Stream::Compute, "compute"},
                                                                                  {Stream::Intra, "intra"},
                                                                                  {Stream::Inter, "inter"},
                                                                                  {Stream::Copy, "copy"},
                                                                                  {Stream::Replicas, "replicas"},
                                                                                  {Stream::Pipeline, "pipeline"},
                                                                                  {Stream::Host, "host"},
                                                                                  {Stream::HostMemory, "host memory"}}};
inline constexpr std::size_t kStreams = kStreamNames.size();

/// Whether the end of a block does not wait for operations on this stream. Such operations may depend on operations of
/// the other streams, but other operations depend on them only through a Wait.
[[nodiscard]] constexpr bool is_background(Stream stream) {
  return stream == Stream::Replicas || stream == Stream::Pipeline;
}

/// A matrix product C = A B in one of the forms below, with A = reads[0], B = reads[1], C = writes[0]. `grouped`: one
/// product per local expert, the routed operands split by expert; `by_source`: split by source as well. `accumulates`:
/// C += A B (gradients of weights, and results computed in several parts). `format`: that of the operands' values and
/// scales, if a recipe of mixed precision has quantised them; none: the buffers' own.
struct Gemm {
  enum class Form { NN, NT, TN };  // C[m,n] = A[m,k] B[k,n] | A[m,k] B[n,k]^T | A[k,m]^T B[k,n]
  Form form = Form::NN;
  bool grouped = false;
  bool by_source = false;
  bool accumulates = false;
  std::optional<MathFormat> format = {};
  bool operator==(const Gemm&) const = default;
};

/// The attention heads of one rank and their dimensions.
struct AttentionHeads {
  std::int64_t query_heads = 1;
  std::int64_t kv_heads = 1;    // fewer than query heads with grouped-query attention
  std::int64_t head_dim = 0;    // of queries and keys
  std::int64_t v_head_dim = 0;  // of values and the output
  bool operator==(const AttentionHeads&) const = default;
  // Columns over all heads, as multiplied and as stored.
  [[nodiscard]] std::int64_t query_columns() const { return query_heads * head_dim; }
  [[nodiscard]] std::int64_t output_columns() const { return query_heads * v_head_dim; }
  [[nodiscard]] std::int64_t key_columns() const { return kv_heads * head_dim; }
  [[nodiscard]] std::int64_t value_columns() const { return kv_heads * v_head_dim; }
};

/// Fused attention. Forward: reads q, k, v, writes the output. Backward re-reads them with the output and its gradient.
struct AttentionCore {
  std::int64_t sequence_length = 0;
  std::int64_t window = 0;  // 0: none
  bool causal = true;
  bool backward = false;
  AttentionHeads heads{};
  std::optional<MathFormat> format = {};  // of the products, if it is not that of the rows
  bool operator==(const AttentionCore&) const = default;
};

/// Products of small matrices in one kernel, batched over heads or chunks of a sequence: recurrences of linear
/// attention and state-space layers, sparse attention, an indexer's scores. `multiply_adds` of each row of reads[0].
struct FusedProducts {
  double multiply_adds = 0;
  bool operator==(const FusedProducts&) const = default;
};

/// A kernel whose time follows its bytes, or its elements (GpuSpec::element_rates). Encode maps tokens, or distinct
/// rows, to the rows of their experts or to distinct rows; EncodeBackward sums such rows. Decode is their weighted sum,
/// with the gate's weights from the choices, read last. DecodeBackward reads the output gradient, the rows that Decode
/// summed, and the choices; it writes both gradients. An executed Norm reads a row of factors too (RMSNorm), and a row
/// of summands (LayerNorm). NormBackward reads the gradient, the rows and the weights; it adds to that of the weights.
enum class Kernel {
  Norm,
  Activation,
  Add,
  TopK,
  Encode,
  Decode,
  SumShards,
  Copy,         // also a pass over values of which only the bytes matter
  GeneralPass,  // a pass by a kernel for operands of any strides and formats, whose elements matter too
  Epilogue,     // what the kernel of the product before it does with its result, read first, before it writes
  SortRows,     // the same rows in another order, by index
  CountTokens,  // a token's choices to one row per expert: how many tokens selected it
  Mask,         // a token's choices to a row of zeros and ones over the experts' rows
  Embed,
  Loss,
  Optimizer,
  Rotary,            // rotates queries and keys by their positions, in place
  Recurrence,        // parts of recurrences and of compressed attention: convolutions along the sequence, sums, gates
  Quantise,          // rows to values and scales of a narrower format
  QuantiseTensor,    // the same with one scale for all values; writes[0] in rows, and writes[1], if any, in columns
  LargestMagnitude,  // of all values of the rows: the scale of a tensor
  NormBackward,
  ActivationBackward,
  TopKBackward,
  EncodeBackward,
  ScatterAdd,  // EncodeBackward by an atomic addition an element, to rows of zeros: PyTorch's scatter_add
  IndexAdd,    // the same: PyTorch's index_add
  DecodeBackward,
  EmbedBackward,
  LossBackward
};

/// Encodes rows into the format in which they are sent, or decodes them. To encode, reads[0] are the rows and the
/// writes are the encoded data: the values, and each per-row value (the scale of int8) in a buffer of its own. Decoding
/// swaps reads and writes.
struct Codec {
  WireFormat format = WireFormat::Fp16;
  bool decodes = false;
  bool operator==(const Codec&) const = default;
};

/// The communication pattern of a collective other than an all-to-all: rings through all nodes (for a broadcast, a
/// chain from position 0; ring_edges), or, for all-reduce and broadcast, two trees over the nodes with half of the data
/// each (tree_edges).
enum class Pattern : std::uint8_t { Ring, Tree };

/// Kernels made for the exchange of an MoE layer's rows (a dispatcher's: DeepEP, HybridEP), which move them instead of
/// NCCL. The cluster's figures under `name` price them (model/costs/communication.hpp); without any they cost as much
/// as NCCL's all-to-all of these rows.
struct RowKernels {
  std::string name;  // "deepep normal"
  bool combines = false;
  std::int64_t sms = 0;  // that they hold while rows move; 0: as many as the figures say
  /// Small data of the same tokens, sent by the launch that moves the rows: nothing but their bytes on the links.
  bool accompanies = false;
  bool operator==(const RowKernels&) const = default;
};

/// A collective over each group of a family. reads[0] is the rank's input, writes[0] its output.
///
/// AllToAll moves, from each member to each other member, the data that both the sender's input and the receiver's
/// output hold: the rows of the same tokens (those of the slice with fewer sources), for the experts of both. From a
/// slice over all experts, each peer thus gets the rows for its own experts (dispatch); from a slice over the local
/// experts, each peer gets the rows that came from it (combine). Of fixed rows, each peer gets an equal part. With `of`
/// > 1 the operation is a part of such an exchange: the members form `of` equal blocks in order of position, and block
/// b sends to the blocks (b + j) mod `of`, j = first .. first + count - 1. {0, 1, 1} is thus the whole exchange and {j,
/// 1, size} is step j of a pairwise exchange. `paired`: block b sends to the blocks b XOR j, for 2, 4, 8 ... blocks
/// ([Thakur, Rabenseifner, Gropp 2005] sec. 3.2); the two blocks of a pair then exchange with each other, and each step
/// is equivalent for all ranks of a regular cluster.
///
/// A Broadcast from weights of Homes to weights of Copies sends each placed expert to its copies: along its own chain
/// from its home, first through the home's node, then through the other ranks in order of position, so that no rank
/// sends or receives it more than once. With `reduces` the data flow in the opposite direction and are summed:
/// gradients of Copies to those of Homes.
struct Communication {
  Collective collective = Collective::AllToAll;
  GroupId group{};
  std::int64_t first = 0;
  std::int64_t count = 1;
  std::int64_t of = 1;
  bool paired = false;
  std::int64_t messages = 1;  // messages per peer of an all-to-all, if a peer's data are not contiguous
  Pattern pattern = Pattern::Ring;
  bool reduces = false;    // a Broadcast of placed experts in the opposite direction
  bool continues = false;  // a part of an exchange that was launched together with the part before it
  /// Kernels that move the rows of an all-to-all; none: NCCL does.
  std::optional<RowKernels> kernels = {};
  /// An all-to-all of distinct rows over groups of members that share a node, each a part of the group. A row for
  /// several members of another node crosses to it once, to the member at the sender's position, which forwards it once
  /// to each of them, while later rows still cross; a combine takes the same route back, and that member adds up. None:
  /// every row goes to its receiver directly.
  std::optional<GroupId> relays = {};
  bool operator==(const Communication&) const = default;
};

/// A point-to-point send of reads[0] to the member `shift` positions ahead in the group, cyclically. It starts when the
/// sender reaches it, since receivers post all their receives at the start. On a background stream.
struct Send {
  GroupId group{};
  std::int64_t shift = 1;
  std::int32_t channel = 0;  // sends between two ranks on one channel arrive in order
  bool operator==(const Send&) const = default;
};

/// A point-to-point receive into writes[0]. It ends when the bytes of the matching Send have arrived: the n-th Receive
/// of a channel from the member `shift` positions before matches that member's n-th Send.
struct Receive {
  GroupId group{};
  std::int64_t shift = 1;
  std::int32_t channel = 0;
  bool operator==(const Receive&) const = default;
};

/// A wait for a background stream: ends when all the rank's operations listed before it on that stream have ended.
struct Wait {
  Stream stream = Stream::Replicas;
  bool operator==(const Wait&) const = default;
};

/// The host CPU's work: it launches that many operations. On the host stream it is that of a whole block, which takes
/// at least as long; GPU and host meet at its end. On another stream the GPU waits for it, having nothing else to do.
struct Launches {
  std::int64_t operations = 0;
  bool operator==(const Launches&) const = default;
};

/// A copy of what it reads to the memory of the GPU's host, or of what it writes back from there. Rows that are away
/// are those copied last and not yet back.
struct HostCopy {
  bool operator==(const HostCopy&) const = default;
};

struct Operation {
  std::string name;  // human-readable: "dispatch", "expert up projection"
  OpClass op_class = OpClass::Attention;
  Stream stream = Stream::Compute;
  std::variant<Gemm, AttentionCore, FusedProducts, Kernel, Codec, Communication, Send, Receive, Wait, Launches,
               HostCopy>
      work;
  std::vector<Slice> reads;
  std::vector<Slice> writes;
  std::vector<std::int32_t> after;  // indices of earlier operations of the block
  /// Kernels of the GPU, one after another, as which a computation is launched; 0: it is done in the kernel of another
  /// operation and takes no time of its own. Of a HostCopy, 0: an earlier block has done it, in another buffer.
  std::int64_t kernels = 1;
  /// A computation is one of so many equal parts of one that is launched once, in kernels that also exchange its rows.
  std::int64_t parts = 1;
  bool operator==(const Operation&) const = default;

  [[nodiscard]] const Communication* communication() const { return std::get_if<Communication>(&work); }
  /// Whether it is a computation (a product, attention, a kernel or a codec) that occupies the GPU.
  [[nodiscard]] bool computes() const { return work.index() <= 4; }
  /// Whether it is a product that computes the gradient of weights.
  [[nodiscard]] bool computes_weight_gradient() const;
};

using BlockId = Id<struct BlockTag>;

struct Block {
  std::string name;
  std::vector<Operation> operations;
  /// Of a backward block: the corresponding forward block; executions are matched last in, first out. Buffers that the
  /// forward block writes and this block reads before writing are kept, once per execution in between.
  std::optional<BlockId> backward_of{};
  std::optional<BlockId> variant_of{};  // the same block without concurrent replica communication
  bool operator==(const Block&) const = default;
};

struct Step;
using Sequence = std::vector<Step>;

/// A block, or a repeat: a sequence that is executed `count` times.
struct Step {
  BlockId block{};
  std::int64_t count = 1;  // iterations of a repeat
  Sequence body{};         // empty: the step is the block

  [[nodiscard]] bool is_block() const { return body.empty(); }
  bool operator==(const Step&) const = default;
};

struct Program {
  std::int64_t world_size = 1;
  std::int64_t ranks_per_node = 1;  // consecutive ranks that share a node: rings pass through whole nodes (ring_edges)
  std::vector<GroupFamily> groups;  // by GroupId
  std::vector<RoutingTable> routings;    // by RoutingId
  std::vector<Buffer> buffers;           // by BufferId; every rank owns one of each
  std::vector<Block> blocks;             // by BlockId; a block may occur at several positions
  std::vector<Sequence> stages{1};       // by pipeline stage (equal ranges of ranks, in order)
  bool has_persistent_products = false;  // kernels of products and attention launch one block for each SM, all at once
  bool fills_waves = false;              // products of experts fill their last wave of tiles: a bound for any chunks
  bool operator==(const Program&) const = default;

  [[nodiscard]] std::int64_t ranks_per_stage() const { return world_size / std::ssize(stages); }
  [[nodiscard]] std::size_t stage_of(RankId r) const { return static_cast<std::size_t>(r.value() / ranks_per_stage()); }
  [[nodiscard]] const GroupFamily& group(GroupId id) const { return groups[id.index()]; }
  [[nodiscard]] const Buffer& buffer(BufferId id) const { return buffers[id.index()]; }
  [[nodiscard]] const Operation& operation(BlockId block, std::int32_t index) const {
    return blocks[block.index()].operations[static_cast<std::size_t>(index)];
  }
};

/// The most experts of a table that one of their holders has.
[[nodiscard]] std::int64_t held_experts(const Program& program, RoutingId routing);

/// Members of a group of this family that share a node, if nodes hold whole groups or equal parts; otherwise 1.
[[nodiscard]] std::int64_t members_per_node(std::int64_t ranks_per_node, const GroupFamily& family);
[[nodiscard]] std::int64_t members_per_node(const Program& program, const GroupFamily& family);

/// Number of executions of each block in a stage's whole sequence, or in any one of `blocks` blocks, by BlockId.
[[nodiscard]] std::vector<std::int64_t> block_counts(const Program& program, std::size_t stage = 0);
[[nodiscard]] std::vector<std::int64_t> block_counts(const Sequence& sequence, std::size_t blocks);

}  // namespace moeplan
