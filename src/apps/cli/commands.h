#pragma once

#include "apps/cli/common.h"

// One function per command of the command line: declares its options under `app`.
namespace weft::cli {

Command add_bench(CLI::App& app);
Command add_explain(CLI::App& app);
Command add_verify(CLI::App& app);
Command add_schedule(CLI::App& app);
Command add_topo(CLI::App& app);
Command add_catalog(CLI::App& app);
Command add_place(CLI::App& app);
Command add_run(CLI::App& app);
Command add_run_agent(CLI::App& app);  // see apps/launch/agent.h
Command add_replay(CLI::App& app);
Command add_reshard(CLI::App& app);
Command add_kv(CLI::App& app);
Command add_ps(CLI::App& app);
Command add_trace(CLI::App& app);
Command add_calibrate(CLI::App& app);
Command add_accuracy(CLI::App& app);
Command add_train(CLI::App& app);
Command add_serve(CLI::App& app);
Command add_advise(CLI::App& app);
Command add_doctor(CLI::App& app);
Command add_check(CLI::App& app);
Command add_completion(CLI::App& app);
Command add_explore(CLI::App& app);
Command add_algorithms(CLI::App& app);

}  // namespace weft::cli
