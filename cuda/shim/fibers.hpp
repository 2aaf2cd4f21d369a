// The threads of one CUDA block as fibers of one host thread, switched only where CUDA threads wait for one
// another: at barriers and at warp operations. A block that can never go on (threads of a warp or block that
// wait at different places) is reported instead of hanging.
//
// Fibers run in an order the caller chooses. Results that change with it show a missing barrier.
#pragma once

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace shim {

constexpr unsigned WARP_THREADS = 32;

/// The order in which the fibers of a block are run between barriers.
enum class Order : uint32_t { Ascending = 0, Descending = 1, Shuffled = 2 };

/// What a fiber waits for.
enum class Wait : uint8_t { None, Block, Warp, Finished };

#if defined(__x86_64__)
/// Keeps what a function must preserve on the stack it leaves and goes on with another one: the fiber switch of
/// the C library asks the system twice each time, which is a hundred times slower.
extern "C" void zlrs_shim_switch(void** from, void* to);
asm(R"(
.text
.globl zlrs_shim_switch
.hidden zlrs_shim_switch
.type zlrs_shim_switch, @function
zlrs_shim_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size zlrs_shim_switch, .-zlrs_shim_switch
)");
using Context = void*;
inline void switch_context(Context& from, Context& to) { zlrs_shim_switch(&from, to); }
inline void start_context(Context& context, uint8_t* stack, size_t bytes, void (*entry)()) {
    // Six registers, the entry as return address, and the alignment a call would leave.
    uintptr_t top = (reinterpret_cast<uintptr_t>(stack) + bytes) / 16 * 16;
    void** slots = reinterpret_cast<void**>(top - 16);
    slots[0] = reinterpret_cast<void*>(entry);
    slots[1] = nullptr;
    std::fill(slots - 6, slots, nullptr);
    context = slots - 6;
}
#else
using Context = ucontext_t;
inline void switch_context(Context& from, Context& to) { swapcontext(&from, &to); }
inline void start_context(Context& context, uint8_t* stack, size_t bytes, void (*entry)()) {
    getcontext(&context);
    context.uc_stack.ss_sp = stack;
    context.uc_stack.ss_size = bytes;
    context.uc_link = nullptr;
    makecontext(&context, entry, 0);
}
#endif

struct Fiber {
    Context context{};
    std::unique_ptr<uint8_t[]> stack;
    Wait wait = Wait::None;
    uint32_t warp_mask = 0;
    void* sanitizer_stack = nullptr;
};

/// One block in flight. The block's threads are `fibers`; `exchange` is the warps' memory of shuffles.
class Block {
  public:
    explicit Block(unsigned threads) : fibers_(threads), exchange_(threads), fragments_(threads) {
        for (Fiber& fiber : fibers_) {
            fiber.stack = std::make_unique_for_overwrite<uint8_t[]>(STACK_BYTES);
        }
    }

    /// Runs `body(thread)` for every thread to its end.
    void run(const std::function<void(unsigned)>& body, Order order, uint64_t seed) {
        body_ = &body;
        current_block = this;
        for (unsigned thread = 0; thread < fibers_.size(); ++thread) {
            start(thread);
        }
        std::vector<unsigned> turns = arrange(order, seed);
        while (advance(turns)) {
        }
        current_block = nullptr;
    }

    /// Called by a fiber: waits until all threads of the block that still run have come here.
    void wait_for_block() { pause(Wait::Block, 0); }

    /// Called by a fiber: waits until all threads of its warp in `mask` that still run have come here.
    void wait_for_warp(uint32_t mask) { pause(Wait::Warp, mask); }

    /// The memory through which thread `thread` hands a value to its warp.
    uint64_t& exchange(unsigned thread) { return exchange_[thread]; }

    /// The memory through which thread `thread` hands its words of a matrix to its warp.
    std::array<uint32_t, 8>& fragment(unsigned thread) { return fragments_[thread]; }

    unsigned running() const { return running_; }
    unsigned threads() const { return static_cast<unsigned>(fibers_.size()); }

    static inline Block* current_block = nullptr;
    /// Set before a fiber goes on; gives the kernel its `threadIdx`.
    static inline std::function<void(unsigned)> before_turn;

  private:
    static constexpr size_t STACK_BYTES = 96 * 1024;

    std::vector<Fiber> fibers_;
    std::vector<uint64_t> exchange_;
    std::vector<std::array<uint32_t, 8>> fragments_;
    const std::function<void(unsigned)>* body_ = nullptr;
    Context scheduler_{};
    void* scheduler_sanitizer_stack_ = nullptr;
    const void* scheduler_stack_ = nullptr;
    size_t scheduler_stack_bytes_ = 0;
    unsigned running_ = 0;

    void start(unsigned thread) {
        Fiber& fiber = fibers_[thread];
        fiber.wait = Wait::None;
        start_context(fiber.context, fiber.stack.get(), STACK_BYTES, &Block::enter);
    }

    static void enter() {
        Block* block = current_block;
        block->entered();
        (*block->body_)(block->running_);
        block->fibers_[block->running_].wait = Wait::Finished;
        block->leave(true);
    }

    std::vector<unsigned> arrange(Order order, uint64_t seed) const {
        std::vector<unsigned> turns(fibers_.size());
        for (unsigned i = 0; i < turns.size(); ++i) {
            turns[i] = order == Order::Descending ? threads() - 1 - i : i;
        }
        if (order == Order::Shuffled) {
            uint64_t state = seed * 2 + 1;
            for (size_t i = turns.size(); i > 1; --i) {
                state = state * 6364136223846793005ULL + 1442695040888963407ULL;
                std::swap(turns[i - 1], turns[(state >> 33) % i]);
            }
        }
        return turns;
    }

    /// One round: every fiber that may go on does. False when all have finished.
    bool advance(const std::vector<unsigned>& turns) {
        bool moved = false;
        bool alive = false;
        for (unsigned thread : turns) {
            if (fibers_[thread].wait == Wait::None) {
                resume(thread);
                moved = true;
            }
        }
        for (const Fiber& fiber : fibers_) {
            alive = alive || fiber.wait != Wait::Finished;
        }
        if (!alive) {
            return false;
        }
        moved = release_warps() || moved;
        moved = release_block() || moved;
        if (!moved) {
            fail("threads wait for one another at different barriers");
        }
        return true;
    }

    bool release_block() {
        for (const Fiber& fiber : fibers_) {
            if (fiber.wait != Wait::Block && fiber.wait != Wait::Finished) {
                return false;
            }
        }
        for (Fiber& fiber : fibers_) {
            if (fiber.wait == Wait::Block) {
                fiber.wait = Wait::None;
            }
        }
        return true;
    }

    bool release_warps() {
        bool released = false;
        for (size_t first = 0; first < fibers_.size(); first += WARP_THREADS) {
            size_t lanes = std::min<size_t>(WARP_THREADS, fibers_.size() - first);
            for (size_t lane = 0; lane < lanes; ++lane) {
                Fiber& leader = fibers_[first + lane];
                if (leader.wait == Wait::Warp) {
                    released = release_mask(first, lanes, leader.warp_mask) || released;
                }
            }
        }
        return released;
    }

    bool release_mask(size_t first, size_t lanes, uint32_t mask) {
        for (size_t lane = 0; lane < lanes; ++lane) {
            const Fiber& fiber = fibers_[first + lane];
            bool member = (mask >> lane & 1U) != 0;
            if (!member || fiber.wait == Wait::Finished) {
                continue;
            }
            if (fiber.wait != Wait::Warp || fiber.warp_mask != mask) {
                return false;
            }
        }
        for (size_t lane = 0; lane < lanes; ++lane) {
            Fiber& fiber = fibers_[first + lane];
            if ((mask >> lane & 1U) != 0 && fiber.wait == Wait::Warp) {
                fiber.wait = Wait::None;
            }
        }
        return true;
    }

    void resume(unsigned thread) {
        running_ = thread;
        before_turn(thread);
        Fiber& fiber = fibers_[thread];
#if defined(__SANITIZE_ADDRESS__)
        __sanitizer_start_switch_fiber(&scheduler_sanitizer_stack_, fiber.stack.get(), STACK_BYTES);
#endif
        switch_context(scheduler_, fiber.context);
#if defined(__SANITIZE_ADDRESS__)
        __sanitizer_finish_switch_fiber(scheduler_sanitizer_stack_, nullptr, nullptr);
#endif
    }

    void pause(Wait wait, uint32_t mask) {
        Fiber& fiber = fibers_[running_];
        fiber.wait = wait;
        fiber.warp_mask = mask;
        leave(false);
    }

    void leave(bool for_ever) {
        Fiber& fiber = fibers_[running_];
#if defined(__SANITIZE_ADDRESS__)
        __sanitizer_start_switch_fiber(
            for_ever ? nullptr : &fiber.sanitizer_stack, scheduler_stack_, scheduler_stack_bytes_
        );
#else
        (void)for_ever;
#endif
        switch_context(fiber.context, scheduler_);
#if defined(__SANITIZE_ADDRESS__)
        __sanitizer_finish_switch_fiber(fiber.sanitizer_stack, &scheduler_stack_, &scheduler_stack_bytes_);
#endif
    }

    void entered() {
#if defined(__SANITIZE_ADDRESS__)
        __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack_, &scheduler_stack_bytes_);
#endif
    }

    [[noreturn]] static void fail(const char* what) {
        std::fprintf(stderr, "cuda shim: %s\n", what);
        std::abort();
    }
};

}  // namespace shim
