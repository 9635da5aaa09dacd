"""Times attention and memory-bound kernels of training steps with PyTorch on one GPU, as rows of a table of operators.

    python3 torch_operators.py GPU SECONDS [--attention-forward LIBRARY] [--attention-backward LIBRARY]

Standard output: CSV rows without a header, in COLUMNS (docs/operators.md, "Tables"), each as soon as it is measured.
Standard error: lines that begin with "note: " say which rows were left out and why. No row is begun once SECONDS are
over since the program began. LIBRARY names the figures that price attention. Needs PyTorch 2.5 or later with CUDA;
what a version does not have is left out.

A time is the median of several calls, one at a time, by CUDA events. Before each, 256 MiB are read so that the L2
cache holds no operand, and the GPU waits 1 ms so that the host's launches are not in the time.
"""
import argparse
import csv
import dataclasses
import functools
import os
import signal
import statistics
import sys
import time
import warnings
from typing import Callable

BEGAN = time.monotonic()
COLUMNS = ("gpu", "kind", "phase", "dtype", "m", "n", "k", "groups", "rows", "sequence_length", "batch", "query_heads",
           "kv_heads", "head_dim", "v_head_dim", "causal", "time_us", "source")

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # no pool of processes for kernels of a few lines
try:
    import torch
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel
except (ImportError, OSError) as error:
    sys.exit(f"no PyTorch: {error} ({sys.executable})")

MIB = 1 << 20
BF16, FP32 = torch.bfloat16, torch.float32
WARM_UPS, KERNEL_RUNS, ATTENTION_RUNS = 3, 11, 15
HEAD_START = 2_000_000  # cycles, 1 ms
EPSILON = 1e-6


@dataclasses.dataclass
class Case:
    """One row: its columns, what its source says, and a function that prepares operands and returns the timed call."""
    kind: str
    phase: str
    source: str
    shape: dict
    prepare: Callable[[], Callable[[], object]]
    runs: int = KERNEL_RUNS

    def name(self):
        shape = " ".join(f"{column} {value}" for column, value in self.shape.items())
        return f"{self.kind} {self.phase}, {self.source}, {shape}"


def note(text):
    print("note:", text, file=sys.stderr, flush=True)


def reason(error):
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__


def version():
    return "torch " + torch.__version__.split("+")[0]


def random(*shape, dtype=BF16):
    return torch.randn(*shape, device="cuda", dtype=dtype)


def uniform(*shape):
    return torch.rand(*shape, device="cuda")


# --- Timing ---------------------------------------------------------------------------------------------------------


@functools.cache
def cache_filler():
    return torch.zeros(256 * MIB // 8, dtype=torch.int64, device="cuda")


def time_of(call, runs):
    """Median time of a call in microseconds."""
    for _ in range(WARM_UPS):
        call()
    torch.cuda.synchronize()
    times = []
    for _ in range(runs):
        cache_filler().sum()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(HEAD_START)
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e3)
    return statistics.median(times)


# --- Attention ------------------------------------------------------------------------------------------------------

SEQUENCES = (1024, 2048, 4096, 8192, 16384)
HEADS = (  # query heads, key heads, head dimension, of values
    (32, 8, 128, 128),  # Mixtral 8x7B, Llama 3 8B
    (32, 8, 64, 64),  # Llama 3.2 1B
    (16, 8, 128, 128),  # Qwen3 0.6B; half of Mixtral's heads
    (64, 8, 64, 64),  # GPT-OSS
    (16, 16, 192, 128),  # DeepSeek-V2-Lite, latent attention
)


@functools.cache
def cudnn_groups_heads():
    """Whether cuDNN's attention takes fewer key heads than query heads; otherwise it gets one for each."""
    q, k = random(1, 8, 256, 128), random(1, 2, 256, 128)
    try:
        cudnn_attention(q, k, k, enable_gqa=True)
        return True
    except (RuntimeError, TypeError):
        return False


def cudnn_attention(q, k, v, **options):
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, **options)


def prepare_attention(phase, sequence_length, batch, query_heads, kv_heads, head_dim, v_head_dim, **_):
    is_grouped = kv_heads < query_heads and cudnn_groups_heads()
    heads, options = (kv_heads, {"enable_gqa": True}) if is_grouped else (query_heads, {})
    q = random(batch, query_heads, sequence_length, head_dim).requires_grad_()
    k = random(batch, heads, sequence_length, head_dim).requires_grad_()
    v = random(batch, heads, sequence_length, v_head_dim).requires_grad_()
    forward = functools.partial(cudnn_attention, q, k, v, **options)
    if phase == "forward":
        return forward
    out = forward()
    return gradient_of(out, (q, k, v))


def gradient_of(out, inputs):
    return functools.partial(torch.autograd.grad, out, inputs, torch.randn_like(out), retain_graph=True)


def attention_case(phase, library, batch, sequence_length, heads):
    shape = dict(zip(("query_heads", "kv_heads", "head_dim", "v_head_dim"), heads),
                 sequence_length=sequence_length, batch=batch, causal=1)
    source = f"{version()} cudnn" + (f", by {library}" if library else "")
    if shape["kv_heads"] < shape["query_heads"] and not cudnn_groups_heads():
        source += "; keys and values repeated"
    return Case("attention", phase, source, shape,
                functools.partial(prepare_attention, phase, **shape), ATTENTION_RUNS)


def attention_cases(libraries):
    return [attention_case(phase, libraries[phase], batch, sequence_length, heads)
            for batch in (1, 4)
            for sequence_length in SEQUENCES
            if batch * sequence_length <= 32768
            for heads in (HEADS if batch == 1 else HEADS[:3])
            for phase in ("forward", "backward")]


# --- Products of experts --------------------------------------------------------------------------------------------

EXPERTS = (  # experts of a rank, rows of each, columns, inner dimension
    (8, 1024, 28672, 4096),  # Mixtral 8x7B: gate and up
    (8, 1024, 4096, 14336),  # and down
    (8, 1024, 4096, 7168),  # DeepSeek-V3, 32 ranks
    (16, 2048, 1536, 2048),  # Qwen3-30B-A3B, 8 ranks
    (32, 512, 5760, 2880),  # GPT-OSS 20B
)


def prepare_grouped(groups, rows, n, k):
    product = torch._grouped_mm
    inputs, weights = random(groups * rows, k), random(groups, n, k).transpose(1, 2)
    ends = torch.arange(rows, (groups + 1) * rows, rows, device="cuda", dtype=torch.int32)
    return lambda: product(inputs, weights, offs=ends)


def grouped_cases():
    shapes = [dict(zip(("groups", "rows", "n", "k"), shape)) for shape in EXPERTS]
    return [Case("grouped_gemm", "forward", f"torch._grouped_mm {version()}", shape,
                 functools.partial(prepare_grouped, **shape)) for shape in shapes]


# --- Kernels that PyTorch has ---------------------------------------------------------------------------------------

ROUTINGS = (  # tokens, hidden, experts, experts of a token
    (4096, 2048, 128, 8),  # Qwen3-30B-A3B
    (8192, 4096, 8, 2),  # Mixtral 8x7B
    (4096, 4096, 128, 8),  # Qwen3-235B-A22B
    (4096, 7168, 256, 8),  # DeepSeek-V3
    (8192, 2048, 64, 6),  # DeepSeek-V2-Lite
)
NORMS = ((4096, 4096), (8192, 4096), (8192, 2048), (4096, 7168), (131072, 128), (32768, 512))  # rows, columns
PARAMETERS = (50_000_000, 400_000_000)
GPT_OSS_COLUMNS, GPT_OSS_ROWS = 2880, (16384, 65536)


def kernel_case(kernel, phase, m, n, prepare, by="of PyTorch"):
    return Case("kernel", phase, f"{kernel} {version()}, {by}", {"m": m, "n": n}, prepare)


def tokens_by_expert(tokens, experts, top_k):
    """Token of each row of the experts' inputs, expert after expert, for experts chosen at random."""
    chosen = uniform(tokens, experts).topk(top_k, 1).indices
    return chosen.flatten().argsort(stable=True) // top_k


def added_by_index(add, rows, index, tokens):
    """Sums of the rows of each token by `add`, scatter_add_ or index_add_."""
    if add == "scatter_add_":
        index = index.unsqueeze(1).expand_as(rows)
    return lambda: getattr(torch.zeros(tokens, rows.shape[1], dtype=BF16, device="cuda"), add)(0, index, rows)


def gathered(x, index):
    index = index.unsqueeze(1).expand(-1, x.shape[1])
    return lambda: x.gather(0, index)


def chunks_in_order(rows, columns):
    """64 chunks, of 8 experts from 8 ranks, put in the experts' order."""
    chunks = random(rows, columns).split(rows // 64)
    order = torch.arange(64).view(8, -1).T.flatten().tolist()
    return lambda: torch.cat([chunks[i] for i in order])


def permutations(tokens, hidden, experts, top_k):
    m, n = tokens * top_k, hidden
    index = functools.partial(tokens_by_expert, tokens, experts, top_k)
    return m, n, (
        ("permute:torch", "forward", lambda: functools.partial(random(tokens, n).index_select, 0, index())),
        ("permute:torch", "backward", lambda: added_by_index("index_add_", random(m, n), index(), tokens)),
        ("unpermute:torch", "forward", lambda: added_by_index("scatter_add_", random(m, n), index(), tokens)),
        ("unpermute:torch", "backward", lambda: gathered(random(tokens, n), index())),
        ("sort_chunks:torch", "forward", lambda: chunks_in_order(m, n)),
    )


def halves(rows, columns):
    """Right half of the columns of a matrix: rows that do not follow one another."""
    return random(rows, 2 * columns)[:, columns:]


def prepare_where(m, n):
    mask, gradient, zero = uniform(m, n) < 0.5, halves(m, n), torch.zeros((), dtype=BF16, device="cuda")
    return lambda: torch.where(mask, gradient, zero)


def general_kernels(m, n):
    """Clamps of half of the columns and weighted biases of experts, forward and backward, kernel by kernel."""
    return m, n, (
        ("clamp:torch_strided", "forward", lambda: functools.partial(halves(m, n).clamp, min=-7.0, max=7.0)),
        ("compare:torch_strided", "backward", lambda: functools.partial(halves(m, n).le, 7.0)),
        ("where:torch_strided", "backward", lambda: prepare_where(m, n)),
        ("multiply:torch_outer", "forward", lambda: functools.partial(torch.mul, random(n), uniform(m, 1))),
        ("add:torch_mixed", "forward", lambda: functools.partial(torch.add, random(m, n), random(m, n, dtype=FP32))),
        ("cast_bf16:torch", "forward", lambda: functools.partial(random(m, n, dtype=FP32).to, BF16)),
        ("cast_fp32:torch", "backward", lambda: functools.partial(random(m, n).to, FP32)),
        ("multiply:torch_rows", "backward",
         lambda: functools.partial(torch.mul, random(m, n, dtype=FP32), uniform(m, 1))),
        ("multiply:torch_columns", "backward",
         lambda: functools.partial(torch.mul, random(m, n, dtype=FP32), random(n))),
    )


def fused_norm(x, weight):
    return torch._fused_rms_norm(x, [x.shape[1]], weight, EPSILON)[0]


def prepare_norm_gradient(m, n):
    x, weight = random(m, n).requires_grad_(), random(n).requires_grad_()
    return gradient_of(fused_norm(x, weight), (x, weight))


def norms(m, n):
    return m, n, (
        ("rms_norm:pytorch", "forward", lambda: functools.partial(fused_norm, random(m, n), random(n))),
        ("rms_norm:pytorch", "backward", lambda: prepare_norm_gradient(m, n)),
        ("add:torch", "forward", lambda: functools.partial(torch.add, random(m, n), random(m, n))),
    )


def prepare_adam(n):
    update = torch._fused_adamw_
    parameter, gradient, mean = (random(n, dtype=FP32) for _ in range(3))
    square, step = uniform(n), torch.tensor(3.0, device="cuda")
    return lambda: update([parameter], [gradient], [mean], [square], [], [step], lr=1e-3, beta1=0.9, beta2=0.95,
                          weight_decay=0.1, eps=1e-8, amsgrad=False, maximize=False)


def prepare_copy(n):
    return functools.partial(torch.empty(n, dtype=BF16, device="cuda").copy_, random(n, dtype=FP32))


def optimizer(n):
    return n, 1, (
        ("adam:torch_fused", "forward", lambda: prepare_adam(n)),
        ("cast_bf16:torch", "forward", lambda: prepare_copy(n)),
    )


def kernel_cases():
    tables = [permutations(*routing) for routing in ROUTINGS]
    tables += [general_kernels(m, GPT_OSS_COLUMNS) for m in GPT_OSS_ROWS]
    tables += [norms(*shape) for shape in NORMS]
    tables += [optimizer(n) for n in PARAMETERS]
    return [kernel_case(kernel, phase, m, n, prepare)
            for m, n, kernels in tables for kernel, phase, prepare in kernels]


# --- Activation functions of Megatron-Core, as PyTorch compiles them ------------------------------------------------

ACTIVATIONS = (  # columns of the result, rows
    (2048, (1024, 8192, 32768)),  # DeepSeek-V3
    (768, (2048, 8192, 32768)),  # Qwen3-30B-A3B
    (14336, (64, 8192)),  # Mixtral 8x7B
    (1408, (1024, 49152)),  # DeepSeek-V2-Lite
    (2880, (512, 16384)),  # GPT-OSS
)
FIRST_ROWS = (257, 514)  # numbers of rows that a function has seen before it is timed: it is compiled for any


def swiglu(y):
    gate, up = y.chunk(2, -1)
    return F.silu(gate) * up


def swiglu_gradient(grad, y):
    gate, up = y.chunk(2, -1)
    sigmoid = torch.sigmoid(gate)
    return torch.cat((grad * sigmoid * (1 + gate * (1 - sigmoid)) * up, grad * F.silu(gate)), -1)


def quick_geglu(y):
    gate, up = y.chunk(2, -1)
    return gate * torch.sigmoid(1.702 * gate) * (up + 1)


def quick_geglu_gradient(grad, y):
    gate, up = y.chunk(2, -1)
    sigmoid = torch.sigmoid(1.702 * gate)
    return torch.cat((grad * sigmoid * (1 + 1.702 * gate * (1 - sigmoid)) * (up + 1), grad * gate * sigmoid), -1)


def weighted(function, y, weight):
    return (function(y) * weight).to(y.dtype)


def weighted_gradient(function, gradient, grad, y, weight):
    to_inputs = gradient(grad * weight, y)
    to_weights = (function(y) * grad.to(weight.dtype)).sum(-1, keepdim=True)
    return to_inputs.to(y.dtype), to_weights.to(weight.dtype)


def weighted_swiglu(y, weight):
    return weighted(swiglu, y, weight)


def weighted_swiglu_gradient(grad, y, weight):
    return weighted_gradient(swiglu, swiglu_gradient, grad, y, weight)


def weighted_quick_geglu(y, weight):
    return weighted(quick_geglu, y, weight)


def weighted_quick_geglu_gradient(grad, y, weight):
    return weighted_gradient(quick_geglu, quick_geglu_gradient, grad, y, weight)


def operands(phase, is_weighted, m, n):
    gradients = [random(m, n)] if phase == "backward" else []
    return [*gradients, random(m, 2 * n), *([uniform(m, 1)] if is_weighted else [])]


class CompiledFunctions:
    """Functions compiled for one number of columns and any number of rows, as layers with dropless experts use them."""

    def __init__(self):
        self.columns, self.functions = None, {}

    def get(self, function, phase, is_weighted, columns):
        if columns != self.columns:
            torch.compiler.reset()
            self.columns, self.functions = columns, {}
        if function not in self.functions:
            compiled = torch.compile(function)
            for rows in FIRST_ROWS:
                compiled(*operands(phase, is_weighted, rows, columns))
            self.functions[function] = compiled
        return self.functions[function]


def prepare_activation(functions, function, phase, is_weighted, m, n):
    compiled = functions.get(function, phase, is_weighted, n)
    return functools.partial(compiled, *operands(phase, is_weighted, m, n))


def activation_case(functions, pair, phase, m, n):
    forward, gradient = pair
    function = forward if phase == "forward" else gradient
    prepare = functools.partial(prepare_activation, functions, function, phase,
                                forward.__name__.startswith("weighted"), m, n)
    return kernel_case(forward.__name__ + ":inductor", phase, m, n, prepare, "Megatron-Core's function")


def activation_cases():
    functions = CompiledFunctions()
    glu = ((swiglu, swiglu_gradient), (weighted_swiglu, weighted_swiglu_gradient))
    quick = ((weighted_quick_geglu, weighted_quick_geglu_gradient),)
    tables = [(n, rows, glu) for n, rows in ACTIVATIONS] + [(GPT_OSS_COLUMNS, GPT_OSS_ROWS, quick)]
    return [activation_case(functions, pair, phase, m, n)
            for n, rows, pairs in tables for pair in pairs for phase in ("forward", "backward") for m in rows]


def compiler_problem():
    """Why torch.compile does not work here; nothing if it does."""
    try:
        torch.compile(lambda x: torch.sigmoid(x) * 2)(random(64, 64))
    except Exception as error:
        return reason(error)
    return None


# --- The program ----------------------------------------------------------------------------------------------------


class Rows:
    """Rows measured within a budget and written as they come."""

    def __init__(self, gpu, seconds):
        self.gpu, self.deadline = gpu, BEGAN + seconds
        self.writer = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
        self.without_time, self.reasons, self.repeated = 0, set(), 0

    def is_over(self):
        return time.monotonic() > self.deadline

    def add(self, case):
        if self.is_over():
            self.without_time += 1
            return
        try:
            median = time_of(case.prepare(), case.runs)
        except Exception as error:
            self.leave_out(case, reason(error))
            return
        self.writer.writerow({"gpu": self.gpu, "kind": case.kind, "phase": case.phase, "dtype": "bf16", **case.shape,
                              "time_us": f"{median:.3f}", "source": case.source})
        sys.stdout.flush()

    def leave_out(self, case, why):
        key = (case.kind, case.phase, case.source, why)
        if key in self.reasons:
            self.repeated += 1
        else:
            self.reasons.add(key)
            note(f"left out: {case.name()}: {why}")
        torch.cuda.synchronize()  # raises, and ends the program, if the GPU does not answer any more
        torch.cuda.empty_cache()

    def finish(self):
        if self.repeated:
            note(f"left out for the same reasons: {self.repeated} more rows of attention and kernels")
        if self.without_time:
            note(f"the budget was over: {self.without_time} rows of attention and kernels were not measured")


def measure(rows, libraries):
    for cases in (attention_cases(libraries), kernel_cases(), grouped_cases()):
        for case in cases:
            rows.add(case)
        torch.cuda.empty_cache()
    compiled = activation_cases()
    problem = None if rows.is_over() else compiler_problem()
    if problem:
        note(f"left out: {len(compiled)} rows of kernels that PyTorch compiles: {problem}")
        return
    for case in compiled:
        rows.add(case)


def main():
    parser = argparse.ArgumentParser(description="Attention and memory-bound kernels as rows of a table of operators")
    parser.add_argument("gpu", help="name of the GPU for the rows")
    parser.add_argument("seconds", type=float, help="no row is begun after them")
    parser.add_argument("--attention-forward", default="", help="library that prices attention forward")
    parser.add_argument("--attention-backward", default="", help="library that prices attention backward")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit(f"PyTorch {torch.__version__} sees no GPU ({sys.executable})")
    torch.manual_seed(0)
    rows = Rows(arguments.gpu, arguments.seconds)
    measure(rows, {"forward": arguments.attention_forward, "backward": arguments.attention_backward})
    rows.finish()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    warnings.simplefilter("ignore")
    main()
