#!/usr/bin/env bash
# scripts/bundle makes an archive that configures by itself, and whose sources find their headers in it. Skipped (77) where
# there is no git repository to take sources from.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
git rev-parse HEAD >/dev/null 2>&1 || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
scripts/bundle -o "$work/bundle.tar.gz"
tar -C "$work" -xf "$work/bundle.tar.gz"
cd "$work/moeplan-bundle"
TARGETS=none ./build.sh -DCMAKE_CXX_COMPILER_LAUNCHER= -DCMAKE_EXPORT_COMPILE_COMMANDS=ON >configured 2>&1 || { cat configured; exit 1; }
# One source for each package: none of its headers comes from the system, where other machines have none.
for source in model/machine/connectivity.cpp model/text/parse_yaml.cpp model/text/line_reader.cpp model/text/parse_json.cpp \
  cuda_runtime/codecs/zfp_codec.cpp profiler/fits/least_squares.cpp cli/main.cpp planner/sweep/database.cpp; do
  c++ -std=c++20 -DFMT_HEADER_ONLY=1 -Isource -isystem third_party/include -isystem third_party/include/eigen3 -M "source/$source"
done >headers
if grep -E '/usr/include/(.*-linux-gnu/)?(fmt|yaml-cpp|nlohmann|CLI|boost|zfp|eigen3|sqlite3|zlib|zconf)' headers; then
  echo "these headers are missing in the bundle" >&2
  exit 1
fi
