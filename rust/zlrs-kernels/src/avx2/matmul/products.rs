//! Products that share their input: the rows are quantised once for each type, then the workers are called
//! together once for all of them.

use super::activations::pack_tile;
use super::float_products;
use super::format::STRIP_ROWS;
use super::formats::with_format;
use super::gemv::{MAX_COLUMNS, gemv};
use super::q4_0::Q4_0;
use super::q4_1::Q4_1;
use super::q4_k::Q4K;
use super::q5_0::Q5_0;
use super::q5_k::Q5K;
use super::q6_k::Q6K;
use super::q8_0::Q8_0;
use super::task::Task;
use crate::avx512::{self, Wide};
use crate::matmul::{self, Gate, Product};
use crate::output::{Columns, Parts, SMALL_WORK, share};
use crate::{Isa, KernelError, Pool, Scratch, TensorType};
use std::ops::Range;

/// The most products that share a call; more are done in several.
const MAX_PRODUCTS: usize = 4;
/// Strips of a unit that a worker takes from a product with many columns.
const UNIT_STRIPS: usize = 4;
/// Values of a unit of quantising.
const UNIT_VALUES: usize = 4096;

/// What is done with a format, as function pointers.
#[derive(Clone, Copy)]
struct Kernels {
    tensor_type: TensorType,
    /// Dwords of a block and column of activations.
    words: usize,
    tile_columns: usize,
    /// Needs AVX2; quantises blocks of one tile, `(x, cols, blocks, words of these blocks)`.
    quantise: unsafe fn(&[f32], usize, Range<usize>, &mut [u32]),
    /// `gemv`.
    few: unsafe fn(&Task<'_>, Range<usize>),
    /// `Format::multiply_many`.
    many: unsafe fn(&Task<'_>, Range<usize>),
}

#[expect(clippy::unnecessary_wraps, reason = "floating types have none")]
fn kernels_of<F: Wide>(isa: Isa) -> Option<Kernels> {
    let kernels = Kernels {
        tensor_type: F::TENSOR_TYPE,
        words: F::WORDS,
        tile_columns: F::TILE_COLUMNS,
        quantise: pack_tile::<F, false>,
        few: gemv::<F>,
        many: F::multiply_many,
    };
    Some(match isa {
        Isa::Avx512 => Kernels {
            tile_columns: avx512::TILE_COLUMNS,
            quantise: pack_tile::<F, true>,
            few: avx512::gemv::<F>,
            many: avx512::gemm::<F>,
            ..kernels
        },
        _ => kernels,
    })
}

fn kernels(tensor_type: TensorType, isa: Isa) -> Option<Kernels> {
    with_format!(tensor_type, kernels_of(isa), float => None)
}

/// A type's quantised rows among the words of a call.
#[derive(Clone, Copy)]
struct Layout {
    kernels: Kernels,
    start: usize,
}

/// What becomes of a pair of results.
struct Gated<'a> {
    gate: Gate,
    isa: Isa,
    out: Columns<'a>,
    /// By column.
    least: Option<&'a [f32]>,
}

/// One call's rows.
#[derive(Clone, Copy)]
struct Input<'a> {
    /// `[columns][cols]`
    x: &'a [f32],
    cols: usize,
    columns: usize,
}

/// Products of checked arguments, of at least one row. With a gate there are two, equal in rows, of quantised
/// types.
///
/// # Safety
/// Needs AVX2, FMA and F16C. The weights were packed for AVX2.
pub(crate) unsafe fn products(
    pool: &Pool,
    products: &mut [Product<'_>],
    gated: Option<matmul::Gated<'_>>,
    x: &[f32],
    scratch: &mut Scratch,
) -> Result<(), KernelError> {
    let gated = gated.zip(products.first()).map(|(gated, first)| {
        let (isa, rows) = (first.weights.isa(), first.weights.rows());
        Gated { gate: gated.gate, isa, out: Columns::new(gated.out, rows), least: gated.least }
    });
    for some in products.chunks_mut(MAX_PRODUCTS) {
        for product in some.iter_mut().filter(|product| product.weights.tensor_type().is_float()) {
            // SAFETY: the caller's promise.
            unsafe { float_products::product(pool, product.weights, x, product.bias, product.out)? }
        }
        // SAFETY: the caller's promise.
        unsafe { together(pool, some, gated.as_ref(), x, scratch)? }
    }
    Ok(())
}

/// The quantised ones among at most [`MAX_PRODUCTS`] products.
///
/// # Safety
/// As [`products`].
unsafe fn together(
    pool: &Pool,
    products: &mut [Product<'_>],
    gated: Option<&Gated<'_>>,
    x: &[f32],
    scratch: &mut Scratch,
) -> Result<(), KernelError> {
    let Some((isa, cols)) = products.first().map(|first| (first.weights.isa(), first.weights.cols())) else {
        return Ok(());
    };
    let input = Input { x, cols, columns: x.len() / cols };
    let mut layouts = [None; MAX_PRODUCTS];
    let mut length = 0;
    for product in products.iter() {
        let tensor_type = product.weights.tensor_type();
        let Some(kernels) = kernels(tensor_type, isa) else { continue };
        for layout in &mut layouts {
            match layout {
                Some(Layout { kernels, .. }) if kernels.tensor_type != tensor_type => {}
                Some(_) => break,
                None => {
                    *layout = Some(Layout { kernels, start: length });
                    length += input.columns * (cols / tensor_type.block_len()) * kernels.words;
                    break;
                }
            }
        }
    }
    let words = &mut scratch.packed;
    if words.len() < length {
        let what = "quantised activations";
        let grow = words.try_reserve_exact(length - words.len());
        grow.map_err(|_| KernelError::OutOfMemory { what, bytes: 4 * length })?;
        words.resize(length, 0);
    }
    // SAFETY: the caller's promise.
    unsafe { quantise(pool, input, &layouts, &mut words[..length])? }

    let mut tasks = [const { None }; MAX_PRODUCTS];
    let mut work = 0_usize;
    for (task, product) in tasks.iter_mut().zip(products) {
        let Product { weights, bias, ref mut out } = *product;
        let tensor_type = weights.tensor_type();
        let layout = layouts.iter().flatten().find(|layout| layout.kernels.tensor_type == tensor_type);
        let Some(layout) = layout.filter(|_| weights.rows() > 0) else { continue };
        work = work.saturating_add(x.len().saturating_mul(weights.rows()));
        *task = Some((
            layout.kernels,
            Task {
                weights: weights.data(),
                rows: weights.rows(),
                blocks: cols / tensor_type.block_len(),
                activations: &words[layout.start..],
                columns: input.columns,
                bias,
                out: Columns::new(out, weights.rows()),
            },
        ));
    }
    // SAFETY: the caller's promise; the weights were packed as their types; the activations are one tile for
    // few columns, else tiles of the format's width.
    unsafe { multiply(pool, &tasks, gated, work) }
}

/// Quantises the rows for each layout: as one tile for few columns, else in the format's tiles.
///
/// # Safety
/// Needs AVX2. The layouts lie side by side and fill `words`.
unsafe fn quantise(
    pool: &Pool,
    input: Input<'_>,
    layouts: &[Option<Layout>],
    words: &mut [u32],
) -> Result<(), KernelError> {
    let Input { x, cols, columns } = input;
    let tile_columns = |kernels: &Kernels| {
        if columns <= MAX_COLUMNS { columns } else { kernels.tile_columns }
    };
    // Units of a layout: some blocks of one tile.
    let unit_blocks = |kernels: &Kernels| {
        let values = tile_columns(kernels) * kernels.tensor_type.block_len();
        (UNIT_VALUES / values).max(1)
    };
    let units_of_tile =
        |kernels: &Kernels| (cols / kernels.tensor_type.block_len()).div_ceil(unit_blocks(kernels));
    let units_of = |kernels: &Kernels| columns.div_ceil(tile_columns(kernels)) * units_of_tile(kernels);
    let words = Parts::new(words);
    let job = |_worker: usize, mut unit: usize| {
        for Layout { kernels, start } in layouts.iter().flatten() {
            if unit >= units_of(kernels) {
                unit -= units_of(kernels);
                continue;
            }
            let blocks = cols / kernels.tensor_type.block_len();
            let (tile, part) = (unit / units_of_tile(kernels), unit % units_of_tile(kernels));
            let first = tile * tile_columns(kernels);
            let width = tile_columns(kernels).min(columns - first);
            let some = part * unit_blocks(kernels)..blocks.min((part + 1) * unit_blocks(kernels));
            let start = start + (first * blocks + some.start * width) * kernels.words;
            let end = start + some.len() * width * kernels.words;
            // SAFETY: the caller's promise; units are disjoint stretches of their layout's words.
            unsafe {
                let words = words.part(start..end);
                (kernels.quantise)(&x[first * cols..(first + width) * cols], cols, some, words);
            }
            return;
        }
    };
    let units = layouts.iter().flatten().map(|layout| units_of(&layout.kernels)).sum();
    if x.len() < 4 * UNIT_VALUES {
        pool.run_alone(&|| (0..units).for_each(|unit| job(0, unit)))
    } else {
        pool.run_units(units, &job)
    }
}

/// Runs the tasks, each strip on one worker.
///
/// # Safety
/// Needs AVX2, FMA and F16C; sizes as the tasks say. With a gate the tasks are two of equal rows.
unsafe fn multiply(
    pool: &Pool,
    tasks: &[Option<(Kernels, Task<'_>)>],
    gated: Option<&Gated<'_>>,
    work: usize,
) -> Result<(), KernelError> {
    let tasks = || tasks.iter().flatten();
    let few = tasks().all(|(_, task)| task.columns <= MAX_COLUMNS);
    let run = |(kernels, task): &(Kernels, Task<'_>), strips: Range<usize>| {
        // SAFETY: the caller's promise; each call below hands out strips that overlap no others.
        unsafe { if few { (kernels.few)(task, strips) } else { (kernels.many)(task, strips) } }
    };
    // The gate follows where both results have just been written.
    let run_gate = |gated: &Gated<'_>, strips: Range<usize>| {
        let mut pair = tasks();
        if let (Some((_, first)), Some((_, second))) = (pair.next(), pair.next()) {
            let range = strips.start * STRIP_ROWS..first.rows.min(strips.end * STRIP_ROWS);
            for column in 0..first.columns {
                // SAFETY: the range ends within the rows; these strips are this worker's in all three outputs.
                unsafe {
                    let gate = first.out.segment(column, range.clone());
                    let up = second.out.segment(column, range.clone());
                    gated.gate.apply(gated.isa, gate, up, gated.out.segment(column, range.clone()));
                }
            }
        }
    };
    let joint = |strips: Range<usize>| {
        if let Some((gated, least)) = gated.and_then(|gated| Some((gated, gated.least?))) {
            let mut pair = tasks();
            if let (Some(first), Some(second)) = (pair.next(), pair.next()) {
                run(first, strips.clone());
                // SAFETY: these strips are this worker's in all three outputs, which have equal rows.
                unsafe { gate_strips(gated, least, &first.1, &second.1, strips, &|some| run(second, some)) };
            }
            return;
        }
        tasks().for_each(|task| run(task, strips.clone()));
        if let Some(gated) = gated {
            run_gate(gated, strips);
        }
    };
    let all_strips = tasks().next().map_or(0, |(_, task)| task.strips());
    if work < SMALL_WORK {
        pool.run_alone(&|| match gated {
            Some(_) => joint(0..all_strips),
            None => tasks().for_each(|task| run(task, 0..task.1.strips())),
        })
    } else if few {
        // Bound by memory: one long stretch for each worker keeps its stream of reads going.
        pool.run(&|worker| match gated {
            Some(_) => joint(share(all_strips, pool.threads(), worker)),
            None => tasks().for_each(|task| run(task, share(task.1.strips(), pool.threads(), worker))),
        })
    } else {
        // Bound by arithmetic: whoever is free takes the next unit, so that an uneven core delays nobody.
        let units_of = |strips: usize| strips.div_ceil(UNIT_STRIPS);
        let unit_range =
            |unit: usize, strips: usize| unit * UNIT_STRIPS..strips.min((unit + 1) * UNIT_STRIPS);
        if gated.is_some() {
            return pool
                .run_units_in_order(units_of(all_strips), &|_, unit| joint(unit_range(unit, all_strips)));
        }
        let units = tasks().map(|(_, task)| units_of(task.strips())).sum();
        pool.run_units_in_order(units, &|_, mut unit| {
            for task in tasks() {
                let units = units_of(task.1.strips());
                if unit < units {
                    return run(task, unit_range(unit, task.1.strips()));
                }
                unit -= units;
            }
        })
    }
}

/// Where the gate lets something through: the rest of a strip's work. `first` has its results; `run` gives those of
/// `second` for some strips.
///
/// # Safety
/// The strips are this worker's alone in both results and in the gated output.
unsafe fn gate_strips(
    gated: &Gated<'_>,
    least: &[f32],
    first: &Task<'_>,
    second: &Task<'_>,
    strips: Range<usize>,
    run: &dyn Fn(Range<usize>),
) {
    let rows_of = |strips: Range<usize>| strips.start * STRIP_ROWS..first.rows.min(strips.end * STRIP_ROWS);
    for column in 0..first.columns {
        let rows = rows_of(strips.clone());
        // SAFETY: the caller's promise; the range ends within the rows; nothing else holds these segments.
        unsafe {
            // What the gate lets through of 1.
            let ones = second.out.segment(column, rows.clone());
            ones.fill(1.0);
            let gate = first.out.segment(column, rows.clone());
            gated.gate.apply(gated.isa, gate, ones, gated.out.segment(column, rows));
        }
    }
    let counts = |strip: usize| {
        least.iter().enumerate().any(|(column, &least)| {
            // SAFETY: as above.
            let through = unsafe { gated.out.segment(column, rows_of(strip..strip + 1)) };
            // What is not a number counts.
            !through.iter().all(|through| through.abs() <= least)
        })
    };
    let mut next = strips.start;
    while next < strips.end {
        let (start, is_alive) = (next, counts(next));
        next += 1;
        while next < strips.end && counts(next) == is_alive {
            next += 1;
        }
        if is_alive {
            run(start..next);
        }
        for (column, &least) in least.iter().enumerate() {
            let rows = rows_of(start..next);
            // SAFETY: as above.
            unsafe {
                let out = gated.out.segment(column, rows.clone());
                if is_alive {
                    // A gate's result is its activation, rounded, times the other product.
                    for (out, up) in out.iter_mut().zip(second.out.segment(column, rows)) {
                        *out = if out.abs() <= least { 0.0 } else { *out * *up };
                    }
                } else {
                    out.fill(0.0);
                }
            }
        }
    }
}
