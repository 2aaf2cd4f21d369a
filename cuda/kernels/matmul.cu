// Products of many rows: out[r][o] = sum over blocks of W[o] . x[r], plus bias[o], through the integer MMA.
//
//   weights      planes (weights.cuh), [outputs][width]
//   quants, scales, sums   what quantise_rows made of x, [rows][width]
//   out          [rows][outputs] f32        bias  [outputs] f32 or null
//   grid         (outputs / 64 rounded up, rows / 32 rounded up)     block  128 threads
//
// A warp computes 16 outputs x 32 rows. A unit of 32 weights is one step of the MMA (two of 16 for Q6_K, whose
// factors change every 16), its sums are exact integers; an output's floating-point sum is one chain over blocks
// in ascending order in a register. So the bits are those of gemv.cu and of the CPU.
#include "mma.cuh"
#include "weights.cuh"

namespace zlrs {

constexpr int MATMUL_WARPS = 4;
constexpr int MATMUL_TILES = 4;             // of 8 rows
constexpr int MATMUL_ROWS = 8 * MATMUL_TILES;
constexpr int MATMUL_OUTPUTS = 16;          // of a warp

/// Words t and t + 4 of a unit: bytes 4t to 4t + 3 and those 16 on, `OFFSET` above the weights.
template <class Type>
__device__ __forceinline__ uint2 unit_words(const Planes& planes, size_t unit, int t) {
    const uint32_t* quants = reinterpret_cast<const uint32_t*>(planes.quants);
    if constexpr (Type::BITS == 8) {
        return {quants[8 * unit + t], quants[8 * unit + 4 + t]};
    } else {
        const uint32_t packed = quants[4 * unit + t];
        uint2 words = {packed & 0x0f0f0f0fU, packed >> 4 & 0x0f0f0f0fU};
        if constexpr (Type::BITS == 5) {
            const uint32_t high = planes.high[unit];
            words.x |= (high >> t & 0x01010101U) << 4;
            words.y |= (high >> (t + 4) & 0x01010101U) << 4;
        }
        if constexpr (Type::BITS == 6) {
            const uint32_t high = planes.high[2 * unit + t % 2];
            words.x |= (high >> (t / 2 * 2) & 0x03030303U) << 4;
            words.y |= (high >> (t / 2 * 2 + 4) & 0x03030303U) << 4;
        }
        return words;
    }
}

/// One element's part of a block.
template <class Type>
__device__ __forceinline__ float
    add_block(float total, int dot, int minima, float scale, float minimum, float d) {
    total = __fmaf_rn(static_cast<float>(dot), __fmul_rn(scale, d), total);
    if constexpr (Type::MINIMA) {
        total = __fmaf_rn(static_cast<float>(minima), __fmul_rn(minimum, d), total);
    }
    return total;
}

template <class Type>
__device__ __forceinline__ void matmul(
    const Planes& weights, const int8_t* quants, const float* scales, const int* sums, const float* bias,
    float* out, int width, int outputs, int rows
) {
    const int warp = static_cast<int>(threadIdx.x) / WARP;
    const int g = static_cast<int>(threadIdx.x) % WARP / 4;
    const int t = static_cast<int>(threadIdx.x) % 4;
    const int units = width / UNIT;
    const int blocks = units / Type::BLOCK_UNITS;
    const int first_output = (static_cast<int>(blockIdx.x) * MATMUL_WARPS + warp) * MATMUL_OUTPUTS;
    const int first_row = static_cast<int>(blockIdx.y) * MATMUL_ROWS;
    const uint32_t* words = reinterpret_cast<const uint32_t*>(quants);
    const int2* halves = reinterpret_cast<const int2*>(sums);

    // Outputs and rows past the end repeat the last one and are not written.
    const size_t weight_units[2] = {
        static_cast<size_t>(min(first_output + g, outputs - 1)) * units,
        static_cast<size_t>(min(first_output + g + 8, outputs - 1)) * units,
    };
    float totals[MATMUL_TILES][4] = {};
    for (int block = 0; block < blocks; ++block) {
        int dots[MATMUL_TILES][4] = {};
        int minima[MATMUL_TILES][4] = {};
        for (int u = 0; u < Type::BLOCK_UNITS; ++u) {
            const int unit = block * Type::BLOCK_UNITS + u;
            const uint2 low = unit_words<Type>(weights, weight_units[0] + unit, t);
            const uint2 high = unit_words<Type>(weights, weight_units[1] + unit, t);
            const uint32_t a[4] = {low.x, high.x, low.y, high.y};
            int factors[2][2] = {{1, 1}, {1, 1}};
            if constexpr (Type::BLOCK_UNITS > 1) {
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const uint8_t* subs = weights.subs + 2 * (weight_units[half] + unit);
                    factors[half][0] = Type::MINIMA ? subs[0] : static_cast<int8_t>(subs[0]);
                    factors[half][1] = Type::MINIMA ? subs[1] : static_cast<int8_t>(subs[1]);
                }
            }
#pragma unroll
            for (int tile = 0; tile < MATMUL_TILES; ++tile) {
                const int row = min(first_row + tile * 8 + g, rows - 1);
                const uint32_t* x = words + (static_cast<size_t>(row) * units + unit) * 8;
                const uint32_t b[2] = {x[t], x[4 + t]};
                int first[4] = {};
                int second[4] = {};
                if constexpr (Type::BITS == 6) {
                    mma_16(a, b[0], first);
                    mma_16(a + 2, b[1], second);
                } else {
                    mma_32(a, b, first);
                }
#pragma unroll
                for (int element = 0; element < 4; ++element) {
                    const int half = element / 2;
                    const int column = min(first_row + tile * 8 + 2 * t + element % 2, rows - 1);
                    const int2 sum = Type::OFFSET != 0 || Type::MINIMA
                        ? halves[static_cast<size_t>(column) * units + unit]
                        : int2{0, 0};
                    if constexpr (Type::BITS == 6) {
                        dots[tile][element] += factors[half][0] * (first[element] - Type::OFFSET * sum.x) +
                                               factors[half][1] * (second[element] - Type::OFFSET * sum.y);
                    } else {
                        dots[tile][element] +=
                            factors[half][0] * (first[element] - Type::OFFSET * (sum.x + sum.y));
                    }
                    if constexpr (Type::MINIMA) {
                        minima[tile][element] += factors[half][1] * (sum.x + sum.y);
                    }
                }
            }
        }
        float scale[2];
        float minimum[2] = {};
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const size_t at = weight_units[half] / Type::BLOCK_UNITS + block;
            scale[half] = half_to_float(weights.scale[at]);
            if constexpr (Type::MINIMA) {
                minimum[half] = half_to_float(weights.minimum[at]);
            }
        }
#pragma unroll
        for (int tile = 0; tile < MATMUL_TILES; ++tile) {
#pragma unroll
            for (int element = 0; element < 4; ++element) {
                const int column = min(first_row + tile * 8 + 2 * t + element % 2, rows - 1);
                const float d = scales[static_cast<size_t>(column) * blocks + block];
                totals[tile][element] = add_block<Type>(
                    totals[tile][element], dots[tile][element], minima[tile][element], scale[element / 2],
                    minimum[element / 2], d
                );
            }
        }
    }
#pragma unroll
    for (int tile = 0; tile < MATMUL_TILES; ++tile) {
#pragma unroll
        for (int element = 0; element < 4; ++element) {
            const int row = first_row + tile * 8 + 2 * t + element % 2;
            const int output = first_output + g + element / 2 * 8;
            if (row < rows && output < outputs) {
                const float total = totals[tile][element];
                out[static_cast<size_t>(row) * outputs + output] =
                    bias == nullptr ? total : __fadd_rn(total, bias[output]);
            }
        }
    }
}

}  // namespace zlrs

#define ZLRS_MATMUL(name, Type)                                                                              \
    extern "C" __global__ void __launch_bounds__(128) name(                                                  \
        const uint4* quants, const uint32_t* high, const uint8_t* subs, const uint16_t* scale,               \
        const uint16_t* minimum, const int8_t* x, const float* x_scales, const int* x_sums,                  \
        const float* bias, float* out, int width, int outputs, int rows                                      \
    ) {                                                                                                      \
        zlrs::matmul<zlrs::Type>(                                                                            \
            {quants, high, subs, scale, minimum}, x, x_scales, x_sums, bias, out, width, outputs, rows       \
        );                                                                                                   \
    }                                                                                                        \
    ZLRS_KERNEL(name)

ZLRS_MATMUL(matmul_q4_0, Q4_0)
ZLRS_MATMUL(matmul_q4_1, Q4_1)
ZLRS_MATMUL(matmul_q5_0, Q5_0)
ZLRS_MATMUL(matmul_q8_0, Q8_0)
ZLRS_MATMUL(matmul_q4_k, Q4_K)
ZLRS_MATMUL(matmul_q5_k, Q5_K)
ZLRS_MATMUL(matmul_q6_k, Q6_K)
