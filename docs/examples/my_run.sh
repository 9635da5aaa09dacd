#!/usr/bin/env bash
#SBATCH --job-name=mixtral
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
# Mixtral 8x7B on four nodes of eight H100: an example of a Megatron-LM job, with usual rather than good choices.
set -euo pipefail

TP=${TP:-4}
PP=${PP:-2}
EP=${EP:-8}
GLOBAL_BATCH=$((32 * 8))

MODEL_ARGS=(
  --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336
  --num-attention-heads 32 --group-query-attention --num-query-groups 8
  --normalization RMSNorm --swiglu --disable-bias-linear
  --position-embedding-type rope --untie-embeddings-and-output-weights
  --seq-length 4096 --max-position-embeddings 32768
  --vocab-size 32000
)
MOE_ARGS=(
  --num-experts 8 --moe-router-topk 2 --moe-grouped-gemm
  --moe-token-dispatcher-type alltoall
  --expert-model-parallel-size "$EP" --expert-tensor-parallel-size 1
)
TRAINING_ARGS=(
  --tensor-model-parallel-size "$TP" --sequence-parallel
  --pipeline-model-parallel-size "$PP"
  --micro-batch-size 1 --global-batch-size "$GLOBAL_BATCH"
  --bf16 --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather
  --recompute-granularity selective --recompute-modules moe_act layernorm
  --train-iters 500000 --lr 1e-4 --data-path "$DATA" # the corpus
)

srun torchrun --nnodes "$SLURM_NNODES" --nproc-per-node 8 \
  --rdzv-backend c10d --rdzv-endpoint "$(hostname):29500" \
  pretrain_gpt.py "${MODEL_ARGS[@]}" "${MOE_ARGS[@]}" "${TRAINING_ARGS[@]}"
