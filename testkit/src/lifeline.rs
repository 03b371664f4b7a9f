//! Ends a server when a test drops it, and also when the process of the test is killed.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// A shell that waits for the end of its input, which only this process holds open, and then runs a cleanup command.
#[derive(Debug)]
pub(crate) struct Lifeline(Child);

impl Lifeline {
    pub(crate) fn new(command: &str) -> Self {
        let shell = Command::new("sh")
            .args(["-c", &format!("trap '' HUP INT TERM; cat >/dev/null; {command}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A process group of its own: the terminal's interrupt, which ends the tests, must not end it.
            .process_group(0)
            .spawn()
            .expect("a shell starts");
        Self(shell)
    }

    /// Runs the command, and returns when it has completed.
    pub(crate) fn run(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

impl Drop for Lifeline {
    fn drop(&mut self) {
        self.run();
    }
}
