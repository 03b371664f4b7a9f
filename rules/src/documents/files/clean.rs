//! What is removed after a change: versions that are too old, and what killed writers have left behind.

use std::fs;

use super::steps;
use super::stored::remove;
use super::versions::{DRAFT, Slot, Versions};

/// What the name of a directory of dropped versions starts with.
const DROPPED: &str = "dropped-";
/// The empty file that replaces version 1 once it is dropped, before it is in its place.
const EMPTY: &str = "empty";

impl Versions {
    /// Removes versions that are too old, and what killed writers have left behind. What fails is tried again by the
    /// next change.
    pub(super) fn clean(&self, newest: u64, successor: &Slot) {
        let _ = fs::remove_file(successor.path.join(DRAFT));
        steps::done();
        if newest > self.history {
            self.drop_first(successor);
        }
        // The oldest first, so that whoever reads the history meanwhile sees no gap.
        for slot in self.slots().unwrap_or_default().into_iter().rev() {
            let is_decided = slot.after < newest || (slot.after == newest && slot.path != successor.path);
            let is_dropped = slot.after < newest && newest - slot.after > self.history;
            if is_dropped {
                self.drop_slot(&slot);
            } else if is_decided {
                // Its writer came too late, or was killed.
                let _ = fs::remove_file(slot.path.join(DRAFT));
            }
        }
        for path in self.entries().unwrap_or_default() {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name.starts_with(DROPPED) {
                remove(&path);
            }
        }
    }

    /// Drops a directory with its version. It is renamed first: while it is emptied, nobody must be able to create a
    /// version in it.
    fn drop_slot(&self, slot: &Slot) {
        let Some(name) = slot.path.file_name().and_then(|name| name.to_str()) else {
            return;
        };
        let dropped = self.directory.join(format!("{DROPPED}{name}"));
        if fs::rename(&slot.path, &dropped).is_ok() {
            steps::done();
            remove(&dropped);
            steps::done();
        }
    }

    /// Replaces version 1 by an empty file: while there is one, nobody can create another version 1.
    fn drop_first(&self, successor: &Slot) {
        let first = self.first();
        if fs::metadata(&first).is_ok_and(|metadata| metadata.len() > 0) {
            let empty = successor.path.join(EMPTY);
            if fs::write(&empty, "").is_ok() {
                steps::done();
                let _ = fs::rename(&empty, &first);
                steps::done();
            }
        }
    }
}
