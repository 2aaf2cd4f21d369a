// The exit head of a layer for all rows of a step: what the later layers are predicted to contribute.
//
//   x          [rows][features] f32
//   weights    shift [features], scale [features], hidden [units][features], hidden bias [units], output [units],
//              output bias: at most 256 numbers
//   out        [rows] f32
//   grid       (rows / 4 rounded up)      block  128 threads: a warp takes a row, a lane a unit
//   features, units <= 32
//
// out = bias + sum over units of output * max(0, unit), unit = bias + sum over features of hidden * x', x' the
// feature plus its shift, times its scale, held to -8 ... 8. Sums are chains in ascending order, products rounded
// before they are added: the bits of rust/zlrs-engine/src/exit/head.rs.
#include "common.cuh"

namespace zlrs {

constexpr int EXIT_WARPS = 4;
constexpr float FEATURE_LIMIT = 8.0F;

/// A feature in units of its spread; NaN stays.
__device__ __forceinline__ float bounded(float value) {
    return value < -FEATURE_LIMIT ? -FEATURE_LIMIT : value > FEATURE_LIMIT ? FEATURE_LIMIT : value;
}

}  // namespace zlrs

extern "C" __global__ void __launch_bounds__(128)
    exit_head(const float* x, const float* weights, float* out, int features, int units, int rows) {
    using namespace zlrs;
    const int lane = static_cast<int>(threadIdx.x) % WARP;
    const int row = static_cast<int>(blockIdx.x) * EXIT_WARPS + static_cast<int>(threadIdx.x) / WARP;
    const float* hidden = weights + 2 * features;
    const float* hidden_bias = hidden + units * features;
    const float* output = hidden_bias + units;
    // Rows past the end repeat the last one and are not written: all lanes take part in the exchanges.
    const float* own = x + static_cast<size_t>(min(row, rows - 1)) * features;
    float feature = 0.0F;
    if (lane < features) {
        feature = bounded(__fmul_rn(__fadd_rn(own[lane], weights[lane]), weights[features + lane]));
    }
    const int unit = min(lane, units - 1);
    float sum = hidden_bias[unit];
    for (int i = 0; i < features; ++i) {
        const float value = __shfl_sync(ALL_LANES, feature, i);
        sum = __fadd_rn(sum, __fmul_rn(hidden[unit * features + i], value));
    }
    const float product = __fmul_rn(output[unit], sum > 0.0F ? sum : 0.0F);
    float result = output[units];
    for (int i = 0; i < units; ++i) {
        result = __fadd_rn(result, __shfl_sync(ALL_LANES, product, i));
    }
    if (lane == 0 && row < rows) {
        out[row] = result;
    }
}
ZLRS_KERNEL(exit_head)
