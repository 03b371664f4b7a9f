//! A directory for a server's files.

use std::path::{Path, PathBuf};

use crate::lifeline::Lifeline;

/// A directory that is removed when it is dropped, or when this process ends. Drop it after its server.
#[derive(Debug)]
pub(crate) struct Files {
    path: PathBuf,
    _lifeline: Lifeline,
}

impl Files {
    pub(crate) fn new() -> Self {
        let path = tempfile::tempdir().expect("a directory for a server's files").keep();
        // Repeatedly: when this process ends, its servers are ended at the same time, and may still write.
        let remove =
            format!("for attempt in $(seq 100); do rm -rf '{}' && break; sleep 0.1; done", path.display());
        Self { _lifeline: Lifeline::new(&remove), path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}
