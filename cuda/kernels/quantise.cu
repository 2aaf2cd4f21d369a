// Activations as signed bytes with one scale a block: q = round(x * (127 / amax)), ties to even; d = amax / 127.
//
//   x        [rows][width] f32
//   quants   [rows][width] i8      scales [rows][width / block] f32     sums [rows][width / 16] i32
//   grid     (width / block, rows)         block  32 threads; block is 32 or 256, and divides width
//
// An amax below the smallest normal number gives d = 0 and zeros, a NaN or an infinity gives d = NaN and zeros.
#include "common.cuh"

extern "C" __global__ void __launch_bounds__(32)
    quantise_rows(const float* x, int8_t* quants, float* scales, int* sums, int width, int block) {
    const int lane = static_cast<int>(threadIdx.x);
    const size_t start = static_cast<size_t>(blockIdx.y) * width + static_cast<size_t>(blockIdx.x) * block;
    // Magnitudes order like their bits, with infinity and then NaN above all numbers.
    uint32_t largest = 0;
    for (int i = lane; i < block; i += zlrs::WARP) {
        largest = max(largest, __float_as_uint(x[start + i]) & 0x7fffffffU);
    }
    for (int lanes = zlrs::WARP / 2; lanes > 0; lanes /= 2) {
        largest = max(largest, __shfl_xor_sync(zlrs::ALL_LANES, largest, lanes));
    }
    const bool finite = largest < 0x7f800000U;
    const bool zero = !finite || largest < 0x00800000U;
    const float amax = __uint_as_float(largest);
    // 127 / amax overflows for the smallest numbers: they are lifted by 2^100 first, which rounds nothing.
    const float lift = largest < 27U << 23 ? __uint_as_float(227U << 23) : 1.0F;
    const float inverse = zero ? 0.0F : __fdiv_rn(127.0F, __fmul_rn(amax, lift));
    for (int i = lane; i < block; i += zlrs::WARP) {
        const float scaled = zero ? 0.0F : rintf(__fmul_rn(__fmul_rn(x[start + i], lift), inverse));
        const int quant = static_cast<int>(fminf(fmaxf(scaled, -127.0F), 127.0F));
        quants[start + i] = static_cast<int8_t>(quant);
        int sum = quant;
        for (int lanes = 8; lanes > 0; lanes /= 2) {
            sum += __shfl_xor_sync(zlrs::ALL_LANES, sum, lanes);
        }
        if (lane % 16 == 0) {
            sums[(start + i) / 16] = sum;
        }
    }
    if (lane == 0) {
        const float scale = finite ? (zero ? 0.0F : __fdiv_rn(amax, 127.0F)) : __uint_as_float(0x7fc00000U);
        scales[start / block] = scale;
    }
}
ZLRS_KERNEL(quantise_rows)
