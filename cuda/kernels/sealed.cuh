// Blocks whose keys and values are codes of 8 or 4 bits: where the codes lie, and the numbers they stand for.
//
// What a KV head has in a block is sealed in its own place, in the first bytes of the f16 form:
//   keys     {factor, minimum} f16 of each channel, [dim]; codes [dim][16 positions]
//   values   {factor, minimum} f16 of each 32 dimensions, [16 positions][groups]; codes [16 positions][dim]
// Codes of 4 bits lie two in a byte, the even one low. A number is fma(code, factor, minimum). dim is a multiple of
// 8. The reference is rust/zlrs-kernels/src/naive/sealed.rs.
//
// A block's form is a word: bits 0 and 1 how it is stored; the bits above, if not 0, are 1 + the number of its sealed
// copy in the step's own memory, while the arena still has it as f16.
#pragma once

#include "kv.cuh"

namespace zlrs {

constexpr int FORM_HALF = 0;
constexpr int FORM_BYTES = 1;
constexpr int FORM_NIBBLES = 2;
constexpr int FORM_MASK = 3;
constexpr int FORM_COPY_SHIFT = 2;
/// Dimensions of a value that share a factor and a minimum.
constexpr int VALUE_GROUP = 32;

/// Sealed copies of a step: one layer's heads alone, keys before values.
__device__ __forceinline__ KvPlace copies_place(const uint16_t* copies, int kv_heads, int head_dim) {
    const size_t half = static_cast<size_t>(kv_heads) * head_dim * BLOCK_TOKENS;
    return {copies, 2 * half, 0, half, head_dim};
}

__device__ __forceinline__ float decoded(uint32_t code, const float2& factors) {
    return __fmaf_rn(static_cast<float>(code), factors.x, factors.y);
}

/// Groups of a position's value.
__device__ __forceinline__ int value_groups(int dim) { return (dim + VALUE_GROUP - 1) / VALUE_GROUP; }

/// The keys of positions 2 pair and 2 pair + 1 in a channel of sealed keys.
template <int FORM>
__device__ __forceinline__ float2 sealed_keys(const uint16_t* region, int dim, int channel, int pair) {
    const float2 factors = halves_of(reinterpret_cast<const uint32_t*>(region)[channel]);
    const uint16_t* codes = region + 2 * dim;
    if constexpr (FORM == FORM_BYTES) {
        const uint32_t two = codes[channel * (BLOCK_TOKENS / 2) + pair];
        return {decoded(two & 255U, factors), decoded(two >> 8, factors)};
    } else {
        const uint32_t two = reinterpret_cast<const uint8_t*>(codes)[channel * (BLOCK_TOKENS / 2) + pair];
        return {decoded(two & 15U, factors), decoded(two >> 4, factors)};
    }
}

/// Dimensions 2 pair and 2 pair + 1 of a position of a block in sealed values.
template <int FORM>
__device__ __forceinline__ float2 sealed_values(const uint16_t* region, int dim, int position, int pair) {
    const int groups = value_groups(dim);
    const int group = position * groups + 2 * pair / VALUE_GROUP;
    const float2 factors = halves_of(reinterpret_cast<const uint32_t*>(region)[group]);
    const uint16_t* codes = region + 2 * BLOCK_TOKENS * groups;
    if constexpr (FORM == FORM_BYTES) {
        const uint32_t two = codes[position * (dim / 2) + pair];
        return {decoded(two & 255U, factors), decoded(two >> 8, factors)};
    } else {
        const uint32_t two = reinterpret_cast<const uint8_t*>(codes)[position * (dim / 2) + pair];
        return {decoded(two & 15U, factors), decoded(two >> 4, factors)};
    }
}

}  // namespace zlrs
