#!/usr/bin/env bash
# Installs a build into a new prefix, in which the executable finds its configurations and manual pages are well-formed; and
# builds a program with find_package(moeplan) there.
#   install_test.sh BUILD_FOLDER
set -euo pipefail
build=$(realpath "$1")
sources=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
fail() { echo "install_test: $*" >&2; exit 1; }

for component in tool development; do
  cmake --install "$build" --prefix "$prefix" --component "$component" >"$work/installed" || { cat "$work/installed"; exit 1; }
done
unset MOEPLAN_CONFIGS
cp "$prefix/share/moeplan/configs/clusters/dgx_h100.yaml" "$prefix/share/moeplan/configs/clusters/only_here.yaml"
"$prefix/bin/moeplan" list clusters | grep '^only_here' > /dev/null || fail "the installed executable does not read the installed configurations"
[[ -f $prefix/share/doc/moeplan/LICENSE && -f $prefix/share/man/man1/moeplan-plan.1 ]] || fail "files are missing"
if command -v groff >/dev/null; then
  for page in "$prefix"/share/man/man1/*.1; do
    warnings=$(groff -man -ww -z -Tutf8 "$page" 2>&1)
    [[ -z $warnings ]] || fail "$page: $warnings"
  done
  groff -man -Tascii -P-cbou "$prefix/share/man/man1/moeplan-plan.1" | grep -e '--cluster TEXT' >/dev/null || fail "moeplan-plan.1 lacks --cluster"
fi

cmake -S "$sources/consumer" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$prefix" >"$work/log" || { cat "$work/log"; exit 1; }
cmake --build "$work/consumer" >"$work/log" || { cat "$work/log"; exit 1; }
time=$(MOEPLAN_CONFIGS=$prefix/share/moeplan/configs "$work/consumer/consumer")
[[ $time =~ ^0\.[0-9]+\ s$ ]] || fail "the program printed $time"
