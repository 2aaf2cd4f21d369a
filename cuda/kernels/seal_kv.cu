// Makes f16 blocks codes of 8 or 4 bits, and f16 again.
//
//   arena     blocks as kv.cuh says, the layer at key_offset and value_offset
//   blocks    [gridDim.y] i32          forms [gridDim.y] i32: what each becomes (sealed.cuh). A form with the number of
//             a copy leaves the arena as it is and writes the copy.
//   grid      (kv_heads, blocks)       block 128 threads       head_dim a multiple of 8
//   shared    64 * head_dim bytes: the head's f16 keys and values
//
// A factor is the range of its numbers over 255 or 15, rounded to f16; a code the nearest, ties to even. Numbers
// that are infinite or NaN make all that share their factor NaN.
#include "sealed.cuh"

namespace zlrs {

/// A factor, a minimum and the codes' limit for some f16 numbers.
struct Factors {
    uint16_t factor, minimum;
    float steps;

    __device__ __forceinline__ uint32_t code(uint16_t number) const {
        const float scale = half_to_float(factor);
        if (!(scale > 0.0F)) {
            return 0;
        }
        const float above = __fsub_rn(half_to_float(number), half_to_float(minimum));
        return static_cast<uint32_t>(fminf(rintf(__fdiv_rn(above, scale)), steps));
    }
};

/// Of `count` numbers.
__device__ __forceinline__ Factors factors_of(const uint16_t* numbers, int count, float steps) {
    float low = __uint_as_float(0x7f800000U);
    float high = __uint_as_float(0xff800000U);
    bool finite = true;
    for (int i = 0; i < count; ++i) {
        const float number = half_to_float(numbers[i]);
        finite = finite && __fsub_rn(number, number) == 0.0F;
        low = fminf(low, number);
        high = fmaxf(high, number);
    }
    if (!finite) {
        return {0x7e00, 0, steps};
    }
    // Not the other zero: its sign would be the order's.
    low = __fadd_rn(low, 0.0F);
    return {float_to_half(__fdiv_rn(__fsub_rn(high, low), steps)), float_to_half(low), steps};
}

/// Codes of `count` numbers, an even number of them, to `codes`, a byte each or half a byte.
__device__ __forceinline__ void
put_codes(const Factors& factors, const uint16_t* numbers, int count, bool bytes, uint8_t* codes) {
    for (int i = 0; i < count; i += 2) {
        const uint32_t low = factors.code(numbers[i]);
        const uint32_t high = factors.code(numbers[i + 1]);
        if (bytes) {
            codes[i] = static_cast<uint8_t>(low);
            codes[i + 1] = static_cast<uint8_t>(high);
        } else {
            codes[i / 2] = static_cast<uint8_t>(low | high << 4);
        }
    }
}

/// A head's keys and values in a block of the arena.
struct Region {
    uint16_t* keys;
    uint16_t* values;
};

__device__ __forceinline__ Region region_of(uint16_t* arena, const KvPlace& place, int block, int kv_head) {
    return {
        arena + (keys_of(place, block, kv_head) - place.arena),
        arena + (values_of(place, block, kv_head) - place.arena),
    };
}

}  // namespace zlrs

extern "C" __global__ void __launch_bounds__(128) seal_blocks(
    uint16_t* arena, size_t block_len, size_t key_offset, size_t value_offset, uint16_t* copies, const int* blocks,
    const int* forms, int head_dim
) {
    using namespace zlrs;
    const int thread = static_cast<int>(threadIdx.x);
    const int kv_head = static_cast<int>(blockIdx.x);
    const int form = forms[blockIdx.y];
    const int numbers = head_dim * BLOCK_TOKENS;
    const KvPlace place = {arena, block_len, key_offset, value_offset, head_dim};
    const Region source = region_of(arena, place, blocks[blockIdx.y], kv_head);
    uint16_t* keys = dynamic_shared<uint16_t>();
    uint16_t* values = keys + numbers;
    for (int i = thread; i < numbers; i += 128) {
        keys[i] = source.keys[i];
        values[i] = source.values[i];
    }
    __syncthreads();
    const int copy = form >> FORM_COPY_SHIFT;
    const Region target = copy > 0
        ? region_of(copies, copies_place(copies, static_cast<int>(gridDim.x), head_dim), copy - 1, kv_head)
        : source;
    const bool bytes = (form & FORM_MASK) == FORM_BYTES;
    const float steps = bytes ? 255.0F : 15.0F;
    const int shrink = bytes ? 1 : 2;

    uint8_t* codes = reinterpret_cast<uint8_t*>(target.keys + 2 * head_dim);
    for (int channel = thread; channel < head_dim; channel += 128) {
        const Factors factors = factors_of(keys + channel * BLOCK_TOKENS, BLOCK_TOKENS, steps);
        target.keys[2 * channel] = factors.factor;
        target.keys[2 * channel + 1] = factors.minimum;
        put_codes(
            factors, keys + channel * BLOCK_TOKENS, BLOCK_TOKENS, bytes, codes + channel * BLOCK_TOKENS / shrink
        );
    }
    const int groups = value_groups(head_dim);
    codes = reinterpret_cast<uint8_t*>(target.values + 2 * BLOCK_TOKENS * groups);
    for (int at = thread; at < BLOCK_TOKENS * groups; at += 128) {
        const int first = at / groups * head_dim + at % groups * VALUE_GROUP;
        const int count = min(VALUE_GROUP, head_dim - at % groups * VALUE_GROUP);
        const Factors factors = factors_of(values + first, count, steps);
        target.values[2 * at] = factors.factor;
        target.values[2 * at + 1] = factors.minimum;
        put_codes(factors, values + first, count, bytes, codes + first / shrink);
    }
}
ZLRS_KERNEL(seal_blocks)

/// Makes sealed blocks of the arena f16 again, each number rounded to nearest even. As seal_blocks; forms without
/// copies.
extern "C" __global__ void __launch_bounds__(128) open_blocks(
    uint16_t* arena, size_t block_len, size_t key_offset, size_t value_offset, const int* blocks, const int* forms,
    int head_dim
) {
    using namespace zlrs;
    const int thread = static_cast<int>(threadIdx.x);
    const bool bytes = (forms[blockIdx.y] & FORM_MASK) == FORM_BYTES;
    const int numbers = head_dim * BLOCK_TOKENS;
    const KvPlace place = {arena, block_len, key_offset, value_offset, head_dim};
    const Region region = region_of(arena, place, blocks[blockIdx.y], static_cast<int>(blockIdx.x));
    uint16_t* keys = dynamic_shared<uint16_t>();
    uint16_t* values = keys + numbers;
    for (int i = thread; i < numbers; i += 128) {
        keys[i] = region.keys[i];
        values[i] = region.values[i];
    }
    __syncthreads();
    for (int i = thread; i < numbers / 2; i += 128) {
        const int channel = i / (BLOCK_TOKENS / 2);
        const int pair = i % (BLOCK_TOKENS / 2);
        const float2 key = bytes ? sealed_keys<FORM_BYTES>(keys, head_dim, channel, pair)
                                 : sealed_keys<FORM_NIBBLES>(keys, head_dim, channel, pair);
        region.keys[2 * i] = float_to_half(key.x);
        region.keys[2 * i + 1] = float_to_half(key.y);
        const int position = i / (head_dim / 2);
        const int dimensions = i % (head_dim / 2);
        const float2 value = bytes ? sealed_values<FORM_BYTES>(values, head_dim, position, dimensions)
                                   : sealed_values<FORM_NIBBLES>(values, head_dim, position, dimensions);
        region.values[2 * i] = float_to_half(value.x);
        region.values[2 * i + 1] = float_to_half(value.y);
    }
}
ZLRS_KERNEL(open_blocks)
