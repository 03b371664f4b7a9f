//! Reads the binary replies of scripts, and stored values.

use tollgate_core::Time;

/// Reads big-endian fields from the front. Every method returns `None` if the bytes end too early.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
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

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().copied().map(u8::from_be_bytes)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().copied().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().copied().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().copied().map(u64::from_be_bytes)
    }

    /// Reads a 7-byte count, which a Lua number holds exactly.
    pub(crate) fn count(&mut self) -> Option<u64> {
        let bytes: &[u8; 7] = self.array()?;
        Some(bytes.iter().fold(0, |count, byte| count << 8 | u64::from(*byte)))
    }

    /// Reads a whole number that is stored as a double.
    pub(crate) fn signed(&mut self) -> Option<i64> {
        let number = self.array().copied().map(f64::from_be_bytes)?;
        #[expect(clippy::cast_possible_truncation, reason = "doubles up to 2^53 are whole numbers")]
        (number.abs() <= 2_f64.powi(53)).then_some(number as i64)
    }

    pub(crate) fn time(&mut self) -> Option<Time> {
        self.u64().map(Time::from_nanos)
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(head)
    }

    /// Returns the bytes that are left.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.rest
    }

    /// Reads a message that is preceded by its length.
    pub(crate) fn text(&mut self) -> Option<String> {
        let length = self.u16()?;
        self.bytes(length.into()).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }
}
