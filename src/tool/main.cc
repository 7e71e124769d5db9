// The command line tool.
#include <cstdio>
#include <span>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "lessor/version.h"
#include "scenario_run.h"

namespace lessor_tool {
namespace {

using Args = std::span<const std::string_view>;

constexpr std::string_view kUsage =
    R"(usage: lessor COMMAND [ARGS]

  scenario [--backend NAME] FILE...   run scenario files against a backend (memory) and say of
                                      each whether it passed: ok, FAIL or skip
  version                             say which version this is
  help                                say this

exit status: 0 all went well, 1 a scenario failed, 2 wrong usage or an unreadable file
)";

int WrongUsage(std::string_view what) {
  fmt::print(stderr, "lessor: {}\n{}", what, kUsage);
  return 2;
}

int HelpCommand(Args args) {
  if (!args.empty()) return WrongUsage("help takes no arguments");
  fmt::print("{}", kUsage);
  return 0;
}

int VersionCommand(Args args) {
  if (!args.empty()) return WrongUsage("version takes no arguments");
  fmt::print("lessor {}.{}.{}\n", LESSOR_VERSION_MAJOR, LESSOR_VERSION_MINOR, LESSOR_VERSION_PATCH);
  return 0;
}

struct Command {
  std::string_view name;
  int (*run)(Args args);
};

constexpr Command kCommands[] = {
    {"scenario", &ScenarioCommand}, {"version", &VersionCommand}, {"--version", &VersionCommand},
    {"help", &HelpCommand},         {"--help", &HelpCommand},     {"-h", &HelpCommand},
};

int Main(Args args) {
  if (args.empty()) return WrongUsage("no command");
  for (const Command& command : kCommands) {
    if (command.name == args[0]) return command.run(args.subspan(1));
  }
  return WrongUsage(fmt::format("unknown command {}", Quoted(args[0])));
}

}  // namespace
}  // namespace lessor_tool

int main(int argc, char** argv) {
  std::vector<std::string_view> args;
  for (int i = 1; i < argc; ++i) args.emplace_back(argv[i]);
  return lessor_tool::Main(args);
}
