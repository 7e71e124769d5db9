#!/usr/bin/env bash
# The core is a pure state machine: it never touches ambient time, randomness, threads or I/O.
#
#   purity.sh [ROOT]       checks the tree at ROOT (default: this one); prints file:line of each breach
#   purity.sh --self-test  shows that breaches are caught, and that words in comments are not breaches
#
# Checked are include/lessor/core/*.h, every header of lessor that those include, directly or not, and
# the src/NAME.cc of each such header. Comments and string literals are ignored.
set -euo pipefail

# What the core may include. Everything else is a breach: add a header here only if it is pure.
readonly pure_std='algorithm|array|bit|bitset|cassert|charconv|cinttypes|climits|cmath|compare|concepts|cstddef|cstdint|cstdlib|cstring|deque|exception|functional|initializer_list|iosfwd|iterator|limits|list|map|memory|new|numeric|optional|queue|ranges|set|span|stack|stdexcept|string|string_view|tuple|type_traits|typeinfo|unordered_map|unordered_set|utility|variant|vector|version'
readonly pure_absl='algorithm/.*|base/(attributes|casts|config|macros|optimization)|container/.*|functional/.*|hash/.*|memory/.*|meta/.*|numeric/.*|status/.*|strings/.*|time/(time|civil_time)|types/.*|utility/.*'
readonly pure_fmt='core|base|format|ranges' # In .cc files only: they write to strings.

# Headers that belong to layers above the core: the core must not reach them.
readonly above='lessor/(lessor|broker.*|clock.*|memory_store|service.*|stream|testing/.*)\.h'

# The one exception: the reference count of a segment, whose views outlive the broker's locks.
readonly atomic_allowed='include/lessor/segment.h'
# And the allocator that segments go back to, on whichever thread the last view is dropped.
readonly lock_allowed='src/segment_pool.cc'

# Before the name of a C function: excludes members and longer names.
readonly begin='(^|[^A-Za-z0-9_.>])'
# One rule a line: what is touched, a tab, an extended regular expression.
rules() {
  cat <<RULES
ambient time	${begin}absl::(Now|SleepFor|GetCurrentTimeNanos|LocalTimeZone|Clock)\b
ambient time	\bstd::(chrono|this_thread)\b|\b(system|steady|high_resolution)_clock\b
ambient time	${begin}(std::|::)?time *\( *(NULL|nullptr|0|&)
ambient time	${begin}(std::|::)?clock *\( *\)
ambient time	\b(gettimeofday|clock_gettime|timespec_get|nanosleep|usleep|localtime(_r)?|gmtime(_r)?)\b
ambient time	__(DATE|TIME|TIMESTAMP)__|__rdtsc
randomness	\b(random_device|mt19937(_64)?|minstd_rand0?|default_random_engine|[a-z]+_(int|real)_distribution)\b
randomness	${begin}(std::|::)?(rand|srand|random|drand48|arc4random|getrandom|getentropy) *\(
randomness	\babsl::(BitGen|InsecureBitGen|Uniform|Bernoulli)\b
threads	\bstd::(jthread|thread|(recursive_|shared_|timed_)*mutex|condition_variable(_any)?|lock_guard|unique_lock|shared_lock|scoped_lock|call_once|once_flag|async|future|promise|latch|barrier|counting_semaphore|binary_semaphore|stop_token|stop_source|stop_callback)\b
threads	\babsl::(Mutex|MutexLock|ReaderMutexLock|WriterMutexLock|CondVar|Notification|BlockingCounter|Barrier|call_once|once_flag)\b
threads	\bthread_local\b|\bvolatile\b|\bpthread_[a-z]+
threads	\bstd::(atomic|atomic_[a-z_]+|memory_order[a-z_]*)\b
I/O	\bstd::(io|[io]?f|[io])stream\b|\bstd::(cout|cerr|clog|cin|wcout|getline|filesystem)\b
I/O	${begin}(std::|::)?(printf|fprintf|vprintf|vfprintf|puts|fputs|putchar|fopen|fread|fwrite|fclose|perror|scanf|fscanf) *\(
I/O	\bfmt::print(ln)? *\(|\b(stdout|stderr|stdin)\b
I/O	${begin}(std::|::)?(getenv|secure_getenv|setenv|system|popen|fork|syscall) *\(
RULES
}

# Only in include/lessor/core: what a header below it may declare, but the core must not use.
core_rules() {
  cat <<RULES
ids come in as arguments	\b(System)?IdSource\b
time comes in as an argument	\b(System|Simulated|Manual)?Clock\b
RULES
}

# Blanks comments and literals, keeps line numbers and #include lines.
strip() {
  awk '
    BEGIN { block = 0 }
    {
      line = $0; out = ""; n = length(line); i = 1
      include = !block && line ~ /^[ \t]*#[ \t]*include/
      while (i <= n) {
        c = substr(line, i, 1); two = substr(line, i, 2)
        if (block) { if (two == "*/") { block = 0; i += 2 } else i++; continue }
        if (two == "//") break
        if (two == "/*") { block = 1; i += 2; out = out " "; continue }
        quoted = !include && (c == "\"" || (c == "\047" && out !~ /[0-9A-Za-z_]$/))
        if (quoted) {
          out = out c; i++
          while (i <= n && substr(line, i, 1) != c) i += (substr(line, i, 1) == "\\") ? 2 : 1
          out = out c; i++
          continue
        }
        out = out c; i++
      }
      print out
    }' "$1"
}

includes() { strip "$1" | sed -nE 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"]([^>"]+)[>"].*/\1/p'; }

# Files to check, relative to the current directory: the closure of the core's headers.
closure() {
  local -A seen=()
  local queue=(include/lessor/core/*.h) file header source
  while ((${#queue[@]})); do
    file=${queue[0]}
    queue=("${queue[@]:1}")
    [[ -z ${seen[$file]:-} && -f $file && $file != "$lock_allowed" ]] || continue
    seen[$file]=1
    echo "$file"
    while IFS= read -r header; do
      if [[ $header == lessor/* && ! $header =~ ^$above$ ]]; then queue+=("include/$header"); fi
    done < <(includes "$file")
    if [[ $file == include/lessor/*.h ]]; then
      source=src/${file#include/lessor/}
      queue+=("${source%.h}.cc")
    fi
  done
}

# Breaches of one file, one a line.
check_file() {
  local file=$1 number name pattern header hit text code
  text=$(strip "$file")
  while IFS=: read -r number header; do
    case $header in
      lessor/*) [[ ! $header =~ ^$above$ ]] && continue ;;
      absl/*) [[ $header =~ ^absl/($pure_absl)\.h$ ]] && continue ;;
      fmt/*) [[ $file == *.cc && $header =~ ^fmt/($pure_fmt)\.h$ ]] && continue ;;
      atomic) [[ $file == "$atomic_allowed" ]] && continue ;;
      *) [[ $header =~ ^($pure_std)$ ]] && continue ;;
    esac
    echo "$file:$number: the core must not include $header"
  done < <(sed -nE 's/^([0-9]+):[[:space:]]*#[[:space:]]*include[[:space:]]*[<"]([^>"]+)[>"].*/\1:\2/p' \
    < <(grep -nE '#[[:space:]]*include' <<<"$text"))
  code=$(grep -nvE '^[[:space:]]*(#[[:space:]]*include.*)?$' <<<"$text" | sed 's/:/: /' || true)
  while IFS=$'\t' read -r name pattern; do
    [[ $pattern == *'std::(atomic|'* && $file == "$atomic_allowed" ]] && continue
    while IFS= read -r hit; do
      echo "$file:${hit%%:*}: $name:${hit#*:}"
    done < <(grep -E ":.*($pattern)" <<<"$code" || true)
  done < <(
    rules
    if [[ $file == include/lessor/core/* ]]; then core_rules; fi
  )
}

check_tree() {
  cd "$1"
  compgen -G 'include/lessor/core/*.h' >/dev/null || {
    echo "purity: no header in $1/include/lessor/core" >&2
    return 2
  }
  local files=() file breaches
  while IFS= read -r file; do files+=("$file"); done < <(closure)
  breaches=$(for file in "${files[@]}"; do check_file "$file"; done | sort -u)
  if [[ -n $breaches ]]; then
    echo "$breaches"
    echo "purity: $(wc -l <<<"$breaches") breaches in ${#files[@]} files" >&2
    return 1
  fi
  echo "purity: ${#files[@]} files, no breach"
}

self_test() {
  local tmp failures=0 line number got
  tmp=$(mktemp -d)
  trap "rm -rf '$tmp'" EXIT
  mkdir -p "$tmp/include/lessor/core" "$tmp/include/lessor/testing" "$tmp/src"

  # Every line is a breach. Core, so all rules apply.
  cat >"$tmp/include/lessor/core/bad.h" <<'BAD'
#include <chrono>
#include <thread>
#  include <mutex>
#include <atomic>
#include <random>
#include <fstream>
#include <iostream>
#include <cstdio>
#include <condition_variable>
#include <unistd.h>
#include "absl/time/clock.h"
#include "absl/random/random.h"
#include "absl/synchronization/mutex.h"
#include "fmt/format.h"
#include "lessor/broker.h"
#include "lessor/memory_store.h"
#include "lessor/testing/simulated_clock.h"
auto a1 = absl::Now();
absl::SleepFor(d);
auto a2 = std::chrono::steady_clock::now();
auto a3 = time(nullptr);
auto a4 = std::time(&t);
auto a5 = clock();
clock_gettime(CLOCK_REALTIME, &ts);
int b1 = rand();
int b2 = std::rand();
std::mt19937 b3;
std::random_device b4;
absl::BitGen b5;
std::thread c1;
std::mutex c2; // A comment.
absl::Mutex c3;
std::atomic<int> c4;
thread_local int c5;
std::lock_guard<M> c6(m);
std::cout << "x";
std::ofstream d1("x");
printf("x");
std::fprintf(f, "x");
fmt::print("x");
auto e1 = std::getenv("HOME");
auto e2 = getenv("HOME");
IdSource* f1;
Clock* f2;
/* A comment. */ auto g1 = absl::Now();
BAD
  # No line is a breach.
  cat >"$tmp/include/lessor/core/good.h" <<'GOOD'
// absl::Now(), <chrono>, std::mutex, time(nullptr)
/* std::thread t;
   rand(); */
#include <vector>  // Not <thread>.
#include "absl/time/time.h"
#include "lessor/segment.h"
absl::Time time() const;
auto a = record.time();
auto b = log.time(0);
const char* c = "std::mutex absl::Now() rand()";
auto d = operand(1) + stream.random_access();
int e = 1'000'000; char f = '"'; int g = 2;
void Stream(Stream stream, OutputStream s);
GOOD
  # Reached from the core; the reference count may be atomic, a lock may not.
  printf '%s\n' '#include <atomic>' 'std::atomic<int> a;' 'std::mutex b;' \
    '#include "lessor/leaf.h"' >"$tmp/include/lessor/segment.h"
  # Reached in two steps, with its source.
  echo 'IdSource& f(); class Clock;' >"$tmp/include/lessor/leaf.h"
  printf '%s\n' '#include "fmt/format.h"' 'auto a = absl::Now();' >"$tmp/src/leaf.cc"
  # Not reached.
  echo 'std::mutex a;' >"$tmp/include/lessor/broker.h"

  got=$( (check_tree "$tmp") 2>/dev/null || true)
  expected() { grep -q "^$1:$2: " <<<"$got" || { echo "self-test: not caught: $1:$2: $3"; failures=1; }; }
  number=0
  while IFS= read -r line; do
    number=$((number + 1))
    expected include/lessor/core/bad.h "$number" "$line"
  done <"$tmp/include/lessor/core/bad.h"
  expected include/lessor/segment.h 3 'std::mutex b;'
  expected src/leaf.cc 2 'auto a = absl::Now();'
  if line=$(grep -vE '^include/lessor/core/bad\.h:|^include/lessor/segment\.h:3:|^src/leaf\.cc:2:' <<<"$got"); then
    echo "self-test: caught without reason: $line"
    failures=1
  fi
  rm "$tmp/include/lessor/core/bad.h" "$tmp/src/leaf.cc"
  sed -i '/mutex/d' "$tmp/include/lessor/segment.h"
  (check_tree "$tmp") >/dev/null || { echo 'self-test: a clean tree fails'; failures=1; }
  rm -r "$tmp/include/lessor/core"
  if (check_tree "$tmp") >/dev/null 2>&1; then
    echo 'self-test: a tree without a core passes'
    failures=1
  fi
  ((failures == 0)) && echo 'purity: self-test passed'
  return "$failures"
}

if [[ ${1:-} == --self-test ]]; then
  self_test
else
  check_tree "${1:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}"
fi
