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
    (
        concat!(
            include_str!("../scripts/log_entries.lua"),
            include_str!("../scripts/stored_log.lua"),
            include_str!("../scripts/sliding_log.lua")
        ),
        &[AlgorithmKind::SlidingLog],
    ),
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

/// The files that every short script starts with.
const SHORT: [&str; 2] =
    [include_str!("../scripts/stored_format.lua"), include_str!("../scripts/take/time.lua")];
/// The lines of short scripts that are replaced: by the blocks of the algorithms, and by how a value is read.
const TAKE: &str = "@take\n";
const READ: &str = "@read\n";

/// What a block of `scripts/take` is made for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Takes,
    Deltas,
}

impl Purpose {
    /// Returns a block without the lines that are for another purpose only.
    fn select(self, block: &str) -> String {
        let (mut selected, mut is_kept) = (String::with_capacity(block.len()), true);
        for line in block.split_inclusive('\n') {
            match line.trim() {
                "-- @only takes" => is_kept = self == Self::Takes,
                "-- @only deltas" => is_kept = self == Self::Deltas,
                "-- @always" => is_kept = true,
                _ if is_kept => selected.push_str(line),
                _ => {}
            }
        }
        selected
    }
}

/// Returns the block for a form of takes, or of deltas.
fn block(form: TakeForm, purpose: Purpose) -> String {
    const FIELDS: [&str; 2] =
        [include_str!("../scripts/take/fields_start.lua"), include_str!("../scripts/take/fields_end.lua")];
    let fields = |algorithm: &str| [FIELDS[0], algorithm, FIELDS[1]].concat();
    let flow = include_str!("../scripts/take/flow.lua");
    purpose.select(&match form {
        TakeForm::Flow => [include_str!("../scripts/take/flow_start.lua"), flow].concat(),
        TakeForm::BlockingFlow => [
            include_str!("../scripts/take/blocking_flow_start.lua"),
            flow,
            include_str!("../scripts/take/blocking_flow_end.lua"),
        ]
        .concat(),
        TakeForm::IntervalBucket => fields(include_str!("../scripts/take/interval_bucket.lua")),
        TakeForm::FixedWindow => fields(include_str!("../scripts/take/fixed_window.lua")),
        TakeForm::SlidingWindow => fields(include_str!("../scripts/take/sliding_window.lua")),
        TakeForm::SlidingCounter => fields(include_str!("../scripts/take/sliding_counter.lua")),
        TakeForm::SlidingLog => include_str!("../scripts/take/sliding_log.lua").to_owned(),
        TakeForm::Lease => include_str!("../scripts/take/leases.lua").to_owned(),
    })
}

/// Returns the blocks for several forms: a statement that chooses by `form`.
fn blocks(forms: TakeForms, purpose: Purpose) -> String {
    let forms = TakeForm::ALL.into_iter().filter(|form| forms.contains(*form));
    let branches: Vec<_> =
        forms.map(|form| format!("if form == {} then\n{}", form as u8, block(form, purpose))).collect();
    branches.join("else") + "end\n"
}

fn short(forms: TakeForms, blocks: &str, decide: &str) -> Script {
    let mut parts = SHORT.to_vec();
    if forms != TakeForms::of(TakeForm::Flow) {
        parts.push(include_str!("../scripts/take/words.lua"));
    }
    let decide = decide.replace(TAKE, blocks);
    parts.push(&decide);
    Script::new(&parts)
}

/// The forms of takes in a call, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TakeForms(u8);

impl TakeForms {
    fn of(form: TakeForm) -> Self {
        Self(1 << (form as u8 - 1))
    }

    pub(crate) fn add(&mut self, form: TakeForm) {
        self.0 |= Self::of(form).0;
    }

    pub(crate) fn contains(self, form: TakeForm) -> bool {
        self.0 & Self::of(form).0 != 0
    }
}

/// Returns the script that decides one plain take.
pub(crate) fn check(form: TakeForm) -> &'static Script {
    static SCRIPTS: [OnceLock<Script>; TakeForm::ALL.len()] =
        [const { OnceLock::new() }; TakeForm::ALL.len()];
    SCRIPTS[form as usize - 1].get_or_init(|| {
        let read = match form {
            TakeForm::SlidingLog => "local value = call('GETRANGE', key, '0', LOG_START)\n",
            TakeForm::Lease => "local value, lease = call('ZRANGE', key, '0', '1'), input:sub(73)\n",
            _ => "local value = call('GET', key)\n",
        };
        let check = include_str!("../scripts/take/check.lua").replace(READ, read);
        short(TakeForms::of(form), &block(form, Purpose::Takes), &check)
    })
}

/// Returns the script that decides runs of plain takes of these forms.
pub(crate) fn takes(forms: TakeForms) -> &'static Script {
    static SCRIPTS: [OnceLock<Script>; 256] = [const { OnceLock::new() }; 256];
    SCRIPTS[usize::from(forms.0)].get_or_init(|| {
        short(forms, &blocks(forms, Purpose::Takes), include_str!("../scripts/take/takes.lua"))
    })
}

/// Returns the script that applies deltas on these forms.
pub(crate) fn deltas(forms: TakeForms) -> &'static Script {
    static SCRIPTS: [OnceLock<Script>; 256] = [const { OnceLock::new() }; 256];
    SCRIPTS[usize::from(forms.0)].get_or_init(|| {
        short(forms, &blocks(forms, Purpose::Deltas), include_str!("../scripts/take/deltas.lua"))
    })
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
    /// Returns the script that reads a stored state.
    export = "../scripts/instant.lua", "../scripts/export.lua";
    /// Returns the script that deletes an idempotency record.
    delete_record = "../scripts/delete_record.lua";
    /// Returns the script that creates, replaces or deletes a document.
    change_document = "../scripts/documents/stored.lua", "../scripts/documents/change.lua";
    /// Returns the script that reads the current version of a document.
    read_document = "../scripts/documents/stored.lua", "../scripts/documents/read.lua";
    /// Returns the script that reads a kept version of a document.
    read_document_version = "../scripts/documents/stored.lua", "../scripts/documents/read_version.lua";
    /// Returns the script that reads the revisions of a document.
    document_history = "../scripts/documents/stored.lua", "../scripts/documents/history.lua";
    /// Returns the script that lists names of documents.
    list_documents = "../scripts/documents/list.lua";
}
