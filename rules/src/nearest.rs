//! The nearest right spelling of a misspelt word, for advice such as "did you mean `limit`?".

/// Words that are longer than this are not compared: nobody misspells them, and the comparison is quadratic.
const MAX_CHARS: usize = 40;

/// Returns the candidate that is most like `word`, if one is like it at all: the fewest characters inserted, removed,
/// replaced or swapped with their neighbour, at most one in three. Case, `-` and blanks do not count. Of equally near
/// candidates the first.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = plain(word);
    if word.is_empty() || word.len() > MAX_CHARS {
        return None;
    }
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        let letters = plain(candidate);
        if letters.len() > MAX_CHARS {
            continue;
        }
        let edits = distance(&word, &letters);
        // One edit of a word with two letters, such as `ip`, makes almost any other word.
        let tolerated = if letters.len() < 3 { 0 } else { (letters.len().max(word.len()) / 3).max(1) };
        if edits <= tolerated && best.is_none_or(|(fewest, _)| edits < fewest) {
            best = Some((edits, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Returns the characters that count.
fn plain(word: &str) -> Vec<char> {
    let lower = word.trim().chars().take(MAX_CHARS + 1).flat_map(char::to_lowercase);
    lower.map(|letter| if matches!(letter, '-' | ' ') { '_' } else { letter }).collect()
}

/// Returns the number of edits between two words (optimal string alignment).
fn distance(from: &[char], to: &[char]) -> usize {
    let mut before_last = vec![0; to.len() + 1];
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (row, &letter) in from.iter().enumerate() {
        let mut current = vec![row + 1; to.len() + 1];
        for (column, &other) in to.iter().enumerate() {
            let replaced = last[column] + usize::from(letter != other);
            let mut edits = replaced.min(last[column + 1] + 1).min(current[column] + 1);
            if row > 0 && column > 0 && letter == to[column - 1] && from[row - 1] == other {
                edits = edits.min(before_last[column - 1] + 1);
            }
            current[column + 1] = edits;
        }
        before_last = std::mem::replace(&mut last, current);
    }
    last[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: [&str; 8] = ["name", "when", "per", "limit", "plan", "concurrent", "on_store_error", "ip"];

    #[test]
    fn the_nearest_word_is_found() {
        for (word, right) in [
            ("limti", Some("limit")),
            ("limits", Some("limit")),
            ("Limit", Some("limit")),
            ("on-store-error", Some("on_store_error")),
            ("on_store_eror", Some("on_store_error")),
            ("concurent", Some("concurrent")),
            ("whne", Some("when")),
            ("pre", Some("per")),
            ("user", None),
            ("xyz", None),
            ("", None),
            ("id", None),
            ("IP", Some("ip")),
        ] {
            assert_eq!(nearest(word, FIELDS), right, "{word}");
        }
    }

    #[test]
    fn of_equally_near_words_the_first_is_taken() {
        assert_eq!(nearest("mont", ["month", "moat"]), Some("month"));
        assert_eq!(nearest("mont", ["moat", "month"]), Some("moat"));
    }

    #[test]
    fn long_words_are_not_compared() {
        let long = "l".repeat(1_000_000);
        assert_eq!(nearest(&long, FIELDS), None);
        assert_eq!(nearest("limit", [long.as_str()]), None);
    }

    #[test]
    fn a_swap_is_one_edit() {
        let count = |from: &str, to: &str| distance(&plain(from), &plain(to));
        assert_eq!(count("limti", "limit"), 1);
        assert_eq!(count("ab", "ba"), 1);
        assert_eq!(count("abc", "abc"), 0);
        assert_eq!(count("", "abc"), 3);
        assert_eq!(count("kitten", "sitting"), 3);
    }
}
