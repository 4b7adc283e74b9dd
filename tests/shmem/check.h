#pragma once

#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A broken expectation ends all PEs with exit status 1. */
#define CHECK(condition)                                                                    \
  do {                                                                                      \
    if (!(condition)) {                                                                     \
      fprintf(stderr, "%s:%d: PE %d: %s\n", __FILE__, __LINE__, shmem_my_pe(), #condition); \
      shmem_global_exit(1);                                                                 \
    }                                                                                       \
  } while (0)

/* Started so that some PEs do not map each other's memory? */
static inline int over_tcp(void) { return getenv("WEFT_JOIN") != NULL; }
