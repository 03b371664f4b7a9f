//! The scripts, put together from the files in `scripts/`: what a call needs and nothing else, because a server
//! makes every function of a script anew each time it runs it.

use std::sync::OnceLock;

use tollgate_core::AlgorithmKind;

/// A script and the name that a server knows it by.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) text: String,
    pub(crate) sha: String,
}

impl Script {
    fn new(parts: &[&str]) -> Self {
        let text = parts.concat();
        let sha = redis::Script::new(&text).get_hash().to_owned();
        Self { text, sha }
    }
}

const NUMBER: &str = include_str!("../scripts/number.lua");
const TERMS: &str = include_str!("../scripts/terms.lua");
const PACE: &str = include_str!("../scripts/pace.lua");
const DECIDE: &str = include_str!("../scripts/decide.lua");

/// The files of the algorithms, each with the kinds that it decides.
const ALGORITHMS: [(&str, &[AlgorithmKind]); 8] = [
    (
        include_str!("../scripts/flow.lua"),
        &[
            AlgorithmKind::TokenBucket,
            AlgorithmKind::LeakyMeter,
            AlgorithmKind::LeakyQueue,
            AlgorithmKind::Gcra,
            AlgorithmKind::SmoothBursty,
        ],
    ),
    (include_str!("../scripts/interval_bucket.lua"), &[AlgorithmKind::IntervalBucket]),
    (include_str!("../scripts/fixed_window.lua"), &[AlgorithmKind::FixedWindow]),
    (include_str!("../scripts/sliding_log.lua"), &[AlgorithmKind::SlidingLog]),
    (include_str!("../scripts/sliding_counter.lua"), &[AlgorithmKind::SlidingCounter]),
    (include_str!("../scripts/sliding_window.lua"), &[AlgorithmKind::SlidingWindow]),
    (include_str!("../scripts/smooth_warming_up.lua"), &[AlgorithmKind::SmoothWarmingUp]),
    (include_str!("../scripts/concurrency.lua"), &[AlgorithmKind::Concurrency]),
];

/// Which files a call needs, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs(u8);

impl Needs {
    pub(crate) fn add(&mut self, kind: AlgorithmKind) {
        for (bit, (_, kinds)) in ALGORITHMS.iter().enumerate() {
            self.0 |= u8::from(kinds.contains(&kind)) << bit;
        }
    }
}

/// The script that decides anything that consists of those algorithms.
pub(crate) fn decide(needs: Needs) -> &'static Script {
    static SCRIPTS: [OnceLock<Script>; 256] = [const { OnceLock::new() }; 256];
    SCRIPTS[usize::from(needs.0)].get_or_init(|| {
        let mut parts = vec![NUMBER, TERMS, PACE];
        parts.extend(
            ALGORITHMS
                .iter()
                .enumerate()
                .filter(|(bit, _)| needs.0 & 1 << bit != 0)
                .map(|(_, (text, _))| *text),
        );
        parts.push(DECIDE);
        Script::new(&parts)
    })
}

/// Scripts that consist of always the same files.
macro_rules! scripts {
    ($($(#[$doc:meta])* $name:ident = $($file:literal),+;)*) => {$(
        $(#[$doc])*
        pub(crate) fn $name() -> &'static Script {
            static SCRIPT: OnceLock<Script> = OnceLock::new();
            SCRIPT.get_or_init(|| Script::new(&[$(include_str!($file)),+]))
        }
    )*};
}

scripts! {
    /// The script for a single take from a bucket.
    check = "../scripts/check.lua";
    /// The script for plain takes from buckets.
    take = "../scripts/loss.lua", "../scripts/take.lua";
    /// The script that books debits on buckets, and tells what is there.
    book = "../scripts/loss.lua", "../scripts/book.lua";
    /// The script that reads a state as it is.
    export = "../scripts/export.lua";
    /// The script that forgets an operation.
    disown = "../scripts/disown.lua";
}
