// workloads.wasm answers questions about training and serving.

#include "apps/explore/workload.h"
#include "web/core/answer.h"

namespace weft::web {

std::string answer_to(std::string_view question) { return explore::ask_workload(question); }

}  // namespace weft::web
