#!/usr/bin/env bash
# What including lessor's headers costs, in CPU time of the compiler (-O0, no precompiled headers).
#
#   compile_time.sh check COMPILER   the budgets; what a header adds to Abseil's is what counts
#   compile_time.sh table            measures every public header with g++ and clang++ and writes
#                                    docs/compile_time.md
#
# Differences are taken between compilations that ran one right after the other, and the median of
# several counts: other work on the machine makes all of them slower, not one.
set -euo pipefail
export LC_ALL=C
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A leaf may add this many milliseconds to absl/time/time.h ...
readonly leaf_budget=100
readonly leaves=(export version time ids record policy position)
# Leaves that cannot do without heavy headers of the standard library, which are not counted.
readonly standard_leaves=('clock mutex condition_variable' 'segment atomic memory span')
# ... and lessor/lessor.h this many to Abseil's status and time headers.
readonly whole_budget=1000
readonly abseil_whole=(absl/status/status.h absl/status/statusor.h absl/time/time.h)

# unit NAME HEADER...: a translation unit of these headers.
unit() { printf '#include "%s"\n' "${@:2}" >"$work/$1.cc"; }

# cost COMPILER NAME: CPU milliseconds of compiling that unit.
cost() {
  local TIMEFORMAT='%U %S' user system
  read -r user system < <({ time "$1" -std=c++20 -O0 -I "$root/include" -c "$work/$2.cc" -o "$work/$2.o"; } 2>&1 |
    tail -n 1)
  [[ -s $work/$2.o ]] || {
    echo "compile_time: $1 did not compile $2" >&2
    exit 1
  }
  rm "$work/$2.o"
  # Milliseconds without fractions: 0.123 is 0123.
  echo $((10#${user/./} + 10#${system/./}))
}

# median NUMBER...
median() { printf '%s\n' "$@" | sort -n | sed -n "$((($# + 1) / 2))p"; }

# within COMPILER NAME BASE BUDGET: whether NAME costs at most BUDGET more than BASE. One look is
# enough if it is far within; otherwise the median of nine decides.
within() {
  local added=() round base result=ok
  for round in 1 2 3 4 5 6 7 8 9; do
    base=$(cost "$1" "$3")
    added+=($(($(cost "$1" "$2") - base)))
    if ((round == 1 && added[0] <= $4 * 7 / 10)); then break; fi
  done
  local middle
  middle=$(median "${added[@]}")
  if ((middle > $4)); then result='OVER BUDGET'; fi
  printf '%-20s adds %5d ms to %-14s (budget %4d): %s\n' "$2" "$middle" "$3" "$4" "$result"
  [[ $result == ok ]]
}

check() {
  local compiler=$1 leaf status=0
  unit abseil_time absl/time/time.h
  unit abseil "${abseil_whole[@]}"
  unit lessor "${abseil_whole[@]}" lessor/lessor.h
  cost "$compiler" abseil_time >/dev/null # Files come into the cache.
  for leaf in "${leaves[@]}"; do
    unit "leaf_$leaf" absl/time/time.h "lessor/$leaf.h"
    within "$compiler" "leaf_$leaf" abseil_time "$leaf_budget" || status=1
  done
  for leaf in "${standard_leaves[@]}"; do
    read -ra leaf <<<"$leaf"
    unit "base_${leaf[0]}" absl/time/time.h "${leaf[@]:1}"
    unit "leaf_${leaf[0]}" absl/time/time.h "${leaf[@]:1}" "lessor/${leaf[0]}.h"
    within "$compiler" "leaf_${leaf[0]}" "base_${leaf[0]}" "$leaf_budget" || status=1
  done
  within "$compiler" lessor abseil "$whole_budget" || status=1
  return "$status"
}

# seconds COMPILER NAME: the median of three, with two decimals.
seconds() {
  local ms
  ms=$(median "$(cost "$1" "$2")" "$(cost "$1" "$2")" "$(cost "$1" "$2")")
  printf '%d.%02d' $((ms / 1000)) $((ms % 1000 / 10))
}

row() {
  unit unit "${@:2}"
  printf '| %s | %d | %s | %s |\n' "$1" \
    "$(g++ -std=c++20 -E -P -I "$root/include" "$work/unit.cc" | wc -l)" \
    "$(seconds g++ unit)" "$(seconds clang++ unit)"
}

table() {
  local header
  unit nothing cstddef
  cost g++ nothing >/dev/null
  cost clang++ nothing >/dev/null
  cat <<TEXT
# What the headers cost to compile

Lines after preprocessing (without blank ones, g++) and seconds of CPU time of a translation unit that
includes nothing else, at -O0: the median of three. Nearly all of it is Abseil's and the standard
library's, which the first rows show by themselves. Written by \`tests/packaging/compile_time.sh table\`
with $(g++ --version | head -n 1) and
$(clang++ --version | head -n 1).

The budgets that \`ctest\` keeps (\`packaging.compile_time\`): a leaf header adds at most
0.$((leaf_budget / 100)) s to Abseil's time header, and lessor/lessor.h at most
$((whole_budget / 1000)).0 s to Abseil's status and time headers. Leaf headers are ${leaves[*]};
and clock and segment, beside whose own cost stands that of the standard headers for threads and for
memory (0.1 s and more by themselves), which is not counted.

| header | lines | g++, s | clang++, s |
| --- | ---: | ---: | ---: |
TEXT
  row '(absl/time/time.h)' absl/time/time.h
  row '(absl/status/statusor.h)' absl/status/statusor.h
  row "(Abseil's status and time headers)" "${abseil_whole[@]}"
  while IFS= read -r header; do row "$header" "$header"; done < <(
    cd "$root/include" && find lessor -name '*.h' | sort)
}

case ${1:-} in
  check) check "$2" ;;
  table)
    table >"$work/table.md"
    mv "$work/table.md" "$root/docs/compile_time.md"
    ;;
  *)
    sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac
