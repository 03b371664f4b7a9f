//! Rules of the form `descriptors`, matched as the Envoy reference service does: at exact depth, and per level the
//! exact value, then the first wildcard in file order, then the bare key, without a second attempt.

use std::fmt::Write as _;
use std::sync::Arc;

use smallvec::SmallVec;

use super::edges::Edges;
use super::glob::Glob;
use super::key::KeyWriter;
use crate::identifiers::{Identifiers, KeyForm};
use crate::model::{DescriptorLimit, DescriptorModel};

/// A descriptor of a rate limit service call: entries of a key and a value, in order.
///
/// Implemented for lists of pairs. A server implements it for the type that its messages have, so that nothing is
/// copied.
pub trait Descriptor {
    /// Returns the key and the value of an entry. `None` after the last one.
    fn entry(&self, index: usize) -> Option<(&str, &str)>;
}

impl<D: Descriptor + ?Sized> Descriptor for &D {
    fn entry(&self, index: usize) -> Option<(&str, &str)> {
        (**self).entry(index)
    }
}

impl<K: AsRef<str>, V: AsRef<str>> Descriptor for [(K, V)] {
    fn entry(&self, index: usize) -> Option<(&str, &str)> {
        self.get(index).map(|(key, value)| (key.as_ref(), value.as_ref()))
    }
}

impl<K: AsRef<str>, V: AsRef<str>, const LEN: usize> Descriptor for [(K, V); LEN] {
    fn entry(&self, index: usize) -> Option<(&str, &str)> {
        self.as_slice().entry(index)
    }
}

impl<K: AsRef<str>, V: AsRef<str>> Descriptor for Vec<(K, V)> {
    fn entry(&self, index: usize) -> Option<(&str, &str)> {
        self.as_slice().entry(index)
    }
}

/// The descriptors of a domain.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    levels: Vec<Level>,
    /// From a node and a key to a level.
    keys: Edges,
    /// From a level and an exact value to a node.
    values: Edges,
}

/// What is below a node for one key.
#[derive(Debug, Default)]
struct Level {
    /// In file order.
    wildcards: Vec<(Glob, u32)>,
    bare: Option<u32>,
}

/// A descriptor of a rule file.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "the flags of the file, which are independent")]
pub(super) struct Node {
    kind: NodeKind,
    key_form: KeyForm,
    has_children: bool,
    value_to_metric: bool,
    share_threshold: bool,
    detailed_metric: bool,
    pub(super) shadow_mode: bool,
    pub(super) quota_mode: bool,
    pub(super) limit: Option<DescriptorLimit>,
    pub(super) metadata: Option<serde_json::Map<String, serde_json::Value>>,
    /// Keys and values of the path: `key=value/key`.
    pub(super) path: Box<str>,
    /// The name that the reference service has for it: `domain.key_value.key`.
    pub(super) metric: Box<str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum NodeKind {
    Root,
    Exact(Arc<str>),
    Wildcard(Arc<str>),
    Bare,
}

/// The nodes from the first level to the one that has the limit.
pub(super) struct Found {
    nodes: SmallVec<[u32; 8]>,
}

const ROOT: u32 = 0;

impl Tree {
    pub(super) fn new(domain: &str, descriptors: &[DescriptorModel], identifiers: &Identifiers) -> Self {
        let (nodes, levels) = (vec![Node::root(domain)], Vec::new());
        let mut tree = Self { nodes, levels, keys: Edges::default(), values: Edges::default() };
        let mut ahead = vec![(ROOT, descriptors)];
        while let Some((parent, descriptors)) = ahead.pop() {
            for descriptor in descriptors {
                let node = tree.insert(parent, descriptor, identifiers);
                ahead.push((node, &descriptor.descriptors));
            }
        }
        tree
    }

    fn insert(&mut self, parent: u32, descriptor: &DescriptorModel, identifiers: &Identifiers) -> u32 {
        let node = number(self.nodes.len());
        let kind = match &descriptor.value {
            None => NodeKind::Bare,
            Some(value) if value.contains('*') => NodeKind::Wildcard(Arc::clone(value)),
            Some(value) => NodeKind::Exact(Arc::clone(value)),
        };
        let key = &*descriptor.key.value;
        let level = self.keys.get(parent, key).unwrap_or_else(|| {
            let level = number(self.levels.len());
            self.levels.push(Level::default());
            self.keys.insert(parent, key, level);
            level
        });
        // The text of a wildcard is also an exact value, as in the reference service.
        if let Some(value) = &descriptor.value {
            self.values.insert(level, value, node);
        }
        match &kind {
            NodeKind::Wildcard(value) => {
                self.levels[level as usize].wildcards.push((Glob::new(value), node));
            }
            NodeKind::Bare => {
                self.levels[level as usize].bare.get_or_insert(node);
            }
            NodeKind::Root | NodeKind::Exact(_) => {}
        }
        let added = Node::new(&self.nodes[parent as usize], kind, descriptor, identifiers);
        self.nodes.push(added);
        node
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nodes.len() == 1
    }

    /// Returns the node that a descriptor matches at exact depth, if it has a limit.
    pub(super) fn find(&self, descriptor: &(impl Descriptor + ?Sized)) -> Option<(&Node, Found)> {
        let found = self.walk(descriptor);
        let last = &self.nodes[*found.nodes.last()? as usize];
        let is_whole = descriptor.entry(found.nodes.len()).is_none();
        (is_whole && last.limit.is_some()).then_some((last, found))
    }

    /// Follows the entries as far as they match.
    pub(super) fn walk(&self, descriptor: &(impl Descriptor + ?Sized)) -> Found {
        let mut nodes: SmallVec<[u32; 8]> = SmallVec::new();
        let mut at = ROOT;
        while self.nodes[at as usize].has_children
            && let Some((key, value)) = descriptor.entry(nodes.len())
            && let Some(next) = self.next(at, key, value)
        {
            nodes.push(next);
            at = next;
        }
        Found { nodes }
    }

    fn next(&self, at: u32, key: &str, value: &str) -> Option<u32> {
        let level = self.keys.get(at, key)?;
        let Level { wildcards, bare } = &self.levels[level as usize];
        let wildcard = || wildcards.iter().find(|(glob, _)| glob.matches(value)).map(|(_, node)| *node);
        self.values.get(level, value).or_else(wildcard).or(*bare)
    }

    /// Returns the node that was found last.
    pub(super) fn last(&self, found: &Found) -> Option<&Node> {
        found.nodes.last().map(|node| &self.nodes[*node as usize])
    }

    /// Writes the values that the path leaves open. Exact values are part of the limit's name.
    pub(super) fn write_key(
        &self,
        found: &Found,
        descriptor: &(impl Descriptor + ?Sized),
        key: &mut KeyWriter<'_>,
    ) {
        for index in self.open_entries(found) {
            if let Some((_, value)) = descriptor.entry(index) {
                key.value(self.nodes[found.nodes[index] as usize].key_form, value);
            }
        }
    }

    /// Returns the entries whose values are part of the key.
    pub(super) fn open_entries(&self, found: &Found) -> impl Iterator<Item = usize> {
        let is_open = |node: &u32| {
            let node = &self.nodes[*node as usize];
            match node.kind {
                NodeKind::Root | NodeKind::Exact(_) => false,
                NodeKind::Wildcard(_) => !node.share_threshold,
                NodeKind::Bare => true,
            }
        };
        found.nodes.iter().enumerate().filter(move |(_, node)| is_open(node)).map(|(index, _)| index)
    }

    /// Writes the metric's name if it depends on the values of the request. Returns whether it does.
    pub(super) fn write_metric(
        &self,
        found: &Found,
        descriptor: &(impl Descriptor + ?Sized),
        domain: &str,
        metric: &mut String,
    ) -> bool {
        let nodes = || found.nodes.iter().map(|node| &self.nodes[*node as usize]);
        let is_detailed = nodes().next_back().is_some_and(|node| node.detailed_metric);
        if !is_detailed && !nodes().any(|node| node.value_to_metric) {
            return false;
        }
        metric.push_str(domain);
        for (index, node) in nodes().enumerate() {
            let Some((key, value)) = descriptor.entry(index) else { break };
            let value = match &node.kind {
                NodeKind::Wildcard(pattern) if node.share_threshold => pattern,
                NodeKind::Root | NodeKind::Exact(_) | NodeKind::Wildcard(_) | NodeKind::Bare
                    if is_detailed || node.value_to_metric =>
                {
                    value
                }
                NodeKind::Exact(pattern) | NodeKind::Wildcard(pattern) => pattern,
                NodeKind::Root | NodeKind::Bare => "",
            };
            let _ =
                if value.is_empty() { write!(metric, ".{key}") } else { write!(metric, ".{key}_{value}") };
        }
        true
    }
}

impl Found {
    /// Returns how many entries matched.
    pub(super) fn depth(&self) -> usize {
        self.nodes.len()
    }
}

impl Node {
    fn root(domain: &str) -> Self {
        Self {
            kind: NodeKind::Root,
            key_form: KeyForm::Plain,
            has_children: true,
            value_to_metric: false,
            share_threshold: false,
            detailed_metric: false,
            shadow_mode: false,
            quota_mode: false,
            limit: None,
            metadata: None,
            path: "".into(),
            metric: domain.into(),
        }
    }

    fn new(parent: &Self, kind: NodeKind, model: &DescriptorModel, identifiers: &Identifiers) -> Self {
        let key = &model.key.value;
        // Every other value counts as it is, as in the reference service.
        let key_form = if identifiers.is_secret(key) { KeyForm::Hashed } else { KeyForm::Plain };
        let separator = if parent.path.is_empty() { "" } else { "/" };
        let (path, metric) = match &model.value {
            None => (format!("{}{separator}{key}", parent.path), format!("{}.{key}", parent.metric)),
            Some(value) => {
                let path = format!("{}{separator}{key}={value}", parent.path);
                (path, format!("{}.{key}_{value}", parent.metric))
            }
        };
        Self {
            kind,
            key_form,
            has_children: !model.descriptors.is_empty(),
            value_to_metric: model.value_to_metric,
            share_threshold: model.share_threshold,
            detailed_metric: model.detailed_metric,
            shadow_mode: model.shadow_mode,
            quota_mode: model.quota_mode,
            limit: model.limit.clone(),
            metadata: model.metadata.clone(),
            path: path.into(),
            metric: metric.into(),
        }
    }

    /// Returns the name of the limit, or else the path.
    pub(super) fn name(&self) -> &str {
        let named = self.limit.as_ref().and_then(|limit| limit.name.as_deref());
        named.unwrap_or(&self.path)
    }
}

fn number(length: usize) -> u32 {
    u32::try_from(length).expect("fewer nodes than bytes of rules")
}
