#ifndef WEFT_SHMEM_SYNC_H
#define WEFT_SHMEM_SYNC_H

/* Waiting for what peers store into this PE's memory. ivars[i] with status[i] != 0 do not count (status may be null).
   Without any that counts: wait_until_all returns at once, any SIZE_MAX, some 0. */

#include "weft/shmem/types.h"

WEFT_SHMEM_BEGIN

#define WEFT_SHMEM_WAITS(T, name, a, b)                                                                             \
  WEFT_SHMEM_FUNCTION(void, name##_wait_until, (T * ivar, int cmp, T cmp_value))                                    \
  WEFT_SHMEM_FUNCTION(void, name##_wait_until_all,                                                                  \
                      (T * ivars, size_t nelems, const int* status, int cmp, T cmp_value))                          \
  WEFT_SHMEM_FUNCTION(size_t, name##_wait_until_any,                                                                \
                      (T * ivars, size_t nelems, const int* status, int cmp, T cmp_value))                          \
  WEFT_SHMEM_FUNCTION(size_t, name##_wait_until_some,                                                               \
                      (T * ivars, size_t nelems, size_t * indices, const int* status, int cmp, T cmp_value))        \
  WEFT_SHMEM_FUNCTION(void, name##_wait_until_all_vector,                                                           \
                      (T * ivars, size_t nelems, const int* status, int cmp, T* cmp_values))                        \
  WEFT_SHMEM_FUNCTION(size_t, name##_wait_until_any_vector,                                                         \
                      (T * ivars, size_t nelems, const int* status, int cmp, T* cmp_values))                        \
  WEFT_SHMEM_FUNCTION(size_t, name##_wait_until_some_vector,                                                        \
                      (T * ivars, size_t nelems, size_t * indices, const int* status, int cmp, T* cmp_values))      \
  WEFT_SHMEM_FUNCTION(int, name##_test, (T * ivar, int cmp, T cmp_value))                                           \
  WEFT_SHMEM_FUNCTION(int, name##_test_all, (T * ivars, size_t nelems, const int* status, int cmp, T cmp_value))    \
  WEFT_SHMEM_FUNCTION(size_t, name##_test_any, (T * ivars, size_t nelems, const int* status, int cmp, T cmp_value)) \
  WEFT_SHMEM_FUNCTION(size_t, name##_test_some,                                                                     \
                      (T * ivars, size_t nelems, size_t * indices, const int* status, int cmp, T cmp_value))        \
  WEFT_SHMEM_FUNCTION(int, name##_test_all_vector,                                                                  \
                      (T * ivars, size_t nelems, const int* status, int cmp, T* cmp_values))                        \
  WEFT_SHMEM_FUNCTION(size_t, name##_test_any_vector,                                                               \
                      (T * ivars, size_t nelems, const int* status, int cmp, T* cmp_values))                        \
  WEFT_SHMEM_FUNCTION(size_t, name##_test_some_vector,                                                              \
                      (T * ivars, size_t nelems, size_t * indices, const int* status, int cmp, T* cmp_values))
WEFT_SHMEM_WAIT_TYPES(WEFT_SHMEM_WAITS, , )
#undef WEFT_SHMEM_WAITS
WEFT_SHMEM_END

#endif
