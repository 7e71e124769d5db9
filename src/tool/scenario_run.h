// scenario_run.h: executing scenarios.
//
// The steps run against a lessor::Service, whichever it is. What differs between services (how one
// is made, how its clock is set, what a restart is) is a Backend.
#ifndef LESSOR_TOOL_SCENARIO_RUN_H_
#define LESSOR_TOOL_SCENARIO_RUN_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lessor/service.h"
#include "scenario_file.h"

namespace lessor_tool {

/// The world of one scenario: a service, and the clock that it lives by.
class Backend {
 public:
  virtual ~Backend() = default;

  /// The service as it is now; another one after each Restart().
  virtual lessor::Service& service() = 0;
  /// Sets the clock, backwards too.
  virtual void SetTime(absl::Time now) = 0;
  /// Ends the service and makes another one of what it stored. After a crash, of what it stored
  /// durably.
  virtual absl::Status Restart(bool crash) = 0;
};

struct BackendKind {
  std::string_view name;
  /// Whether it can restart. Where not, scenarios that do are skipped.
  bool restarts;
  /// A fresh world with the scenario's limits, at its start.
  absl::StatusOr<std::unique_ptr<Backend>> (*make)(const Scenario& scenario);
};

/// The backends that there are; the first is the default.
std::span<const BackendKind> Backends();

struct Outcome {
  enum class Kind {
    kPassed,
    kFailed,      ///< A step was answered otherwise than expected.
    kSkipped,     ///< The scenario is not for this backend.
    kUnreadable,  ///< The scenario itself is wrong, which showed only as it ran.
  };
  Kind kind = Kind::kPassed;
  /// In which step, and what was expected and what was got or what is wrong.
  std::string what;
};

/// Runs all steps up to the first that is answered otherwise than expected.
Outcome Run(const Scenario& scenario, const BackendKind& backend);

/// `lessor scenario [--backend NAME] FILE...`; `args` begins after "scenario". Returns the exit
/// status: 0 if nothing failed, 1 if something did, 2 if a file is not a scenario or for a usage
/// error.
int ScenarioCommand(std::span<const std::string_view> args);

}  // namespace lessor_tool

#endif  // LESSOR_TOOL_SCENARIO_RUN_H_
