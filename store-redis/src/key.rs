//! Key names: `prefix:namespace:{entity}:limit~kind`.
//!
//! The hash tag `{entity}` keeps all limits of one entity in one cluster slot. Braces in user input are encoded, so
//! that no input can break the tag; everything else stays readable. A prefix has no colon, so that the first one ends
//! it: no prefix and namespace have the keys of another prefix and namespace.
//!
//! Documents are `prefix:{documents}/d/name`, and their names `prefix:{documents}/names`. The tag of a limit's key is
//! followed by a colon, so none of them is the key of a limit.

use tollgate_core::{Charge, IdempotencyKey, Key, Limit};

/// Separates the parts of a name. A prefix must not contain it.
pub(crate) const SEPARATOR: char = ':';
/// The hash tag of all documents.
const DOCUMENTS: &[u8] = b":{documents}";

/// The key names of a store.
#[derive(Clone, Debug)]
pub(crate) struct KeyNames {
    prefix: Vec<u8>,
}

impl KeyNames {
    pub(crate) fn new(prefix: &str) -> Self {
        let mut encoded = Vec::new();
        encode(&mut encoded, prefix.as_bytes());
        Self { prefix: encoded }
    }

    /// Returns the key of a charge's state.
    pub(crate) fn state(&self, charge: &Charge<'_>) -> Vec<u8> {
        self.of(charge.limit(), charge.key())
    }

    /// Returns the key of the state under a limit. The limit's algorithm and whether it blocks are part of the name.
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

    /// Returns the key of an idempotency record. It is in the slot of the first charge's entity.
    pub(crate) fn idempotency_record(&self, key: Key<'_>, id: IdempotencyKey) -> Vec<u8> {
        let mut name = self.entity(key, 40);
        name.extend_from_slice(format!("op~{:032x}", id.get()).as_bytes());
        name
    }

    /// Returns the key of a document. All documents are in one slot, together with their names.
    pub(crate) fn document(&self, name: &str) -> Vec<u8> {
        [&self.prefix, DOCUMENTS, b"/d/", name.as_bytes()].concat()
    }

    /// Returns the key of the names of all documents.
    pub(crate) fn document_names(&self) -> Vec<u8> {
        [&self.prefix, DOCUMENTS, b"/names"].concat()
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
            // Redis ignores an empty hash tag.
            name.push(b'%');
        }
        encode(&mut name, entity);
        name.extend_from_slice(b"}:");
        name
    }
}

/// Appends `raw` with braces and the escape character encoded.
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

/// Returns the cluster slot of a key.
pub(crate) fn slot(name: &[u8]) -> u16 {
    crc16::State::<crc16::XMODEM>::calculate(tag(name)) % 16_384
}

/// Returns the hash tag of a key: the part in braces.
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
        KeyNames::new("tollgate").of(&limit, Key::new(namespace, entity))
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
                assert!(seen.insert(name.clone()), "{namespace:?} {entity:?} collides with another key");
                let mut encoded = Vec::new();
                encode(&mut encoded, entity.as_bytes());
                let expected = if entity.is_empty() { b"%".to_vec() } else { encoded };
                assert_eq!(tag(&name), expected, "{namespace:?} {entity:?}");
            }
        }
    }

    #[test]
    fn prefixes_and_namespaces_share_no_keys() {
        let limit = Limit::per_second(1).build("api").expect("valid");
        let parts = ["", "a", "a:", ":a", "a:b", "b", ":", "::", "%3a", "a%3ab", "{", "a{"];
        let mut seen = BTreeSet::new();
        for prefix in parts.iter().filter(|prefix| !prefix.contains(SEPARATOR)) {
            for namespace in parts {
                let name = KeyNames::new(prefix).of(&limit, Key::new(namespace, "user"));
                assert!(seen.insert(name), "{prefix:?} {namespace:?} collides with another pair");
            }
        }
    }

    #[test]
    fn limits_and_idempotency_records_of_one_entity_share_a_slot() {
        let names = KeyNames::new("tollgate");
        let (api, login) = (
            Limit::per_second(1).build("api").expect("valid"),
            Limit::per_minute(5)
                .sliding_log()
                .block_for(std::time::Duration::from_secs(1))
                .build("login")
                .expect("valid"),
        );
        let key = Key::new("shop", "{a}b");
        let all = [
            names.of(&api, key),
            names.of(&login, key),
            names.idempotency_record(key, IdempotencyKey::new(7)),
        ];
        assert!(all[1].ends_with(b":login~6b"));
        assert!(all.iter().all(|name| slot(name) == slot(&all[0])));
    }

    #[test]
    fn documents_share_a_slot_and_no_key_with_a_limit() {
        let names = KeyNames::new("tollgate");
        assert_eq!(names.document("rules/shop"), b"tollgate:{documents}/d/rules/shop");
        assert_eq!(names.document_names(), b"tollgate:{documents}/names");
        for document in ["a", "{a}", "}", "names", "d/", "../names"] {
            let document = names.document(document);
            assert_eq!(slot(&document), slot(&names.document_names()));
            assert_ne!(document, names.document_names());
            let limits = [name("", "documents"), name("documents", "documents"), name("", "documents}/d/a")];
            assert!(
                limits
                    .iter()
                    .all(|limit| tag(limit) != b"documents" || !limit.starts_with(b"tollgate:{documents}/"))
            );
        }
        assert_ne!(KeyNames::new("a").document("x"), KeyNames::new("b").document("x"));
    }

    #[test]
    fn slots_equal_those_of_redis() {
        // As returned by CLUSTER KEYSLOT.
        assert_eq!(slot(b"123456789"), 12_739);
        assert_eq!(slot(b"tollgate:{user:42}:api~1"), slot(b"user:42"));
    }
}
