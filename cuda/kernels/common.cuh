// What every kernel uses: exact conversions, the exponential of the whole project, folds in a fixed order.
//
// The same source is compiled by nvcc (-fmad=false: a fused multiply-add is written where one is meant) and by
// the host's compiler over the shim. Every floating-point operation is correctly rounded and its order fixed,
// so results are the same bits on any device and on the CPU backend, whose naive kernels are the reference.
#pragma once

#if !defined(ZLRS_ON_HOST)
#include <cstdint>
#define ZLRS_KERNEL(name)
#endif

namespace zlrs {

constexpr int WARP = 32;
constexpr unsigned ALL_LANES = 0xffffffffU;
/// Virtual lanes of a sum: element i belongs to lane i mod 16.
constexpr int SUM_LANES = 16;

/// Dynamic shared memory of the block, aligned to 16 bytes.
template <class T>
__device__ __forceinline__ T* dynamic_shared() {
#if defined(ZLRS_ON_HOST)
    return static_cast<T*>(shim::dynamic_shared());
#else
    extern __shared__ uint4 zlrs_dynamic_shared[];
    return reinterpret_cast<T*>(zlrs_dynamic_shared);
#endif
}

/// An f16 by its bits, as f32 (exact).
__device__ __forceinline__ float half_to_float(uint16_t bits) {
#if defined(ZLRS_ON_HOST)
    _Float16 half;
    std::memcpy(&half, &bits, sizeof half);
    return static_cast<float>(half);
#else
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
#endif
}

/// The bits of the f16 nearest to `value`, ties to even.
__device__ __forceinline__ uint16_t float_to_half(float value) {
#if defined(ZLRS_ON_HOST)
    const _Float16 half = static_cast<_Float16>(value);
    uint16_t bits;
    std::memcpy(&bits, &half, sizeof bits);
    return bits;
#else
    uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#endif
}

/// e^x by the one polynomial of the project (rust/zlrs-kernels/src/naive/exponential.rs): 0 below -87.34,
/// infinity above 88.72, one quiet NaN.
__device__ __forceinline__ float exponential(float x) {
    if (x != x) {
        return __uint_as_float(0x7fc00000U);
    }
    if (x > __uint_as_float(0x42b17217U)) {
        return __uint_as_float(0x7f800000U);
    }
    if (x < __uint_as_float(0xc2aeac4fU)) {
        return 0.0F;
    }
    const float n = rintf(__fmul_rn(x, __uint_as_float(0x3fb8aa3bU)));
    float r = __fmaf_rn(-n, __uint_as_float(0x3f317218U), x);
    r = __fmaf_rn(-n, __uint_as_float(0xb102e308U), r);
    float p = __uint_as_float(0x3ab52767U);
    p = __fmaf_rn(p, r, __uint_as_float(0x3c091cceU));
    p = __fmaf_rn(p, r, __uint_as_float(0x3d2aac58U));
    p = __fmaf_rn(p, r, __uint_as_float(0x3e2aaa49U));
    p = __fmaf_rn(p, r, __uint_as_float(0x3efffffeU));
    p = __fmaf_rn(p, r, 1.0F);
    p = __fmaf_rn(p, r, 1.0F);
    return __uint_as_float(__float_as_uint(p) + (static_cast<uint32_t>(static_cast<int>(n)) << 23));
}

/// Folds 16 lanes in halves; lanes 0..15 of each half-warp hold one each, all of them get the sum.
/// Addition commutes, so the butterfly gives every lane the bits of the fold in halves.
__device__ __forceinline__ float fold_lanes(float lane_sum) {
    for (int width = SUM_LANES / 2; width > 0; width /= 2) {
        lane_sum = __fadd_rn(lane_sum, __shfl_xor_sync(ALL_LANES, lane_sum, width));
    }
    return lane_sum;
}

}  // namespace zlrs
