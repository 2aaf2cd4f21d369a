// Products of few rows: out[r][o] = sum over blocks of W[o] . x[r], plus bias[o].
//
//   weights      planes (weights.cuh), [outputs][width]
//   quants, scales, sums   what quantise_rows made of x, [rows][width]
//   out          [rows][outputs] f32        bias  [outputs] f32 or null
//   grid         (outputs / OUTPUTS rounded up)     block  128 threads     rows <= ROWS: 1, 2, 4 or 8
//
// A thread takes one unit of OUTPUTS weight rows and all activation rows. The integers of a block are exact, so
// how threads share them is free; the floating-point sum of an output is one chain over its blocks in ascending
// order, acc = fma(dot, d_w * d_x, acc), computed by one lane of the first warp from shared memory while the
// other warps are already at the next stretch. The bits are those of the CPU's products.
#include "weights.cuh"

namespace zlrs {

constexpr int GEMV_WARPS = 4;
constexpr int GEMV_THREADS = GEMV_WARPS * WARP;

/// One block's part of an output's chain.
template <bool MINIMA> struct Term { float dot, factor; };
template <> struct Term<true> { float dot, factor, minimum, minimum_factor; };

/// Weight rows of a thread block: as many as shared memory has room for.
template <class Type, int ROWS>
__device__ constexpr int gemv_outputs() {
    const int chains = Type::MINIMA && Type::BLOCK_UNITS == 1 ? 8 : 16;
    return chains / ROWS < 4 ? chains / ROWS : 4;
}

template <class Type, int ROWS>
__device__ __forceinline__ void gemv(
    const Planes& weights, const int8_t* quants, const float* scales, const int* sums, const float* bias,
    float* out, int width, int outputs, int rows
) {
    constexpr int OUTPUTS = gemv_outputs<Type, ROWS>();
    constexpr int CHAINS = OUTPUTS * ROWS;
    constexpr int STRETCH = GEMV_THREADS / Type::BLOCK_UNITS;  // blocks a pass
    __shared__ Term<Type::MINIMA> terms[2][STRETCH][CHAINS];

    const int thread = static_cast<int>(threadIdx.x);
    const int units = width / UNIT;
    const int blocks = units / Type::BLOCK_UNITS;
    const int first_output = static_cast<int>(blockIdx.x) * OUTPUTS;
    const int chain_output = first_output + thread / ROWS;
    const int chain_row = thread % ROWS;
    float total = 0.0F;

    const int passes = (units + GEMV_THREADS - 1) / GEMV_THREADS;
    for (int pass = 0; pass < passes; ++pass) {
        const int unit = pass * GEMV_THREADS + thread;
        const bool inside = unit < units;
#pragma unroll
        for (int o = 0; o < OUTPUTS; ++o) {
            const int output = min(first_output + o, outputs - 1);
            const size_t at = static_cast<size_t>(output) * units + (inside ? unit : 0);
            uint32_t words[8];
            expand<Type>(weights, at, words);
            const uint8_t* subs = Type::BLOCK_UNITS == 1 ? nullptr : weights.subs + 2 * at;
            const size_t block_at = at / Type::BLOCK_UNITS;
            const float scale = half_to_float(weights.scale[block_at]);
            float minimum = 0.0F;
            if constexpr (Type::MINIMA) {
                minimum = half_to_float(weights.minimum[block_at]);
            }
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                const size_t row_unit = static_cast<size_t>(min(r, rows - 1)) * units + (inside ? unit : 0);
                const uint4* row_words = reinterpret_cast<const uint4*>(quants) + 2 * row_unit;
                const uint4 a = row_words[0];
                const uint4 b = row_words[1];
                const uint32_t activations[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
                const int2 halves = reinterpret_cast<const int2*>(sums)[row_unit];
                UnitSums unit_total = unit_sums<Type>(words, subs, activations, halves);
                if (!inside) {
                    unit_total = {0, 0};
                }
#pragma unroll
                for (int lanes = 1; lanes < Type::BLOCK_UNITS; lanes *= 2) {
                    unit_total.dot += __shfl_xor_sync(ALL_LANES, unit_total.dot, lanes);
                    if constexpr (Type::MINIMA) {
                        unit_total.minimum += __shfl_xor_sync(ALL_LANES, unit_total.minimum, lanes);
                    }
                }
                if (thread % Type::BLOCK_UNITS == 0) {
                    Term<Type::MINIMA>& term = terms[pass % 2][thread / Type::BLOCK_UNITS][o * ROWS + r];
                    const float d = scales[row_unit / Type::BLOCK_UNITS];
                    term.dot = static_cast<float>(unit_total.dot);
                    term.factor = __fmul_rn(scale, d);
                    if constexpr (Type::MINIMA) {
                        term.minimum = static_cast<float>(unit_total.minimum);
                        term.minimum_factor = __fmul_rn(minimum, d);
                    }
                }
            }
        }
        // Two buffers, so one barrier a pass: the first warp reads this one while the others fill the next.
        __syncthreads();
        if (thread < CHAINS) {
            const int stretch = min(STRETCH, blocks - pass * STRETCH);
            for (int b = 0; b < stretch; ++b) {
                const Term<Type::MINIMA> term = terms[pass % 2][b][thread];
                total = __fmaf_rn(term.dot, term.factor, total);
                if constexpr (Type::MINIMA) {
                    total = __fmaf_rn(term.minimum, term.minimum_factor, total);
                }
            }
        }
    }
    if (thread < CHAINS && chain_output < outputs && chain_row < rows) {
        const float value = bias == nullptr ? total : __fadd_rn(total, bias[chain_output]);
        out[static_cast<size_t>(chain_row) * outputs + chain_output] = value;
    }
}

}  // namespace zlrs

#define ZLRS_GEMV(name, Type, ROWS)                                                                          \
    extern "C" __global__ void __launch_bounds__(zlrs::GEMV_THREADS) name(                                   \
        const uint4* quants, const uint32_t* high, const uint8_t* subs, const uint16_t* scale,               \
        const uint16_t* minimum, const int8_t* x, const float* x_scales, const int* x_sums,                  \
        const float* bias, float* out, int width, int outputs, int rows                                      \
    ) {                                                                                                      \
        zlrs::gemv<zlrs::Type, ROWS>(                                                                        \
            {quants, high, subs, scale, minimum}, x, x_scales, x_sums, bias, out, width, outputs, rows       \
        );                                                                                                   \
    }                                                                                                        \
    ZLRS_KERNEL(name)

#define ZLRS_GEMV_ROWS(name, Type)                                                                           \
    ZLRS_GEMV(name##_1, Type, 1)                                                                             \
    ZLRS_GEMV(name##_2, Type, 2)                                                                             \
    ZLRS_GEMV(name##_4, Type, 4)                                                                             \
    ZLRS_GEMV(name##_8, Type, 8)

ZLRS_GEMV_ROWS(gemv_q4_0, Q4_0)
ZLRS_GEMV_ROWS(gemv_q4_1, Q4_1)
ZLRS_GEMV_ROWS(gemv_q5_0, Q5_0)
ZLRS_GEMV_ROWS(gemv_q8_0, Q8_0)
ZLRS_GEMV_ROWS(gemv_q4_k, Q4_K)
ZLRS_GEMV_ROWS(gemv_q5_k, Q5_K)
ZLRS_GEMV_ROWS(gemv_q6_k, Q6_K)
