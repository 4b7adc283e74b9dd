#pragma once

#include <nvshmem_host.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A broken expectation ends all PEs with exit status 1. */
#define CHECK(condition)                                                                      \
  do {                                                                                        \
    if (!(condition)) {                                                                       \
      fprintf(stderr, "%s:%d: PE %d: %s\n", __FILE__, __LINE__, nvshmem_my_pe(), #condition); \
      nvshmem_global_exit(1);                                                                 \
    }                                                                                         \
  } while (0)
