// Rows picked by index, and the largest value of rows.
#include "weights.cuh"

/// out[i] = x[index[i]]: x [any][width] f32, out [gridDim.y][width]. grid (anything, rows), block 256.
extern "C" __global__ void __launch_bounds__(256) gather_rows(const float* x, const int* index, float* out, int width) {
    const float* source = x + static_cast<size_t>(index[blockIdx.y]) * width;
    float* target = out + static_cast<size_t>(blockIdx.y) * width;
    for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < width;
         i += static_cast<int>(gridDim.x * blockDim.x)) {
        target[i] = source[i];
    }
}
ZLRS_KERNEL(gather_rows)

namespace zlrs {

/// A number whose order as an integer is the order of the floats; -0 equals 0, NaN is the least.
__device__ __forceinline__ uint32_t ordered(float value) {
    if (value != value) {
        return 0;
    }
    const uint32_t bits = __float_as_uint(__fadd_rn(value, 0.0F));
    return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

}  // namespace zlrs

/// ids[r] = the index of the largest of x[r], the lowest where several are; 0 where all are NaN.
/// x [rows][width] f32, ids [rows] i32. grid rows, block 256.
extern "C" __global__ void __launch_bounds__(256) argmax_rows(const float* x, int* ids, int width) {
    __shared__ uint64_t best[256 / zlrs::WARP];
    const float* row = x + static_cast<size_t>(blockIdx.x) * width;
    const int thread = static_cast<int>(threadIdx.x);
    // The value above, the complement of the index below: the largest key is the answer.
    uint64_t largest = 0;
    for (int i = thread; i < width; i += 256) {
        const uint64_t key = static_cast<uint64_t>(zlrs::ordered(row[i])) << 32 | (0xffffffffU - static_cast<uint32_t>(i));
        largest = key > largest ? key : largest;
    }
    for (int lanes = zlrs::WARP / 2; lanes > 0; lanes /= 2) {
        const uint64_t other = __shfl_xor_sync(zlrs::ALL_LANES, static_cast<unsigned long long>(largest), lanes);
        largest = other > largest ? other : largest;
    }
    if (thread % zlrs::WARP == 0) {
        best[thread / zlrs::WARP] = largest;
    }
    __syncthreads();
    if (thread == 0) {
        for (int warp = 1; warp < 256 / zlrs::WARP; ++warp) {
            largest = best[warp] > largest ? best[warp] : largest;
        }
        ids[blockIdx.x] = static_cast<int>(0xffffffffU - static_cast<uint32_t>(largest));
    }
}
ZLRS_KERNEL(argmax_rows)

namespace zlrs {

/// The f32 nearest to weight `k` of a unit: factors and integers multiply exactly, the minimum rounds once.
template <class Type>
__device__ __forceinline__ float weight_at(const Planes& weights, size_t unit, int k) {
    uint32_t words[8];
    expand<Type>(weights, unit, words);
    const int byte = static_cast<int>(words[k / 4] >> (8 * (k % 4)) & 255U);
    const int quant = Type::BITS == 8 ? static_cast<int>(static_cast<int8_t>(byte)) : byte - Type::OFFSET;
    const size_t block = unit / Type::BLOCK_UNITS;
    float factor = 1.0F;
    float minimum_factor = Type::MINIMA ? 1.0F : 0.0F;
    if constexpr (Type::BLOCK_UNITS > 1 && Type::MINIMA) {
        factor = static_cast<float>(weights.subs[2 * unit]);
        minimum_factor = static_cast<float>(weights.subs[2 * unit + 1]);
    } else if constexpr (Type::BLOCK_UNITS > 1) {
        factor = static_cast<float>(static_cast<int8_t>(weights.subs[2 * unit + k / 16]));
    }
    const float scale = half_to_float(weights.scale[block]);
    const float minimum = Type::MINIMA ? half_to_float(weights.minimum[block]) : 0.0F;
    const float product = __fmul_rn(__fmul_rn(scale, factor), static_cast<float>(quant));
    return __fadd_rn(product, __fmul_rn(minimum, minimum_factor));
}

}  // namespace zlrs

/// out[r] = W[ids[r]] * factor, rows of weights as f32: the embedding. out [rows][width].
/// grid (anything, rows), block 32: a warp takes a unit at a time.
#define ZLRS_EMBED(name, Type)                                                                               \
    extern "C" __global__ void __launch_bounds__(32) name(                                                   \
        const uint4* quants, const uint32_t* high, const uint8_t* subs, const uint16_t* scale,               \
        const uint16_t* minimum, const int* ids, float* out, int width, float factor                         \
    ) {                                                                                                      \
        const zlrs::Planes weights = {quants, high, subs, scale, minimum};                                   \
        const int units = width / zlrs::UNIT;                                                                \
        const int lane = static_cast<int>(threadIdx.x);                                                      \
        float* row = out + static_cast<size_t>(blockIdx.y) * width;                                          \
        for (int unit = static_cast<int>(blockIdx.x); unit < units; unit += static_cast<int>(gridDim.x)) {   \
            const size_t at = static_cast<size_t>(ids[blockIdx.y]) * units + unit;                           \
            const float value = zlrs::weight_at<zlrs::Type>(weights, at, lane);                              \
            row[unit * zlrs::UNIT + lane] = factor == 1.0F ? value : __fmul_rn(value, factor);               \
        }                                                                                                    \
    }                                                                                                        \
    ZLRS_KERNEL(name)

ZLRS_EMBED(embed_q4_0, Q4_0)
ZLRS_EMBED(embed_q4_1, Q4_1)
ZLRS_EMBED(embed_q5_0, Q5_0)
ZLRS_EMBED(embed_q8_0, Q8_0)
ZLRS_EMBED(embed_q4_k, Q4_K)
ZLRS_EMBED(embed_q5_k, Q5_K)
ZLRS_EMBED(embed_q6_k, Q6_K)
