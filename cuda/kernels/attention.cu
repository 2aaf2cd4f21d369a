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
#include "attention.cuh"
#include "mixed.cuh"

namespace zlrs {

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

template <class KV>
__device__ __forceinline__ void attend(
    const KV& kv, const float* query, float* out, const int4& part, const int* positions, const float* slopes,
    float* partials, int group, int window, int queries_limit, float scale
) {
    const int thread = static_cast<int>(threadIdx.x);
    const int kv_head = static_cast<int>(blockIdx.y);
    const int head_dim = kv.place.head_dim;
    const int first_row = part.x;
    const int rows = part.y;
    const int heads = part.w;
    const int queries = rows * heads;
    const int all_heads = static_cast<int>(gridDim.y) * group;
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
            tile_scores(state, kv, part_slopes, all, start, queries, heads);
            __syncthreads();
            tile_weights(state, start, queries);
            __syncthreads();
            tile_values(state, kv, all, start, queries);
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

}  // namespace zlrs

extern "C" __global__ void __launch_bounds__(128) attention(
    const float* query, float* out, const uint16_t* arena, size_t block_len, size_t key_offset,
    size_t value_offset, const int4* parts, const int* positions, const int* tables, const int* block_table,
    const float* slopes, float* partials, int head_dim, int group, int window, int queries_limit, float scale
) {
    using namespace zlrs;
    const int4 part = parts[blockIdx.z];
    const PlainKv kv = {
        {arena, block_len, key_offset, value_offset, head_dim},
        block_table + tables[part.x],
        static_cast<int>(blockIdx.y),
    };
    attend(kv, query, out, part, positions, slopes, partials, group, window, queries_limit, scale);
}
ZLRS_KERNEL(attention)

/// As attention, where blocks have forms of their own (mixed.cuh): forms is parallel to block_table, copies are the
/// step's sealed copies of blocks that some of its rows still read as f16. head_dim a multiple of 8.
extern "C" __global__ void __launch_bounds__(128) attention_mixed(
    const float* query, float* out, const uint16_t* arena, size_t block_len, size_t key_offset,
    size_t value_offset, const int4* parts, const int* positions, const int* tables, const int* block_table,
    const float* slopes, float* partials, int head_dim, int group, int window, int queries_limit, float scale,
    const int* forms, const uint16_t* copies
) {
    using namespace zlrs;
    const int4 part = parts[blockIdx.z];
    const MixedKv kv = {
        {arena, block_len, key_offset, value_offset, head_dim},
        copies_place(copies, static_cast<int>(gridDim.y), head_dim),
        block_table + tables[part.x],
        forms + tables[part.x],
        static_cast<int>(blockIdx.y),
    };
    attend(kv, query, out, part, positions, slopes, partials, group, window, queries_limit, scale);
}
ZLRS_KERNEL(attention_mixed)

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
