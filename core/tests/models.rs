//! Every algorithm beside a slow, obviously right model of its definition, along random traces, through the
//! public interface only; and the promises that all of them keep.

/// Inline, so that the modules lie in `models/` beside this file.
mod models {
    // What is asked: limits, traces, and the check of every answer's promises.
    mod limits;
    mod promises;
    mod trace;

    // One model per algorithm or family.
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
    mod changes;
    mod clock_set_back;
    mod extremes;
    mod settling;
    mod snapshots;
}
