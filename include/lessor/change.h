// lessor/change.h: what an operation did to a stream, as a Store keeps it and a replica replays it.
//
// The core decides an operation into at most one Change and then applies it; replaying the same
// changes to an empty core gives an equal core. A change carries the time of its operation and all
// that is needed to apply it. Replay advances time first, so that expiry and retention are never
// stored by themselves.
#ifndef LESSOR_CHANGE_H_
#define LESSOR_CHANGE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "lessor/export.h"
#include "lessor/ids.h"
#include "lessor/record.h"
#include "lessor/time.h"
#include "lessor/version.h"

namespace lessor::inline LESSOR_ABI {

/// Where a new subscription starts. Spec: S9.
enum class StartAt : uint8_t {
  kEarliest = 0,  ///< At the oldest retained record.
  kLatest = 1,    ///< After the newest record.
};

/// The records [first, end).
struct OffsetRange {
  Offset first = 0;
  Offset end = 0;

  uint64_t size() const { return end - first; }
  friend constexpr bool operator==(const OffsetRange&, const OffsetRange&) = default;
};

/// The changes of one stream. Views borrow from whoever made the change.
namespace change {
struct StreamCreated {
  std::string_view name;
  Millis retention;
  bool http = true;
  bool worker_binding = true;
};
/// The settings after the update.
struct StreamUpdated {
  Millis retention;
  bool http = true;
  bool worker_binding = true;
};
struct StreamDeleted {};
struct Appended {
  Offset first = 0;
  Instant timestamp;
  std::span<const Record> records;
};
struct Subscribed {
  SubscriptionId subscription;
  std::string_view name;
  StartAt start_at = StartAt::kEarliest;
  Offset cursor = 0;
};
struct Unsubscribed {
  SubscriptionId subscription;
};
struct Granted {
  SubscriptionId subscription;
  BatchId batch;
  std::string_view worker;
  Instant leased_until;
  std::span<const OffsetRange> ranges;
};
struct Renewed {
  SubscriptionId subscription;
  BatchId batch;
  Instant leased_until;
};
struct Acked {
  SubscriptionId subscription;
  BatchId batch;
};
struct Released {
  SubscriptionId subscription;
  BatchId batch;
};
}  // namespace change

/// One operation's effect. The order of the alternatives is part of the encoding.
struct Change {
  using What = std::variant<change::StreamCreated, change::StreamUpdated, change::StreamDeleted,
                            change::Appended, change::Subscribed, change::Unsubscribed,
                            change::Granted, change::Renewed, change::Acked, change::Released>;
  Instant now;
  What what;
};

/// `change` as bytes: versioned, self-contained, the same on every machine.
LESSOR_EXPORT std::string EncodeChange(const Change& change);

/// A decoded change and the arrays that it refers to.
/// Lifetime: its texts borrow from the bytes that were decoded.
class DecodedChange {
 public:
  /// kInternal if `bytes` are not a change that this version knows.
  LESSOR_EXPORT static absl::StatusOr<DecodedChange> Decode(std::string_view bytes);

  const Change& operator*() const { return change_; }
  const Change* operator->() const { return &change_; }

 private:
  Change change_;
  std::unique_ptr<Record[]> records_;
  std::unique_ptr<Header[]> headers_;
  std::vector<OffsetRange> ranges_;
};

}  // namespace lessor::inline LESSOR_ABI

#endif  // LESSOR_CHANGE_H_
