// Integer matrix multiply-accumulate of a warp: C += A B with A 16 x K signed bytes, B K x 8, C 16 x 8 i32.
//
// Lane l has g = l / 4 and t = l % 4. A: word 0 is row g, bytes 4t to 4t + 3; word 1 row g + 8; for K = 32 words 2
// and 3 are the same rows, 16 bytes on. B: word 0 is column g, bytes 4t to 4t + 3; word 1 is 16 on. C: elements 0
// and 1 are row g, columns 2t and 2t + 1; 2 and 3 are row g + 8. Integers are exact, so the order is free.
#pragma once

#include "common.cuh"

namespace zlrs {

/// K = 16.
__device__ __forceinline__ void mma_16(const uint32_t a[2], uint32_t b, int c[4]) {
#if defined(ZLRS_ON_HOST)
    shim::mma_s8<16>(a, &b, c);
#else
    asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(b));
#endif
}

/// K = 32.
__device__ __forceinline__ void mma_32(const uint32_t a[4], const uint32_t b[2], int c[4]) {
#if defined(ZLRS_ON_HOST)
    shim::mma_s8<32>(a, b, c);
#else
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

}  // namespace zlrs
