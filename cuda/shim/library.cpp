// All kernels as one library of the host: `zlrs_shim_launch` stands in for the driver's cuLaunchKernel.
#include <bit>
#include <type_traits>

#include "cuda_on_host.hpp"
#include "mma.hpp"

#include "../kernels/attention.cu"
#include "../kernels/bandwidth.cu"
#include "../kernels/elementwise.cu"
#include "../kernels/exit_head.cu"
#include "../kernels/float_product.cu"
#include "../kernels/gemv.cu"
#include "../kernels/matmul.cu"
#include "../kernels/norm.cu"
#include "../kernels/quantise.cu"
#include "../kernels/rope.cu"
#include "../kernels/rows.cu"
#include "../kernels/seal_kv.cu"
#include "../kernels/store_kv.cu"
#include "../kernels/unfused.cu"

extern "C" {

/// Runs kernel `name`; `arguments` point to its parameters. 0, or 1 when there is no such kernel.
int zlrs_shim_launch(
    const char* name, const unsigned grid[3], const unsigned block[3], size_t shared_bytes, unsigned order,
    void** arguments
) {
    const auto found = shim::kernels().find(name);
    if (found == shim::kernels().end()) {
        return 1;
    }
    found->second(
        dim3(grid[0], grid[1], grid[2]), dim3(block[0], block[1], block[2]), shared_bytes,
        static_cast<shim::Order>(order), arguments
    );
    return 0;
}
}
