#include "absl/random/random.h"
#include "lessor/ids.h"

namespace lessor::inline LESSOR_ABI {
namespace {

class SystemIds final : public IdSource {
 public:
  RandomBits Next() override {
    static thread_local absl::BitGen generator;
    return {generator(), generator()};
  }
};

}  // namespace

IdSource& SystemIdSource() {
  static SystemIds& source = *new SystemIds;  // Never destroyed: a Broker may outlive main.
  return source;
}

}  // namespace lessor::inline LESSOR_ABI
