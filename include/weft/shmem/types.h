#ifndef WEFT_SHMEM_TYPES_H
#define WEFT_SHMEM_TYPES_H

/* Types and constants of OpenSHMEM 1.5, and the lists of element types from which all typed functions are made.
   A list calls X(type, name, a, b) for each of its types; a and b are handed through. */

#include <stddef.h>
#include <stdint.h>

/* In C++ an extension of the compilers; std::complex has the same layout. */
__extension__ typedef float _Complex weft_shmem_complexf;
__extension__ typedef double _Complex weft_shmem_complexd;

#ifdef __cplusplus
#define WEFT_SHMEM_BEGIN extern "C" {
#define WEFT_SHMEM_END }
#else
#define WEFT_SHMEM_BEGIN
#define WEFT_SHMEM_END
#endif

/* Every function also exists as pshmem_…, under which a tool that replaces shmem_… reaches it. */
#define WEFT_SHMEM_FUNCTION(result, name, parameters) \
  result shmem_##name parameters;                     \
  result pshmem_##name parameters;

#define SHMEM_MAJOR_VERSION 1
#define SHMEM_MINOR_VERSION 5
#define SHMEM_MAX_NAME_LEN 256
#define SHMEM_VENDOR_STRING "weft"

enum { SHMEM_THREAD_SINGLE, SHMEM_THREAD_FUNNELED, SHMEM_THREAD_SERIALIZED, SHMEM_THREAD_MULTIPLE };

enum { SHMEM_CMP_EQ, SHMEM_CMP_NE, SHMEM_CMP_GT, SHMEM_CMP_GE, SHMEM_CMP_LT, SHMEM_CMP_LE };

enum { SHMEM_SIGNAL_SET, SHMEM_SIGNAL_ADD };

#define SHMEM_MALLOC_ATOMICS_REMOTE (1l << 0)
#define SHMEM_MALLOC_SIGNAL_REMOTE (1l << 1)

/* A context: puts and gets whose order is apart from others'. */
typedef struct weft_shmem_context* shmem_ctx_t;
#define SHMEM_CTX_INVALID ((shmem_ctx_t)0)
#define SHMEM_CTX_DEFAULT ((shmem_ctx_t)1)
#define SHMEM_CTX_SERIALIZED (1l << 0)
#define SHMEM_CTX_PRIVATE (1l << 1)
#define SHMEM_CTX_NOSTORE (1l << 2)

/* A team: some PEs, numbered anew. */
typedef struct weft_shmem_team* shmem_team_t;
#define SHMEM_TEAM_INVALID ((shmem_team_t)0)
#define SHMEM_TEAM_WORLD ((shmem_team_t)1)
#define SHMEM_TEAM_SHARED ((shmem_team_t)2)
#define SHMEM_TEAM_NUM_CONTEXTS (1l << 0)
typedef struct {
  int num_contexts;
} shmem_team_config_t;

/* Work arrays of the deprecated collectives. weft does not use them, whatever their size. */
#define SHMEM_SYNC_VALUE 0l
#define SHMEM_SYNC_SIZE 1
#define SHMEM_BARRIER_SYNC_SIZE 1
#define SHMEM_BCAST_SYNC_SIZE 1
#define SHMEM_COLLECT_SYNC_SIZE 1
#define SHMEM_REDUCE_SYNC_SIZE 1
#define SHMEM_ALLTOALL_SYNC_SIZE 1
#define SHMEM_ALLTOALLS_SYNC_SIZE 1
#define SHMEM_REDUCE_MIN_WRKDATA_SIZE 1

/* Each C type once. */
#define WEFT_SHMEM_INTEGERS(X, a, b) \
  X(short, short, a, b)              \
  X(int, int, a, b)                  \
  X(long, long, a, b)                \
  X(long long, longlong, a, b)       \
  X(unsigned short, ushort, a, b)    \
  X(unsigned int, uint, a, b) X(unsigned long, ulong, a, b) X(unsigned long long, ulonglong, a, b)
#define WEFT_SHMEM_NARROW(X, a, b) \
  WEFT_SHMEM_INTEGERS(X, a, b)     \
  X(float, float, a, b)            \
  X(double, double, a, b)          \
  X(char, char, a, b) X(signed char, schar, a, b) X(unsigned char, uchar, a, b)
#define WEFT_SHMEM_DISTINCT(X, a, b) WEFT_SHMEM_NARROW(X, a, b) X(long double, longdouble, a, b)
/* Second names of them. */
#define WEFT_SHMEM_SMALL_FIXED(X, a, b) \
  X(int8_t, int8, a, b) X(int16_t, int16, a, b) X(uint8_t, uint8, a, b) X(uint16_t, uint16, a, b)
#define WEFT_SHMEM_FIXED(X, a, b) \
  X(int32_t, int32, a, b) X(int64_t, int64, a, b) X(uint32_t, uint32, a, b) X(uint64_t, uint64, a, b)
#define WEFT_SHMEM_SIZES(X, a, b) X(size_t, size, a, b) X(ptrdiff_t, ptrdiff, a, b)

/* OpenSHMEM 1.5, tables 3 (RMA), 4 (atomics), 5 (extended), 6 (bitwise), 7 (waiting), 10 (reductions). */
#define WEFT_SHMEM_RMA_TYPES(X, a, b) \
  WEFT_SHMEM_DISTINCT(X, a, b) WEFT_SHMEM_SMALL_FIXED(X, a, b) WEFT_SHMEM_FIXED(X, a, b) WEFT_SHMEM_SIZES(X, a, b)
#define WEFT_SHMEM_AMO_DISTINCT(X, a, b) \
  X(int, int, a, b)                      \
  X(long, long, a, b)                    \
  X(long long, longlong, a, b)           \
  X(unsigned int, uint, a, b) X(unsigned long, ulong, a, b) X(unsigned long long, ulonglong, a, b)
#define WEFT_SHMEM_AMO_TYPES(X, a, b) \
  WEFT_SHMEM_AMO_DISTINCT(X, a, b) WEFT_SHMEM_FIXED(X, a, b) WEFT_SHMEM_SIZES(X, a, b)
#define WEFT_SHMEM_AMO_FLOATS(X, a, b) X(float, float, a, b) X(double, double, a, b)
#define WEFT_SHMEM_AMO_EXTENDED(X, a, b) WEFT_SHMEM_AMO_TYPES(X, a, b) WEFT_SHMEM_AMO_FLOATS(X, a, b)
#define WEFT_SHMEM_BITWISE_TYPES(X, a, b) \
  X(unsigned int, uint, a, b)             \
  X(unsigned long, ulong, a, b) X(unsigned long long, ulonglong, a, b) WEFT_SHMEM_FIXED(X, a, b)
#define WEFT_SHMEM_WAIT_TYPES(X, a, b) WEFT_SHMEM_INTEGERS(X, a, b) WEFT_SHMEM_FIXED(X, a, b) WEFT_SHMEM_SIZES(X, a, b)
#define WEFT_SHMEM_LOGIC_TYPES(X, a, b) \
  X(unsigned char, uchar, a, b)         \
  X(unsigned short, ushort, a, b)       \
  X(unsigned int, uint, a, b)           \
  X(unsigned long, ulong, a, b)         \
  X(unsigned long long, ulonglong, a, b) WEFT_SHMEM_SMALL_FIXED(X, a, b) WEFT_SHMEM_FIXED(X, a, b) X(size_t, size, a, b)
#define WEFT_SHMEM_ORDERED_TYPES(X, a, b) WEFT_SHMEM_RMA_TYPES(X, a, b)
#define WEFT_SHMEM_COMPLEX_TYPES(X, a, b) X(weft_shmem_complexf, complexf, a, b) X(weft_shmem_complexd, complexd, a, b)
#define WEFT_SHMEM_ARITHMETIC_TYPES(X, a, b) WEFT_SHMEM_RMA_TYPES(X, a, b) WEFT_SHMEM_COMPLEX_TYPES(X, a, b)

/* X(bits, a, b) */
#define WEFT_SHMEM_BIT_SIZES(X, a, b) X(8, a, b) X(16, a, b) X(32, a, b) X(64, a, b) X(128, a, b)

#endif
