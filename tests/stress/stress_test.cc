// Threads that do everything at once, and a check that what they were told is possible.
//
// LESSOR_ROUNDS sets the number of rounds, LESSOR_SEED the first one's seed: `./dev stress`.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "catch.h"
#include "lessor/broker.h"
#include "lessor/broker_impl.h"
#include "lessor/core/rules.h"
#include "lessor/service.h"
#include "stress/history.h"
#include "stress/round.h"
#include "waiting/fixture.h"

namespace lessor_tests {

/// Rules that are wrong, each in one point.
struct EndsEarly : lessor::StandardRules {
  static bool IsActive(lessor::Instant now, lessor::Instant leased_until) {
    return now + lessor::Millis{300} < leased_until;
  }
};
struct EndsLate : lessor::StandardRules {
  static bool IsActive(lessor::Instant now, lessor::Instant leased_until) {
    return now < leased_until + lessor::Millis{300};
  }
};
struct ForgetsLateAcks : lessor::StandardRules {
  static bool LateSettleCounts(const lessor::StreamPolicy&) { return false; }
};
struct OneLeaseTooMany : lessor::StandardRules {
  static bool AtLeaseLimit(uint64_t active_leases, int64_t limit) {
    return static_cast<int64_t>(active_leases) > limit;
  }
};
struct Shortens : lessor::StandardRules {
  static lessor::Instant Renewed(lessor::Instant, lessor::Instant now, lessor::Millis lease) {
    return now + lessor::Millis{lease.count / 2};
  }
};
struct AnyoneExtends : lessor::StandardRules {
  static bool MayExtend(bool active, bool) { return active; }
};

namespace {

uint64_t NumberFrom(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr && *text != '\0' ? std::strtoull(text, nullptr, 10) : otherwise;
}

constexpr uint64_t kFirstSeed = 1;

TEST_CASE("what many threads are told at once is possible", "[stress][S18][S20][S24][S28]") {
  const uint64_t rounds = NumberFrom("LESSOR_ROUNDS", 40);
  const uint64_t first = NumberFrom("LESSOR_SEED", kFirstSeed);
  Coverage coverage;
  for (uint64_t seed = first; seed < first + rounds; ++seed) {
    const Watchdog watchdog;
    const RoundResult result = RunRound(seed, MakeSubject<lessor::Broker>);
    std::string found;
    for (const std::string& line : result.wrong) found += line + "\n";
    for (const std::string& line : CheckHistory(result.history, &coverage)) found += line + "\n";
    INFO("seed " << seed);
    REQUIRE(found == "");
  }
  // It was not for nothing.
  CAPTURE(coverage.pairs, coverage.acks, coverage.late_acks, coverage.refreshes, coverage.denials,
          coverage.grants, coverage.extends, coverage.positions);
  CHECK(coverage.pairs >= rounds);
  CHECK(coverage.acks >= rounds);
  CHECK(coverage.refreshes >= rounds);
  CHECK(coverage.denials >= rounds);
  CHECK(coverage.grants >= rounds);
  CHECK(coverage.extends >= rounds);
  CHECK(coverage.positions >= rounds);
}

/// Runs rounds until one is found to be impossible.
bool FindsFault(const SubjectMaker& make) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const Watchdog watchdog;
    const RoundResult result = RunRound(seed, make);
    if (!result.wrong.empty() || !CheckHistory(result.history).empty()) return true;
  }
  return false;
}

TEST_CASE("a Broker of wrong rules is found out", "[stress][mutants]") {
  CHECK(FindsFault(MakeSubject<lessor::BasicBroker<EndsEarly>>));
  CHECK(FindsFault(MakeSubject<lessor::BasicBroker<EndsLate>>));
  CHECK(FindsFault(MakeSubject<lessor::BasicBroker<ForgetsLateAcks>>));
  CHECK(FindsFault(MakeSubject<lessor::BasicBroker<OneLeaseTooMany>>));
  CHECK(FindsFault(MakeSubject<lessor::BasicBroker<Shortens>>));
  CHECK(FindsFault(MakeSubject<lessor::BasicBroker<AnyoneExtends>>));
}

/// Passes everything on, and spoils some of it.
class Spoiler final : public lessor::Service {
 public:
  enum class Fault {
    kNone,
    kDropsAcks,        ///< Says that an ack was done, and forgets it.
    kNacksAcks,        ///< Gives back what is acked.
    kStalePositions,   ///< Answers with the position before.
    kForeignBatches,   ///< Gives a worker the batch of another.
    kWrongOffsets,     ///< Says that records are where they are not.
    kRepeatsProduces,  ///< Produces again, and tells of the second time only.
    kHidesRecords,     ///< Says that nothing is there.
  };

  Spoiler(std::shared_ptr<lessor::Service> service, Fault fault)
      : service_(std::move(service)), fault_(fault) {}

  absl::StatusOr<lessor::StreamInfo> DoCreateStream(
      const lessor::StreamSettings& settings) override {
    return service_->DoCreateStream(settings);
  }
  absl::StatusOr<std::vector<lessor::StreamInfo>> ListStreams() override {
    return service_->ListStreams();
  }
  absl::StatusOr<lessor::StreamInfo> GetStream(lessor::StreamId stream) override {
    return service_->GetStream(stream);
  }
  absl::StatusOr<lessor::StreamInfo> UpdateStream(lessor::StreamId stream,
                                                  const lessor::StreamUpdate& update) override {
    return service_->UpdateStream(stream, update);
  }
  absl::Status DeleteStream(lessor::StreamId stream) override {
    return service_->DeleteStream(stream);
  }
  absl::StatusOr<lessor::Appended> Produce(lessor::StreamId stream,
                                           std::span<const lessor::Record> records) override {
    auto appended = service_->Produce(stream, records);
    if (Strikes(Fault::kRepeatsProduces)) return service_->Produce(stream, records);
    if (appended.ok() && Strikes(Fault::kWrongOffsets)) appended->first += appended->count;
    return appended;
  }
  absl::StatusOr<lessor::SubscriptionInfo> Subscribe(
      lessor::StreamId stream, const lessor::SubscriptionSettings& settings) override {
    return service_->Subscribe(stream, settings);
  }
  absl::StatusOr<std::vector<lessor::SubscriptionInfo>> ListSubscriptions(
      lessor::StreamId stream, std::optional<std::string_view> name) override {
    return service_->ListSubscriptions(stream, name);
  }
  absl::StatusOr<lessor::SubscriptionInfo> GetSubscription(lessor::SubscriptionKey key) override {
    return service_->GetSubscription(key);
  }
  absl::Status DeleteSubscription(lessor::SubscriptionKey key) override {
    return service_->DeleteSubscription(key);
  }
  absl::StatusOr<lessor::Batch> Consume(lessor::SubscriptionKey key,
                                        const lessor::ConsumeRequest& request) override {
    if (request.worker != "drain" && !request.wait_until && Strikes(Fault::kHidesRecords)) {
      return lessor::Batch();
    }
    auto batch = service_->Consume(key, request);
    if (!batch.ok() || batch->empty()) return batch;
    const std::lock_guard lock(mutex_);
    std::swap(last_, *batch);
    if (last_.empty() || batch->empty() || !Strikes(Fault::kForeignBatches)) return last_;
    return batch;
  }
  absl::Status Ack(lessor::SubscriptionKey key, lessor::BatchId batch,
                   std::string_view worker) override {
    if (Strikes(Fault::kDropsAcks)) return absl::OkStatus();
    if (Strikes(Fault::kNacksAcks)) return service_->Nack(key, batch, worker);
    return service_->Ack(key, batch, worker);
  }
  absl::Status Nack(lessor::SubscriptionKey key, lessor::BatchId batch,
                    std::string_view worker) override {
    return service_->Nack(key, batch, worker);
  }
  absl::StatusOr<absl::Time> Extend(lessor::SubscriptionKey key, lessor::BatchId batch,
                                    std::string_view worker) override {
    return service_->Extend(key, batch, worker);
  }
  absl::StatusOr<lessor::Position> GetPosition(lessor::SubscriptionKey key) override {
    auto position = service_->GetPosition(key);
    if (!position.ok()) return position;
    const std::lock_guard lock(mutex_);
    std::swap(positions_[key], *position);
    return Strikes(Fault::kStalePositions) ? *position : positions_[key];
  }
  absl::StatusOr<lessor::Explanation> Explain(lessor::SubscriptionKey key) override {
    return service_->Explain(key);
  }
  absl::StatusOr<std::vector<lessor::LeaseInfo>> ListLeases(lessor::StreamId stream) override {
    return service_->ListLeases(stream);
  }

 private:
  bool Strikes(Fault fault) { return fault == fault_ && ++calls_ % 10 == 0; }

  const std::shared_ptr<lessor::Service> service_;
  const Fault fault_;
  std::atomic<int> calls_ = 0;
  std::mutex mutex_;
  lessor::Batch last_;
  std::map<lessor::SubscriptionKey, lessor::Position> positions_;
};

SubjectMaker Spoilt(Spoiler::Fault fault) {
  return [fault](const lessor::BrokerOptions& options) {
    Subject subject = MakeSubject<lessor::Broker>(options);
    subject.service = std::make_shared<Spoiler>(subject.service, fault);
    return subject;
  };
}

TEST_CASE("a service that now and then does wrong is found out", "[stress][mutants]") {
  using Fault = Spoiler::Fault;
  CHECK_FALSE(FindsFault(Spoilt(Fault::kNone)));
  CHECK(FindsFault(Spoilt(Fault::kDropsAcks)));
  CHECK(FindsFault(Spoilt(Fault::kNacksAcks)));
  CHECK(FindsFault(Spoilt(Fault::kStalePositions)));
  CHECK(FindsFault(Spoilt(Fault::kForeignBatches)));
  CHECK(FindsFault(Spoilt(Fault::kWrongOffsets)));
  CHECK(FindsFault(Spoilt(Fault::kRepeatsProduces)));
  CHECK(FindsFault(Spoilt(Fault::kHidesRecords)));
}

}  // namespace
}  // namespace lessor_tests
