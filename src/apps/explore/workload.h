#pragma once

#include <string>
#include <string_view>

namespace weft::explore {

// Questions about training and serving from JSON to JSON, as ask() answers those about collectives: the interface of
// the second module of the page (web/core). {"ask": "train", "model": …, "on": …, "tp": …, "faults": …, …}, {"ask":
// "plans", …} with the same words, {"ask": "serve", "model": …, "on": …, "rate": …, …} and {"ask": "frontier", …} are
// answered by apps/explore/train.h and serve.h; {"ask": "words"} gives weft.explorer.workloads/1, the models, engines
// and types that there are. What fails gives {"schema": "weft.error/1", "message": …}.
std::string ask_workload(std::string_view question);

}  // namespace weft::explore
