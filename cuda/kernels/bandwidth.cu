// Reads memory as fast as it can be read: the peak that a step's bandwidth is compared with.
//
//   words    [count] of 16 bytes        out  [gridDim.x * 256] u32: what each thread read, folded by exclusive or
//   grid     (anything)                 block 256 threads
#include "common.cuh"

extern "C" __global__ void __launch_bounds__(256) read_words(const uint4* words, size_t count, uint32_t* out) {
    const size_t thread = static_cast<size_t>(blockIdx.x) * 256 + threadIdx.x;
    const size_t step = static_cast<size_t>(gridDim.x) * 256;
    uint32_t folded = 0;
    for (size_t i = thread; i < count; i += step) {
        const uint4 word = words[i];
        folded ^= word.x ^ word.y ^ word.z ^ word.w;
    }
    out[thread] = folded;
}
ZLRS_KERNEL(read_words)
