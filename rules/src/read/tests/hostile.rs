//! Files that were damaged at random: nothing panics, and what is wrong is somewhere in the file.

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

/// What is inserted: what means something to the reader or to the syntax.
const PIECES: [&str; 16] = [
    "[",
    "]",
    "{",
    "}",
    ": ",
    "- ",
    "\n",
    "*",
    "\"",
    "~",
    "0",
    "-1",
    "1e99",
    "unlimited",
    "limit: 5/s\n",
    "🦀",
];

#[derive(Clone, Debug)]
enum Damage {
    Insert(Index, Index),
    Remove(Index, usize),
    /// Copies a line to the place of another one.
    Copy(Index, Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        any::<(Index, Index)>().prop_map(|(at, piece)| Damage::Insert(at, piece)),
        (any::<Index>(), 1..12_usize).prop_map(|(at, length)| Damage::Remove(at, length)),
        any::<(Index, Index)>().prop_map(|(from, to)| Damage::Copy(from, to)),
    ]
}

fn damaged(text: &str, damages: &[Damage]) -> String {
    let mut letters: Vec<char> = text.chars().collect();
    for damage in damages {
        match damage {
            Damage::Insert(at, piece) => {
                let at = at.index(letters.len() + 1);
                letters.splice(at..at, PIECES[piece.index(PIECES.len())].chars());
            }
            Damage::Remove(at, length) => {
                let at = at.index(letters.len() + 1);
                letters.drain(at..(at + length).min(letters.len()));
            }
            Damage::Copy(from, to) => {
                let text: String = letters.iter().collect();
                let mut lines: Vec<_> = text.split('\n').collect();
                let (from, to) = (from.index(lines.len()), to.index(lines.len()));
                lines.insert(to, lines[from]);
                letters = lines.join("\n").chars().collect();
            }
        }
    }
    letters.into_iter().collect()
}

proptest! {
    #[test]
    fn damaged_files_are_read_or_refused(
        file in 0..3_usize,
        damages in proptest::collection::vec(damage(), 1..6),
    ) {
        let (name, text) = [
            ("shop.yaml", design::YAML),
            ("shop.json", design::JSON),
            ("edge.yaml", descriptors::EDGE),
        ][file];
        let text = damaged(text, &damages);
        match read_files(&[(name, &text)], ReadOptions::default()) {
            Ok((domains, _)) => prop_assert_eq!(domains.len(), 1),
            Err(errors) => {
                let lines = text.split('\n').count();
                for error in errors.diagnostics() {
                    prop_assert!(error.line() <= lines && !error.message().is_empty() && !error.advice().is_empty());
                }
                prop_assert!(!errors.to_string().is_empty());
            }
        }
    }
}
