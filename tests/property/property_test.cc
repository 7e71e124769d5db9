// Random programs on the Broker and on a naive model of the contract, compared after every
// operation.
//
// LESSOR_SEED is the seed of the first program (each one after it has the next), LESSOR_ROUNDS the
// number of programs. A failure prints a short program and the line that repeats it.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "catch.h"
#include "fmt/format.h"
#include "lessor/broker.h"
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
// g++ 12 follows a null pointer to where it is never used.
#pragma GCC diagnostic ignored "-Wnonnull"
#endif
#include "lessor/broker_impl.h"
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#include "lessor/change.h"
#include "lessor/core/rules.h"
#include "lessor/core/stream_core.h"
#include "lessor/ids.h"
#include "lessor/limits.h"
#include "lessor/policy.h"
#include "lessor/record.h"
#include "lessor/segment_pool.h"
#include "lessor/store.h"
#include "lessor/time.h"
#include "property/harness.h"

namespace lessor_tests {
namespace {

using lessor::Instant;
using lessor::Millis;
using lessor::StreamPolicy;

constexpr uint64_t kDefaultSeed = 20'261'001;
constexpr uint64_t kDefaultRounds = 2'500;

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr && *text != '\0' ? std::strtoull(text, nullptr, 10) : otherwise;
}

// Every rule of StandardRules, wrong one at a time.
struct WrongRules : lessor::StandardRules {
  enum Wrong {
    kNothing,
    kIsActive,
    kLeaseEnd,
    kAtLeaseLimit,
    kLateSettleCounts,
    kMayExtendOthers,
    kMayShareBatch,
    kIsRetained,
    kTimestamp,
    kStartOffset,
  };
  static inline Wrong wrong = kNothing;

  static bool IsActive(Instant now, Instant leased_until) {
    return wrong == kIsActive ? now <= leased_until : StandardRules::IsActive(now, leased_until);
  }
  static Instant LeaseEnd(Instant now, Millis lease) {
    return StandardRules::LeaseEnd(now, lease) + Millis{wrong == kLeaseEnd ? 1 : 0};
  }
  static bool AtLeaseLimit(uint64_t active_leases, int64_t limit) {
    return StandardRules::AtLeaseLimit(active_leases, wrong == kAtLeaseLimit ? limit + 1 : limit);
  }
  static bool LateSettleCounts(const StreamPolicy& policy) {
    return wrong == kLateSettleCounts || StandardRules::LateSettleCounts(policy);
  }
  static bool MayExtend(bool active, bool holder) {
    return StandardRules::MayExtend(active, holder || wrong == kMayExtendOthers);
  }
  static bool MayShareBatch(const StreamPolicy& policy, bool same_group) {
    return wrong == kMayShareBatch || StandardRules::MayShareBatch(policy, same_group);
  }
  static bool IsRetained(Instant timestamp, Millis retention, Instant now) {
    return StandardRules::IsRetained(timestamp, retention,
                                     wrong == kIsRetained ? now + Millis{-1} : now);
  }
  static Instant Timestamp(Instant now, Instant newest) {
    return StandardRules::Timestamp(now, newest) + Millis{wrong == kTimestamp ? 1 : 0};
  }
  static lessor::Offset StartOffset(lessor::StartAt start_at, lessor::Offset begin,
                                    lessor::Offset end) {
    return wrong == kStartOffset ? begin : StandardRules::StartOffset(start_at, begin, end);
  }
};

TEST_CASE("the broker answers as a naive model of the contract does", "[property]") {
  const uint64_t seed = FromEnvironment("LESSOR_SEED", kDefaultSeed);
  const uint64_t rounds = FromEnvironment("LESSOR_ROUNDS", kDefaultRounds);
  const Checks checks{.open = &Open<lessor::StandardRules>, .core = true};
  for (uint64_t round = 0; round < rounds; ++round) {
    const std::optional<Failure> failure = RunRandomProgram(checks, seed + round);
    if (failure) FAIL("\n" << Show(*failure));
  }
  SUCCEED();
}

// Found by a random program.
TEST_CASE("a lease keeps the bytes that it has until the store has given the others",
          "[stream][S5][S27]") {
  const lessor::Limits limits{.lease = absl::Hours(2)};
  const lessor::CoreSettings settings{limits, {}, {7'200'000}, lessor::SegmentPool::Create()};
  const lessor::SubscriptionId subscription{.high = 0, .low = 1};
  const lessor::BatchId batch{.high = 0, .low = 2};
  const lessor::Record records[] = {{.content = "before"}, {.content = "after"}};
  const lessor::OffsetRange both[] = {{0, 2}};
  using Core = lessor::StreamCore<lessor::StandardRules>;

  Core core(settings);
  std::vector<std::string> changes;
  const auto apply = [&](const lessor::Change& change) {
    changes.push_back(lessor::EncodeChange(change));
    REQUIRE(core.Apply(change));
  };
  const Instant start{1'000};
  apply({start, lessor::change::StreamCreated{.name = "s", .retention = {3'600'000}}});
  apply({start, lessor::change::Subscribed{.subscription = subscription, .name = "s"}});
  apply({start, lessor::change::Appended{.first = 0, .timestamp = start, .records = {records, 1}}});
  lessor::Store::Loaded loaded{
      .stream = {}, .sequence = 0, .snapshot = core.Snapshot(), .tail = {}};
  changes.clear();
  apply({start,
         lessor::change::Appended{.first = 1, .timestamp = start, .records = {records + 1, 1}}});
  apply({start, lessor::change::Granted{.subscription = subscription,
                                        .batch = batch,
                                        .worker = "worker",
                                        .leased_until = start + Millis{7'200'000},
                                        .ranges = both}});
  loaded.tail = changes;

  const std::unique_ptr<Core> restored = Core::Restore(settings, loaded);
  REQUIRE(restored != nullptr);
  restored->Advance(start + Millis{3'600'000});  // Retention removes what the lease holds.
  const auto consume = [&] { return restored->DecideConsume(subscription, "worker", 1, {}); };
  CHECK(consume().need == lessor::Offset{0});
  // The store has given all it can: the second segment is none of its snapshot's.
  const lessor::SegmentRef segment = settings.pool->New(0, start);
  segment->Append({records, 1}, start);
  REQUIRE(restored->Install(0, segment));
  const lessor::ConsumeDecision decision = consume();
  CHECK_FALSE(decision.need.has_value());
  REQUIRE(decision.renewed.has_value());
  REQUIRE(restored->ApplyNow(*decision.renewed));
  const lessor::Batch again = restored->BatchOf(subscription, batch);
  REQUIRE(again.size() == 2);
  CHECK(again[0].content() == "before");
  CHECK(again[1].content() == "after");
}

TEST_CASE("random programs find no fault with rules that are not wrong", "[property]") {
  const Checks checks{.open = &Open<WrongRules>, .core = false};
  for (uint64_t round = 0; round < 100; ++round) {
    const std::optional<Failure> failure = RunRandomProgram(checks, kDefaultSeed + round);
    if (failure) FAIL("\n" << Show(*failure));
  }
  SUCCEED();
}

TEST_CASE("random programs find every wrong rule", "[property]") {
  const auto wrong = static_cast<WrongRules::Wrong>(GENERATE(range(
      static_cast<int>(WrongRules::kIsActive), static_cast<int>(WrongRules::kStartOffset) + 1)));
  WrongRules::wrong = wrong;
  const Checks checks{.open = &Open<WrongRules>, .core = false};
  std::optional<Failure> failure;
  for (uint64_t round = 0; round < kDefaultRounds && !failure; ++round) {
    failure = RunRandomProgram(checks, kDefaultSeed + round);
  }
  WrongRules::wrong = WrongRules::kNothing;
  INFO("rule " << wrong);
  REQUIRE(failure.has_value());
  INFO(Show(*failure));
  CHECK(failure->program.size() <= 16);  // It was shrunk.
}

}  // namespace
}  // namespace lessor_tests
