// The module's interface: text in, text out. JavaScript writes UTF-8 into weft_buffer(size), calls weft_ask(size), and
// reads weft_answer_size() bytes at weft_answer(). Text stays valid until the next call. One call at a time: the page
// gives the module a worker of its own.

#include <cstddef>
#include <cstdlib>
#include <string>
#include <typeinfo>

#include "web/core/answer.h"
#include "web/core/files.h"

#define WEFT_EXPORT(name) extern "C" __attribute__((export_name(#name)))

namespace {
std::string question, answer;
}

WEFT_EXPORT(weft_buffer) char* weft_buffer(std::size_t size);
WEFT_EXPORT(weft_ask) void weft_ask();
WEFT_EXPORT(weft_drop_file) void weft_drop_file(std::size_t name_size);
WEFT_EXPORT(weft_answer) const char* weft_answer();
WEFT_EXPORT(weft_answer_size) std::size_t weft_answer_size();

char* weft_buffer(std::size_t size) {
  question.assign(size, '\0');
  return question.data();
}

// Answers what stands in the buffer.
void weft_ask() { answer = weft::web::answer_to(question); }

// The buffer's first `name_size` bytes are a file's name, the rest its text.
void weft_drop_file(std::size_t name_size) {
  weft::web::drop_file(question.substr(0, name_size), question.substr(name_size));
}

const char* weft_answer() { return answer.data(); }
std::size_t weft_answer_size() { return answer.size(); }

// What throws ends the module: Debian's libc++abi for wasm32 cannot unwind. The page's worker starts another.
extern "C" void* __cxa_allocate_exception(std::size_t size) { return std::malloc(size); }
extern "C" [[noreturn]] void __cxa_throw(void*, std::type_info*, void (*)(void*)) { __builtin_trap(); }
