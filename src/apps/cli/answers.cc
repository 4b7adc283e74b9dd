#include "apps/cli/answers.h"

#include "apps/cli/commands.h"
#include "apps/cli/fit.h"

namespace weft::cli {
namespace {

// Parses the arguments and lets `call` answer for the command that they name.
template <class Call>
auto asked(const std::vector<std::string>& arguments, Call call) -> decltype(call(std::declval<const Command&>())) {
  CLI::App app;
  app.require_subcommand(1);
  const Command commands[] = {add_bench(app), add_explain(app), add_verify(app), add_schedule(app),
                              add_topo(app),  add_train(app),   add_doctor(app), add_accuracy(app),
                              add_serve(app), add_fit(app),     add_advise(app)};
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));  // CLI11 takes them from the end
    for (const Command& command : commands)
      if (command.app->parsed()) return call(command);
  } catch (const CLI::ParseError& problem) {
    return bad_input("{}", problem.what());
  } catch (const std::bad_alloc&) {
    return failure(Code::kNoResources, Blame::kInput, "out of memory");
  } catch (const std::exception& problem) {
    return failure(Code::kInternal, Blame::kInput, "{}", problem.what());
  }
  return bad_input("no command");
}

}  // namespace

Result<nlohmann::json> answer(const std::vector<std::string>& arguments) {
  return asked(arguments, [](const Command& command) -> Result<nlohmann::json> { return command.answer(); });
}

Result<std::string> picture(const std::vector<std::string>& arguments) {
  return asked(arguments, [](const Command& command) -> Result<std::string> {
    if (!command.picture) return bad_input("{} draws nothing", command.app->get_name());
    return command.picture();
  });
}

}  // namespace weft::cli
