#include "lessor/store.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lessor/error.h"

namespace lessor::inline LESSOR_ABI {
namespace {

class Memory final : public Store {
 public:
  absl::StatusOr<std::vector<Loaded>> Load() override { return std::vector<Loaded>(); }
  absl::StatusOr<std::optional<Loaded>> Load(StreamId /*stream*/) override {
    return std::optional<Loaded>();
  }
  Ticket Submit(StreamId stream, const Change& /*change*/, uint64_t expected_sequence) override {
    return {.stream = stream, .sequence = expected_sequence + 1, .durable = true};
  }
  absl::Status Wait(const Ticket& /*ticket*/) override { return absl::OkStatus(); }
  absl::StatusOr<SegmentRef> Read(StreamId /*stream*/, Offset /*base*/,
                                  SegmentPool& /*pool*/) override {
    return MakeError(Reason::kInternal, "the memory store has no segments");
  }
  absl::StatusOr<bool> Trim(StreamId /*stream*/, Offset /*floor*/, size_t /*budget*/) override {
    return false;
  }
};

}  // namespace

Store& MemoryStore() {
  static Memory& store = *new Memory;  // Never destroyed: a Broker may outlive main.
  return store;
}

}  // namespace lessor::inline LESSOR_ABI
