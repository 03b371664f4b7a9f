//! The scripts, assembled from the files in `scripts/`. A script contains only the files that a call needs, because a
//! server creates every function of a script anew each time it runs it.

use std::sync::OnceLock;

use tollgate_core::AlgorithmKind;

use crate::take::TakeForm;

/// A script and its SHA-1 digest.
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

/// The files that every general script starts with.
const GENERAL: [&str; 5] = [
    include_str!("../scripts/stored_format.lua"),
    include_str!("../scripts/instant.lua"),
    include_str!("../scripts/wide.lua"),
    include_str!("../scripts/algorithm.lua"),
    include_str!("../scripts/rate.lua"),
];
const DECIDE: &str = include_str!("../scripts/decide.lua");

/// The files of the algorithms, each with the algorithms that it implements.
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

/// The algorithm files that a call needs, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AlgorithmFiles(u8);

impl AlgorithmFiles {
    pub(crate) fn add(&mut self, kind: AlgorithmKind) {
        for (bit, (_, kinds)) in ALGORITHMS.iter().enumerate() {
            self.0 |= u8::from(kinds.contains(&kind)) << bit;
        }
    }
}

/// Returns the general script with these algorithms.
pub(crate) fn decide(files: AlgorithmFiles) -> &'static Script {
    static SCRIPTS: [OnceLock<Script>; 256] = [const { OnceLock::new() }; 256];
    SCRIPTS[usize::from(files.0)].get_or_init(|| {
        let mut parts = GENERAL.to_vec();
        parts.extend(
            ALGORITHMS
                .iter()
                .enumerate()
                .filter(|(bit, _)| files.0 & 1 << bit != 0)
                .map(|(_, (text, _))| *text),
        );
        parts.push(DECIDE);
        Script::new(&parts)
    })
}

/// The files of the short scripts, each with the forms of takes that need it, in their order in the script.
const TAKES: [(&str, &[TakeForm]); 8] = [
    (include_str!("../scripts/take/flow.lua"), &[TakeForm::Flow, TakeForm::BlockingFlow]),
    (
        include_str!("../scripts/take/words.lua"),
        &[
            TakeForm::BlockingFlow,
            TakeForm::IntervalBucket,
            TakeForm::FixedWindow,
            TakeForm::SlidingWindow,
            TakeForm::SlidingCounter,
        ],
    ),
    (include_str!("../scripts/take/blocking_flow.lua"), &[TakeForm::BlockingFlow]),
    (
        include_str!("../scripts/take/fields.lua"),
        &[TakeForm::IntervalBucket, TakeForm::FixedWindow, TakeForm::SlidingWindow, TakeForm::SlidingCounter],
    ),
    (include_str!("../scripts/take/interval_bucket.lua"), &[TakeForm::IntervalBucket]),
    (include_str!("../scripts/take/fixed_window.lua"), &[TakeForm::FixedWindow]),
    (include_str!("../scripts/take/sliding_window.lua"), &[TakeForm::SlidingWindow]),
    (include_str!("../scripts/take/sliding_counter.lua"), &[TakeForm::SlidingCounter]),
];

/// The files of short scripts that a call needs, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TakeFiles(u8);

impl TakeFiles {
    pub(crate) fn add(&mut self, form: TakeForm) {
        for (bit, (_, forms)) in TAKES.iter().enumerate() {
            self.0 |= u8::from(forms.contains(&form)) << bit;
        }
    }

    fn script(self, decide: &'static str) -> Script {
        let files =
            TAKES.iter().enumerate().filter(|(bit, _)| self.0 & 1 << bit != 0).map(|(_, (text, _))| *text);
        let start = [include_str!("../scripts/stored_format.lua"), include_str!("../scripts/take/time.lua")];
        let parts: Vec<_> = start.into_iter().chain(files).chain([decide]).collect();
        Script::new(&parts)
    }
}

/// Returns the script that decides one plain take.
pub(crate) fn check(files: TakeFiles) -> &'static Script {
    static SCRIPTS: [OnceLock<Script>; 256] = [const { OnceLock::new() }; 256];
    SCRIPTS[usize::from(files.0)].get_or_init(|| files.script(include_str!("../scripts/take/check.lua")))
}

/// Returns the script that decides runs of plain takes.
pub(crate) fn takes(files: TakeFiles) -> &'static Script {
    static SCRIPTS: [OnceLock<Script>; 256] = [const { OnceLock::new() }; 256];
    SCRIPTS[usize::from(files.0)].get_or_init(|| files.script(include_str!("../scripts/take/takes.lua")))
}

/// Defines scripts that always consist of the same files.
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
    /// Returns the script that applies debits to buckets and returns their states.
    bucket_debits = "../scripts/stored_format.lua", "../scripts/bucket.lua", "../scripts/bucket_debits.lua";
    /// Returns the script that reads a stored state.
    export = "../scripts/instant.lua", "../scripts/export.lua";
    /// Returns the script that deletes an idempotency record.
    delete_record = "../scripts/delete_record.lua";
}
