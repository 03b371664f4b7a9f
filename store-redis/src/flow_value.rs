//! The stored value of a continuous flow (token bucket, leaky bucket, GCRA, smooth bursty): three doubles, which Lua
//! reads and writes fast. `scripts/stored_format.lua` documents the format.

use tollgate_core::Time;
use tollgate_core::store::Tat;

/// The size of a stored value in bytes.
pub(crate) const SIZE: usize = 24;
const VERSION: u64 = 1;

/// Returns the mark of a limit's parameters: the format version and their digest. The low 11 bits are zero; a stored
/// mark has the nanoseconds and the overdrawn flag there.
pub(crate) fn parameters_mark(digest: u16) -> u64 {
    VERSION << 27 | u64::from(digest) << 11
}

/// Encodes a number below 2^53 as a double, which is exact.
#[expect(clippy::cast_precision_loss, reason = "below 2^53")]
pub(crate) fn double(number: u64) -> [u8; 8] {
    (number as f64).to_le_bytes()
}

/// Decodes a double. `None` if it is not a whole number below 2^53.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked first")]
pub(crate) fn whole(bytes: [u8; 8]) -> Option<u64> {
    let number = f64::from_le_bytes(bytes);
    ((0.0..9_007_199_254_740_992.0).contains(&number) && number.fract() == 0.0).then_some(number as u64)
}

/// Decodes a stored value. `None` if another version or another program wrote it.
pub(crate) fn read(value: &[u8; SIZE]) -> Option<Tat> {
    let number = |index: usize| value.as_chunks::<8>().0.get(index).copied().and_then(whole);
    let (micros, mark) = (number(0)?, number(1)?);
    let nanos = mark >> 1 & 0x3ff;
    if mark >> 27 != VERSION || nanos > 999 {
        return None;
    }
    let at = Time::from_nanos(micros.checked_mul(1_000)?.checked_add(nanos)?);
    let digest = u16::try_from(mark >> 11 & 0xffff).ok()?;
    Some(Tat { at, overdrawn: mark & 1 == 1, digest })
}

/// Encodes a state. The key's expiry is 0 (unknown), so that the next check sets it.
#[cfg(test)]
pub(crate) fn write(state: Tat) -> [u8; SIZE] {
    let (micros, nanos) = (state.at.nanos() / 1_000, state.at.nanos() % 1_000);
    let mark = parameters_mark(state.digest) | nanos << 1 | u64::from(state.overdrawn);
    let mut value = [0; SIZE];
    value[..8].copy_from_slice(&double(micros));
    value[8..16].copy_from_slice(&double(mark));
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_round_trip() {
        for at in [0, 1, 999, 1_000, 1_790_000_000_123_456_789, Time::MAX.nanos()] {
            for (overdrawn, digest) in [(false, 1), (true, 0xffff)] {
                let state = Tat { at: Time::from_nanos(at), overdrawn, digest };
                assert_eq!(read(&write(state)), Some(state));
            }
        }
    }

    #[test]
    fn foreign_values_are_rejected() {
        let state = Tat { at: Time::from_nanos(5), overdrawn: false, digest: 7 };
        let mut other = write(state);
        other[8..16].copy_from_slice(&double(2 << 27));
        assert_eq!(read(&other), None, "another version");
        assert_eq!(read(b"hello, I am not a state!"), None);
        assert_eq!(read(&[0xff; SIZE]), None);
    }
}
