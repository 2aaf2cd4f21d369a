// Writes the keys and values of rows to their positions in the arena, rounded to f16 (nearest, ties to even).
//
//   key, value     [rows][kv_heads][head_dim] f32
//   arena          blocks as kv.cuh says
//   positions      [rows] i32; tables [rows] i32: where a row's sequence begins in block_table
//   block_table    i32: block of position / 16
//   grid           (kv_heads, rows)      block  64 threads
//
// A NaN stays one; its payload is not kept on every device.
#include "kv.cuh"

extern "C" __global__ void __launch_bounds__(64) store_kv(
    const float* key, const float* value, uint16_t* arena, size_t block_len, size_t key_offset,
    size_t value_offset, const int* positions, const int* tables, const int* block_table, int head_dim
) {
    const int row = static_cast<int>(blockIdx.y);
    const int kv_head = static_cast<int>(blockIdx.x);
    const int position = positions[row];
    const int slot = position % zlrs::BLOCK_TOKENS;
    const int block = block_table[tables[row] + position / zlrs::BLOCK_TOKENS];
    const zlrs::KvPlace place = {arena, block_len, key_offset, value_offset, head_dim};
    const size_t source = (static_cast<size_t>(row) * gridDim.x + kv_head) * head_dim;
    uint16_t* keys = arena + (zlrs::keys_of(place, block, kv_head) - arena);
    uint16_t* values = arena + (zlrs::values_of(place, block, kv_head) - arena);
    for (int i = static_cast<int>(threadIdx.x); i < head_dim; i += static_cast<int>(blockDim.x)) {
        keys[i * zlrs::BLOCK_TOKENS + slot] = zlrs::float_to_half(key[source + i]);
        values[slot * head_dim + i] = zlrs::float_to_half(value[source + i]);
    }
}
ZLRS_KERNEL(store_kv)

/// Copies whole blocks of the arena: from[i] to to[i]. grid (anything, copies), block 256. No block is both a
/// source and a target.
extern "C" __global__ void __launch_bounds__(256)
    copy_blocks(uint16_t* arena, size_t block_len, const int* from, const int* to) {
    const uint16_t* source = arena + static_cast<size_t>(from[blockIdx.y]) * block_len;
    uint16_t* target = arena + static_cast<size_t>(to[blockIdx.y]) * block_len;
    const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
    for (size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < block_len; i += step) {
        target[i] = source[i];
    }
}
ZLRS_KERNEL(copy_blocks)
