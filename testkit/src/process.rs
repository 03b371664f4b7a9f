//! A server as a process of this machine.

use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use crate::launch::Launch;
use crate::lifeline::Lifeline;

/// A process. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Process {
    child: Mutex<Child>,
    log: File,
    lifeline: Lifeline,
}

impl Process {
    pub(crate) fn start(launch: &Launch) -> Self {
        let log = tempfile::tempfile().expect("a log file is created");
        let output = || log.try_clone().expect("a log file is created");
        let child = Command::new(launch.program)
            .args(&launch.arguments)
            .envs(launch.environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(output())
            .stderr(output())
            .spawn()
            .unwrap_or_else(|error| {
                panic!(
                    "cannot start {}: {error}\nInstall it, or unset TOLLGATE_TEST_SERVERS to use containers.",
                    launch.program
                )
            });
        let lifeline = Lifeline::new(&format!("kill -KILL {}", child.id()));
        Self { child: child.into(), log, lifeline }
    }

    pub(crate) fn is_running(&self) -> bool {
        matches!(self.child.lock().expect("the lock is not poisoned").try_wait(), Ok(None))
    }

    /// Sends it a signal by name.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.lock().expect("the lock is not poisoned").id();
        let status = Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status();
        assert!(status.is_ok_and(|status| status.success()), "SIG{name} was not sent to process {pid}");
    }

    pub(crate) fn log(&self) -> Vec<u8> {
        let (mut log, mut bytes) = (&self.log, Vec::new());
        log.rewind().and_then(|()| log.read_to_end(&mut bytes)).expect("the log is readable");
        bytes
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // In this order: until a child is waited for, its process id is not reused.
        self.lifeline.run();
        let _ = self.child.get_mut().map(Child::wait);
    }
}
