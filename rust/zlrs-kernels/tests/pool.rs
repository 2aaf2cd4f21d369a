//! The pool keeps its promises: every worker once, panics contained, no hang after fork.
#![allow(unsafe_code, reason = "the fork test calls libc")]

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use zlrs_kernels::{KernelError, Pool};

#[test]
fn every_worker_runs_once_and_the_caller_is_worker_zero() {
    for threads in 1..=5 {
        let pool = Pool::new(threads).unwrap();
        assert_eq!(pool.threads(), threads);
        let caller = thread::current().id();
        let seen = Mutex::new(Vec::new());
        pool.run(&|worker| seen.lock().unwrap().push((worker, thread::current().id()))).unwrap();
        let mut seen = seen.into_inner().unwrap();
        seen.sort_by_key(|entry| entry.0);
        assert_eq!(seen.iter().map(|entry| entry.0).collect::<Vec<_>>(), (0..threads).collect::<Vec<_>>());
        for (worker, id) in seen {
            assert_eq!(worker == 0, id == caller, "worker {worker} of {threads}");
        }
    }
}

#[test]
fn one_thread_starts_none() {
    // A thread-local written by the job is the caller's own.
    thread_local!(static MARK: Cell<usize> = const { Cell::new(0) });
    let pool = Pool::new(1).unwrap();
    for _ in 0..3 {
        pool.run(&|_| MARK.set(MARK.get() + 1)).unwrap();
    }
    assert_eq!(MARK.get(), 3);
}

#[test]
fn impossible_sizes_are_refused() {
    for threads in [0, zlrs_kernels::MAX_THREADS + 1, usize::MAX] {
        assert!(matches!(Pool::new(threads), Err(KernelError::OutOfRange { .. })), "{threads}");
    }
}

/// Many short jobs of uneven length, each checked in full, with and without spinning.
#[test]
fn stress() {
    for (threads, spin_rounds) in [(2, 0), (2, 2000), (4, 0), (4, 50), (7, 10)] {
        let pool = Pool::with_spin_rounds(threads, spin_rounds).unwrap();
        let mut plain = vec![0_usize; threads];
        for round in 0..3000_usize {
            let counts: Vec<AtomicUsize> = (0..threads).map(|_| AtomicUsize::new(0)).collect();
            pool.run(&|worker| {
                let length = (round * 31 + worker * 17) % 97;
                let sum = (0..length).map(std::hint::black_box).sum::<usize>();
                counts[worker].fetch_add(1 + sum, Ordering::Relaxed);
            })
            .unwrap();
            for (worker, count) in counts.iter().enumerate() {
                let length = (round * 31 + worker * 17) % 97;
                assert_eq!(count.load(Ordering::Relaxed), 1 + length * length.saturating_sub(1) / 2);
                plain[worker] += 1;
            }
        }
        assert_eq!(plain, vec![3000; threads]);
    }
}

#[test]
fn units_run_once_each_whatever_their_cost() {
    let pool = Pool::new(3).unwrap();
    for units in [0, 1, 2, 3, 100] {
        let counts: Vec<AtomicUsize> = (0..units).map(|_| AtomicUsize::new(0)).collect();
        pool.run_units(units, &|worker, unit| {
            assert!(worker < 3);
            counts[unit].fetch_add(1, Ordering::Relaxed);
        })
        .unwrap();
        assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    }
}

#[test]
fn small_work_may_stay_on_the_caller_under_the_same_rules() {
    let pool = Pool::new(2).unwrap();
    let caller = thread::current().id();
    let ran = AtomicUsize::new(0);
    pool.run_alone(&|| {
        assert_eq!(thread::current().id(), caller);
        assert!(matches!(pool.run_alone(&|| ()), Err(KernelError::PoolNested)));
        assert!(matches!(pool.run(&|_| ()), Err(KernelError::PoolNested)));
        ran.fetch_add(1, Ordering::Relaxed);
    })
    .unwrap();
    assert_eq!(ran.load(Ordering::Relaxed), 1);
    assert!(matches!(pool.run_alone(&|| panic!("gives up")), Err(KernelError::PoolPoisoned { .. })));
    assert!(matches!(pool.run(&|_| ()), Err(KernelError::PoolPoisoned { .. })));
}

#[test]
fn callers_on_several_threads_take_turns() {
    let pool = Arc::new(Pool::new(2).unwrap());
    let inside = Arc::new(AtomicUsize::new(0));
    let start = Arc::new(Barrier::new(3));
    let callers: Vec<_> = (0..3)
        .map(|_| {
            let (pool, inside, start) = (Arc::clone(&pool), Arc::clone(&inside), Arc::clone(&start));
            thread::spawn(move || {
                start.wait();
                for _ in 0..500 {
                    let ran = AtomicUsize::new(0);
                    pool.run(&|_| {
                        // Never more than the two workers of one job.
                        assert!(inside.fetch_add(1, Ordering::SeqCst) < 2);
                        thread::yield_now();
                        ran.fetch_add(1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                    })
                    .unwrap();
                    assert_eq!(ran.load(Ordering::SeqCst), 2);
                }
            })
        })
        .collect();
    for caller in callers {
        caller.join().unwrap();
    }
}

#[test]
fn a_nested_run_is_an_error_on_every_worker() {
    for threads in [1, 3] {
        let pool = Pool::new(threads).unwrap();
        let refused = AtomicUsize::new(0);
        let job = |_| {
            let nested = pool.run(&|_| panic!("must not run"));
            assert!(matches!(nested, Err(KernelError::PoolNested)));
            refused.fetch_add(1, Ordering::Relaxed);
        };
        pool.run(&job).unwrap();
        assert_eq!(refused.load(Ordering::Relaxed), threads);
        pool.run(&|_| ()).unwrap();
    }
}

#[test]
fn another_pool_may_be_used_inside_a_job() {
    let (outer, inner) = (Pool::new(2).unwrap(), Pool::new(2).unwrap());
    let ran = AtomicUsize::new(0);
    outer
        .run(&|_| {
            inner
                .run(&|worker| {
                    ran.fetch_add(1, Ordering::Relaxed);
                    if worker == 0 {
                        // Worker 0 of the inner job is a worker of the outer one, which would wait for itself.
                        assert!(matches!(outer.run(&|_| ()), Err(KernelError::PoolNested)));
                    }
                })
                .unwrap();
        })
        .unwrap();
    assert_eq!(ran.load(Ordering::Relaxed), 4);
}

#[test]
fn a_panic_in_any_worker_poisons_the_pool_for_ever() {
    for threads in 1..=3 {
        for victim in 0..threads {
            let pool = Pool::new(threads).unwrap();
            let others = AtomicUsize::new(0);
            let failed = pool.run(&|worker| {
                assert!(worker != victim, "worker {worker} gives up");
                others.fetch_add(1, Ordering::Relaxed);
            });
            let Err(KernelError::PoolPoisoned { message }) = failed else { panic!("{failed:?}") };
            assert_eq!(message, format!("worker {victim} gives up"));
            assert_eq!(others.load(Ordering::Relaxed), threads - 1, "the others finish");
            let touched = AtomicBool::new(false);
            for _ in 0..2 {
                let later = pool.run(&|_| touched.store(true, Ordering::Relaxed));
                assert!(matches!(later, Err(KernelError::PoolPoisoned { .. })));
            }
            assert!(!touched.load(Ordering::Relaxed), "a poisoned pool runs nothing");
        }
    }
}

#[test]
fn a_payload_whose_destructor_panics_is_contained() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("second panic");
        }
    }
    let pool = Pool::new(2).unwrap();
    let failed = pool.run(&|_| std::panic::panic_any(Bomb));
    assert!(matches!(failed, Err(KernelError::PoolPoisoned { .. })));
}

#[test]
fn drop_joins_the_workers() {
    struct OnExit(Arc<AtomicUsize>);
    impl Drop for OnExit {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    thread_local!(static HELD: std::cell::RefCell<Option<OnExit>> = const { std::cell::RefCell::new(None) });
    let exited = Arc::new(AtomicUsize::new(0));
    let pool = Pool::new(4).unwrap();
    pool.run(&|worker| {
        if worker != 0 {
            HELD.set(Some(OnExit(Arc::clone(&exited))));
        }
    })
    .unwrap();
    assert_eq!(exited.load(Ordering::SeqCst), 0);
    drop(pool);
    assert_eq!(exited.load(Ordering::SeqCst), 3);
}

#[cfg(unix)]
#[test]
fn a_forked_child_gets_an_error_and_ends() {
    unsafe extern "C" {
        fn fork() -> i32;
        fn alarm(seconds: u32) -> u32;
        fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
        fn _exit(status: i32) -> !;
    }
    for threads in [1, 3] {
        let pool = Pool::new(threads).unwrap();
        pool.run(&|_| ()).unwrap();
        // SAFETY: the child calls only functions that neither allocate nor lock, and leaves by _exit.
        let child = unsafe { fork() };
        if child == 0 {
            // SAFETY: a plain system call; ends the child should it hang.
            unsafe { alarm(20) };
            let refused = matches!(pool.run(&|_| ()), Err(KernelError::PoolForked { owner, current }) if owner != current);
            drop(pool);
            // SAFETY: ends the child without running the parent's exit handlers.
            unsafe { _exit(if refused { 7 } else { 8 }) };
        }
        assert!(child > 0, "fork failed");
        let mut status = 0;
        // SAFETY: `status` is valid for the call, `child` is this process's own.
        assert_eq!(unsafe { waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 7 << 8, "exit code 7 expected: an error, then a drop that does not hang");
        pool.run(&|_| ()).unwrap();
    }
}

#[test]
fn units_in_order_run_once_each() {
    for threads in [1, 2, 3, 33] {
        let pool = Pool::new(threads).unwrap();
        for units in [0, 1, 2, 7, 100] {
            let counts: Vec<AtomicUsize> = (0..units).map(|_| AtomicUsize::new(0)).collect();
            pool.run_units_in_order(units, &|worker, unit| {
                assert!(worker < threads);
                counts[unit].fetch_add(1, Ordering::Relaxed);
            })
            .unwrap();
            assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1), "{threads} {units}");
        }
    }
}
