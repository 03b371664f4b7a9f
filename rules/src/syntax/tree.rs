//! A document of any format as a tree of values that know where they were read.

use crate::source::{Span, Spanned};

/// A value and its place.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) span: Span,
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Scalar(Scalar),
    List(Vec<Node>),
    /// In the order of the file. Keys are unique: the syntax reports duplicates, and keys that are not text.
    Map(Vec<Entry>),
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Spanned<Box<str>>,
    pub(crate) value: Node,
}

/// A scalar as it is written: `5` and `"5"` have the same text, but not the same kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scalar {
    pub(crate) text: Box<str>,
    pub(crate) kind: ScalarKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScalarKind {
    Null,
    Bool,
    Integer,
    Float,
    /// Quoted, or anything that is none of the others.
    Text,
}
