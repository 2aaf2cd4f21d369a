// Quantised weights as the kernels read them: planes instead of the file's blocks, so that the threads of a
// warp read neighbouring words. A unit is 32 weights of one row; index = row * units_per_row + unit.
//
//   nibbles  16 bytes a unit   byte j: low half weight j, high half weight j + 16      (all but Q8_0)
//   bytes    32 bytes a unit   signed weights                                           (Q8_0)
//   high     4 bytes a unit    byte b, bit w: fifth bit of weight 4w + b                 (Q5_0, Q5_K)
//            8 bytes a unit    byte j, bits 2i, 2i+1: upper bits of weight j + 8i        (Q6_K)
//   subs     2 bytes a unit    factor and minimum factor (Q4_K, Q5_K); two signed factors of 16 weights (Q6_K)
//   scale    f16 a block       a block is a unit, or 8 units for the K types
//   minimum  f16 a block       what each unit of a minimum factor adds (negated dmin)    (Q4_1, Q4_K, Q5_K)
//
// Bytes grow by 2.8 % for Q4_K, 2.3 % for Q5_K and not at all for the others.
#pragma once

#include "common.cuh"

namespace zlrs {

struct Planes {
    const uint4* quants;      // nibbles, or bytes as two words a unit
    const uint32_t* high;
    const uint8_t* subs;
    const uint16_t* scale;
    const uint16_t* minimum;
};

constexpr int UNIT = 32;

struct Q4_0 { static constexpr int BLOCK_UNITS = 1, BITS = 4, OFFSET = 8;  static constexpr bool MINIMA = false; };
struct Q4_1 { static constexpr int BLOCK_UNITS = 1, BITS = 4, OFFSET = 0;  static constexpr bool MINIMA = true; };
struct Q5_0 { static constexpr int BLOCK_UNITS = 1, BITS = 5, OFFSET = 16; static constexpr bool MINIMA = false; };
struct Q8_0 { static constexpr int BLOCK_UNITS = 1, BITS = 8, OFFSET = 0;  static constexpr bool MINIMA = false; };
struct Q4_K { static constexpr int BLOCK_UNITS = 8, BITS = 4, OFFSET = 0;  static constexpr bool MINIMA = true; };
struct Q5_K { static constexpr int BLOCK_UNITS = 8, BITS = 5, OFFSET = 0;  static constexpr bool MINIMA = true; };
struct Q6_K { static constexpr int BLOCK_UNITS = 8, BITS = 6, OFFSET = 32; static constexpr bool MINIMA = false; };

/// The weights of a unit as 8 words of 4 bytes: word w holds weights 4w to 4w + 3, `OFFSET` above their value.
template <class Type>
__device__ __forceinline__ void expand(const Planes& planes, size_t unit, uint32_t words[8]) {
    if constexpr (Type::BITS == 8) {
        const uint4 low = planes.quants[2 * unit];
        const uint4 high = planes.quants[2 * unit + 1];
        words[0] = low.x, words[1] = low.y, words[2] = low.z, words[3] = low.w;
        words[4] = high.x, words[5] = high.y, words[6] = high.z, words[7] = high.w;
    } else {
        const uint4 both = planes.quants[unit];
        const uint32_t packed[4] = {both.x, both.y, both.z, both.w};
        for (int w = 0; w < 4; ++w) {
            words[w] = packed[w] & 0x0f0f0f0fU;
            words[w + 4] = packed[w] >> 4 & 0x0f0f0f0fU;
        }
        if constexpr (Type::BITS == 5) {
            const uint32_t high = planes.high[unit];
            for (int w = 0; w < 8; ++w) {
                words[w] |= (high >> w & 0x01010101U) << 4;
            }
        }
        if constexpr (Type::BITS == 6) {
            const uint32_t high[2] = {planes.high[2 * unit], planes.high[2 * unit + 1]};
            for (int w = 0; w < 8; ++w) {
                words[w] |= (high[w % 2] >> (w / 2 * 2) & 0x03030303U) << 4;
            }
        }
    }
}

/// The exact integers of a unit and 32 activations: the dot with sub-block factors, and what the minimum takes.
struct UnitSums {
    int dot;
    int minimum;
};

/// `activations`: 8 words of 4 signed bytes; `halves`: the sums of the first and the last 16 of them.
template <class Type>
__device__ __forceinline__ UnitSums
    unit_sums(const uint32_t words[8], const uint8_t* subs, const uint32_t activations[8], int2 halves) {
    int first = 0;
    int last = 0;
    for (int w = 0; w < 4; ++w) {
        first = __dp4a(static_cast<int>(words[w]), static_cast<int>(activations[w]), first);
        last = __dp4a(static_cast<int>(words[w + 4]), static_cast<int>(activations[w + 4]), last);
    }
    first -= Type::OFFSET * halves.x;
    last -= Type::OFFSET * halves.y;
    const int sum = halves.x + halves.y;
    if constexpr (Type::BLOCK_UNITS == 1) {
        return {first + last, sum};
    } else if constexpr (Type::MINIMA) {
        return {subs[0] * (first + last), subs[1] * sum};
    } else {
        return {static_cast<int8_t>(subs[0]) * first + static_cast<int8_t>(subs[1]) * last, 0};
    }
}

}  // namespace zlrs
