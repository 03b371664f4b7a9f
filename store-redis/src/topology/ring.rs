//! Consistent hashing of entities onto shards. Adding or removing a shard moves only the entities of that shard.

/// Points per shard. With 160, the largest of ten shards has about 10 % more entities than the average.
const POINTS: u32 = 160;

/// A hash ring of shards.
#[derive(Debug)]
pub(crate) struct Ring {
    /// Sorted by hash.
    points: Vec<(u64, u16)>,
}

impl Ring {
    /// Places shards by the hashes of their names, so that their order does not matter.
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

    /// Returns the shard of an entity: the next point on the ring.
    pub(crate) fn shard(&self, tag: &[u8]) -> u16 {
        let hash = hash(tag);
        let next = self.points.partition_point(|(point, _)| *point < hash);
        self.points.get(next).or(self.points.first()).map_or(0, |(_, shard)| *shard)
    }
}

/// FNV-1a with a final mix. All clients have to agree on it, so it never changes.
fn hash(bytes: &[u8]) -> u64 {
    let sum = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    let mixed = (sum ^ sum >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let mixed = (mixed ^ mixed >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    mixed ^ mixed >> 33
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
    fn entities_are_spread_evenly() {
        let placed = shards(&["a:1", "b:1", "c:1"]);
        for name in ["a:1", "b:1", "c:1"] {
            let part = placed.iter().filter(|shard| *shard == name).count();
            assert!((7_500..12_500).contains(&part), "{name}: {part}");
        }
    }

    #[test]
    fn a_new_shard_moves_only_its_own_entities() {
        let (before, after) = (shards(&["a:1", "b:1", "c:1"]), shards(&["d:1", "c:1", "b:1", "a:1"]));
        let moved = before.iter().zip(&after).filter(|(before, after)| before != after).collect::<Vec<_>>();
        assert!(moved.iter().all(|(_, after)| *after == "d:1"), "only to the new shard");
        assert!((5_000..10_000).contains(&moved.len()), "{}", moved.len());
    }

    #[test]
    fn the_hash_never_changes() {
        assert_eq!(hash(b"user:42"), 0x9988_17be_e671_8248);
    }
}
