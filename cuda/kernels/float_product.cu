// Products of weights stored as F32, F16 or BF16, and rows of them as f32.
//
//   weights  [outputs][width] in the file's form      x  [rows][width] f32
//   out      [rows][outputs] f32                      bias  [outputs] f32 or null
//   grid     (outputs / 16 rounded up, rows / 4 rounded up)     block  128 threads
//
// A sum has 8 virtual lanes: element k goes to lane k mod 8 by fused multiply-adds in ascending order, a row that
// does not fill its last 8 counts as filled up with zeros; lanes fold at distance 4, 2, 1. A quarter of a warp is
// the 8 lanes of an output, so the bits are the CPU's.
#include "common.cuh"

namespace zlrs {

struct F32 {
    using Stored = float;
    static __device__ __forceinline__ float widen(float stored) { return stored; }
};
struct F16 {
    using Stored = uint16_t;
    static __device__ __forceinline__ float widen(uint16_t stored) { return half_to_float(stored); }
};
struct BF16 {
    using Stored = uint16_t;
    static __device__ __forceinline__ float widen(uint16_t stored) {
        return __uint_as_float(static_cast<uint32_t>(stored) << 16);
    }
};

constexpr int FLOAT_LANES = 8;
constexpr int FLOAT_OUTPUTS = 128 / FLOAT_LANES;
constexpr int FLOAT_ROWS = 4;

template <class Type>
__device__ __forceinline__ void float_product(
    const typename Type::Stored* weights, const float* x, const float* bias, float* out, int width, int outputs,
    int rows
) {
    const int lane = static_cast<int>(threadIdx.x) % FLOAT_LANES;
    const int output = static_cast<int>(blockIdx.x) * FLOAT_OUTPUTS + static_cast<int>(threadIdx.x) / FLOAT_LANES;
    const int first = static_cast<int>(blockIdx.y) * FLOAT_ROWS;
    const typename Type::Stored* row = weights + static_cast<size_t>(min(output, outputs - 1)) * width;
    float sums[FLOAT_ROWS] = {};
    for (int start = 0; start < width; start += FLOAT_LANES) {
        const int k = start + lane;
        const float weight = k < width ? Type::widen(row[k]) : 0.0F;
#pragma unroll
        for (int r = 0; r < FLOAT_ROWS; ++r) {
            const size_t at = static_cast<size_t>(min(first + r, rows - 1)) * width + k;
            sums[r] = __fmaf_rn(weight, k < width ? x[at] : 0.0F, sums[r]);
        }
    }
#pragma unroll
    for (int r = 0; r < FLOAT_ROWS; ++r) {
        for (int lanes = FLOAT_LANES / 2; lanes > 0; lanes /= 2) {
            sums[r] = __fadd_rn(sums[r], __shfl_xor_sync(ALL_LANES, sums[r], lanes));
        }
        if (lane == 0 && output < outputs && first + r < rows) {
            const float value = bias == nullptr ? sums[r] : __fadd_rn(sums[r], bias[output]);
            out[static_cast<size_t>(first + r) * outputs + output] = value;
        }
    }
}

}  // namespace zlrs

#define ZLRS_FLOAT(product_name, embed_name, Type)                                                           \
    extern "C" __global__ void __launch_bounds__(128) product_name(                                          \
        const zlrs::Type::Stored* weights, const float* x, const float* bias, float* out, int width,         \
        int outputs, int rows                                                                                \
    ) {                                                                                                      \
        zlrs::float_product<zlrs::Type>(weights, x, bias, out, width, outputs, rows);                        \
    }                                                                                                        \
    ZLRS_KERNEL(product_name)                                                                                \
    /* out[r] = W[ids[r]] * factor; grid (anything, rows), block 256 */                                      \
    extern "C" __global__ void __launch_bounds__(256) embed_name(                                            \
        const zlrs::Type::Stored* weights, const int* ids, float* out, int width, float factor               \
    ) {                                                                                                      \
        const zlrs::Type::Stored* row = weights + static_cast<size_t>(ids[blockIdx.y]) * width;              \
        float* target = out + static_cast<size_t>(blockIdx.y) * width;                                       \
        for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < width;                     \
             i += static_cast<int>(gridDim.x * blockDim.x)) {                                                \
            const float value = zlrs::Type::widen(row[i]);                                                   \
            target[i] = factor == 1.0F ? value : __fmul_rn(value, factor);                                   \
        }                                                                                                    \
    }                                                                                                        \
    ZLRS_KERNEL(embed_name)

ZLRS_FLOAT(product_f32, embed_f32, F32)
ZLRS_FLOAT(product_f16, embed_f16, F16)
ZLRS_FLOAT(product_bf16, embed_bf16, BF16)
