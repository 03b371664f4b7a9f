//! Paths: one pattern, and many patterns in a trie of segments.

use smallvec::SmallVec;

use super::edges::Edges;
use super::glob::Glob;

/// Ids of what has a pattern.
pub(super) type Ids = SmallVec<[u32; 4]>;

/// A pattern of segments: `*` stands for any characters but `/`, `**` for any number of whole segments, also none.
#[derive(Clone, Debug)]
pub(crate) struct PathPattern {
    segments: Box<[Segment]>,
}

#[derive(Clone, Debug)]
enum Segment {
    Literal(Box<str>),
    /// `*`
    Any,
    /// `*` and other characters.
    Glob(Glob),
    /// `**`
    AnyNumber,
}

impl Segment {
    fn new(text: &str) -> Self {
        match text {
            "*" => Self::Any,
            "**" => Self::AnyNumber,
            text if text.contains('*') => Self::Glob(Glob::new(text)),
            text => Self::Literal(text.into()),
        }
    }

    fn matches(&self, text: &str) -> bool {
        match self {
            Self::Literal(literal) => **literal == *text,
            Self::Any => true,
            Self::Glob(glob) => glob.matches(text),
            Self::AnyNumber => false,
        }
    }
}

impl PathPattern {
    pub(crate) fn new(pattern: &str) -> Self {
        Self { segments: pattern.split('/').map(Segment::new).collect() }
    }

    pub(crate) fn matches(&self, path: &str) -> bool {
        matches_segments(&self.segments, Some(path))
    }
}

/// Returns whether a pattern matches what is left of a path. `None` has no segments; an empty text has one. Takes at
/// most the product of both lengths.
fn matches_segments(pattern: &[Segment], path: Option<&str>) -> bool {
    let mut left = path.into_iter().flat_map(|path| path.split('/'));
    let mut at = 0;
    // Where to go on after the last `**`, and the segments that it has not taken. What precedes it need not change.
    let mut retry = None;
    loop {
        if let Some(Segment::AnyNumber) = pattern.get(at) {
            at += 1;
            if at == pattern.len() {
                return true;
            }
            retry = Some((at, left.clone()));
            continue;
        }
        let mut ahead = left.clone();
        match (pattern.get(at), ahead.next()) {
            (None, None) => return true,
            (Some(segment), Some(text)) if segment.matches(text) => {
                at += 1;
                left = ahead;
            }
            (Some(_), None) => return false,
            (None | Some(_), Some(_)) => {
                let Some((after, from)) = &mut retry else { return false };
                if from.next().is_none() {
                    return false;
                }
                (at, left) = (*after, from.clone());
            }
        }
    }
}

/// Many patterns, found by the segments of a path. A look-up visits only nodes whose segments match, none twice, and
/// never deeper than the longest pattern.
#[derive(Debug, Default)]
pub(super) struct PathTrie {
    nodes: Vec<Node>,
    /// From a node and a literal segment to a node.
    children: Edges,
}

#[derive(Debug, Default)]
struct Node {
    /// The child for `*`.
    any: Option<u32>,
    /// Patterns that end here.
    here: Ids,
    /// Patterns that end with `**` after this node.
    below: Ids,
    /// The rest of patterns that a trie can't follow: from a `**` or a segment such as `*.png`.
    open: Vec<(Box<[Segment]>, u32)>,
}

impl PathTrie {
    pub(super) fn insert(&mut self, pattern: &str, id: u32) {
        if self.nodes.is_empty() {
            self.nodes.push(Node::default());
        }
        let pattern = PathPattern::new(pattern);
        let mut node = 0;
        for (at, segment) in pattern.segments.iter().enumerate() {
            node = match segment {
                Segment::Literal(text) => self.literal_child(node, text),
                Segment::Any => self.any_child(node),
                Segment::AnyNumber if at + 1 == pattern.segments.len() => {
                    self.nodes[node as usize].below.push(id);
                    return;
                }
                Segment::AnyNumber | Segment::Glob(_) => {
                    self.nodes[node as usize].open.push((pattern.segments[at..].into(), id));
                    return;
                }
            };
        }
        self.nodes[node as usize].here.push(id);
    }

    fn literal_child(&mut self, node: u32, segment: &str) -> u32 {
        if let Some(child) = self.children.get(node, segment) {
            return child;
        }
        let child = self.add_node();
        self.children.insert(node, segment, child);
        child
    }

    fn any_child(&mut self, node: u32) -> u32 {
        if let Some(child) = self.nodes[node as usize].any {
            return child;
        }
        let child = self.add_node();
        self.nodes[node as usize].any = Some(child);
        child
    }

    fn add_node(&mut self) -> u32 {
        let node = u32::try_from(self.nodes.len()).expect("fewer nodes than bytes of rules");
        self.nodes.push(Node::default());
        node
    }

    /// Calls `found` for each pattern that matches.
    pub(super) fn for_each_match(&self, path: &str, mut found: impl FnMut(u32)) {
        if self.nodes.is_empty() {
            return;
        }
        let mut ahead: SmallVec<[(u32, Option<&str>); 8]> = SmallVec::new();
        ahead.push((0, Some(path)));
        while let Some((node, left)) = ahead.pop() {
            let Node { any, here, below, open } = &self.nodes[node as usize];
            below.iter().copied().for_each(&mut found);
            open.iter().filter(|(rest, _)| matches_segments(rest, left)).for_each(|(_, id)| found(*id));
            let Some(left) = left else {
                here.iter().copied().for_each(&mut found);
                continue;
            };
            let (segment, after) = match left.split_once('/') {
                Some((segment, after)) => (segment, Some(after)),
                None => (left, None),
            };
            ahead.extend(any.map(|child| (child, after)));
            ahead.extend(self.children.get(node, segment).map(|child| (child, after)));
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::matching::glob::tests::slow as slow_glob;

    pub(crate) fn slow(pattern: &str, path: &str) -> bool {
        let (pattern, path): (Vec<_>, Vec<_>) = (pattern.split('/').collect(), path.split('/').collect());
        slow_segments(&pattern, &path)
    }

    /// Tries all ways.
    fn slow_segments(pattern: &[&str], path: &[&str]) -> bool {
        match pattern {
            [] => path.is_empty(),
            ["**", rest @ ..] => (0..=path.len()).any(|taken| slow_segments(rest, &path[taken..])),
            [first, rest @ ..] => path.split_first().is_some_and(|(segment, left)| {
                slow_glob(first.as_bytes(), segment.as_bytes()) && slow_segments(rest, left)
            }),
        }
    }

    const PATTERN: &str = "(/(a|b|\\*|\\*\\*|a\\*|\\*b|)){0,5}";
    const PATH: &str = "(/(a|b|ab|)){0,6}";

    proptest! {
        #[test]
        fn a_pattern_decides_as_the_slow_model(pattern in PATTERN, path in PATH) {
            let expected = slow(&pattern, &path);
            prop_assert_eq!(PathPattern::new(&pattern).matches(&path), expected, "{} {}", pattern, path);
        }

        #[test]
        fn a_trie_decides_as_the_slow_model(
            patterns in prop::collection::vec(PATTERN, 0..12),
            path in PATH,
        ) {
            let mut trie = PathTrie::default();
            for (id, pattern) in (0..).zip(&patterns) {
                trie.insert(pattern, id);
            }
            let mut found = Vec::new();
            trie.for_each_match(&path, |id| found.push(id));
            found.sort_unstable();
            let matching = (0..).zip(&patterns).filter(|(_, pattern)| slow(pattern, &path));
            let expected: Vec<u32> = matching.map(|(id, _)| id).collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn any_number_of_segments_is_also_none() {
        let api = PathPattern::new("/api/**");
        for path in ["/api", "/api/", "/api/x/y"] {
            assert!(api.matches(path), "{path}");
        }
        for path in ["/apis", "/", "", "/x/api"] {
            assert!(!api.matches(path), "{path}");
        }
    }

    #[test]
    fn hostile_paths_end_soon() {
        let pattern = PathPattern::new("/**/a/**/a/**/a/**/a/**/a/**/a/**/b");
        assert!(!pattern.matches(&"/a".repeat(20_000)));
        assert!(!pattern.matches(&"/".repeat(20_000)));
    }
}
