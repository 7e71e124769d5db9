// The checker of histories finds what is wrong with doctored ones, and nothing in honest ones.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "catch.h"
#include "lessor/error.h"
#include "lessor/position.h"
#include "lessor/record.h"
#include "stress/history.h"

namespace lessor_tests {
namespace {

using lessor::Offset;
using lessor::Reason;

constexpr int64_t kLeaseMs = 1'000;

/// A history written by hand: one call after the other, unless told otherwise.
class Script {
 public:
  Script() {
    history_.lease_ms = kLeaseMs;
    history_.max_active_leases = 3;
    Event& stream = Call(Op::kCreateStream);
    stream.name = "orders";
    Event& subscription = Call(Op::kSubscribe);
    subscription.subscription = {0, 2};
    subscription.name = "ingestion";
  }

  void Advance(int64_t ms) { now_ms_ += ms; }
  int64_t now_ms() const { return now_ms_; }

  Event& Call(Op op) {
    Event event;
    event.op = op;
    event.stream = {0, 1};
    if (op != Op::kCreateStream && op != Op::kProduce) event.subscription = {0, 2};
    event.invoked = ++stamp_;
    history_.readings.push_back({++stamp_, now_ms_});
    event.answered = ++stamp_;
    event.seen_ms = now_ms_;
    history_.events.reserve(1'000);  // What was given out stays where it is.
    return history_.events.emplace_back(std::move(event));
  }
  Event& Produce(size_t records) {
    Event& event = Call(Op::kProduce);
    for (size_t i = 0; i < records; ++i) {
      event.offsets.push_back(end_);
      event.tokens.push_back(100 + end_++);
      event.timestamps_ms.push_back(now_ms_);
      timestamps_.push_back(now_ms_);
    }
    return event;
  }
  /// A consume that gives these records under this batch, or nothing.
  Event& Consume(std::string worker, uint64_t batch, std::vector<Offset> offsets) {
    Event& event = Call(Op::kConsume);
    event.worker = std::move(worker);
    event.max_records = std::max<int64_t>(1, static_cast<int64_t>(offsets.size()));
    if (offsets.empty()) return event;
    event.batch = {1, batch};
    event.leased_until_ms = now_ms_ + kLeaseMs;
    for (const Offset offset : offsets) {
      event.tokens.push_back(100 + offset);
      event.timestamps_ms.push_back(offset < end_ ? timestamps_[offset] : 0);
    }
    event.offsets = std::move(offsets);
    return event;
  }
  Event& Settle(Op op, uint64_t batch, std::string worker = "any") {
    Event& event = Call(op);
    event.batch = {1, batch};
    event.worker = std::move(worker);
    return event;
  }
  Event& Ack(uint64_t batch) { return Settle(Op::kAck, batch); }
  Event& Nack(uint64_t batch) { return Settle(Op::kNack, batch); }
  Event& Extend(uint64_t batch, std::string worker) {
    Event& event = Settle(Op::kExtend, batch, std::move(worker));
    event.leased_until_ms = now_ms_ + kLeaseMs;
    return event;
  }
  Event& Position(Offset committed, uint64_t available, uint64_t leased, uint64_t leases) {
    Event& event = Call(Op::kPosition);
    event.position = {.committed = committed,
                      .end = end_,
                      .available = available,
                      .leased = leased,
                      .active_leases = leases};
    return event;
  }
  Event& Stats(std::vector<uint64_t> counters) {
    Event& event = Call(Op::kStats);
    event.counters = std::move(counters);
    return event;
  }
  /// Makes the calls between two, inclusive, all concurrent.
  static void Overlap(Event& first, Event& last) {
    last.invoked = first.invoked;
    first.answered = last.answered;
  }

  /// What is found: the rules named, without the rest.
  std::vector<std::string> Found() const {
    std::vector<std::string> found = CheckHistory(history_);
    for (std::string& line : found) line.resize(std::min(line.size(), line.find(':')));
    return found;
  }
  bool Finds(std::string_view rule) const {
    const std::vector<std::string> found = Found();
    return std::find(found.begin(), found.end(), rule) != found.end();
  }
  bool Honest() const { return CheckHistory(history_).empty(); }

 private:
  History history_;
  Stamp stamp_ = 0;
  int64_t now_ms_ = 1'000'000;
  Offset end_ = 0;
  std::vector<int64_t> timestamps_;
};

TEST_CASE("an honest history passes", "[stress][checker]") {
  Script script;
  script.Produce(4);
  script.Stats({4, 0});
  script.Consume("a", 1, {0, 1});
  script.Consume("b", 2, {2});
  script.Position(0, 1, 3, 2);
  script.Ack(2);
  script.Position(0, 1, 2, 1);
  script.Advance(kLeaseMs / 2);
  script.Extend(1, "a");
  script.Advance(kLeaseMs / 2);
  script.Consume("a", 1, {0, 1});  // Refreshed.
  script.Advance(kLeaseMs);
  script.Extend(1, "a").reason = Reason::kLeaseNotHeld;
  script.Consume("b", 3, {0});
  script.Ack(1);  // Too late: one of its records was leased again.
  script.Position(0, 2, 1, 1);
  script.Nack(3);
  script.Consume("c", 4, {0, 1, 3});
  script.Ack(4);
  script.Position(4, 0, 0, 0);
  script.Consume("c", 0, {});
  script.Stats({4, 1});
  CHECK(CheckHistory(History()).empty());
  CHECK(script.Honest());
}

TEST_CASE("S18 is broken by a record in two active leases", "[stress][checker][S18]") {
  Script script;
  script.Produce(3);
  Event& first = script.Consume("a", 1, {0, 1});
  script.Advance(kLeaseMs - 1);
  SECTION("plainly") {
    script.Consume("b", 2, {1, 2});
    CHECK(script.Finds("S18"));
  }
  SECTION("after an extension") {
    script.Extend(1, "a");
    script.Advance(kLeaseMs - 1);
    script.Consume("b", 2, {1, 2});
    CHECK(script.Finds("S18"));
  }
  SECTION("given in calls of which nobody knows which came first") {
    Script::Overlap(first, script.Consume("b", 2, {1, 2}));
    CHECK(script.Finds("S18"));
  }
  SECTION("but not after the lease") {
    script.Advance(1);
    script.Consume("b", 2, {0, 1, 2});
    CHECK(script.Honest());
  }
  SECTION("nor after a nack") {
    script.Nack(1);
    script.Consume("b", 2, {0, 1, 2});
    CHECK(script.Honest());
  }
  SECTION("nor during a nack") {
    Event& nack = script.Nack(1);
    Script::Overlap(nack, script.Consume("b", 2, {0, 1, 2}));
    CHECK(script.Honest());
  }
}

TEST_CASE("S18 is broken by a worker with two leases", "[stress][checker][S18]") {
  Script script;
  script.Produce(3);
  script.Consume("a", 1, {0});
  SECTION("while the first is active") {
    // The second call overlaps all: it proves no refresh.
    Event& other = script.Consume("x", 7, {1});
    script.Ack(7);
    Script::Overlap(other, script.Consume("a", 2, {2}));
    CHECK_FALSE(script.Honest());
  }
  SECTION("but not after an ack") {
    script.Ack(1);
    script.Consume("a", 2, {1});
    CHECK(script.Honest());
  }
}

TEST_CASE("S20 is broken by a record that comes again after its ack", "[stress][checker][S20]") {
  Script script;
  script.Produce(2);
  script.Consume("a", 1, {0, 1});
  SECTION("while the lease was active") {
    script.Ack(1);
    script.Consume("b", 2, {0});
    CHECK(script.Finds("S20"));
  }
  SECTION("much later") {
    script.Ack(1);
    script.Advance(10 * kLeaseMs);
    script.Consume("b", 2, {0});
    CHECK(script.Finds("S20"));
  }
  SECTION("though the lease had expired, as nothing had been leased again") {
    script.Advance(kLeaseMs);
    script.Ack(1);
    script.Consume("b", 2, {0});
    CHECK(script.Finds("S20"));
  }
  SECTION("by another than the holder") {
    script.Settle(Op::kAck, 1, "meddler");
    script.Consume("b", 2, {1});
    CHECK(script.Finds("S20"));
  }
  SECTION("but not if the ack came after a nack") {
    script.Nack(1);
    script.Ack(1);
    script.Consume("b", 2, {0});
    CHECK(script.Honest());
  }
  SECTION("nor if it may have come after the new lease") {
    script.Advance(kLeaseMs);
    Event& ack = script.Ack(1);
    Script::Overlap(ack, script.Consume("b", 2, {0}));
    CHECK(script.Honest());
  }
}

TEST_CASE("an ended lease does not come back", "[stress][checker][S20][S21]") {
  Script script;
  script.Produce(1);
  script.Consume("a", 1, {0});
  SECTION("by a refresh after an ack") {
    script.Ack(1);
    script.Consume("a", 1, {0});
    CHECK(script.Finds("S20, S21"));
  }
  SECTION("by an extension after a nack") {
    script.Nack(1);
    script.Extend(1, "a");
    CHECK(script.Finds("S20, S21"));
  }
  SECTION("by an extension after it expired") {
    script.Advance(kLeaseMs);
    script.Extend(1, "a");
    CHECK(script.Finds("S22"));
  }
}

TEST_CASE("S24 is broken by a position", "[stress][checker][S24]") {
  Script script;
  script.Produce(3);
  script.Consume("a", 1, {0});
  script.Consume("b", 2, {1, 2});
  SECTION("that passes what nobody acked") {
    script.Ack(1);
    script.Position(2, 0, 1, 1);
    CHECK(script.Finds("S24"));
  }
  SECTION("that passes what was only given back") {
    script.Nack(1);
    script.Position(1, 0, 2, 1);
    CHECK(script.Finds("S24"));
  }
  SECTION("that goes back") {
    script.Ack(1);
    script.Position(1, 0, 2, 1);
    script.Position(0, 1, 2, 1);
    CHECK(script.Finds("S24"));
  }
  SECTION("that stays behind acks") {
    script.Ack(1);
    script.Ack(2);
    script.Position(1, 2, 0, 0);
    CHECK(script.Finds("S24"));
  }
  SECTION("but not before or after an ack that is under way") {
    Event& ack = script.Ack(1);
    Event& position = script.Position(0, 0, 3, 2);
    Script::Overlap(ack, position);
    CHECK(script.Honest());
    position.position.committed = 1;
    position.position.leased = 2;
    position.position.active_leases = 1;
    CHECK(script.Honest());
  }
  SECTION("but not where it is unknown before which of two records a subscription started") {
    // Made while record 3 was produced, which nobody has acked.
    Event& produce = script.Produce(1);
    Event& made = script.Call(Op::kSubscribe);
    made.subscription = {0, 3};
    made.name = "other";
    made.latest = true;
    Script::Overlap(produce, made);
    script.Produce(1);
    Event& consume = script.Consume("c", 3, {4});
    consume.subscription = {0, 3};
    script.Ack(3).subscription = {0, 3};
    Event& position = script.Position(3, 1, 0, 0);
    position.subscription = {0, 3};
    CHECK(script.Honest());
    position.position.committed = 5;
    position.position.available = 0;
    CHECK(script.Honest());
  }
}

TEST_CASE("S30 is broken by counts that cannot be", "[stress][checker][S30]") {
  Script script;
  script.Produce(3);
  script.Consume("a", 1, {0});
  SECTION("too few leases") {
    script.Position(0, 2, 0, 0);
    CHECK(script.Finds("S30"));
  }
  SECTION("too many leases") {
    script.Position(0, 2, 1, 2);
    CHECK(script.Finds("S30"));
  }
  SECTION("too few available") {
    script.Position(0, 1, 1, 1);
    CHECK(script.Finds("S30"));
  }
  SECTION("too many available") {
    script.Position(0, 3, 1, 1);
    CHECK(script.Finds("S30"));
  }
  SECTION("a lease that has expired") {
    script.Advance(kLeaseMs);
    script.Position(0, 2, 1, 1);
    CHECK(script.Finds("S30"));
  }
}

TEST_CASE("produced offsets are one line in the order of real time", "[stress][checker][S28]") {
  Script script;
  Event& first = script.Produce(2);
  Event& second = script.Produce(2);
  SECTION("as they are") { CHECK(script.Honest()); }
  SECTION("without a gap") {
    second.offsets = {3, 4};
    CHECK(script.Finds("S3"));
  }
  SECTION("without an overlap") {
    second.offsets = {1, 2};
    CHECK(script.Finds("S3"));
  }
  SECTION("each in one piece") {
    first.offsets = {0, 2};
    second.offsets = {1, 3};
    CHECK(script.Finds("S3"));
  }
  SECTION("not the later one first") {
    std::swap(first.offsets, second.offsets);
    CHECK(script.Finds("S28"));
  }
  SECTION("though in any order if they were concurrent") {
    std::swap(first.offsets, second.offsets);
    Script::Overlap(first, second);
    CHECK(script.Honest());
  }
  SECTION("with timestamps that do not decrease") {
    second.timestamps_ms = {first.timestamps_ms[0] - 1, first.timestamps_ms[0] - 1};
    CHECK(script.Finds("S2"));
  }
  SECTION("with timestamps of the time of the call") {
    second.timestamps_ms = {first.timestamps_ms[0] + 1, first.timestamps_ms[0] + 1};
    CHECK(script.Finds("S2"));
  }
}

TEST_CASE("a batch gives what was produced", "[stress][checker][S28]") {
  Script script;
  script.Produce(2);
  Event& consume = script.Consume("a", 1, {0, 1});
  SECTION("with its content") {
    consume.tokens[1] = 7;
    CHECK(script.Finds("S2"));
  }
  SECTION("with its timestamp") {
    ++consume.timestamps_ms[0];
    CHECK(script.Finds("S2"));
  }
  SECTION("in order") {
    std::reverse(consume.offsets.begin(), consume.offsets.end());
    std::reverse(consume.tokens.begin(), consume.tokens.end());
    CHECK(script.Finds("S15"));
  }
  SECTION("not more than asked for") {
    consume.max_records = 1;
    CHECK(script.Finds("S15"));
  }
  SECTION("not what nobody produced") {
    script.Ack(1);
    script.Consume("a", 2, {5});
    CHECK(script.Finds("S28"));
  }
  SECTION("not what is produced later") {
    script.Ack(1);
    script.Consume("a", 2, {2}).timestamps_ms = {script.now_ms()};
    script.Produce(1);
    CHECK(script.Finds("S28"));
  }
  SECTION("the same records every time") {
    script.Consume("a", 1, {0});
    CHECK(script.Finds("S13"));
  }
  SECTION("to one worker") {
    script.Consume("b", 1, {0, 1});
    CHECK(script.Finds("S13"));
  }
  SECTION("for the time of a lease, no less") {
    --consume.leased_until_ms;
    CHECK(script.Finds("S13, S16, S22"));
  }
  SECTION("and no more") {
    ++consume.leased_until_ms;
    CHECK(script.Finds("S13, S16, S22"));
  }
}

TEST_CASE("a lease is not shortened", "[stress][checker][S13]") {
  Script script;
  script.Produce(1);
  script.Consume("a", 1, {0});
  script.Advance(10);
  script.Extend(1, "a");
  script.Extend(1, "a").leased_until_ms -= 5;
  CHECK(script.Finds("S13, S22"));
}

TEST_CASE("a worker with an active lease is given its batch", "[stress][checker][S13]") {
  Script script;
  script.Produce(2);
  script.Consume("a", 1, {0});
  SECTION("not another") {
    script.Consume("a", 2, {1});
    CHECK(script.Finds("S13"));
  }
  SECTION("not nothing") {
    script.Consume("a", 0, {});
    CHECK(script.Finds("S13"));
  }
  SECTION("not a refusal") {
    script.Consume("a", 0, {}).reason = Reason::kLeaseLimit;
    CHECK(script.Finds("S13"));
  }
}

TEST_CASE("a consume gives what is available, the lowest first", "[stress][checker][S15]") {
  Script script;
  script.Produce(3);
  SECTION("not nothing") {
    script.Consume("a", 0, {});
    CHECK(script.Finds("S11, S15"));
  }
  SECTION("not a later record first") {
    script.Consume("a", 1, {1});
    CHECK(script.Finds("S15"));
  }
  SECTION("not with a gap") {
    script.Consume("a", 1, {0, 2});
    CHECK(script.Finds("S15"));
  }
  SECTION("not less than fits") {
    script.Consume("a", 1, {0}).max_records = 2;
    CHECK(script.Finds("S15"));
  }
  SECTION("what was given back too") {
    script.Consume("a", 1, {0});
    script.Nack(1);
    script.Consume("a", 2, {1});
    CHECK(script.Finds("S15"));
  }
  SECTION("what expired too") {
    script.Consume("a", 1, {0, 1, 2});
    script.Advance(kLeaseMs);
    script.Consume("b", 0, {});
    CHECK(script.Finds("S11, S15"));
  }
  SECTION("but nothing while it is leased") {
    script.Consume("a", 1, {0, 1, 2});
    script.Consume("b", 0, {});
    CHECK(script.Honest());
  }
  SECTION("nor while it may not have been produced yet") {
    Event& produce = script.Produce(1);
    script.Consume("a", 1, {0, 1, 2});
    Script::Overlap(produce, script.Consume("b", 0, {}));
    CHECK(script.Honest());
  }
}

TEST_CASE("the lease limit is exact", "[stress][checker][S14]") {
  Script script;
  script.Produce(5);
  script.Consume("a", 1, {0});
  script.Consume("b", 2, {1});
  SECTION("not one lease too early") {
    script.Consume("c", 0, {}).reason = Reason::kLeaseLimit;
    CHECK(script.Finds("S14"));
  }
  SECTION("not one lease too late") {
    script.Consume("c", 3, {2});
    script.Consume("d", 4, {3});
    CHECK(script.Finds("S14"));
  }
  SECTION("as it is") {
    script.Consume("c", 3, {2});
    script.Consume("d", 0, {}).reason = Reason::kLeaseLimit;
    CHECK(script.Honest());
  }
}

TEST_CASE("S22 is broken by an extension", "[stress][checker][S22]") {
  Script script;
  script.Produce(1);
  script.Consume("a", 1, {0});
  SECTION("by another than the holder") {
    script.Extend(1, "b");
    CHECK(script.Finds("S22"));
  }
  SECTION("of a batch that never was") {
    script.Extend(9, "a");
    CHECK(script.Finds("S22"));
  }
  SECTION("that the holder is refused") {
    script.Extend(1, "a").reason = Reason::kLeaseNotHeld;
    CHECK(script.Finds("S22"));
  }
}

TEST_CASE("what is deleted is gone, and what is not is there", "[stress][checker][S10]") {
  Script script;
  script.Produce(1);
  SECTION("a stream") {
    script.Call(Op::kDeleteStream).subscription = {};
    script.Produce(1);
    CHECK(script.Finds("S10"));
  }
  SECTION("a subscription") {
    script.Call(Op::kUnsubscribe);
    script.Consume("a", 1, {0});
    CHECK(script.Finds("S10"));
  }
  SECTION("not before it is deleted") {
    script.Consume("a", 0, {}).reason = Reason::kNoSuchSubscription;
    script.Call(Op::kUnsubscribe);
    CHECK(script.Finds("S10"));
  }
  SECTION("nor twice") {
    script.Call(Op::kUnsubscribe);
    script.Call(Op::kUnsubscribe);
    CHECK(script.Finds("S10"));
  }
  SECTION("and its name is free only then") {
    Event& stream = script.Call(Op::kCreateStream);
    stream.stream = {0, 9};
    stream.name = "orders";
    CHECK(script.Finds("S1, S7"));
  }
}

TEST_CASE("a wait ends for a reason", "[stress][checker]") {
  Script script;
  Event& consume = script.Consume("a", 0, {});
  consume.waits = true;
  consume.wait_until_ms = script.now_ms() + 5;
  SECTION("not before its deadline") { CHECK_FALSE(script.Honest()); }
  SECTION("at its deadline") {
    consume.wait_until_ms = script.now_ms();
    CHECK(script.Honest());
  }
  SECTION("not cancelled by nobody") {
    consume.reason = Reason::kCancelled;
    CHECK_FALSE(script.Honest());
    consume.stopped = true;
    CHECK(script.Honest());
  }
  SECTION("not by the lease limit") {
    consume.reason = Reason::kLeaseLimit;
    CHECK(script.Finds("S14"));
  }
}

TEST_CASE("counters count what happened and never decrease", "[stress][checker]") {
  Script script;
  script.Produce(2);
  SECTION("too little") {
    script.Stats({1});
    CHECK(script.Finds("Stats"));
  }
  SECTION("too much") {
    script.Stats({3});
    CHECK(script.Finds("Stats"));
  }
  SECTION("backwards") {
    script.Stats({2, 5});
    script.Stats({2, 4});
    CHECK(script.Finds("Stats"));
  }
}

}  // namespace
}  // namespace lessor_tests
