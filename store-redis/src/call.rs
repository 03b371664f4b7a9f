//! A call: a script, the keys it touches and what it is told.

use redis::Cmd;

use crate::script::Script;

/// What goes over the wire in one round trip.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) script: &'static Script,
    /// At least one; all of them live on one server, and in one slot.
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) arguments: Vec<Vec<u8>>,
    /// To execute it twice is the same as once: all of it is named by operation ids, or only looks.
    pub(crate) repeatable: bool,
}

impl Call {
    /// The command for a server that knows the script.
    pub(crate) fn by_name(&self) -> Cmd {
        self.command("EVALSHA", &self.script.sha)
    }

    /// The command that teaches a server the script.
    pub(crate) fn by_text(&self) -> Cmd {
        self.command("EVAL", &self.script.text)
    }

    fn command(&self, name: &str, script: &str) -> Cmd {
        let mut command = Cmd::with_capacity(3 + self.keys.len() + self.arguments.len(), 256);
        command.arg(name).arg(script).arg(self.keys.len());
        for part in self.keys.iter().chain(&self.arguments) {
            command.arg(part.as_slice());
        }
        command
    }
}
