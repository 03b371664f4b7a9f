//! The steps of a change. Tests kill the process after each of them.

/// Says that a step of a change is done.
#[cfg(not(test))]
pub(super) fn done() {}

#[cfg(test)]
pub(super) use of_tests::done;

#[cfg(test)]
pub(super) mod of_tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// How many more steps this process lives; 0 for ever.
    static LEFT: AtomicUsize = AtomicUsize::new(0);

    /// Aborts this process after so many steps.
    pub(in crate::documents::files) fn abort_after(steps: usize) {
        LEFT.store(steps, Ordering::SeqCst);
    }

    pub(in crate::documents::files) fn done() {
        let left = LEFT.load(Ordering::SeqCst);
        if left == 1 {
            std::process::abort();
        }
        LEFT.store(left.saturating_sub(1), Ordering::SeqCst);
    }
}
