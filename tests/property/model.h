// property/model.h: the contract S1-S31 in its plainest form.
//
// Everything is a vector and every question is answered by looking at all of it: a state for each
// record of each subscription, nothing remembered that could be counted. Slow, and meant to be
// read next to the rules.
#ifndef LESSOR_TESTS_PROPERTY_MODEL_H_
#define LESSOR_TESTS_PROPERTY_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lessor/broker.h"
#include "lessor/error.h"
#include "lessor/limits.h"
#include "lessor/policy.h"
#include "property/program.h"

namespace lessor_tests {

struct Model {
  struct Record {
    int64_t timestamp = 0;
    size_t size = 0;       ///< S4: content and headers.
    size_t footprint = 0;  ///< S31: what it counts of max_bytes_held.
    std::string shown;
    bool gone = false;  ///< Removed by retention.
  };

  struct Batch {
    enum class Status { kActive, kExpired, kDead };  ///< kExpired: it can still be settled.
    Label label = 0;                                 ///< The consume that made it.
    std::string worker;
    int64_t until = 0;
    std::vector<size_t> records;
    Status status = Status::kActive;
  };

  enum class State { kFresh, kLeased, kReleased, kProcessed, kSkipped };

  struct Subscription {
    Label label = 0;
    std::string name;
    lessor::StartAt start_at = lessor::StartAt::kEarliest;
    int64_t created = 0;
    size_t start = 0;
    bool deleted = false;
    std::vector<State> state;    ///< Of each record of the stream.
    std::vector<size_t> holder;  ///< The batch that had it last, if any had.
    std::vector<Batch> batches;
  };

  struct Stream {
    Label label = 0;
    std::string name;
    int64_t retention = 0;
    bool http = true, worker_binding = true;
    int64_t created = 0, modified = 0;
    bool deleted = false;
    std::vector<Record> records;
    std::vector<Subscription> subscriptions;
  };

  explicit Model(const Setup& setup);

  /// Runs one operation and gives its answer.
  std::string Run(const Operation& operation);
  /// All that can be seen. `since_restart`: counters count from the last restart, and without
  /// expiries once there was one.
  std::string Look(bool since_restart) const;

  Stream* Find(Label stream);
  Subscription* Find(Label stream, Label subscription);
  /// The batch that consume `label` answered with, if it is the subscription's.
  Batch* Find(Subscription& subscription, Label batch);

  lessor::Limits limits;
  lessor::StreamPolicy policy;
  int64_t lease = 0;
  int64_t clock = kStartMs;
  int64_t now = INT64_MIN;  ///< The latest time seen (S26).
  std::vector<Stream> streams;
  lessor::Stats counted;         ///< Counters only.
  lessor::Stats before_restart;  ///< What they were.
  bool restarted = false;
  /// What later operations call what this one made: (operation, what it is called in answers).
  std::vector<std::pair<Label, Label>> batch_names, stream_names, subscription_names;

 private:
  using Answer = std::string;

  void SeeTime();
  void LetTimePass(Stream& stream);
  Answer CreateStream(const Operation& operation);
  Answer UpdateStream(const Operation& operation);
  Answer Produce(const Operation& operation);
  Answer Subscribe(const Operation& operation);
  Answer Consume(const Operation& operation);
  Answer Settle(const Operation& operation);
  Answer Extend(const Operation& operation);
  Answer AboutStream(const Operation& operation);
};

/// How answers are written, by the model and for the broker.
std::string ShowReason(lessor::Reason reason);
std::string ShowStream(Label label, std::string_view name, int64_t retention, bool http,
                       bool worker_binding, int64_t created, int64_t modified);
std::string ShowSubscription(Label label, std::string_view name, lessor::StartAt start_at,
                             int64_t created);
std::string ShowPosition(const lessor::Position& position);
std::string ShowExplanation(const lessor::Explanation& explanation);
std::string ShowLease(Label subscription, Label batch, std::string_view worker, int64_t until,
                      uint64_t first, uint64_t records);
std::string ShowBatch(Label batch, int64_t until);
std::string ShowAppended(uint64_t first, uint64_t count, int64_t timestamp);
std::string ShowStats(const lessor::Stats& stats, bool expiries);
std::string ShowNext(int64_t deadline, int64_t retention);

}  // namespace lessor_tests

#endif  // LESSOR_TESTS_PROPERTY_MODEL_H_
