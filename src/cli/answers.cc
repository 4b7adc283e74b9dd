#include "cli/answers.h"

#include "cli/commands.h"

namespace weft::cli {

Result<nlohmann::json> answer(const std::vector<std::string>& arguments) {
  CLI::App app;
  app.require_subcommand(1);
  const Command commands[] = {add_bench(app), add_explain(app), add_verify(app), add_doctor(app)};
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));  // CLI11 takes them from the end
    for (const Command& command : commands)
      if (command.app->parsed()) return command.answer();
  } catch (const CLI::ParseError& problem) {
    return bad_input("{}", problem.what());
  } catch (const std::bad_alloc&) {
    return failure(Code::kNoResources, Blame::kInput, "out of memory");
  } catch (const std::exception& problem) {
    return failure(Code::kInternal, Blame::kInput, "{}", problem.what());
  }
  return bad_input("no command");
}

}  // namespace weft::cli
