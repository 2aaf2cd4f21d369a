// Rotation of pairs of each head's values, in place: (a, b) becomes (a cos - b sin, a sin + b cos).
//
//   x          [rows][heads][head_dim] f32
//   table      [positions][2][half] f32: cosines, then sines, of each position; every scaling of the angles
//              (linear, NTK-aware, YaRN, by divisors) is in it already
//   positions  [rows] i32
//   grid       (heads, rows)      block  64 threads      2 half <= head_dim; the values past it stay
//   adjacent   1: pairs (2i, 2i + 1); 0: pairs (i, i + half)
#include "common.cuh"

extern "C" __global__ void __launch_bounds__(64)
    rope(float* x, const float* table, const int* positions, int head_dim, int half, int adjacent) {
    const size_t head = static_cast<size_t>(blockIdx.y) * gridDim.x + blockIdx.x;
    float* values = x + head * head_dim;
    const float* angles = table + static_cast<size_t>(positions[blockIdx.y]) * 2 * half;
    for (int i = static_cast<int>(threadIdx.x); i < half; i += static_cast<int>(blockDim.x)) {
        const int first = adjacent != 0 ? 2 * i : i;
        const int second = adjacent != 0 ? 2 * i + 1 : i + half;
        const float a = values[first];
        const float b = values[second];
        const float cosine = angles[i];
        const float sine = angles[half + i];
        values[first] = __fmaf_rn(a, cosine, -__fmul_rn(b, sine));
        values[second] = __fmaf_rn(b, cosine, __fmul_rn(a, sine));
    }
}
ZLRS_KERNEL(rope)
