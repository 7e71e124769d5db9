// The benchmark program: ./dev bench [--json FILE] [--filter RE] [--benchmark_... ]
//
// Runs every benchmark several times, the repetitions of all of them interleaved, and ends with the
// ratios of the medians that docs and issues speak of.
#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "benchmark/benchmark.h"

namespace lessor_bench {
namespace {

// Keeps the medians by benchmark name while the console shows everything.
class Medians : public benchmark::ConsoleReporter {
 public:
  Medians() : ConsoleReporter(OO_Tabular) {}

  void ReportRuns(const std::vector<Run>& runs) override {
    std::vector<Run> shown;
    for (const Run& run : runs) {
      if (run.run_type == Run::RT_Aggregate && run.aggregate_name != "median") continue;
      if (run.run_type == Run::RT_Aggregate) {
        const auto items = run.counters.find("items_per_second");
        if (items != run.counters.end()) {
          std::string name = run.run_name.function_name;
          if (!run.run_name.args.empty()) name += "/" + run.run_name.args;
          items_per_second_[name] = items->second;
        }
      }
      shown.push_back(run);
    }
    if (!shown.empty()) ConsoleReporter::ReportRuns(shown);
  }

  // Prints a line a ratio that could be measured; a ratio of rates, the higher the better.
  void PrintRatios() const {
    struct Ratio {
      const char* name;
      const char* over;
      double goal;
    };
    constexpr Ratio kRatios[] = {
        {"stream_cycle/100/100", "memcpy_ceiling/100/100", 0.55},
        {"stream_cycle/100/100", "handwritten_baseline/100/100", 5},
        {"stream_cycle/1/100", "handwritten_baseline/1/100", 1.5},
        {"stream_cycle/10/100", "handwritten_baseline/10/100", 0},
        {"stream_cycle/1000/100", "memcpy_ceiling/1000/100", 0},
        {"stream_cycle/100/1000", "memcpy_ceiling/100/1000", 0},
        {"stream_growth/10000000", "stream_growth/10000", 1 / 1.3},
        {"stream_threads/4", "stream_threads/1", 0.6},
        {"stream_store_sync/1", "stream_cycle/1/100", 0},
        {"stream_store_sync/100", "stream_cycle/100/100", 0},
    };
    std::printf("\n%-24s over %-30s %8s %8s\n", "ratio of medians:", "", "measured", "goal");
    for (const Ratio& ratio : kRatios) {
      const auto above = items_per_second_.find(ratio.name);
      const auto below = items_per_second_.find(ratio.over);
      if (above == items_per_second_.end() || below == items_per_second_.end()) continue;
      const double measured = above->second / below->second;
      std::printf("%-24s over %-30s %8.2f ", ratio.name, ratio.over, measured);
      if (ratio.goal > 0) {
        std::printf("%8.2f%s\n", ratio.goal, measured >= ratio.goal ? "" : "  missed");
      } else {
        std::printf("%8s\n", "-");
      }
    }
  }

 private:
  std::map<std::string, double> items_per_second_;
};

}  // namespace
}  // namespace lessor_bench

int main(int argc, char** argv) {
  std::vector<std::string> arguments = {argv[0],
                                        "--benchmark_repetitions=5",
                                        "--benchmark_min_time=0.2",
                                        "--benchmark_enable_random_interleaving=true",
                                        "--benchmark_report_aggregates_only=true",
                                        "--benchmark_counters_tabular=true"};
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const bool json = argument == "--json";
    if ((json || argument == "--filter") && i + 1 < argc) {
      arguments.push_back((json ? "--benchmark_out=" : "--benchmark_filter=") +
                          std::string(argv[++i]));
      if (json) arguments.emplace_back("--benchmark_out_format=json");
    } else {
      arguments.emplace_back(argument);
    }
  }
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  int count = static_cast<int>(pointers.size());
  benchmark::Initialize(&count, pointers.data());
  if (benchmark::ReportUnrecognizedArguments(count, pointers.data())) return 2;
  lessor_bench::Medians reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  reporter.PrintRatios();
  benchmark::Shutdown();
  return 0;
}
