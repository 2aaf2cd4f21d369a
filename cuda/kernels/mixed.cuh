// Keys and values of a sequence whose blocks have forms of their own (sealed.cuh).
//
// A query reads its own block, which is still being filled when its token is computed alone, as f16, and every block
// before it in the form that block has. So what it reads does not depend on which rows are computed together: where
// rows of a step lie on both sides of a block's end, the block is there twice, f16 in the arena and as a copy.
#pragma once

#include "attention.cuh"
#include "sealed.cuh"

namespace zlrs {

/// Two positions' sealed keys.
template <int FORM>
struct SealedKeys {
    const uint16_t* region;
    int dim;
    int pair;
    __device__ __forceinline__ float2 at(int d) const { return sealed_keys<FORM>(region, dim, d, pair); }
};

struct MixedKv {
    KvPlace place;
    KvPlace copies;
    const int* blocks;
    const int* forms;
    int kv_head;

    struct Value {
        float2 before;  // for queries of later blocks
        float2 own;     // for those of the block
        int block;
    };

    __device__ __forceinline__ const uint16_t* sealed(int index, bool values) const {
        const int copy = forms[index] >> FORM_COPY_SHIFT;
        const KvPlace& from = copy > 0 ? copies : place;
        const int block = copy > 0 ? copy - 1 : blocks[index];
        return values ? values_of(from, block, kv_head) : keys_of(from, block, kv_head);
    }

    __device__ __forceinline__ void
    scores(const AttentionState& state, int position, int first, int queries, float2 found[KEY_QUERIES]) const {
        const int index = position / BLOCK_TOKENS;
        const int form = forms[index];
        const int pair = position % BLOCK_TOKENS / 2;
        const int dim = place.head_dim;
        const uint16_t* keys = keys_of(place, blocks[index], kv_head);
        const HalfKeys halves = {reinterpret_cast<const uint32_t*>(keys) + pair};
        if ((form & FORM_MASK) == FORM_BYTES) {
            chain_scores(state, SealedKeys<FORM_BYTES>{sealed(index, false), dim, pair}, dim, first, queries, found);
        } else if ((form & FORM_MASK) == FORM_NIBBLES) {
            chain_scores(state, SealedKeys<FORM_NIBBLES>{sealed(index, false), dim, pair}, dim, first, queries, found);
        } else {
            chain_scores(state, halves, dim, first, queries, found);
        }
        if (form >> FORM_COPY_SHIFT > 0) {
            float2 own[KEY_QUERIES] = {};
            chain_scores(state, halves, dim, first, queries, own);
#pragma unroll
            for (int q = 0; q < KEY_QUERIES; ++q) {
                if ((state.end[min(first + q, queries - 1)] - 1) / BLOCK_TOKENS == index) {
                    found[q] = own[q];
                }
            }
        }
    }

    __device__ __forceinline__ Value value(int position, int pair) const {
        const int index = position / BLOCK_TOKENS;
        const int form = forms[index];
        const int dim = place.head_dim;
        Value found = {{0.0F, 0.0F}, {0.0F, 0.0F}, index};
        if ((form & FORM_MASK) == FORM_HALF || form >> FORM_COPY_SHIFT > 0) {
            const uint16_t* stored = values_of(place, blocks[index], kv_head) + position % BLOCK_TOKENS * dim;
            found.own = halves_of(reinterpret_cast<const uint32_t*>(stored)[pair]);
        }
        const int within = position % BLOCK_TOKENS;
        if ((form & FORM_MASK) == FORM_BYTES) {
            found.before = sealed_values<FORM_BYTES>(sealed(index, true), dim, within, pair);
        } else if ((form & FORM_MASK) == FORM_NIBBLES) {
            found.before = sealed_values<FORM_NIBBLES>(sealed(index, true), dim, within, pair);
        } else {
            found.before = found.own;
        }
        return found;
    }

    __device__ __forceinline__ float2 of_query(const Value& value, int end) const {
        return (end - 1) / BLOCK_TOKENS == value.block ? value.own : value.before;
    }
};

}  // namespace zlrs
