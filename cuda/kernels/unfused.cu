// Attention of one row in three passes over memory: what the fused kernel is measured against, and nothing else.
//
//   query      [heads][head_dim] f32, rotated      out  the same shape
//   arena, block_len, key_offset, value_offset, block_table   as in store_kv.cu; the row sees `count` positions
//   scores     [heads][count] f32                  group  query heads of a KV head
#include "kv.cuh"

/// scores = query . key * scale. grid (count / 128 rounded up, heads), block 128: a thread takes a position.
extern "C" __global__ void __launch_bounds__(128) unfused_scores(
    const float* query, const uint16_t* arena, size_t block_len, size_t key_offset, size_t value_offset,
    const int* block_table, float* scores, int head_dim, int group, int count, float scale
) {
    using namespace zlrs;
    const int position = static_cast<int>(blockIdx.x * 128 + threadIdx.x);
    const int head = static_cast<int>(blockIdx.y);
    if (position >= count) {
        return;
    }
    const KvPlace place = {arena, block_len, key_offset, value_offset, head_dim};
    const uint16_t* keys = keys_of(place, block_table[position / BLOCK_TOKENS], head / group);
    float sum = 0.0F;
    for (int d = 0; d < head_dim; ++d) {
        sum = __fmaf_rn(query[head * head_dim + d], half_to_float(keys[d * BLOCK_TOKENS + position % BLOCK_TOKENS]), sum);
    }
    scores[static_cast<size_t>(head) * count + position] = __fmul_rn(sum, scale);
}
ZLRS_KERNEL(unfused_scores)

/// Scores become weights that sum to one. grid heads, block 256.
extern "C" __global__ void __launch_bounds__(256) unfused_softmax(float* scores, int count) {
    using namespace zlrs;
    __shared__ float of_warp[256 / WARP];
    float* row = scores + static_cast<size_t>(blockIdx.x) * count;
    const int thread = static_cast<int>(threadIdx.x);
    float largest = __uint_as_float(0xff800000U);
    for (int i = thread; i < count; i += 256) {
        largest = fmaxf(largest, row[i]);
    }
    for (int lanes = WARP / 2; lanes > 0; lanes /= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(ALL_LANES, largest, lanes));
    }
    if (thread % WARP == 0) {
        of_warp[thread / WARP] = largest;
    }
    __syncthreads();
    for (int warp = 0; warp < 256 / WARP; ++warp) {
        largest = fmaxf(largest, of_warp[warp]);
    }
    __syncthreads();
    float sum = 0.0F;
    for (int i = thread; i < count; i += 256) {
        row[i] = exponential(__fsub_rn(row[i], largest));
        sum = __fadd_rn(sum, row[i]);
    }
    for (int lanes = WARP / 2; lanes > 0; lanes /= 2) {
        sum = __fadd_rn(sum, __shfl_xor_sync(ALL_LANES, sum, lanes));
    }
    if (thread % WARP == 0) {
        of_warp[thread / WARP] = sum;
    }
    __syncthreads();
    float total = 0.0F;
    for (int warp = 0; warp < 256 / WARP; ++warp) {
        total = __fadd_rn(total, of_warp[warp]);
    }
    for (int i = thread; i < count; i += 256) {
        row[i] = __fdiv_rn(row[i], total);
    }
}
ZLRS_KERNEL(unfused_softmax)

/// out = weights . values. grid (head_dim / 32 rounded up, heads), block 256: a lane takes a dimension, warps share
/// the positions.
extern "C" __global__ void __launch_bounds__(256) unfused_values(
    const float* weights, const uint16_t* arena, size_t block_len, size_t key_offset, size_t value_offset,
    const int* block_table, float* out, int head_dim, int group, int count
) {
    using namespace zlrs;
    __shared__ float of_warp[256 / WARP][WARP];
    const int lane = static_cast<int>(threadIdx.x) % WARP;
    const int warp = static_cast<int>(threadIdx.x) / WARP;
    const int d = static_cast<int>(blockIdx.x) * WARP + lane;
    const int head = static_cast<int>(blockIdx.y);
    const KvPlace place = {arena, block_len, key_offset, value_offset, head_dim};
    float sum = 0.0F;
    for (int position = warp; position < count && d < head_dim; position += 256 / WARP) {
        const uint16_t* values = values_of(place, block_table[position / BLOCK_TOKENS], head / group);
        const float value = half_to_float(values[position % BLOCK_TOKENS * head_dim + d]);
        sum = __fmaf_rn(weights[static_cast<size_t>(head) * count + position], value, sum);
    }
    of_warp[warp][lane] = sum;
    __syncthreads();
    if (warp == 0 && d < head_dim) {
        float total = 0.0F;
        for (int i = 0; i < 256 / WARP; ++i) {
            total = __fadd_rn(total, of_warp[i][lane]);
        }
        out[head * head_dim + d] = total;
    }
}
ZLRS_KERNEL(unfused_values)
