//! What is known about the rules in use and their source.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tollgate_core::Time;

use super::collect::Documents;
use super::error::RetrieveError;

/// Where the rules in use come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RulesOrigin {
    /// From the source.
    Source,
    /// From the file of the last good rules: the source did not answer at startup, or its rules were broken.
    LastGoodFile,
    /// They are those that the program starts with for want of others.
    Initial,
}

/// Which rules are in use, and how their source is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RetrieverStatus {
    /// Where the rules in use come from.
    pub origin: RulesOrigin,
    /// The names and versions of the documents in use, sorted by name.
    pub documents: Vec<(String, u64)>,
    /// A digest of the names and texts of the documents in use: processes with the same rules have the same digest.
    pub digest: u64,
    /// Since when these rules are in use.
    pub since: Time,
    /// How long the source has not answered. Zero if it did at the last poll.
    pub stale_for: Duration,
    /// Why the newest rules are not in use. `None` if they are.
    pub error: Option<RetrieveError>,
    /// Why the rules in use could not be written to the file of the last good rules. `None` if they were.
    pub save_error: Option<String>,
}

/// What a retriever has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetrieverStats {
    /// Polls, with those that failed.
    pub polls: u64,
    /// Polls that the source did not answer.
    pub unavailable: u64,
    /// Times that rules of the source came into use.
    pub loads: u64,
    /// New rules that could not be used, each version once.
    pub rejections: u64,
    /// Polls that panicked.
    pub panics: u64,
}

/// The rules in use, without the rules themselves.
#[derive(Debug)]
pub(super) struct InUse {
    pub(super) origin: RulesOrigin,
    pub(super) versions: Vec<(String, u64)>,
    pub(super) digest: u64,
    pub(super) since: Time,
}

impl InUse {
    pub(super) fn new(origin: RulesOrigin, documents: &Documents, since: Time) -> Self {
        Self { origin, versions: documents.versions(), digest: documents.digest(), since }
    }
}

/// What the status and the statistics are made of.
#[derive(Debug)]
pub(super) struct Records {
    in_use: InUse,
    /// When the source answered last, or was asked first; present while it does not answer.
    silent_since: Option<Time>,
    last_answer: Time,
    error: Option<RetrieveError>,
    save_error: Option<String>,
    stats: RetrieverStats,
}

/// Shared by the retriever and its polls.
#[derive(Debug)]
pub(super) struct Shared(Mutex<Records>);

impl Shared {
    pub(super) fn new(in_use: InUse, now: Time) -> Self {
        let stats = RetrieverStats::default();
        let (silent_since, error, save_error) = (None, None, None);
        Self(Mutex::new(Records { in_use, silent_since, last_answer: now, error, save_error, stats }))
    }

    fn lock(&self) -> MutexGuard<'_, Records> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn stats(&self) -> RetrieverStats {
        self.lock().stats
    }

    pub(super) fn status(&self, now: Time) -> RetrieverStatus {
        let records = self.lock();
        let InUse { origin, versions, digest, since } = &records.in_use;
        RetrieverStatus {
            origin: *origin,
            documents: versions.clone(),
            digest: *digest,
            since: *since,
            stale_for: records.silent_since.map_or(Duration::ZERO, |silent| now.since(silent)),
            error: records.error.clone(),
            save_error: records.save_error.clone(),
        }
    }

    /// Records that the source answered.
    pub(super) fn answered(&self, now: Time) {
        let mut records = self.lock();
        records.stats.polls += 1;
        // Whether there still is an error is known once the documents were compared with those before.
        (records.silent_since, records.last_answer) = (None, now);
    }

    /// Records that the source did not answer. Returns for how long it has not.
    pub(super) fn unavailable(&self, now: Time, error: RetrieveError) -> Duration {
        let mut records = self.lock();
        records.stats.polls += 1;
        records.stats.unavailable += 1;
        let silent_since = records.silent_since.unwrap_or(records.last_answer);
        (records.silent_since, records.error) = (Some(silent_since), Some(error));
        now.since(silent_since)
    }

    /// Records that the newest rules cannot be used. `is_new`: they were not rejected before.
    pub(super) fn rejected(&self, error: RetrieveError, is_new: bool) {
        let mut records = self.lock();
        records.stats.rejections += u64::from(is_new);
        records.error = Some(error);
    }

    /// Records that the newest rules are in use. `new`: they were not before.
    pub(super) fn in_use(&self, new: Option<InUse>) {
        let mut records = self.lock();
        records.error = None;
        if let Some(new) = new {
            records.stats.loads += 1;
            records.in_use = new;
        }
    }

    pub(super) fn saved(&self, error: Option<String>) {
        self.lock().save_error = error;
    }

    pub(super) fn panicked(&self) {
        self.lock().stats.panics += 1;
    }
}
