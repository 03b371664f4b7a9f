//! The names that states have on the server: `prefix:namespace:{entity}:limit~kind`.
//!
//! The hash tag `{entity}` keeps all limits of one entity in one slot of a cluster. Braces in what users send are
//! encoded, so nobody can break the tag; everything else stays readable.

use tollgate_core::{Charge, IdempotencyKey, Key, Limit};

/// Where the keys of a store begin.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    prefix: Vec<u8>,
}

impl Names {
    pub(crate) fn new(prefix: &str) -> Self {
        let mut encoded = Vec::new();
        encode(&mut encoded, prefix.as_bytes());
        Self { prefix: encoded }
    }

    /// The state of a charge.
    pub(crate) fn state(&self, charge: &Charge<'_>) -> Vec<u8> {
        self.of(charge.limit(), charge.key())
    }

    /// The state of a key under a limit. A limit's algorithm and whether it blocks are part of its identity.
    pub(crate) fn of(&self, limit: &Limit, key: Key<'_>) -> Vec<u8> {
        let mut name = self.entity(key, limit.name().len() + 4);
        name.extend_from_slice(limit.name().as_bytes());
        name.push(b'~');
        let kind = limit.kind() as u8;
        if kind >= 10 {
            name.push(b'0' + kind / 10);
        }
        name.push(b'0' + kind % 10);
        if limit.block_time().is_some() {
            name.push(b'b');
        }
        name
    }

    /// What is remembered of an operation. It lives beside the states of the entity that it first charges.
    pub(crate) fn operation(&self, key: Key<'_>, id: IdempotencyKey) -> Vec<u8> {
        let mut name = self.entity(key, 40);
        name.extend_from_slice(format!("op~{:032x}", id.get()).as_bytes());
        name
    }

    fn entity(&self, key: Key<'_>, more: usize) -> Vec<u8> {
        let (namespace, entity) = (key.namespace(), key.entity());
        let mut name = Vec::with_capacity(self.prefix.len() + namespace.len() + entity.len() + more + 5);
        name.extend_from_slice(&self.prefix);
        name.push(b':');
        if !namespace.is_empty() {
            encode(&mut name, namespace);
            name.push(b':');
        }
        name.push(b'{');
        if entity.is_empty() {
            // An empty tag is none.
            name.push(b'%');
        }
        encode(&mut name, entity);
        name.extend_from_slice(b"}:");
        name
    }
}

/// Appends `raw` with braces and the escape itself encoded.
fn encode(name: &mut Vec<u8>, raw: &[u8]) {
    for &byte in raw {
        match byte {
            b'{' => name.extend_from_slice(b"%7b"),
            b'}' => name.extend_from_slice(b"%7d"),
            b'%' => name.extend_from_slice(b"%25"),
            _ => name.push(byte),
        }
    }
}

/// The slot of a cluster that a key of ours belongs to.
pub(crate) fn slot(name: &[u8]) -> u16 {
    crc16::State::<crc16::XMODEM>::calculate(tag(name)) % 16_384
}

/// What decides where a key lives: the part in braces.
pub(crate) fn tag(name: &[u8]) -> &[u8] {
    let open = name.iter().position(|&byte| byte == b'{');
    let inside = open.map(|open| &name[open + 1..]);
    match inside.and_then(|inside| inside.iter().position(|&byte| byte == b'}').map(|end| &inside[..end])) {
        Some(tag) if !tag.is_empty() => tag,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn name(namespace: &str, entity: &str) -> Vec<u8> {
        let limit = Limit::per_second(1).build("api").expect("valid");
        Names::new("tollgate").of(&limit, Key::new(namespace, entity))
    }

    #[test]
    fn names_are_readable() {
        assert_eq!(name("", "user:42"), b"tollgate:{user:42}:api~1");
        assert_eq!(name("shop", "user:42"), b"tollgate:shop:{user:42}:api~1");
    }

    #[test]
    fn no_input_breaks_the_tag() {
        let hostile = ["", "{", "}", "{}", "}{", "%", "%7d", "a}:b{c", "{a}", "a", "{user}"];
        let mut seen = BTreeSet::new();
        for namespace in hostile {
            for entity in hostile {
                let name = name(namespace, entity);
                assert!(seen.insert(name.clone()), "{namespace:?} {entity:?} meets another");
                let mut encoded = Vec::new();
                encode(&mut encoded, entity.as_bytes());
                let expected = if entity.is_empty() { b"%".to_vec() } else { encoded };
                assert_eq!(tag(&name), expected, "{namespace:?} {entity:?}");
            }
        }
    }

    #[test]
    fn limits_and_operations_of_one_entity_share_a_slot() {
        let names = Names::new("tollgate");
        let (api, login) = (
            Limit::per_second(1).build("api").expect("valid"),
            Limit::per_minute(5)
                .sliding_log()
                .block_for(std::time::Duration::from_secs(1))
                .build("login")
                .expect("valid"),
        );
        let key = Key::new("shop", "{a}b");
        let all = [names.of(&api, key), names.of(&login, key), names.operation(key, IdempotencyKey::new(7))];
        assert!(all[1].ends_with(b":login~6b"));
        assert!(all.iter().all(|name| slot(name) == slot(&all[0])));
    }

    #[test]
    fn slots_are_those_of_redis() {
        // CLUSTER KEYSLOT on a real server.
        assert_eq!(slot(b"123456789"), 12_739);
        assert_eq!(slot(b"tollgate:{user:42}:api~1"), slot(b"user:42"));
    }
}
