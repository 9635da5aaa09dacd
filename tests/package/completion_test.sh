#!/usr/bin/env bash
# What bash offers after given words.
#   completion_test.sh MOEPLAN_EXECUTABLE COMPLETION_SCRIPT
set -euo pipefail
PATH=$(dirname "$(realpath "$1")"):$PATH
# shellcheck source=/dev/null
source "$2"

offers() { # words, the last one to be completed
  COMP_WORDS=("$@")
  COMP_CWORD=$(($# - 1))
  _moeplan
  printf '%s\n' "${COMPREPLY[@]}"
}
expect() { # what is to be among the offers, then the words
  local wanted=$1
  shift
  offers "$@" | grep -x -- "$wanted" > /dev/null || { echo "completion_test: $* does not offer $wanted" >&2; exit 1; }
}
refuse() {
  local unwanted=$1
  shift
  ! offers "$@" | grep -x -- "$unwanted" > /dev/null || { echo "completion_test: $* offers $unwanted" >&2; exit 1; }
}

cd "$(mktemp -d)"
touch mine.yaml
expect plan moeplan pl
refuse mine.yaml moeplan ''
expect --cluster moeplan plan --clu
expect --version moeplan --
refuse --cluster moeplan simulate --
expect dgx_h100 moeplan plan --cluster dgx
expect mine.yaml moeplan plan --cluster mi
expect mixtral_8x7b moeplan plan --cluster dgx_h100 --model mix
expect 2dh moeplan plan --all-to-all ''
expect deepep moeplan plan --dispatcher dee
expect hybridep moeplan price dispatch --dispatcher ''
expect polaris_a100 moeplan price collective --cluster ''
refuse dgx_a100 moeplan price collective --cluster ''
expect a100_sxm moeplan price gemm --gpu ''
refuse a100_sxm_80gb moeplan price gemm --gpu ''
refuse 2dh moeplan price dispatch --dispatcher ''
expect pipelined moeplan plan --schedule pipe
expect disk moeplan simulate p.yaml --inputs ''
expect megatron moeplan import me
expect --step-time moeplan import megatron --st
expect clusters moeplan list cl
expect mine.yaml moeplan explain ''
refuse mine.yaml moeplan plan --tp ''
rm -r "$PWD"
