//! Compares every algorithm with a slow and simple model of its definition, on random traces through the public API;
//! and checks the guarantees that all algorithms share.

/// Inline, so that the modules lie in `models/` beside this file.
mod models {
    // Random limits and traces, what counting models share, and the guarantees of every decision.
    mod counting;
    mod guarantees;
    mod limits;
    mod steps;
    mod trace;

    // One model per algorithm or family of algorithms.
    mod concurrency;
    mod fixed_window;
    mod interval_bucket;
    mod leaky_queue;
    mod sliding_counter;
    mod sliding_log;
    mod sliding_window;
    mod smooth_bursty;
    mod smooth_warming_up;
    mod token_bucket;

    // What holds for every limit.
    mod block_time;
    mod clock_set_back;
    mod extremes;
    mod parameter_changes;
    mod refunds;
    mod requests;
    mod reservations;
    mod snapshots;
}
