#include "tests/shmem/generic.c"
