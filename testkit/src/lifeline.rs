//! What ends a server for sure: dropped by a test, or left behind by a process that was killed.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// A shell that waits for the end of its input, which only this process holds open, and then runs a command.
#[derive(Debug)]
pub(crate) struct Lifeline(Child);

impl Lifeline {
    pub(crate) fn new(command: &str) -> Self {
        let shell = Command::new("sh")
            .args(["-c", &format!("trap '' HUP INT TERM; cat >/dev/null; {command}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Out of reach of the terminal's interrupt, which ends the tests.
            .process_group(0)
            .spawn()
            .expect("a shell that ends the server");
        Self(shell)
    }

    /// Runs the command, and returns when it has run.
    pub(crate) fn cut(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

impl Drop for Lifeline {
    fn drop(&mut self) {
        self.cut();
    }
}
