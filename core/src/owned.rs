//! Twins of keys, charges and requests that outlive their caller: for wrappers and stores that answer later, or finish
//! what nobody waits for any more.

use alloc::boxed::Box;
use core::fmt;
use core::hash::{Hash, Hasher};

use smallvec::SmallVec;

use crate::charge::{Ask, Charge, OperationId, Request};
use crate::key::Key;
use crate::limit::Limit;

/// A [`Key`] with its bytes. Equal keys have equal twins, with equal hashes.
#[derive(Clone)]
pub struct OwnedKey {
    /// The namespace and the entity, one after the other.
    bytes: Box<[u8]>,
    /// Where the entity begins.
    entity: usize,
}

impl OwnedKey {
    /// The key.
    pub fn as_key(&self) -> Key<'_> {
        let (namespace, entity) = self.bytes.split_at(self.entity);
        Key::new(namespace, entity)
    }
}

impl From<Key<'_>> for OwnedKey {
    fn from(key: Key<'_>) -> Self {
        Self { bytes: [key.namespace(), key.entity()].concat().into(), entity: key.namespace().len() }
    }
}

impl PartialEq for OwnedKey {
    fn eq(&self, other: &Self) -> bool {
        self.entity == other.entity && self.bytes == other.bytes
    }
}

impl Eq for OwnedKey {}

impl Hash for OwnedKey {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.as_key().hash(hasher);
    }
}

/// Shows as little as the key does.
impl fmt::Debug for OwnedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_key().fmt(f)
    }
}

/// A [`Charge`] with everything it speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedCharge {
    limit: Limit,
    key: OwnedKey,
    ask: Ask,
}

impl OwnedCharge {
    /// The charge.
    pub fn as_charge(&self) -> Charge<'_> {
        Charge { key: self.key.as_key(), limit: &self.limit, ask: self.ask }
    }
}

impl From<&Charge<'_>> for OwnedCharge {
    fn from(charge: &Charge<'_>) -> Self {
        Self { limit: charge.limit.clone(), key: charge.key.into(), ask: charge.ask }
    }
}

/// A [`Request`] with everything it speaks of.
///
/// ```
/// use tollgate_core::{Limit, OwnedRequest, Request};
///
/// let api = Limit::per_second(50).build("api")?;
/// let owned = OwnedRequest::from(Request::new(&[api.charge("user:42")]));
/// let charges = owned.charges();
/// assert_eq!(owned.request(&charges), Request::new(&[api.charge("user:42")]));
/// # Ok::<(), tollgate_core::LimitError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedRequest {
    charges: SmallVec<[OwnedCharge; 1]>,
    id: Option<OperationId>,
}

impl OwnedRequest {
    /// The charges, to make a [request](Self::request) of.
    pub fn charges(&self) -> SmallVec<[Charge<'_>; 4]> {
        self.charges.iter().map(OwnedCharge::as_charge).collect()
    }

    /// The request, of its own [charges](Self::charges).
    pub fn request<'a>(&self, charges: &'a [Charge<'a>]) -> Request<'a> {
        let request = Request::new(charges);
        self.id.map_or(request, |id| request.with_id(id))
    }

    /// Its operation id, if it has one.
    pub fn id(&self) -> Option<OperationId> {
        self.id
    }

    /// The same request under another id.
    #[must_use]
    pub fn with_id(mut self, id: Option<OperationId>) -> Self {
        self.id = id;
        self
    }
}

impl From<Request<'_>> for OwnedRequest {
    fn from(request: Request<'_>) -> Self {
        Self { charges: request.charges().iter().map(OwnedCharge::from).collect(), id: request.id() }
    }
}

impl From<&Charge<'_>> for OwnedRequest {
    /// A request of one charge.
    fn from(charge: &Charge<'_>) -> Self {
        Self { charges: [OwnedCharge::from(charge)].into(), id: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_twin_is_the_key_cut_at_the_same_place() {
        for (namespace, entity) in [("", ""), ("", "ab"), ("a", "b"), ("ab", "")] {
            let key = Key::new(namespace, entity);
            assert_eq!(OwnedKey::from(key).as_key(), key);
        }
        assert_ne!(OwnedKey::from(Key::new("a", "b")), OwnedKey::from(Key::new("", "ab")));
    }

    #[cfg(feature = "std")]
    #[test]
    fn a_twin_hashes_like_the_key() {
        use std::hash::{BuildHasher, RandomState};
        let (hashes, key) = (RandomState::new(), Key::new("tenant", "user"));
        assert_eq!(hashes.hash_one(key), hashes.hash_one(OwnedKey::from(key)));
    }
}
