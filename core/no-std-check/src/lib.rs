//! A `no_std` program that decides a charge. If the core, or one of its dependencies, linked std, there would be two
//! panic handlers, and this would not build.

#![no_std]

use core::alloc::{GlobalAlloc, Layout};
use core::panic::PanicInfo;
use core::ptr::null_mut;

use tollgate_core::store::State;
use tollgate_core::{Limit, Time};

struct NoMemory;

// SAFETY: every allocation fails, so no memory is ever accessed.
unsafe impl GlobalAlloc for NoMemory {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        null_mut()
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static ALLOCATOR: NoMemory = NoMemory;

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {}
}

/// Returns whether one unit is allowed at `nanos`.
#[unsafe(no_mangle)]
pub extern "C" fn is_allowed(nanos: u64) -> bool {
    let Ok(limit) = Limit::per_second(10).build("embedded") else { return false };
    State::default().apply(&limit.charge("device"), Time::from_nanos(nanos)).is_allowed()
}
