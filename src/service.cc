#include "lessor/service.h"

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "lessor/core/validate.h"
#include "lessor/error.h"
#include "lessor/stream.h"

namespace lessor::inline LESSOR_ABI {

absl::StatusOr<Stream> Service::CreateStream(const StreamSettings& settings) {
  const absl::StatusOr<StreamInfo> info = DoCreateStream(settings);
  if (!info.ok()) return info.status();
  return Stream(*this, info->id);
}

absl::StatusOr<Stream> Service::OpenStream(std::string_view name) {
  const absl::StatusOr<std::vector<StreamInfo>> streams = ListStreams();
  if (!streams.ok()) return streams.status();
  const std::string folded = FoldCase(name);
  for (const StreamInfo& info : *streams) {
    if (FoldCase(info.name) == folded) return Stream(*this, info.id);
  }
  return MakeError(Reason::kNoSuchStream, "no stream has this name");
}

absl::StatusOr<Subscription> Stream::OpenSubscription(std::string_view name) const {
  const absl::StatusOr<std::vector<SubscriptionInfo>> found =
      service_->ListSubscriptions(id_, name);
  if (!found.ok()) return found.status();
  if (found->empty()) {
    return MakeError(Reason::kNoSuchSubscription, "no subscription of the stream has this name");
  }
  return Subscription(*service_, {id_, found->front().id});
}

}  // namespace lessor::inline LESSOR_ABI
