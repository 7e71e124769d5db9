#include "property/program.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "fmt/format.h"
#include "random.h"

namespace lessor_tests {
namespace {

uint64_t HashOf(std::string_view bytes) {
  uint64_t hash = bytes.size();
  while (!bytes.empty()) {
    uint64_t word = 0;
    const size_t taken = bytes.size() < sizeof word ? bytes.size() : sizeof word;
    std::memcpy(&word, bytes.data(), taken);
    hash = Mix(hash ^ word);
    bytes.remove_prefix(taken);
  }
  return hash;
}

// Text in quotes; what is long or cannot be printed in short.
std::string Quoted(std::string_view text) {
  std::string shown = "\"";
  for (const char c : text.substr(0, 24)) {
    shown += c >= ' ' && c <= '~' ? std::string(1, c)
                                  : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  if (text.size() > 24) shown += fmt::format("...({} bytes)", text.size());
  return shown + "\"";
}

std::string Shorten(int64_t limit) {
  return limit == INT64_MAX ? std::string("none") : fmt::format("{}", limit);
}

std::string ShowSettings(const Operation& operation) {
  std::string shown;
  if (operation.ms) shown += fmt::format(" retention={}ms", *operation.ms);
  if (operation.http) shown += fmt::format(" http={}", *operation.http);
  if (operation.worker_binding) {
    shown += fmt::format(" worker_binding={}", *operation.worker_binding);
  }
  return shown;
}

std::string ShowRecords(const std::vector<RecordSpec>& records) {
  std::string shown;
  for (const RecordSpec& record : records) {
    shown += fmt::format("{}{}", shown.empty() ? "" : ", ", record.size);
    for (const auto& [name, value] : record.headers) {
      shown += fmt::format(" +{}={}", Quoted(name), Quoted(value));
    }
  }
  return shown;
}

}  // namespace

std::string ContentOf(Label label, size_t index, size_t size) {
  std::string content(size, '\0');
  uint64_t word = Mix(static_cast<uint64_t>(label) << 20U | index);
  for (size_t at = 0; at < size; at += sizeof word) {
    std::memcpy(content.data() + at, &word, size - at < sizeof word ? size - at : sizeof word);
    ++word;
  }
  return content;
}

std::string ShowRecord(uint64_t offset, int64_t timestamp_ms, std::string_view content,
                       const std::vector<std::pair<std::string, std::string>>& headers) {
  std::string shown = fmt::format(" [{} at {} {} bytes {:x}", offset, timestamp_ms - kStartMs,
                                  content.size(), HashOf(content));
  for (const auto& [name, value] : headers) {
    shown += fmt::format(" {}={}", Quoted(name), Quoted(value));
  }
  return shown + "]";
}

std::string Show(const Operation& operation) {
  const auto key = [&] { return fmt::format("#{}/#{}", operation.stream, operation.subscription); };
  const auto about_batch = [&](std::string_view verb) {
    return fmt::format("{} {} batch #{} worker={}", verb, key(), operation.batch,
                       Quoted(operation.worker));
  };
  std::string shown = fmt::format("#{}: ", operation.label);
  switch (operation.what) {
    case Do::kCreateStream:
      return shown + "create stream " + Quoted(operation.name) + ShowSettings(operation);
    case Do::kUpdateStream:
      return shown + fmt::format("update stream #{}", operation.stream) + ShowSettings(operation);
    case Do::kDeleteStream:
      return shown + fmt::format("delete stream #{}", operation.stream);
    case Do::kProduce:
      return shown +
             fmt::format("produce to #{}: {}", operation.stream, ShowRecords(operation.records));
    case Do::kSubscribe:
      return shown +
             fmt::format("subscribe to #{} {} from {}", operation.stream, Quoted(operation.name),
                         operation.start_at == lessor::StartAt::kEarliest ? "earliest" : "latest");
    case Do::kUnsubscribe:
      return shown + "unsubscribe " + key();
    case Do::kFind:
      return shown + fmt::format("find {} in #{}", Quoted(operation.name), operation.stream);
    case Do::kConsume:
      return shown + fmt::format("consume {} worker={} max_records={}{}", key(),
                                 Quoted(operation.worker), operation.max_records,
                                 operation.wait ? " waiting" : "");
    case Do::kAck:
      return shown + about_batch("ack");
    case Do::kNack:
      return shown + about_batch("nack");
    case Do::kExtend:
      return shown + about_batch("extend");
    case Do::kClock:
      return shown + fmt::format("clock at {} ms", *operation.ms);
    case Do::kRestart:
      return shown + "restart";
  }
  return shown;
}

std::string Show(const Setup& setup) {
  const lessor::Limits& limits = setup.limits;
  return fmt::format(
      "seed {}: late_ack={} redelivery={} lease_limit_first={}\n"
      "  lease={}ms streams={} subscriptions={} leases={} consume_records={} batch_bytes={}\n"
      "  record_bytes={} produce_bytes={} headers={} name={} value={} all={} held={}\n",
      setup.seed,
      setup.policy.late_ack == lessor::StreamPolicy::LateAck::kNever ? "never"
                                                                     : "until_redelivered",
      setup.policy.redelivery == lessor::StreamPolicy::Redelivery::kRefill ? "refill"
                                                                           : "whole_batch",
      setup.policy.lease_limit_first, absl::ToInt64Milliseconds(limits.lease), limits.max_streams,
      limits.max_subscriptions, limits.max_active_leases, limits.max_consume_records,
      limits.max_batch_bytes, limits.max_record_bytes, limits.max_produce_bytes, limits.max_headers,
      limits.max_header_name_bytes, limits.max_header_value_bytes, limits.max_headers_bytes,
      Shorten(limits.max_bytes_held));
}

std::string Show(const Program& program) {
  std::string shown;
  for (const Operation& operation : program) shown += "  " + Show(operation) + "\n";
  return shown;
}

}  // namespace lessor_tests
