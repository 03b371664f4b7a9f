//! Consistent hashing: which shard an entity lives on. A shard that comes or goes moves only what it gains or had.

/// Points per shard: with 160 the largest of ten shards has about a tenth more than its part.
const POINTS: u32 = 160;

/// The shards on a circle.
#[derive(Debug)]
pub(crate) struct Ring {
    /// Sorted.
    points: Vec<(u64, u16)>,
}

impl Ring {
    /// Shards are placed by their names, so that their order does not matter.
    pub(crate) fn new<N: AsRef<str>>(names: impl IntoIterator<Item = N>) -> Self {
        let mut points: Vec<_> = (0_u16..)
            .zip(names)
            .flat_map(|(shard, name)| {
                let name = name.as_ref().to_owned();
                (0..POINTS).map(move |point| (hash(format!("{name}#{point}").as_bytes()), shard))
            })
            .collect();
        points.sort_unstable();
        Self { points }
    }

    /// The shard of an entity: the next point on the circle.
    pub(crate) fn shard(&self, tag: &[u8]) -> u16 {
        let hash = hash(tag);
        let next = self.points.partition_point(|(point, _)| *point < hash);
        self.points.get(next).or(self.points.first()).map_or(0, |(_, shard)| *shard)
    }
}

/// FNV-1a, stirred once more. All programs of a fleet have to agree on it, so it never changes.
fn hash(bytes: &[u8]) -> u64 {
    let sum = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    let stirred = (sum ^ sum >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let stirred = (stirred ^ stirred >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    stirred ^ stirred >> 33
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shards(names: &[&str]) -> Vec<String> {
        let ring = Ring::new(names);
        (0..30_000)
            .map(|user| names[usize::from(ring.shard(format!("user:{user}").as_bytes()))].to_owned())
            .collect()
    }

    #[test]
    fn every_shard_has_about_its_part() {
        let placed = shards(&["a:1", "b:1", "c:1"]);
        for name in ["a:1", "b:1", "c:1"] {
            let part = placed.iter().filter(|shard| *shard == name).count();
            assert!((7_500..12_500).contains(&part), "{name}: {part}");
        }
    }

    #[test]
    fn a_new_shard_takes_and_nobody_else_moves() {
        let (before, after) = (shards(&["a:1", "b:1", "c:1"]), shards(&["d:1", "c:1", "b:1", "a:1"]));
        let moved = before.iter().zip(&after).filter(|(before, after)| before != after).collect::<Vec<_>>();
        assert!(moved.iter().all(|(_, after)| *after == "d:1"), "only to the new one");
        assert!((5_000..10_000).contains(&moved.len()), "{}", moved.len());
    }

    #[test]
    fn the_circle_never_changes() {
        assert_eq!(hash(b"user:42"), 0x9988_17be_e671_8248);
    }
}
