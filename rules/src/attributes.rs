//! Attributes: what is known about a request.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;

/// What is known about a request, wherever it comes from: an HTTP request, the descriptors of a rate limit service call,
/// a JSON document.
///
/// An attribute has a name and a text. Rules use these names; an application may add any others:
///
/// | name | what it is |
/// |---|---|
/// | `user`, `api_key`, `app` | who sends the request |
/// | `ip` | the client's address, without those of trusted proxies |
/// | `path`, `route`, `method`, `host` | of the HTTP request; `route` is the router's template, such as `/users/{id}` |
/// | `header.x-tenant`, `cookie.session`, `query.page` | a header, cookie or query parameter |
/// | `claim.sub` | a claim of a token that was verified already |
/// | `plan` | the plan that the user is on |
///
/// Values are asked for only if a rule needs them.
pub trait Attributes {
    /// Returns the value of an attribute. `None` if the request does not have it.
    fn get(&self, name: &str) -> Option<Cow<'_, str>>;
}

impl<A: Attributes + ?Sized> Attributes for &A {
    fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        (**self).get(name)
    }
}

/// Pairs of names and values; the first of several with the same name counts.
impl<N: AsRef<str>, V: AsRef<str>> Attributes for [(N, V)] {
    fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        let found = self.iter().find(|(key, _)| key.as_ref() == name);
        found.map(|(_, value)| Cow::Borrowed(value.as_ref()))
    }
}

impl<N: AsRef<str>, V: AsRef<str>, const LEN: usize> Attributes for [(N, V); LEN] {
    fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        Attributes::get(self.as_slice(), name)
    }
}

impl<N: AsRef<str>, V: AsRef<str>> Attributes for Vec<(N, V)> {
    fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        Attributes::get(self.as_slice(), name)
    }
}

impl<V: AsRef<str>, S: BuildHasher> Attributes for HashMap<String, V, S> {
    fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        HashMap::get(self, name).map(|value| Cow::Borrowed(value.as_ref()))
    }
}

impl<V: AsRef<str>> Attributes for BTreeMap<String, V> {
    fn get(&self, name: &str) -> Option<Cow<'_, str>> {
        BTreeMap::get(self, name).map(|value| Cow::Borrowed(value.as_ref()))
    }
}
