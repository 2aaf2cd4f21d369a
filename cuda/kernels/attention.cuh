// The parts of attention: scores, weights and values of one tile of 64 positions for the queries of a block.
//
// See attention.cu for the order of operations. `KV` says how stored numbers are read: plain f16, or mixed.cuh.
#pragma once

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

/// The visible positions of query `q` among those of the tile at `start`.
__device__ __forceinline__ int2 seen(const AttentionState& state, int q, int start) {
    const int begin = max(state.begin[q], start);
    return {begin, max(begin, min(state.end[q], start + TILE))};
}

/// Scores of two neighbouring positions for some queries from the `first`: chains over the dimensions, ascending.
/// `keys.at(d)` are both positions' keys in a dimension.
template <class Keys>
__device__ __forceinline__ void chain_scores(
    const AttentionState& state, const Keys& keys, int dim, int first, int queries, float2 scores[KEY_QUERIES]
) {
    for (int d = 0; d < dim; ++d) {
        const float2 key = keys.at(d);
#pragma unroll
        for (int q = 0; q < KEY_QUERIES; ++q) {
            const float query = state.queries[min(first + q, queries - 1) * dim + d];
            scores[q].x = __fmaf_rn(query, key.x, scores[q].x);
            scores[q].y = __fmaf_rn(query, key.y, scores[q].y);
        }
    }
}

/// Two positions' f16 keys.
struct HalfKeys {
    const uint32_t* pairs;
    __device__ __forceinline__ float2 at(int d) const { return halves_of(pairs[d * (BLOCK_TOKENS / 2)]); }
};

/// A sequence's keys and values where all blocks are f16.
struct PlainKv {
    KvPlace place;
    const int* blocks;
    int kv_head;

    using Value = float2;

    __device__ __forceinline__ void
    scores(const AttentionState& state, int position, int first, int queries, float2 found[KEY_QUERIES]) const {
        const uint16_t* keys = keys_of(place, blocks[position / BLOCK_TOKENS], kv_head);
        const HalfKeys pairs = {reinterpret_cast<const uint32_t*>(keys) + position % BLOCK_TOKENS / 2};
        chain_scores(state, pairs, place.head_dim, first, queries, found);
    }

    /// Dimensions 2 pair and 2 pair + 1 of a position's value.
    __device__ __forceinline__ Value value(int position, int pair) const {
        const uint16_t* stored = values_of(place, blocks[position / BLOCK_TOKENS], kv_head) +
                                 position % BLOCK_TOKENS * place.head_dim;
        return halves_of(reinterpret_cast<const uint32_t*>(stored)[pair]);
    }

    /// What a query whose visible positions end before `end` takes of it.
    __device__ __forceinline__ float2 of_query(const Value& value, int) const { return value; }
};

/// Scores of a tile: negative infinity where a query does not see.
template <class KV>
__device__ __forceinline__ void tile_scores(
    const AttentionState& state, const KV& kv, const float* slopes, int2 all, int start, int queries, int heads
) {
    const int thread = static_cast<int>(threadIdx.x);
    const int position = start + thread % WARP * 2;
    const bool inside = position < all.y && position + 1 >= all.x;
    for (int first = thread / WARP * KEY_QUERIES; first < queries; first += ATTENTION_WARPS * KEY_QUERIES) {
        float2 scores[KEY_QUERIES] = {};
        if (inside) {
            kv.scores(state, position, first, queries, scores);
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
template <class KV>
__device__ __forceinline__ void
tile_values(const AttentionState& state, const KV& kv, int2 all, int start, int queries) {
    const int dim = kv.place.head_dim;
    const int pairs = dim / 2;
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
            const float* values = state.values + query * dim + 2 * pair;
            const float correction = ranges[q].x < ranges[q].y ? state.correction[query] : 1.0F;
            sums[q] = {__fmul_rn(values[0], correction), __fmul_rn(values[1], correction)};
        }
        for (int position = all.x; position < all.y; ++position) {
            const typename KV::Value stored = kv.value(position, pair);
#pragma unroll
            for (int q = 0; q < VALUE_QUERIES; ++q) {
                // What a query does not see is never read into its values, whatever it is.
                if (alike || (position >= ranges[q].x && position < ranges[q].y)) {
                    const int query = min(first + q, queries - 1);
                    const float weight = state.weights[query * TILE + position - start];
                    const float2 value = kv.of_query(stored, state.end[query]);
                    sums[q].x = __fmaf_rn(weight, value.x, sums[q].x);
                    sums[q].y = __fmaf_rn(weight, value.y, sums[q].y);
                }
            }
        }
#pragma unroll
        for (int q = 0; q < VALUE_QUERIES; ++q) {
            if (first + q < queries && ranges[q].x < ranges[q].y) {
                float* values = state.values + (first + q) * dim + 2 * pair;
                values[0] = sums[q].x;
                values[1] = sums[q].y;
            }
        }
    }
}

}  // namespace zlrs
