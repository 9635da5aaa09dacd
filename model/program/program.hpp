// The Program: what is simulated is what is executed.
//
// A Program is written once for all ranks. An operation names buffer slices, and a slice says symbolically which rows
// it holds on the rank that executes it ("the tokens of my expert-parallel group for the experts that I hold"). Bytes,
// FLOPs and who-sends-what-to-whom are derived from slices (resolve.hpp), never stored beside them, so an executor can
// run exactly what the simulator prices. Size does not grow with ranks, layers or microbatches: ranks differ only
// through their rows, process groups are given by size and stride, equal layers and microbatches are repeats.
//
// Semantics. A program is a sequence of blocks and repeats; pipeline stages have a sequence each. A rank works through
// its sequence in order. Inside a block, operations of one stream run in the order listed (FIFO), each also after those
// in its `after` list; different streams overlap. A rank enters the next block (or the next iteration of a repeat) once
// all its operations of the previous one have ended, those on background streams apart: these stay FIFO from block to
// block and hold up nobody but a Wait. Ranks do not wait for each other except through communication.
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
#include "model/workload/routing.hpp"

namespace moeplan {

/// Ranks split into groups of `size` members, `stride` apart: r belongs to { base + i stride }, at position
/// (r / stride) mod size. Every group of Megatron-LM's rank order has this form.
struct GroupFamily {
  std::string name;
  std::int64_t size = 1;
  std::int64_t stride = 1;

  [[nodiscard]] std::int64_t position(RankId r) const { return r.value() / stride % size; }
  [[nodiscard]] RankId member(RankId r, std::int64_t position_in_group) const {
    return RankId(static_cast<std::int32_t>(r.value() + (position_in_group - position(r)) * stride));
  }
  /// The member so many positions on, cyclically.
  [[nodiscard]] RankId shifted(RankId r, std::int64_t shift) const {
    return member(r, ((position(r) + shift) % size + size) % size);
  }
  /// The member at position 0: names the group.
  [[nodiscard]] RankId base(RankId r) const { return member(r, 0); }
  bool operator==(const GroupFamily&) const = default;
};

using RoutingId = Id<struct RoutingTag>;

/// Room for an expert on a rank.
struct ExpertSlot {
  ExpertId expert;
  bool is_home = true;  // of its slots the one that keeps the optimizer's states; the others hold copies
  bool operator==(const ExpertSlot&) const = default;
};

/// Group-limited routing: experts are in `count` equal groups of consecutive ones, and a token's are in `per_token` of
/// these at most.
struct ExpertGroups {
  std::int64_t count = 1;
  std::int64_t per_token = 1;
  bool operator==(const ExpertGroups&) const = default;
};

/// Tokens to experts in the MoE layers of one kind. Each rank is the source of its own shard of tokens: where
/// tensor-parallel ranks hold the same tokens, the shards of the group together are those tokens.
///
/// Where experts are placed, ranks hold slots, as many each, and what is said here of experts (shares, rows of experts,
/// All, Local ...) holds for slots. Which tokens of a source go to which of an expert's slots is in the counts: the
/// first ones to its first slot, and so on. So schedules, all-to-alls and engines need not know of placements.
struct RoutingTable {
  RoutingCounts counts;  // by source, a rank's place in its pipeline stage, and expert (or slot)
  GroupId holders;  // position p of this family holds the p-th contiguous share of the experts (the first ones one more
                    // where they do not divide)
  std::int64_t top_k = 1;  // experts that a token selects
  /// By slot; none: an empty one, without weights or tokens. Every expert has one home. Empty: no placement, expert e
  /// is alone in slot e.
  std::vector<std::optional<ExpertSlot>> slots = {};
  ExpertGroups groups{};
  bool operator==(const RoutingTable&) const = default;

  [[nodiscard]] std::int64_t num_experts() const;
};

/// One step of the way from the executing rank to the sources whose token rows a slice holds.
struct RowStep {
  enum class Kind {
    Union,   // the rows of all members of the group, one after the other (a member may stand for the same tokens as
             // another); with `count` > 1 those of one block of `count` equal ones in order of position: the one
             // `index` blocks before the rank's own, cyclically
    Share,   // of each expert's rows, the part that belongs to this rank's position among the group's size
    Chunk,   // of each expert's rows, the `width` parts of `count` from `index` on
    Copies,  // the same rows once for each member of the group (partial sums of expert shards before they are added)
    Leader   // the rows on the member at position 0 of the group, none on the others
  };
  Kind kind;
  GroupId group{};
  std::int64_t index = 0;
  std::int64_t count = 1;
  std::int64_t width = 1;
  bool operator==(const RowStep&) const = default;
};

/// Which rows a slice holds on the executing rank.
struct Rows {
  enum class Kind {
    Fixed,      // `each` rows on every rank
    Tokens,     // `each` tokens of every source reached by `path`
    PerExpert,  // `each` rows for every expert of `experts` (weights); empty slots have none
    Routed      // counts[source][expert] over the sources reached by `path` and the experts of `experts`
  };
  enum class Experts {
    All,
    Local,   // those that the rank holds
    Held,    // those that any member of a group of `holders` holds: the rank's own one, or the one `behind` groups
             // before it among the routing's holders, cyclically (then neighbours, whose groups divide those)
    Behind,  // those held `behind` positions before the rank's own in the holders' group, cyclically
    Paired,  // those held at the rank's own position in it, exclusive or `behind`: groups of 2, 4, 8 ...
    Homes,   // of placed experts, those whose home the rank is
    Copies   // and those that it holds copies of
  };

  Kind kind = Kind::Fixed;
  std::int64_t each = 0;
  RoutingId routing{};
  Experts experts = Experts::All;
  std::int64_t behind = 0;
  GroupId holders{};
  bool distinct = false;  // of the tokens routed to these experts, each once, however many of them it selected
  std::vector<RowStep> path{};

  [[nodiscard]] static Rows fixed(std::int64_t rows);
  [[nodiscard]] static Rows tokens(std::int64_t of_each_source, std::vector<RowStep> path);
  [[nodiscard]] static Rows per_expert(RoutingId routing, std::int64_t rows_each, Experts experts = Experts::Local);
  [[nodiscard]] static Rows routed(RoutingId routing, Experts experts, std::vector<RowStep> path);
  bool operator==(const Rows&) const = default;
};

/// What the names of buffers end with that hold weights of other ranks, or gradients of these, while a layer runs.
inline constexpr std::string_view kGatheredWeights = ".gathered";

struct Buffer {
  std::string name;
  std::int64_t columns = 0;
  Dtype dtype = Dtype::Bf16;
  bool operator==(const Buffer&) const = default;
};

struct Slice {
  BufferId buffer;
  Rows rows;
  bool operator==(const Slice&) const = default;
};

/// The last two are background streams.
enum class Stream : std::uint8_t { Compute, Intra, Inter, Copy, Replicas, Pipeline };
inline constexpr std::array<std::pair<Stream, std::string_view>, 6> kStreamNames{{{Stream::Compute, "compute"},
                                                                                  {Stream::Intra, "intra"},
                                                                                  {Stream::Inter, "inter"},
                                                                                  {Stream::Copy, "copy"},
                                                                                  {Stream::Replicas, "replicas"},
                                                                                  {Stream::Pipeline, "pipeline"}}};
inline constexpr std::size_t kStreams = kStreamNames.size();

/// The end of a block does not wait for its operations on such a stream. They may come after operations of the other
/// streams, and others only through a Wait.
[[nodiscard]] constexpr bool is_background(Stream stream) {
  return stream == Stream::Replicas || stream == Stream::Pipeline;
}

/// C = A B in one of the forms below, A = reads[0], B = reads[1], C = writes[0]. `grouped`: one product per local
/// expert, the routed operands cut by expert; `by_source`: and by source. `accumulates`: C += A B (gradients of
/// weights, and what has several parts).
struct Gemm {
  enum class Form { NN, NT, TN };  // C[m,n] = A[m,k] B[k,n] | A[m,k] B[n,k]^T | A[k,m]^T B[k,n]
  Form form = Form::NN;
  bool grouped = false;
  bool by_source = false;
  bool accumulates = false;
  bool operator==(const Gemm&) const = default;
};

/// Fused attention. Forward: reads q, k, v, writes the output. Backward re-reads them with the output and its gradient.
struct AttentionCore {
  std::int64_t sequence_length = 0;
  std::int64_t window = 0;  // 0: none
  bool causal = true;
  bool backward = false;
  std::int64_t query_columns = 0;  // over all heads of the rank: queries and keys as multiplied
  std::int64_t value_columns = 0;
  bool operator==(const AttentionCore&) const = default;
};

/// A memory-bound kernel: its time is that of its bytes. Encode brings tokens, or distinct rows, to rows of their
/// experts or to distinct rows; EncodeBackward adds such rows up again. Decode does so with the gate's weights, which
/// are in the choices that it reads last. DecodeBackward reads the gradient, the rows that Decode added up, and the
/// choices; it writes the gradients by these rows and by the weights.
enum class Kernel {
  Norm,
  Activation,
  Add,
  TopK,
  Encode,
  Decode,
  SumShards,
  Copy,         // the same rows in another order
  CountTokens,  // a token's choices to one row an expert: how many selected it
  Mask,         // a token's choices to one row of 0 and 1 over the experts' rows
  Embed,
  Loss,
  Optimizer,
  NormBackward,
  ActivationBackward,
  TopKBackward,
  EncodeBackward,
  DecodeBackward,
  EmbedBackward,
  LossBackward
};

/// Rows into the format in which they are sent, or back. To encode, reads[0] are the rows and the writes are what is
/// sent: their values, and what belongs to a whole row (the scale of int8) each in a buffer of its own; to decode, the
/// other way round.
struct Codec {
  WireFormat format = WireFormat::Fp16;
  bool decodes = false;
  bool operator==(const Codec&) const = default;
};

/// How the data of a collective other than an all-to-all streams: along rings through all nodes, for a broadcast a
/// chain from position 0 (ring_edges), or, for all-reduce and broadcast, along two trees over the nodes with half of
/// the data each (tree_edges).
enum class Pattern : std::uint8_t { Ring, Tree };

/// A collective over each group of a family. reads[0] is the rank's input, writes[0] its output.
///
/// AllToAll moves from each member to each other what both the one's input and the other's output hold: the same
/// tokens' rows (those of the slice with fewer sources), for the experts of both. So from a slice over all experts go
/// to each peer the rows for the experts that it holds (dispatch), and from a slice over the local experts, to each
/// peer the rows that came from it (combine). Of fixed rows each gets an equal part. With `of` > 1 it is a part of such
/// an exchange: the members form `of` equal blocks in order of position, and block b sends to the blocks (b + j) mod
/// `of`, j = first .. first + count - 1. So {0, 1, 1} is everything at once and {j, 1, size} step j of a pairwise
/// exchange. `paired`: to the blocks b exclusive or j, for 2, 4, 8 ... blocks ([Thakur, Rabenseifner, Gropp 2005] sec.
/// 3.2); then the two of a pair exchange with each other, and each step looks the same from every rank of a regular
/// machine.
///
/// A Broadcast from weights of Homes to weights of Copies brings each placed expert to its copies: along a chain of its
/// own from its home, first through that node, then through the other ranks in order of position, so that none sends
/// or receives it more than once. With `reduces` data go the other way round and are added up: gradients of Copies to
/// those of Homes.
struct Communication {
  Collective collective = Collective::AllToAll;
  GroupId group{};
  std::int64_t first = 0;
  std::int64_t count = 1;
  std::int64_t of = 1;
  bool paired = false;
  std::int64_t messages = 1;  // that what one peer gets of an all-to-all is sent in, where it does not lie in one piece
  Pattern pattern = Pattern::Ring;
  bool reduces = false;  // a Broadcast of placed experts, backwards
  bool operator==(const Communication&) const = default;
};

/// Sends reads[0] to the member `shift` positions on in the group, cyclically. It begins when the sender reaches it:
/// receivers have posted all their receives from the outset. On a background stream.
struct Send {
  GroupId group{};
  std::int64_t shift = 1;
  std::int32_t channel = 0;  // sends between two ranks on one channel arrive in their order
  bool operator==(const Send&) const = default;
};

/// Ends when the bytes of the matching Send are there: of the n-th Receive of a channel from the member `shift`
/// positions before, its n-th Send. Leaves writes[0].
struct Receive {
  GroupId group{};
  std::int64_t shift = 1;
  std::int32_t channel = 0;
  bool operator==(const Receive&) const = default;
};

/// Ends when all the rank's operations listed before it on a background stream have ended.
struct Wait {
  Stream stream = Stream::Replicas;
  bool operator==(const Wait&) const = default;
};

/// What an operation is for: the classes of the reports. Nothing but reports looks at it.
enum class OpClass {
  Attention,
  DenseFfn,
  Gate,
  Expert,
  SharedExpert,
  Permute,
  Codec,
  Dispatch,
  Combine,
  TensorParallel,
  ExpertSharding,
  ContextParallel,
  Norm,
  Embedding,
  Pipeline,
  WeightGather,
  Gradient,
  Optimizer,
  ExpertTransfer,          // weights to copies of experts: Trans
  ExpertGradientTransfer,  // and their gradients to the homes: Agg
  PlacementPlan            // telling each other the loads
};
inline constexpr std::array<std::pair<OpClass, std::string_view>, 21> kOpClassNames{
    {{OpClass::Attention, "attention"},
     {OpClass::DenseFfn, "dense_ffn"},
     {OpClass::Gate, "gate"},
     {OpClass::Expert, "expert"},
     {OpClass::SharedExpert, "shared_expert"},
     {OpClass::Permute, "permute"},
     {OpClass::Codec, "codec"},
     {OpClass::Dispatch, "dispatch"},
     {OpClass::Combine, "combine"},
     {OpClass::TensorParallel, "tensor_parallel"},
     {OpClass::ExpertSharding, "expert_sharding"},
     {OpClass::ContextParallel, "context_parallel"},
     {OpClass::Norm, "norm_and_add"},
     {OpClass::Embedding, "embedding_and_head"},
     {OpClass::Pipeline, "pipeline"},
     {OpClass::WeightGather, "weight_gather"},
     {OpClass::Gradient, "gradient_sync"},
     {OpClass::Optimizer, "optimizer"},
     {OpClass::ExpertTransfer, "expert_transfer"},
     {OpClass::ExpertGradientTransfer, "expert_gradients"},
     {OpClass::PlacementPlan, "placement_plan"}}};

struct Operation {
  std::string name;  // for people: "dispatch", "expert up projection"
  OpClass op_class = OpClass::Attention;
  Stream stream = Stream::Compute;
  std::variant<Gemm, AttentionCore, Kernel, Codec, Communication, Send, Receive, Wait> work;
  std::vector<Slice> reads;
  std::vector<Slice> writes;
  std::vector<std::int32_t> after;  // indices of earlier operations of the block
  bool operator==(const Operation&) const = default;

  [[nodiscard]] const Communication* communication() const { return std::get_if<Communication>(&work); }
  /// A product, attention, a kernel or a codec: what keeps the GPU busy.
  [[nodiscard]] bool computes() const { return work.index() <= 3; }
};

using BlockId = Id<struct BlockTag>;

struct Block {
  std::string name;
  std::vector<Operation> operations;
  /// Of a backward block: the forward block that it undoes, last run first. What that block wrote and this one reads
  /// before writing is kept, once for each of its runs in between.
  std::optional<BlockId> backward_of{};
  std::optional<BlockId> variant_of{};  // it does what that block does, and what replicas exchange beside
  bool operator==(const Block&) const = default;
};

struct Step;
using Sequence = std::vector<Step>;

/// A block, or a repeat: a sequence that is run `count` times.
struct Step {
  BlockId block{};
  std::int64_t count = 1;  // of a repeat
  Sequence body{};         // empty: the step is the block

  [[nodiscard]] bool is_block() const { return body.empty(); }
  bool operator==(const Step&) const = default;
};

struct Program {
  std::int64_t world_size = 1;
  std::int64_t ranks_per_node = 1;  // consecutive ranks that share a node: rings run through whole nodes (ring_edges)
  std::vector<GroupFamily> groups;  // by GroupId
  std::vector<RoutingTable> routings;  // by RoutingId
  std::vector<Buffer> buffers;         // by BufferId; every rank owns one of each
  std::vector<Block> blocks;           // by BlockId; a block may occur at several places
  std::vector<Sequence> stages{1};     // what each of so many equal ranges of ranks runs, in order of rank
  bool operator==(const Program&) const = default;

  [[nodiscard]] std::int64_t ranks_per_stage() const { return world_size / std::ssize(stages); }
  [[nodiscard]] std::size_t stage_of(RankId r) const { return static_cast<std::size_t>(r.value() / ranks_per_stage()); }
  [[nodiscard]] const GroupFamily& group(GroupId id) const { return groups[id.index()]; }
  [[nodiscard]] const Buffer& buffer(BufferId id) const { return buffers[id.index()]; }
};

/// Members of a group of this family that share a node, where whole nodes do; else 1.
[[nodiscard]] std::int64_t members_per_node(std::int64_t ranks_per_node, const GroupFamily& family);
[[nodiscard]] inline std::int64_t members_per_node(const Program& program, const GroupFamily& family) {
  return members_per_node(program.ranks_per_node, family);
}

/// How often each block runs in a stage's whole sequence, by BlockId.
[[nodiscard]] std::vector<std::int64_t> block_counts(const Program& program, std::size_t stage = 0);
/// The same of any sequence of a Program with so many blocks.
[[nodiscard]] std::vector<std::int64_t> block_counts(const Sequence& sequence, std::size_t blocks);

}  // namespace moeplan
