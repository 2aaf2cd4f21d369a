// Attention of query rows over the positions they see: fused scores, softmax and values, in one fixed order.
//
// The order is that of rust/zlrs-kernels/src/naive/attention.rs: positions fall into splits of 512 and tiles of 64
// at absolute multiples; inside a split tiles ascend, a score is a chain over the head dimension, a value a chain
// over positions; splits are merged in ascending order. So the bits do not depend on how rows are put together or
// whether a split has a block of its own (decoding far into a context) or a block walks all of them (prompts).
//
//   query      [rows][kv_heads * group][head_dim] f32, rotated     out  the same shape
//   parts      int4 each: first row, rows, first head of the group, heads. Rows of a part are of one sequence;
//              rows * heads <= queries
//   positions, tables, block_table   as in store_kv.cu
//   window     0: all positions up to the own; else only the last `window` of them
//   slopes     [kv_heads * group] f32 or null: ALiBi adds slope * (position - own position) to a score
//   partials   [rows][kv_heads * group][gridDim.x][head_dim + 2] f32 when splits are apart (a part then has one
//              row), else null
//   grid       (splits, kv_heads, parts); splits is 1 when partials is null
//   block      128 threads        head_dim even
//   shared     attention_shared_bytes(queries, head_dim)
//
// Keys lie as [dimension][position], so a warp takes the 64 positions of a tile, a lane two neighbours, for two
// query heads at a time; K and V of a tile are read once for all queries of the part.
#include "kv.cuh"

namespace zlrs {

constexpr int TILE = 64;
constexpr int SPLIT = 512;
constexpr int ATTENTION_THREADS = 128;
constexpr int ATTENTION_WARPS = ATTENTION_THREADS / WARP;
/// Queries that share a load of keys, and of values.
constexpr int KEY_QUERIES = 2;
constexpr int VALUE_QUERIES = 4;

/// The state of a block's queries in shared memory.
struct AttentionState {
    float* queries;     // [queries][dim], scaled
    float* weights;     // [queries][TILE]
    float* values;      // [queries][dim] of the split
    float* total;       // [queries][dim] of the splits before
    float* max;         // [queries]
    float* sum;
    float* correction;
    float* total_max;
    float* total_sum;
    int* begin;         // [queries] first visible position
    int* end;           // [queries] one past the own position
};

__device__ __forceinline__ AttentionState attention_state(float* memory, int queries, int dim) {
    AttentionState state;
    state.queries = memory;
    state.values = state.queries + queries * dim;
    state.total = state.values + queries * dim;
    state.weights = state.total + queries * dim;
    state.max = state.weights + queries * TILE;
    state.sum = state.max + queries;
    state.correction = state.sum + queries;
    state.total_max = state.correction + queries;
    state.total_sum = state.total_max + queries;
    state.begin = reinterpret_cast<int*>(state.total_sum + queries);
    state.end = state.begin + queries;
    return state;
}

/// Two f16 in a word as f32.
__device__ __forceinline__ float2 halves_of(uint32_t pair) {
    return {half_to_float(static_cast<uint16_t>(pair)), half_to_float(static_cast<uint16_t>(pair >> 16))};
}

/// The visible positions of query `q` among those of the tile at `start`.
__device__ __forceinline__ int2 seen(const AttentionState& state, int q, int start) {
    const int begin = max(state.begin[q], start);
    return {begin, max(begin, min(state.end[q], start + TILE))};
}

/// Scores of a tile: negative infinity where a query does not see.
__device__ __forceinline__ void tile_scores(
    const AttentionState& state, const KvPlace& place, const int* blocks, const float* slopes, int2 all, int start,
    int queries, int heads, int kv_head
) {
    const int thread = static_cast<int>(threadIdx.x);
    const int position = start + thread % WARP * 2;
    const bool inside = position < all.y && position + 1 >= all.x;
    const int block = inside ? blocks[position / BLOCK_TOKENS] : 0;
    const uint32_t* keys = reinterpret_cast<const uint32_t*>(keys_of(place, block, kv_head)) +
                           position % BLOCK_TOKENS / 2;
    for (int first = thread / WARP * KEY_QUERIES; first < queries; first += ATTENTION_WARPS * KEY_QUERIES) {
        float2 scores[KEY_QUERIES] = {};
        if (inside) {
            for (int d = 0; d < place.head_dim; ++d) {
                const float2 key = halves_of(keys[d * (BLOCK_TOKENS / 2)]);
#pragma unroll
                for (int q = 0; q < KEY_QUERIES; ++q) {
                    const float query = state.queries[min(first + q, queries - 1) * place.head_dim + d];
                    scores[q].x = __fmaf_rn(query, key.x, scores[q].x);
                    scores[q].y = __fmaf_rn(query, key.y, scores[q].y);
                }
            }
        }
#pragma unroll
        for (int q = 0; q < KEY_QUERIES; ++q) {
            const int query = first + q;
            if (query < queries) {
                const int2 range = seen(state, query, start);
                if (slopes != nullptr) {
                    const float slope = slopes[query % heads];
                    const int own = state.end[query] - 1;
                    scores[q].x = __fmaf_rn(slope, static_cast<float>(position - own), scores[q].x);
                    scores[q].y = __fmaf_rn(slope, static_cast<float>(position + 1 - own), scores[q].y);
                }
                const float nothing = __uint_as_float(0xff800000U);
                float* weights = state.weights + query * TILE + (position - start);
                weights[0] = position >= range.x && position < range.y ? scores[q].x : nothing;
                weights[1] = position + 1 >= range.x && position + 1 < range.y ? scores[q].y : nothing;
            }
        }
    }
}

/// Scores become weights; maximum, sum and correction follow. Half a warp takes a query.
__device__ __forceinline__ void tile_weights(const AttentionState& state, int start, int queries) {
    const int thread = static_cast<int>(threadIdx.x);
    const int lane = thread % SUM_LANES;
    constexpr int AT_ONCE = ATTENTION_THREADS / SUM_LANES;
    for (int first = 0; first < queries; first += AT_ONCE) {
        const int wanted = first + thread / SUM_LANES;
        const int query = min(wanted, queries - 1);
        const int2 range = seen(state, query, start);
        float* weights = state.weights + query * TILE;
        float scores[TILE / SUM_LANES];
        const float before = state.max[query];
        float largest = before;
#pragma unroll
        for (int i = 0; i < TILE / SUM_LANES; ++i) {
            scores[i] = weights[i * SUM_LANES + lane];
            largest = fmaxf(largest, scores[i]);
        }
        for (int lanes = SUM_LANES / 2; lanes > 0; lanes /= 2) {
            largest = fmaxf(largest, __shfl_xor_sync(ALL_LANES, largest, lanes));
        }
        float sum = 0.0F;
#pragma unroll
        for (int i = 0; i < TILE / SUM_LANES; ++i) {
            scores[i] = exponential(__fsub_rn(scores[i], largest));
            sum = __fadd_rn(sum, scores[i]);
        }
        sum = fold_lanes(sum);
        // Two half-warps may stand at the last query: only the one that was meant to writes.
        if (wanted < queries && range.x < range.y) {
#pragma unroll
            for (int i = 0; i < TILE / SUM_LANES; ++i) {
                weights[i * SUM_LANES + lane] = scores[i];
            }
            if (lane == 0) {
                const float correction = exponential(__fsub_rn(before, largest));
                state.max[query] = largest;
                state.correction[query] = correction;
                state.sum[query] = __fmaf_rn(state.sum[query], correction, sum);
            }
        }
    }
}

/// Values take the tile's: two dimensions of some queries a thread.
__device__ __forceinline__ void tile_values(
    const AttentionState& state, const KvPlace& place, const int* blocks, int2 all, int start, int queries,
    int kv_head
) {
    const int pairs = place.head_dim / 2;
    const int chunks = (queries + VALUE_QUERIES - 1) / VALUE_QUERIES;
    for (int work = static_cast<int>(threadIdx.x); work < pairs * chunks; work += ATTENTION_THREADS) {
        const int pair = work % pairs;
        const int first = work / pairs * VALUE_QUERIES;
        int2 ranges[VALUE_QUERIES];
        float2 sums[VALUE_QUERIES];
        bool alike = true;
#pragma unroll
        for (int q = 0; q < VALUE_QUERIES; ++q) {
            const int query = min(first + q, queries - 1);
            ranges[q] = seen(state, query, start);
            alike = alike && ranges[q].x == all.x && ranges[q].y == all.y;
            const float* values = state.values + query * place.head_dim + 2 * pair;
            const float correction = ranges[q].x < ranges[q].y ? state.correction[query] : 1.0F;
            sums[q] = {__fmul_rn(values[0], correction), __fmul_rn(values[1], correction)};
        }
        for (int position = all.x; position < all.y; ++position) {
            const uint16_t* stored = values_of(place, blocks[position / BLOCK_TOKENS], kv_head) +
                                     position % BLOCK_TOKENS * place.head_dim;
            const float2 value = halves_of(reinterpret_cast<const uint32_t*>(stored)[pair]);
#pragma unroll
            for (int q = 0; q < VALUE_QUERIES; ++q) {
                // What a query does not see is never read into its values, whatever it is.
                if (alike || (position >= ranges[q].x && position < ranges[q].y)) {
                    const float weight = state.weights[min(first + q, queries - 1) * TILE + position - start];
                    sums[q].x = __fmaf_rn(weight, value.x, sums[q].x);
                    sums[q].y = __fmaf_rn(weight, value.y, sums[q].y);
                }
            }
        }
#pragma unroll
        for (int q = 0; q < VALUE_QUERIES; ++q) {
            if (first + q < queries && ranges[q].x < ranges[q].y) {
                float* values = state.values + (first + q) * place.head_dim + 2 * pair;
                values[0] = sums[q].x;
                values[1] = sums[q].y;
            }
        }
    }
}

/// What both sides of a merge are multiplied with.
struct MergeFactors {
    float max, before, after;
};

__device__ __forceinline__ MergeFactors merge_factors(float max_before, float max_after) {
    const float larger = fmaxf(max_before, max_after);
    return {
        larger, exponential(__fsub_rn(max_before, larger)), exponential(__fsub_rn(max_after, larger))
    };
}

}  // namespace zlrs

extern "C" __global__ void __launch_bounds__(128) attention(
    const float* query, float* out, const uint16_t* arena, size_t block_len, size_t key_offset,
    size_t value_offset, const int4* parts, const int* positions, const int* tables, const int* block_table,
    const float* slopes, float* partials, int head_dim, int group, int window, int queries_limit, float scale
) {
    using namespace zlrs;
    const int thread = static_cast<int>(threadIdx.x);
    const int kv_head = static_cast<int>(blockIdx.y);
    const int4 part = parts[blockIdx.z];
    const int first_row = part.x;
    const int rows = part.y;
    const int heads = part.w;
    const int queries = rows * heads;
    const int all_heads = static_cast<int>(gridDim.y) * group;
    const KvPlace place = {arena, block_len, key_offset, value_offset, head_dim};
    const int* blocks = block_table + tables[first_row];
    const float* part_slopes = slopes == nullptr ? nullptr : slopes + kv_head * group + part.z;
    const AttentionState state = attention_state(dynamic_shared<float>(), queries_limit, head_dim);

    for (int q = thread; q < queries; q += ATTENTION_THREADS) {
        const int end = positions[first_row + q / heads] + 1;
        state.end[q] = end;
        state.begin[q] = window > 0 ? max(0, end - window) : 0;
    }
    for (int i = thread; i < queries * head_dim; i += ATTENTION_THREADS) {
        const int q = i / head_dim;
        const size_t head =
            static_cast<size_t>(first_row + q / heads) * all_heads + kv_head * group + part.z + q % heads;
        state.queries[i] = __fmul_rn(query[head * head_dim + i % head_dim], scale);
    }
    __syncthreads();
    // Rows of a part ascend, so the first sees least of the end and the last least of the beginning.
    const int begin = state.begin[0];
    const int end = state.end[queries - 1];
    int split = begin / SPLIT;
    int last = (end - 1) / SPLIT;
    if (partials != nullptr) {
        split += static_cast<int>(blockIdx.x);
        if (split > last) {
            return;
        }
        last = split;
    }

    for (; split <= last; ++split) {
        for (int i = thread; i < queries * head_dim; i += ATTENTION_THREADS) {
            state.values[i] = 0.0F;
        }
        for (int q = thread; q < queries; q += ATTENTION_THREADS) {
            state.max[q] = __uint_as_float(0xff800000U);
            state.sum[q] = 0.0F;
        }
        const int split_begin = max(begin, split * SPLIT);
        const int split_end = min(end, (split + 1) * SPLIT);
        for (int start = split_begin / TILE * TILE; start < split_end; start += TILE) {
            const int2 all = {max(split_begin, start), min(split_end, start + TILE)};
            __syncthreads();
            tile_scores(state, place, blocks, part_slopes, all, start, queries, heads, kv_head);
            __syncthreads();
            tile_weights(state, start, queries);
            __syncthreads();
            tile_values(state, place, blocks, all, start, queries, kv_head);
        }
        __syncthreads();
        if (partials != nullptr) {
            break;
        }
        for (int i = thread; i < queries * head_dim; i += ATTENTION_THREADS) {
            const int q = i / head_dim;
            if (state.begin[q] >= (split + 1) * SPLIT || state.end[q] <= split * SPLIT) {
                continue;
            }
            if (state.begin[q] >= split * SPLIT) {  // its first split is taken as it is
                state.total[i] = state.values[i];
            } else {
                const MergeFactors factors = merge_factors(state.total_max[q], state.max[q]);
                state.total[i] =
                    __fmaf_rn(state.total[i], factors.before, __fmul_rn(state.values[i], factors.after));
            }
        }
        __syncthreads();
        for (int q = thread; q < queries; q += ATTENTION_THREADS) {
            if (state.begin[q] >= (split + 1) * SPLIT || state.end[q] <= split * SPLIT) {
                continue;
            }
            if (state.begin[q] >= split * SPLIT) {  // its first split is taken as it is
                state.total_max[q] = state.max[q];
                state.total_sum[q] = state.sum[q];
            } else {
                const MergeFactors factors = merge_factors(state.total_max[q], state.max[q]);
                state.total_max[q] = factors.max;
                state.total_sum[q] =
                    __fmaf_rn(state.total_sum[q], factors.before, __fmul_rn(state.sum[q], factors.after));
            }
        }
        __syncthreads();
    }

    for (int i = thread; i < queries * head_dim; i += ATTENTION_THREADS) {
        const int q = i / head_dim;
        const size_t head =
            static_cast<size_t>(first_row + q / heads) * all_heads + kv_head * group + part.z + q % heads;
        if (partials == nullptr) {
            out[head * head_dim + i % head_dim] = __fdiv_rn(state.total[i], state.total_sum[q]);
        } else {
            float* partial = partials + (head * gridDim.x + blockIdx.x) * (head_dim + 2);
            partial[2 + i % head_dim] = state.values[i];
            if (i % head_dim == 0) {
                partial[0] = state.max[q];
                partial[1] = state.sum[q];
            }
        }
    }
}
ZLRS_KERNEL(attention)

/// Merges the splits of each query head in ascending order. partials as above with `splits` a head, out
/// [rows][heads][head_dim]; a row has as many splits as its visible positions touch. grid (heads, rows), block 128.
extern "C" __global__ void __launch_bounds__(128) attention_merge(
    const float* partials, const int* positions, float* out, int head_dim, int window, int splits
) {
    using namespace zlrs;
    const int end = positions[blockIdx.y] + 1;
    const int begin = window > 0 ? max(0, end - window) : 0;
    const int count = (end - 1) / SPLIT - begin / SPLIT + 1;
    const size_t head = static_cast<size_t>(blockIdx.y) * gridDim.x + blockIdx.x;
    const size_t stride = static_cast<size_t>(head_dim) + 2;
    const float* first = partials + head * splits * stride;
    for (int d = static_cast<int>(threadIdx.x); d < head_dim; d += static_cast<int>(blockDim.x)) {
        float largest = first[0];
        float sum = first[1];
        float value = first[2 + d];
        for (int split = 1; split < count; ++split) {
            const float* next = first + split * stride;
            const MergeFactors factors = merge_factors(largest, next[0]);
            largest = factors.max;
            sum = __fmaf_rn(sum, factors.before, __fmul_rn(next[1], factors.after));
            value = __fmaf_rn(value, factors.before, __fmul_rn(next[2 + d], factors.after));
        }
        out[head * head_dim + d] = __fdiv_rn(value, sum);
    }
}
ZLRS_KERNEL(attention_merge)
