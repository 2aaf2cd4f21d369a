// CUDA's language on the host: enough of it for the kernels of this folder, and no more. Include it before a
// kernel's source and compile with the host's C++ compiler (C++20, -ffp-contract=off).
//
// Dynamic shared memory is per block (blocks run one after the other), as large as the launch asks for, and filled
// with 0xff before each block, so that a read before a write shows as NaN. Static shared memory keeps what the block
// before left in it: there such a read shows only where blocks differ. Warp operations wait for the lanes of their mask like the device's do.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <type_traits>
#include <utility>

#include "fibers.hpp"

#define ZLRS_ON_HOST 1
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__ __restrict
#define __constant__ static const
#define __shared__ static
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

struct dim3 {
    unsigned x = 1, y = 1, z = 1;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(8) uint2 { uint32_t x, y; };
struct alignas(16) uint4 { uint32_t x, y, z, w; };
struct alignas(8) int2 { int32_t x, y; };
struct alignas(16) int4 { int32_t x, y, z, w; };

inline dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace shim {

/// Dynamic shared memory of the block in flight.
inline std::vector<uint4> shared_memory;

inline void* dynamic_shared() { return shared_memory.data(); }

inline unsigned lane() { return Block::current_block->running() % WARP_THREADS; }
inline unsigned warp_start() { return Block::current_block->running() / WARP_THREADS * WARP_THREADS; }

/// The value that lane `source` of this warp brought to this operation; the own one where `source` is not in it.
template <class T>
T from_lane(uint32_t mask, T value, unsigned source) {
    static_assert(sizeof(T) <= 8);
    Block& block = *Block::current_block;
    const unsigned own = block.running();
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(T));
    block.exchange(own) = bits;
    block.wait_for_warp(mask);
    T result = value;
    if (source < WARP_THREADS && warp_start() + source < block.threads() && (mask >> source & 1U) != 0) {
        bits = block.exchange(warp_start() + source);
        std::memcpy(&result, &bits, sizeof(T));
    }
    block.wait_for_warp(mask);
    return result;
}

/// Runs a kernel over a grid. `shared_bytes` is the dynamic shared memory of a block.
inline void run_grid(
    dim3 grid, dim3 block, size_t shared_bytes, Order order, const std::function<void()>& kernel
) {
    gridDim = grid;
    blockDim = block;
    const unsigned threads = block.x * block.y * block.z;
    Block fibers(threads);
    Block::before_turn = [block](unsigned thread) {
        threadIdx = dim3(thread % block.x, thread / block.x % block.y, thread / (block.x * block.y));
    };
    // New memory of this size, so that a sanitizer sees what is read or written behind it.
    shared_memory = std::vector<uint4>((shared_bytes + sizeof(uint4) - 1) / sizeof(uint4));
    const uint64_t blocks = uint64_t{grid.x} * grid.y * grid.z;
    for (uint64_t turn = 0; turn < blocks; ++turn) {
        const uint64_t index = order == Order::Descending ? blocks - 1 - turn : turn;
        blockIdx = dim3(
            static_cast<unsigned>(index % grid.x), static_cast<unsigned>(index / grid.x % grid.y),
            static_cast<unsigned>(index / (uint64_t{grid.x} * grid.y))
        );
        if (!shared_memory.empty()) {
            std::memset(static_cast<void*>(shared_memory.data()), 0xff, shared_memory.size() * sizeof(uint4));
        }
        fibers.run([&kernel](unsigned) { kernel(); }, order, index);
    }
}

/// Kernels by name, called with pointers to their arguments, as the driver's cuLaunchKernel does.
using Launcher = std::function<void(dim3, dim3, size_t, Order, void**)>;

inline std::map<std::string, Launcher>& kernels() {
    static std::map<std::string, Launcher> all;
    return all;
}

template <class... Arguments>
bool add_kernel(const char* name, void (*kernel)(Arguments...)) {
    kernels()[name] = [kernel](dim3 grid, dim3 block, size_t shared_bytes, Order order, void** arguments) {
        [&]<size_t... I>(std::index_sequence<I...>) {
            run_grid(grid, block, shared_bytes, order, [&] {
                kernel(*static_cast<std::remove_reference_t<Arguments>*>(arguments[I])...);
            });
        }(std::index_sequence_for<Arguments...>{});
    };
    return true;
}

}  // namespace shim

// Makes a kernel known by its name. On the device its symbol in the PTX does that.
#define ZLRS_KERNEL(name) static const bool zlrs_known_##name = shim::add_kernel(#name, name);

inline void __syncthreads() { shim::Block::current_block->wait_for_block(); }
inline void __syncwarp(uint32_t mask = 0xffffffffU) { shim::Block::current_block->wait_for_warp(mask); }

template <class T>
T __shfl_sync(uint32_t mask, T value, int source) {
    return shim::from_lane(mask, value, static_cast<unsigned>(source) % shim::WARP_THREADS);
}
template <class T>
T __shfl_xor_sync(uint32_t mask, T value, int lanes) {
    return shim::from_lane(mask, value, shim::lane() ^ static_cast<unsigned>(lanes));
}
template <class T>
T __shfl_down_sync(uint32_t mask, T value, unsigned lanes) {
    return shim::from_lane(mask, value, shim::lane() + lanes);
}
inline uint32_t __ballot_sync(uint32_t mask, int predicate) {
    uint32_t votes = 0;
    for (unsigned lane = 0; lane < shim::WARP_THREADS; ++lane) {
        if ((mask >> lane & 1U) != 0) {
            votes |= shim::from_lane<uint32_t>(mask, predicate != 0, lane) << lane;
        }
    }
    return votes;
}

inline int __dp4a(int a, int b, int sum) {
    for (int byte = 0; byte < 4; ++byte) {
        sum += static_cast<int8_t>(static_cast<uint32_t>(a) >> (8 * byte)) *
               static_cast<int8_t>(static_cast<uint32_t>(b) >> (8 * byte));
    }
    return sum;
}
template <class T>
T __ldg(const T* address) {
    return *address;
}
inline float __int2float_rn(int value) { return static_cast<float>(value); }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline int __float_as_int(float value) { return std::bit_cast<int>(value); }
inline uint32_t __float_as_uint(float value) { return std::bit_cast<uint32_t>(value); }
inline float __int_as_float(int value) { return std::bit_cast<float>(value); }
inline float __uint_as_float(uint32_t value) { return std::bit_cast<float>(value); }
using std::max;
using std::min;
