// Where keys and values lie: the arena's blocks hold 16 positions of a sequence, all layers in each block.
// Inside a block a layer has its keys as [kv head][dimension][position] and its values as
// [kv head][position][dimension], f16. It is the layout of the CPU, byte for byte, so saved state moves freely.
#pragma once

#include "common.cuh"

namespace zlrs {

/// Positions of a block of the arena.
constexpr int BLOCK_TOKENS = 16;

/// A layer's place in the arena, offsets in f16 values.
struct KvPlace {
    const uint16_t* arena;
    size_t block_len;
    size_t key_offset;
    size_t value_offset;
    int head_dim;
};

/// Two f16 in a word as f32.
__device__ __forceinline__ float2 halves_of(uint32_t pair) {
    return {half_to_float(static_cast<uint16_t>(pair)), half_to_float(static_cast<uint16_t>(pair >> 16))};
}

/// Keys of a KV head in a block, [dimension][position].
__device__ __forceinline__ const uint16_t* keys_of(const KvPlace& place, int block, int kv_head) {
    return place.arena + static_cast<size_t>(block) * place.block_len + place.key_offset +
           static_cast<size_t>(kv_head) * place.head_dim * BLOCK_TOKENS;
}

/// Values of a KV head in a block, [position][dimension].
__device__ __forceinline__ const uint16_t* values_of(const KvPlace& place, int block, int kv_head) {
    return place.arena + static_cast<size_t>(block) * place.block_len + place.value_offset +
           static_cast<size_t>(kv_head) * place.head_dim * BLOCK_TOKENS;
}

}  // namespace zlrs
