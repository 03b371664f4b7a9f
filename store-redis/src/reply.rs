//! Reads what a script answers.

use tollgate_core::Time;

/// A reply, read from the front. `None` means that it ended too early.
#[derive(Debug)]
pub(crate) struct Reply<'a> {
    rest: &'a [u8],
}

impl<'a> Reply<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (head, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(head)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.array().copied().map(u8::from_be_bytes)
    }

    pub(crate) fn short(&mut self) -> Option<u16> {
        self.array().copied().map(u16::from_be_bytes)
    }

    pub(crate) fn number(&mut self) -> Option<u32> {
        self.array().copied().map(u32::from_be_bytes)
    }

    pub(crate) fn word(&mut self) -> Option<u64> {
        self.array().copied().map(u64::from_be_bytes)
    }

    /// A count, exact in a Lua number.
    pub(crate) fn count(&mut self) -> Option<u64> {
        let bytes: &[u8; 7] = self.array()?;
        Some(bytes.iter().fold(0, |count, byte| count << 8 | u64::from(*byte)))
    }

    pub(crate) fn time(&mut self) -> Option<Time> {
        self.word().map(Time::from_nanos)
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(head)
    }

    /// A message that says how long it is.
    pub(crate) fn text(&mut self) -> Option<String> {
        let length = self.short()?;
        self.bytes(length.into()).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }
}
