#pragma once

#include <sys/types.h>

namespace weft::net::shm {

// Lets other processes of the job end this one at once, whatever it is doing. Uses the last real-time signal, unless
// the program has a handler of its own there.
void accept_end();

// Ends a process that has called accept_end(), with this exit status.
void end_process(pid_t process, int status);

}  // namespace weft::net::shm
