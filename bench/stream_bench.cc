// The stream benchmarks. bench/README.md says what each of them does.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "benchmark/benchmark.h"
#include "handwritten.h"
#include "lessor/lessor.h"
#include "offset_clock.h"

namespace lessor_bench {
namespace {

constexpr size_t kRetainedBytes = size_t{64} << 20;

void CountRecords(benchmark::State& state, int64_t a_cycle) {
  state.SetItemsProcessed(state.iterations() * a_cycle);
}

// A store that is asked to make every change durable and does it at no cost: what remains is the
// price of the seam.
class InstantStore final : public lessor::Store {
 public:
  absl::StatusOr<std::vector<Loaded>> Load() override { return std::vector<Loaded>(); }
  absl::StatusOr<std::optional<Loaded>> Load(lessor::StreamId /*stream*/) override {
    return std::optional<Loaded>();
  }
  Ticket Submit(lessor::StreamId stream, const lessor::Change& /*change*/,
                uint64_t expected_sequence) override {
    return {.stream = stream, .sequence = expected_sequence + 1, .token = 0, .durable = false};
  }
  absl::Status Wait(const Ticket& /*ticket*/) override { return absl::OkStatus(); }
  absl::StatusOr<lessor::SegmentRef> Read(lessor::StreamId /*stream*/, lessor::Offset /*base*/,
                                          lessor::SegmentPool& /*pool*/) override {
    return absl::InternalError("never evicted");
  }
  absl::StatusOr<bool> Trim(lessor::StreamId /*stream*/, lessor::Offset /*floor*/,
                            size_t /*budget*/) override {
    return false;
  }
};

// A stream in a steady state: `retained` records stay, and each cycle moves them on by a batch.
class Steady {
 public:
  Steady(size_t batch, size_t size, size_t retained, lessor::Store* store = nullptr)
      : step_(absl::Seconds(3600) * static_cast<double>(batch) / static_cast<double>(retained)),
        payload_(size, 'x'),
        records_(batch, lessor::Record{.content = payload_}),
        broker_({.clock = &clock_, .store = store}) {
    stream_.emplace(*broker_.CreateStream({.name = "bench", .retention = absl::Seconds(3600)}));
    subscription_.emplace(*stream_->Subscribe({.name = "bench"}));
    std::vector<char> scratch(batch * size);
    for (size_t done = 0; done < retained; done += batch) Cycle("worker-1", scratch);
  }

  bool Cycle(std::string_view worker, std::vector<char>& scratch) {
    clock_.Advance(step_);
    const absl::StatusOr<lessor::Appended> appended = stream_->Produce(records_);
    const absl::StatusOr<lessor::Batch> batch = subscription_->Consume(
        {.worker = worker, .max_records = static_cast<int64_t>(records_.size())});
    if (!appended.ok() || !batch.ok()) return false;
    size_t at = 0;
    for (const lessor::RecordView record : *batch) {
      const std::string_view content = record.content();
      std::memcpy(scratch.data() + at, content.data(), content.size());
      at += content.size();
    }
    benchmark::DoNotOptimize(scratch.data());
    benchmark::ClobberMemory();
    return subscription_->Ack(*batch, worker).ok();
  }

  lessor::Broker& broker() { return broker_; }

 private:
  OffsetClock clock_;
  absl::Duration step_;
  std::string payload_;
  std::vector<lessor::Record> records_;
  lessor::Broker broker_;
  std::optional<lessor::Stream> stream_;
  std::optional<lessor::Subscription> subscription_;
};

void RunCycles(benchmark::State& state, Steady& steady, size_t batch, size_t size) {
  std::vector<char> scratch(batch * size);
  for (auto _ : state) {
    if (!steady.Cycle("worker-1", scratch)) {
      state.SkipWithError("a call was refused");
      return;
    }
  }
  CountRecords(state, static_cast<int64_t>(batch));
}

void MemcpyCeiling(benchmark::State& state) {
  const auto batch = static_cast<size_t>(state.range(0));
  const auto size = static_cast<size_t>(state.range(1));
  std::vector<char> ring(kRetainedBytes, 'r');
  const std::string payload(size, 'x');
  std::vector<char> scratch(batch * size);
  size_t at = 0;
  for (auto _ : state) {
    if (at + batch * size > ring.size()) at = 0;
    for (size_t i = 0; i < batch; ++i) {
      std::memcpy(ring.data() + at + i * size, payload.data(), size);
    }
    benchmark::ClobberMemory();
    std::memcpy(scratch.data(), ring.data() + at, batch * size);
    benchmark::DoNotOptimize(scratch.data());
    benchmark::ClobberMemory();
    at += batch * size;
  }
  CountRecords(state, static_cast<int64_t>(batch));
}

void HandwrittenBaseline(benchmark::State& state) {
  const auto batch = static_cast<size_t>(state.range(0));
  const auto size = static_cast<size_t>(state.range(1));
  HandwrittenQueue queue(kRetainedBytes);
  const std::string payload(size, 'x');
  const std::vector<std::string_view> records(batch, payload);
  const std::string worker = "worker-1";
  const auto cycle = [&] {
    queue.Produce(records);
    auto [id, copies] = queue.Consume(worker, batch);
    benchmark::DoNotOptimize(copies.data());
    queue.Ack(id);
  };
  for (size_t bytes = 0; bytes < kRetainedBytes; bytes += batch * size) cycle();
  for (auto _ : state) cycle();
  CountRecords(state, static_cast<int64_t>(batch));
}

void StreamCycle(benchmark::State& state) {
  const auto batch = static_cast<size_t>(state.range(0));
  const auto size = static_cast<size_t>(state.range(1));
  Steady steady(batch, size, kRetainedBytes / size);
  RunCycles(state, steady, batch, size);
  const lessor::Stats stats = steady.broker().GetStats();
  state.counters["overhead"] =
      (static_cast<double>(stats.bytes_allocated) - static_cast<double>(size * stats.records)) /
      static_cast<double>(stats.records);
}

void StreamStoreSync(benchmark::State& state) {
  const auto batch = static_cast<size_t>(state.range(0));
  InstantStore store;
  Steady steady(batch, 100, kRetainedBytes / 100, &store);
  RunCycles(state, steady, batch, 100);
}

void StreamGrowth(benchmark::State& state) {
  const auto retained = static_cast<size_t>(state.range(0));
  // Filled once: ten million records take a while.
  static std::map<size_t, std::unique_ptr<Steady>>& kept =
      *new std::map<size_t, std::unique_ptr<Steady>>;
  std::unique_ptr<Steady>& steady = kept[retained];
  if (steady == nullptr) steady = std::make_unique<Steady>(100, 100, retained);
  RunCycles(state, *steady, 100, 100);
}

std::unique_ptr<Steady> shared_steady;

void StreamThreads(benchmark::State& state) {
  const std::string worker = "worker-" + std::to_string(state.thread_index());
  std::vector<char> scratch(size_t{100} * 100);
  for (auto _ : state) {
    if (!shared_steady->Cycle(worker, scratch)) {
      state.SkipWithError("a call was refused");
      return;
    }
  }
  CountRecords(state, 100);
}

void Register() {
  for (const auto& [batch, size] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 100}, {10, 100}, {100, 100}, {1000, 100}, {100, 1000}}) {
    benchmark::RegisterBenchmark("memcpy_ceiling", MemcpyCeiling)->Args({batch, size});
    benchmark::RegisterBenchmark("handwritten_baseline", HandwrittenBaseline)->Args({batch, size});
    benchmark::RegisterBenchmark("stream_cycle", StreamCycle)->Args({batch, size});
  }
  for (const int64_t batch : {1, 100}) {
    benchmark::RegisterBenchmark("stream_store_sync", StreamStoreSync)->Args({batch});
  }
  for (const int64_t retained : {10'000, 100'000, 1'000'000, 10'000'000}) {
    benchmark::RegisterBenchmark("stream_growth", StreamGrowth)->Args({retained});
  }
  for (const int threads : {1, 2, 4}) {
    benchmark::RegisterBenchmark(("stream_threads/" + std::to_string(threads)).c_str(),
                                 StreamThreads)
        ->Threads(threads)
        ->UseRealTime()
        ->Setup([](const benchmark::State&) {
          shared_steady = std::make_unique<Steady>(100, 100, kRetainedBytes / 100);
        })
        ->Teardown([](const benchmark::State&) { shared_steady.reset(); });
  }
}

const bool registered = (Register(), true);

}  // namespace
}  // namespace lessor_bench
