//! CPU kernels under one written specification: naive, AVX2; one thread pool.
