//! Texts with `*` for any characters.

/// A pattern in which every `*` stands for any characters, also none. Matching takes linear time.
#[derive(Clone, Debug)]
pub(crate) struct Glob {
    /// What is before the first `*`.
    prefix: Box<str>,
    /// What is between two `*`.
    middle: Box<[Box<str>]>,
    /// What is after the last `*`. `None` if there is no `*`.
    suffix: Option<Box<str>>,
}

impl Glob {
    pub(crate) fn new(pattern: &str) -> Self {
        let mut parts: Vec<Box<str>> = pattern.split('*').map(Into::into).collect();
        let suffix = if parts.len() > 1 { parts.pop() } else { None };
        let prefix = parts.remove(0);
        parts.retain(|part| !part.is_empty());
        Self { prefix, middle: parts.into(), suffix }
    }

    /// Returns what every matching value starts with.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(crate) fn matches(&self, value: &str) -> bool {
        let Some(rest) = value.strip_prefix(&*self.prefix) else { return false };
        let Some(suffix) = &self.suffix else { return rest.is_empty() };
        let Some(mut rest) = rest.strip_suffix(&**suffix) else { return false };
        // The first place of each part leaves the most for the others.
        for part in &self.middle {
            let Some(at) = rest.find(&**part) else { return false };
            rest = &rest[at + part.len()..];
        }
        true
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Tries all ways.
    pub(crate) fn slow(pattern: &[u8], value: &[u8]) -> bool {
        match pattern {
            [] => value.is_empty(),
            [b'*', rest @ ..] => (0..=value.len()).any(|taken| slow(rest, &value[taken..])),
            [first, rest @ ..] => value.first() == Some(first) && slow(rest, &value[1..]),
        }
    }

    proptest! {
        #[test]
        fn decides_as_the_slow_model(pattern in "[ab*]{0,7}", value in "[ab]{0,8}") {
            let expected = slow(pattern.as_bytes(), value.as_bytes());
            prop_assert_eq!(Glob::new(&pattern).matches(&value), expected, "{} {}", pattern, value);
        }
    }

    #[test]
    fn hostile_values_end_soon() {
        let pattern = format!("{}b", "a*".repeat(60));
        assert!(!Glob::new(&pattern).matches(&"a".repeat(100_000)));
    }
}
