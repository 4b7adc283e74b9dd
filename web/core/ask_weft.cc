// weft.wasm answers questions about collectives.

#include "apps/explore/ask.h"
#include "web/core/answer.h"

namespace weft::web {

std::string answer_to(std::string_view question) { return explore::ask(question); }

}  // namespace weft::web
