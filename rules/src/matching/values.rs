//! The attributes that rules use, and their values in one request.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use smallvec::SmallVec;

use crate::attributes::Attributes;
use crate::identifiers::{Identifiers, KeyForm};

/// An attribute of a domain's rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct AttributeId(u32);

/// The attributes of a domain's rules.
#[derive(Debug, Default)]
pub(super) struct AttributeTable {
    attributes: Box<[Attribute]>,
}

#[derive(Debug)]
struct Attribute {
    name: Arc<str>,
    /// Where else the value is found, in this order.
    sources: Box<[AttributeId]>,
}

/// Collects the attributes of a domain's rules.
pub(super) struct AttributeNames<'a> {
    identifiers: &'a Identifiers,
    ids: HashMap<Arc<str>, AttributeId, RandomState>,
    key_forms: HashMap<AttributeId, KeyForm, RandomState>,
    attributes: Vec<Attribute>,
}

impl<'a> AttributeNames<'a> {
    pub(super) fn new(identifiers: &'a Identifiers) -> Self {
        let (ids, key_forms) = (HashMap::default(), HashMap::default());
        Self { identifiers, ids, key_forms, attributes: Vec::new() }
    }

    /// Returns the id of an attribute, which is added if it is missing.
    pub(super) fn id(&mut self, name: &Arc<str>) -> AttributeId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let id = AttributeId(u32::try_from(self.attributes.len()).expect("fewer than bytes of rules"));
        self.ids.insert(Arc::clone(name), id);
        self.attributes.push(Attribute { name: Arc::clone(name), sources: Box::default() });
        // All of them, as `lookup_order` follows names of names: only their own values are asked for.
        let order = self.identifiers.lookup_order(name);
        let sources = order.iter().skip(1).map(|source| self.id(source)).collect();
        self.attributes[id.0 as usize].sources = sources;
        id
    }

    /// Returns the attribute with the form that its values have in keys.
    pub(super) fn keyed(&mut self, name: &Arc<str>) -> (AttributeId, KeyForm) {
        let id = self.id(name);
        (id, *self.key_forms.entry(id).or_insert_with(|| self.identifiers.key_form(name)))
    }

    pub(super) fn build(self) -> AttributeTable {
        AttributeTable { attributes: self.attributes.into() }
    }
}

/// The values of one request, each asked for when it is needed first, and never twice.
pub(super) struct Values<'a, A: ?Sized> {
    request: &'a A,
    table: &'a AttributeTable,
    /// Inline for what most domains use.
    by_id: SmallVec<[Value<'a>; 16]>,
}

enum Value<'a> {
    Unknown,
    Missing,
    Found(Cow<'a, str>),
}

impl<'a, A: Attributes + ?Sized> Values<'a, A> {
    pub(super) fn new(request: &'a A, table: &'a AttributeTable) -> Self {
        let mut by_id = SmallVec::new();
        by_id.resize_with(table.attributes.len(), || Value::Unknown);
        Self { request, table, by_id }
    }

    /// Returns the value of an attribute: its own, or else that of the first of its sources that the request has.
    pub(super) fn get(&mut self, id: AttributeId) -> Option<&str> {
        let sources = &self.table.attributes[id.0 as usize].sources;
        let found = if self.fetch(id) { id } else { sources.iter().copied().find(|id| self.fetch(*id))? };
        match &self.by_id[found.0 as usize] {
            Value::Found(value) => Some(value),
            Value::Unknown | Value::Missing => None,
        }
    }

    /// Asks for the own value of an attribute, unless that was done before. Returns whether there is one.
    fn fetch(&mut self, id: AttributeId) -> bool {
        let at = id.0 as usize;
        if let Value::Unknown = self.by_id[at] {
            let value = self.request.get(&self.table.attributes[at].name);
            self.by_id[at] = value.map_or(Value::Missing, Value::Found);
        }
        matches!(self.by_id[at], Value::Found(_))
    }
}
