// property/harness.h: runs programs on brokers, on the bare core and on the model, and compares.
#ifndef LESSOR_TESTS_PROPERTY_HARNESS_H_
#define LESSOR_TESTS_PROPERTY_HARNESS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "lessor/broker.h"
#include "lessor/service.h"
#include "property/program.h"

namespace lessor_tests {

/// A BasicBroker of any rules.
class AnyBroker {
 public:
  virtual ~AnyBroker() = default;
  virtual lessor::Service& service() = 0;
  virtual absl::Time NextDeadline() = 0;
  virtual absl::Time NextRetention() = 0;
  virtual lessor::Stats GetStats() = 0;
};

template <class Rules>
class BrokerOf final : public AnyBroker {
 public:
  explicit BrokerOf(std::unique_ptr<lessor::BasicBroker<Rules>> broker)
      : broker_(std::move(broker)) {}

  lessor::Service& service() override { return *broker_; }
  absl::Time NextDeadline() override { return broker_->NextDeadline(); }
  absl::Time NextRetention() override { return broker_->NextRetention(); }
  lessor::Stats GetStats() override { return broker_->GetStats(); }

 private:
  std::unique_ptr<lessor::BasicBroker<Rules>> broker_;
};

/// Opens a broker; null if that is refused.
using OpenBroker = std::function<std::unique_ptr<AnyBroker>(const lessor::BrokerOptions&)>;

template <class Rules>
std::unique_ptr<AnyBroker> Open(const lessor::BrokerOptions& options) {
  auto broker = lessor::BasicBroker<Rules>::Open(options);
  if (!broker.ok()) return nullptr;
  return std::make_unique<BrokerOf<Rules>>(*std::move(broker));
}

/// A broker that differs from the model, and the shortest program found that shows it.
struct Failure {
  Setup setup;
  Program program;
  std::string what;  ///< Of the last operation.
};

/// What is compared.
struct Checks {
  OpenBroker open;
  /// Whether the bare core of the standard rules runs along: it decides the very changes that the
  /// broker submits, and equals a core that replays them.
  bool core = true;
};

/// A random program of `seed`, made as it runs, until it fails or ends. Shrunk if it fails.
std::optional<Failure> RunRandomProgram(const Checks& checks, uint64_t seed);

/// The failure of a program, if it fails; it is cut after the failing operation.
std::optional<Failure> RunProgram(const Checks& checks, const Setup& setup, const Program& program);

/// Everything a person needs: the program, what differs, and how to see it again.
std::string Show(const Failure& failure);

}  // namespace lessor_tests

#endif  // LESSOR_TESTS_PROPERTY_HARNESS_H_
