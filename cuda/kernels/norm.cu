// Root-mean-square norm of every row: out[r][i] = (x[r][i] * factor_r) * weight[i],
// factor_r = 1 / sqrt(mean of squares + epsilon).
//
//   x, out  [rows][width] f32      weight  [width] f32
//   grid    rows                   block   32 threads
//
// The sum has 16 virtual lanes over ascending elements; a warp's lower half computes them, the upper half
// repeats them so that all lanes fold.
#include "common.cuh"

extern "C" __global__ void __launch_bounds__(32)
    rms_norm(const float* x, const float* weight, float* out, int width, float epsilon) {
    const float* row = x + static_cast<size_t>(blockIdx.x) * width;
    float* result = out + static_cast<size_t>(blockIdx.x) * width;
    float squares = 0.0F;
    for (int i = static_cast<int>(threadIdx.x) % zlrs::SUM_LANES; i < width; i += zlrs::SUM_LANES) {
        squares = __fmaf_rn(row[i], row[i], squares);
    }
    const float mean = __fdiv_rn(zlrs::fold_lanes(squares), static_cast<float>(width));
    const float factor = __fdiv_rn(1.0F, __fsqrt_rn(__fadd_rn(mean, epsilon)));
    for (int i = static_cast<int>(threadIdx.x); i < width; i += zlrs::WARP) {
        result[i] = __fmul_rn(__fmul_rn(row[i], factor), weight[i]);
    }
}
ZLRS_KERNEL(rms_norm)
