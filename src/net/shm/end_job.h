#pragma once

namespace weft::net::shm {

// Lets other processes of the job end this one at once, whatever it is doing. Uses the last real-time signal, unless
// the program has a handler of its own there.
void accept_end();

// Ends a process that has called accept_end(), with this exit status. `process`: from pidfd_open; -1: nothing is done.
void end_process(int process, int status);

}  // namespace weft::net::shm
