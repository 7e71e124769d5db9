#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "lessor/ids.h"

namespace lessor::inline LESSOR_ABI {
namespace {

class SystemIds final : public IdSource {
 public:
  RandomBits Next() override {
    const std::lock_guard lock(mutex_);
    if (used_ == block_.size()) Refill();
    return block_[used_++];
  }

 private:
  void Refill() {
    auto* bytes = reinterpret_cast<char*>(block_.data());
    size_t left = sizeof block_;
    while (left > 0) {
      const ssize_t got = getrandom(bytes, left, 0);
      if (got < 0) {
        if (errno == EINTR) continue;
        std::perror("lessor: the system's random source failed");
        std::abort();
      }
      bytes += got;
      left -= static_cast<size_t>(got);
    }
    used_ = 0;
  }

  std::mutex mutex_;
  std::array<RandomBits, 256> block_ = {};
  size_t used_ = block_.size();
};

}  // namespace

IdSource& SystemIdSource() {
  static SystemIds& source = *new SystemIds;  // Never destroyed: a Broker may outlive main.
  return source;
}

}  // namespace lessor::inline LESSOR_ABI
