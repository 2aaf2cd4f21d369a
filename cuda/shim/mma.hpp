// The warp's integer matrix multiply-accumulate in plain loops, from the fragments' definition in kernels/mma.cuh.
#pragma once

#include <cstdint>

#include "cuda_on_host.hpp"

namespace shim {

template <int K>
void mma_s8(const uint32_t* a, const uint32_t* b, int* c) {
    constexpr unsigned A_WORDS = K / 8;
    constexpr unsigned B_WORDS = K / 16;
    Block& block = *Block::current_block;
    const unsigned own = block.running();
    const unsigned start = warp_start();
    for (unsigned word = 0; word < A_WORDS; ++word) {
        block.fragment(own)[word] = a[word];
    }
    for (unsigned word = 0; word < B_WORDS; ++word) {
        block.fragment(own)[4 + word] = b[word];
    }
    block.wait_for_warp(0xffffffffU);
    const auto byte_of = [](uint32_t word, unsigned byte) {
        return static_cast<int>(static_cast<int8_t>(word >> (8 * byte)));
    };
    for (unsigned element = 0; element < 4; ++element) {
        const unsigned row = lane() / 4 + element / 2 * 8;
        const unsigned column = lane() % 4 * 2 + element % 2;
        for (unsigned k = 0; k < K; ++k) {
            const unsigned part = k / 16;
            const unsigned quarter = k % 16 / 4;
            const uint32_t left = block.fragment(start + row % 8 * 4 + quarter)[part * 2 + row / 8];
            const uint32_t right = block.fragment(start + column * 4 + quarter)[4 + part];
            c[element] += byte_of(left, k % 4) * byte_of(right, k % 4);
        }
    }
    block.wait_for_warp(0xffffffffU);
}

}  // namespace shim
