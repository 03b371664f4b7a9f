//! Keys, charges and requests that outlive their caller: for wrappers and stores that answer later, or that complete
//! what nobody awaits any more.

use alloc::boxed::Box;
use core::fmt;
use core::hash::{Hash, Hasher};

use smallvec::SmallVec;

use crate::charge::{Charge, IdempotencyKey, Operation, Request};
use crate::key::Key;
use crate::limit::Limit;

/// A [`Key`] that owns its bytes. Hashes like the key.
#[derive(Clone)]
pub struct OwnedKey {
    /// The namespace and the entity, one after the other.
    bytes: Box<[u8]>,
    /// Where the entity starts.
    entity: usize,
}

impl OwnedKey {
    /// Returns the key.
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

/// Shows no more than the key does.
impl fmt::Debug for OwnedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_key().fmt(f)
    }
}

/// A [`Charge`] that owns its limit and key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedCharge {
    limit: Limit,
    key: OwnedKey,
    operation: Operation,
}

impl OwnedCharge {
    /// Returns the charge.
    pub fn as_charge(&self) -> Charge<'_> {
        Charge { key: self.key.as_key(), limit: &self.limit, operation: self.operation }
    }
}

impl From<&Charge<'_>> for OwnedCharge {
    fn from(charge: &Charge<'_>) -> Self {
        Self { limit: charge.limit.clone(), key: charge.key.into(), operation: charge.operation }
    }
}

/// A [`Request`] that owns its charges.
///
/// ```
/// # extern crate tollgate_core as tollgate;
/// use tollgate::store::OwnedRequest;
/// use tollgate::{Limit, Request};
///
/// let api = Limit::per_second(50).build("api")?;
/// let owned = OwnedRequest::from(Request::new(&[api.charge("user:42")]));
/// let charges = owned.charges();
/// assert_eq!(owned.request(&charges), Request::new(&[api.charge("user:42")]));
/// # Ok::<(), tollgate::LimitError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedRequest {
    charges: SmallVec<[OwnedCharge; 1]>,
    idempotency_key: Option<IdempotencyKey>,
}

impl OwnedRequest {
    /// Returns the charges, to build a [request](Self::request) from.
    pub fn charges(&self) -> SmallVec<[Charge<'_>; 4]> {
        self.charges.iter().map(OwnedCharge::as_charge).collect()
    }

    /// Returns the request, given its own [charges](Self::charges).
    pub fn request<'a>(&self, charges: &'a [Charge<'a>]) -> Request<'a> {
        let request = Request::new(charges);
        self.idempotency_key.map_or(request, |key| request.with_idempotency_key(key))
    }

    /// Returns the idempotency key, if the request has one.
    pub fn idempotency_key(&self) -> Option<IdempotencyKey> {
        self.idempotency_key
    }

    /// Replaces the idempotency key.
    #[must_use]
    pub fn with_idempotency_key(mut self, key: Option<IdempotencyKey>) -> Self {
        self.idempotency_key = key;
        self
    }
}

impl From<Request<'_>> for OwnedRequest {
    fn from(request: Request<'_>) -> Self {
        let charges = request.charges().iter().map(OwnedCharge::from).collect();
        Self { charges, idempotency_key: request.idempotency_key() }
    }
}

impl From<&Charge<'_>> for OwnedRequest {
    /// Creates a request of one charge.
    fn from(charge: &Charge<'_>) -> Self {
        Self { charges: [OwnedCharge::from(charge)].into(), idempotency_key: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owned_key_keeps_the_boundary_of_its_parts() {
        for (namespace, entity) in [("", ""), ("", "ab"), ("a", "b"), ("ab", "")] {
            let key = Key::new(namespace, entity);
            assert_eq!(OwnedKey::from(key).as_key(), key);
        }
        assert_ne!(OwnedKey::from(Key::new("a", "b")), OwnedKey::from(Key::new("", "ab")));
    }

    #[cfg(feature = "std")]
    #[test]
    fn an_owned_key_hashes_like_the_key() {
        use std::hash::{BuildHasher, RandomState};
        let (hashes, key) = (RandomState::new(), Key::new("tenant", "user"));
        assert_eq!(hashes.hash_one(key), hashes.hash_one(OwnedKey::from(key)));
    }
}
