//! The system allocator, with a counter of live bytes.
//!
//! It counts only inside [`bytes_kept`]: a shared counter that every allocation writes would slow down the timed
//! subjects that allocate.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static COUNTING: AtomicBool = AtomicBool::new(false);
/// Signed, as memory that was allocated before may be freed while counting.
static LIVE: AtomicI64 = AtomicI64::new(0);

struct Counting;

/// Runs `work`. Returns its result, and the growth of the live heap in bytes.
pub fn bytes_kept<T>(work: impl FnOnce() -> T) -> (T, i64) {
    LIVE.store(0, Relaxed);
    COUNTING.store(true, Relaxed);
    let result = work();
    COUNTING.store(false, Relaxed);
    (result, LIVE.load(Relaxed))
}

fn grew(size: usize) {
    if COUNTING.load(Relaxed) {
        LIVE.fetch_add(size.cast_signed() as i64, Relaxed);
    }
}

fn shrank(size: usize) {
    if COUNTING.load(Relaxed) {
        LIVE.fetch_sub(size.cast_signed() as i64, Relaxed);
    }
}

// SAFETY: every call is forwarded to `System` unchanged, and so is its result; counting neither allocates nor panics.
#[expect(unsafe_code, reason = "a global allocator needs it")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grew(layout.size());
        // SAFETY: the caller's promises are `System`'s conditions.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grew(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        shrank(layout.size());
        // SAFETY: as above; the pointer came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        shrank(layout.size());
        grew(new_size);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // One test, as the counter is global: a second test would be counted as well.
    #[test]
    fn counts_live_bytes_and_not_freed_ones() {
        // Much more than other tests allocate meanwhile. Zeroed pages that are never written take no memory.
        const KEPT: usize = 1 << 30;
        let (kept, bytes) = bytes_kept(|| {
            drop(std::hint::black_box(vec![0_u8; 2 * KEPT]));
            vec![0_u8; KEPT]
        });
        let expected = i64::try_from(kept.len()).expect("small");
        assert!((bytes - expected).abs() < expected / 4, "{bytes}");
    }
}
