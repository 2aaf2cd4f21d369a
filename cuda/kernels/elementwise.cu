// Elementwise arithmetic over `count` values: one thread a value, grid = count / 256 rounded up, block 256.
#include "common.cuh"

namespace zlrs {

__device__ __forceinline__ size_t element() {
    return static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

}  // namespace zlrs

/// out[i] = out[i] + x[i]
extern "C" __global__ void add(const float* x, float* out, size_t count) {
    const size_t i = zlrs::element();
    if (i < count) {
        out[i] = __fadd_rn(out[i], x[i]);
    }
}
ZLRS_KERNEL(add)

/// out[i] = gate[i] / (1 + exp(-gate[i])) * up[i]
extern "C" __global__ void silu_multiply(const float* gate, const float* up, float* out, size_t count) {
    const size_t i = zlrs::element();
    if (i < count) {
        const float silu = __fdiv_rn(gate[i], __fadd_rn(1.0F, zlrs::exponential(-gate[i])));
        out[i] = __fmul_rn(silu, up[i]);
    }
}
ZLRS_KERNEL(silu_multiply)

/// out[i] = gelu(gate[i]) * up[i], gelu in its tanh form as x / (1 + exp(x s (1 + c x^2))), s = -2 sqrt(2/pi)
extern "C" __global__ void gelu_multiply(const float* gate, const float* up, float* out, size_t count) {
    const size_t i = zlrs::element();
    if (i < count) {
        const float x = gate[i];
        const float cubic = __fmaf_rn(__fmul_rn(x, x), 0.044715F, 1.0F);
        const float power = __fmul_rn(__fmul_rn(x, -1.595769F), cubic);
        out[i] = __fmul_rn(__fdiv_rn(x, __fadd_rn(1.0F, zlrs::exponential(power))), up[i]);
    }
}
ZLRS_KERNEL(gelu_multiply)

/// x[i] = x[i] * factor
extern "C" __global__ void scale(float* x, float factor, size_t count) {
    const size_t i = zlrs::element();
    if (i < count) {
        x[i] = __fmul_rn(x[i], factor);
    }
}
ZLRS_KERNEL(scale)

/// x[i] = cap tanh(x[i] / cap)
extern "C" __global__ void softcap(float* x, float cap, size_t count) {
    const size_t i = zlrs::element();
    if (i < count) {
        const float e = zlrs::exponential(__fmul_rn(-2.0F, fabsf(__fdiv_rn(x[i], cap))));
        const float value = __fmul_rn(cap, __fdiv_rn(__fsub_rn(1.0F, e), __fadd_rn(1.0F, e)));
        x[i] = copysignf(value, x[i]);
    }
}
ZLRS_KERNEL(softcap)
