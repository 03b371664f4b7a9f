//! A script call: a script, its keys and its arguments.

use redis::Cmd;

use crate::script::Script;

/// One script call, which is one round trip.
#[derive(Debug)]
pub(crate) struct ScriptCall {
    pub(crate) script: &'static Script,
    /// At least one key. All of them live on one server and in one slot.
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) arguments: Vec<Vec<u8>>,
    /// Executing the call twice has the same effect as once: every request has an idempotency key or is a peek.
    pub(crate) repeatable: bool,
}

impl ScriptCall {
    /// Returns the command for a server that has the script cached.
    pub(crate) fn evalsha(&self) -> Cmd {
        self.command("EVALSHA", &self.script.sha)
    }

    /// Returns the command that sends the script's text, which the server then caches.
    pub(crate) fn eval(&self) -> Cmd {
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
