#!/usr/bin/env bash
# No file of the project names a path of somebody's machine or the host of a package registry.
#
#   paths.sh [ROOT]       checks the tree at ROOT (default: this one); prints file:line of each breach
#   paths.sh --self-test  shows that breaches are caught
set -euo pipefail

# Absolute paths that exist on one machine only. A letter before the slash excludes URLs.
readonly machine='(^|[^A-Za-z0-9_.~}/-])/(work|farm|home|Users|root|mnt)/[A-Za-z0-9._-]'
readonly hosts='\b(archive|center[0-9]*|deb|files|ftp|index|packages|proxy|registry|repo|security|static)\.([a-z0-9-]+\.)*(org|com|io|net)\b'

# Files of the tree: what git knows or would add; without git, everything but build/.
files() {
  git -c safe.directory='*' ls-files -z --cached --others --exclude-standard 2>/dev/null ||
    find . \( -name .git -o -path ./build \) -prune -o -type f -print0
}

check_tree() {
  cd "$1"
  local breaches
  # -I: binary files do not count. A file that git lists may be deleted: -s.
  breaches=$(files | xargs -0 grep -nIsE "$machine|$hosts" /dev/null || true)
  if [[ -n $breaches ]]; then
    echo "$breaches"
    echo "paths: $(wc -l <<<"$breaches") lines name a machine's path or a registry's host" >&2
    return 1
  fi
  echo 'paths: no breach'
}

self_test() {
  local tmp failures=0 line slash=/
  tmp=$(mktemp -d)
  trap "rm -rf '$tmp'" EXIT
  for line in "${slash}home${slash}ann" "see ${slash}work${slash}x" "\"${slash}Users${slash}ann\"" \
    "deb"".example.org" "https:${slash}${slash}registry"".example.com/x"; do
    echo "$line" >"$tmp/file"
    if (check_tree "$tmp") >/dev/null 2>&1; then
      echo "self-test: not caught: $line"
      failures=1
    fi
  done
  printf '%s\n' 'at home/work' 'https:''//example.com/home/x' '${dir}'"${slash}work${slash}x" >"$tmp/file"
  (check_tree "$tmp") >/dev/null || { echo 'self-test: a clean tree fails'; failures=1; }
  ((failures == 0)) && echo 'paths: self-test passed'
  return "$failures"
}

if [[ ${1:-} == --self-test ]]; then
  self_test
else
  check_tree "${1:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}"
fi
