// What one would write by hand in an afternoon: the yardstick of stream_cycle.
#ifndef LESSOR_BENCH_HANDWRITTEN_H_
#define LESSOR_BENCH_HANDWRITTEN_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lessor_bench {

class HandwrittenQueue {
 public:
  explicit HandwrittenQueue(size_t retained_bytes) : most_bytes_(retained_bytes) {}

  void Produce(const std::vector<std::string_view>& records) {
    const std::lock_guard lock(mutex_);
    for (const std::string_view record : records) {
      log_.emplace_back(record);
      bytes_ += record.size();
    }
    while (bytes_ > most_bytes_) {
      bytes_ -= log_.front().size();
      log_.pop_front();
      ++begin_;
    }
  }

  std::pair<std::string, std::vector<std::string>> Consume(const std::string& worker,
                                                           size_t max_records) {
    const auto now = std::chrono::steady_clock::now();
    const std::lock_guard lock(mutex_);
    if (const auto held = by_worker_.find(worker); held != by_worker_.end()) {
      Lease& lease = leases_[held->second];
      lease.until = now + std::chrono::seconds(300);
      return {held->second, Copy(lease)};
    }
    next_ = next_ < begin_ ? begin_ : next_;
    const size_t end = begin_ + log_.size();
    if (next_ == end) return {};
    Lease lease{worker, next_, next_ + max_records < end ? next_ + max_records : end,
                now + std::chrono::seconds(300)};
    next_ = lease.end;
    std::string id = RandomId();
    std::vector<std::string> copies = Copy(lease);
    by_worker_.emplace(worker, id);
    leases_.emplace(id, std::move(lease));
    return {std::move(id), std::move(copies)};
  }

  void Ack(const std::string& id) {
    const auto now = std::chrono::steady_clock::now();
    const std::lock_guard lock(mutex_);
    const auto lease = leases_.find(id);
    if (lease == leases_.end() || lease->second.until <= now) return;
    by_worker_.erase(lease->second.worker);
    leases_.erase(lease);
  }

 private:
  struct Lease {
    std::string worker;
    size_t first = 0;
    size_t end = 0;
    std::chrono::steady_clock::time_point until;
  };

  std::vector<std::string> Copy(const Lease& lease) const {
    std::vector<std::string> copies;
    copies.reserve(lease.end - lease.first);
    for (size_t i = lease.first; i < lease.end; ++i) copies.push_back(log_[i - begin_]);
    return copies;
  }

  std::string RandomId() {
    std::uniform_int_distribution<size_t> digit(0, 15);
    std::string id(32, '0');
    for (char& c : id) c = "0123456789abcdef"[digit(random_)];
    return id;
  }

  std::mutex mutex_;
  std::mt19937_64 random_{std::random_device{}()};
  std::deque<std::string> log_;
  size_t begin_ = 0;
  size_t next_ = 0;
  size_t bytes_ = 0;
  size_t most_bytes_;
  std::unordered_map<std::string, Lease> leases_;
  std::unordered_map<std::string, std::string> by_worker_;
};

}  // namespace lessor_bench

#endif  // LESSOR_BENCH_HANDWRITTEN_H_
