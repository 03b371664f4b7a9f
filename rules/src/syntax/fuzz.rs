//! Hostile files of every format: nothing panics, every place is within the text, every problem can be shown. The
//! parsers are private, so these are property tests of this crate; their number of cases is fixed.

use proptest::prelude::*;
use proptest::sample::select;

use super::tests::parsed;

const YAML: &str = "# Rules of the shop\ndomain: shop\nbase: &base {algorithm: gcra, block_for: 15m}\nrules:\n  \
    - name: 'api'\n    when: { path: /api/**, method: [GET, \"P\\u00d6ST\"] }\n    per: [user]\n    \
    limit: [50/s burst 100, 10000/day]\n  - name: login\n    limit: { <<: *base, rate: 5/min }\n    \
    text: |\n      größe\n      more\n";

const TOML: &str = "# Rules of the shop\ndomain = \"shop\"\n\n[[rules]]\nname = 'api'\n\
    when = { path = \"/api/**\", method = [\"GET\", \"P\\u00d6ST\"] }\nlimit = [\"50/s\", 1_000]\nshadow = true\n\n\
    [[rules]]\nname = \"größe\"\n[rules.plan]\nby = \"plan\"\nx.y = 1.5\ntext = '''\na\nb'''\n";

const JSON: &str = "{\"domain\": \"shop\", \"rules\": [\n  {\"name\": \"api\", \"when\": {\"path\": \"/api/**\", \
    \"method\": [\"GET\", \"P\\u00d6ST\\ud83d\\ude00\"]},\n   \"limit\": [\"50/s\", 1.5e3, -1], \"shadow\": true, \
    \"größe\": null}]}\n";

/// What the formats are made of.
const TOKENS: [&str; 52] = [
    "a",
    "b: ",
    "c = ",
    "\n",
    "\n  ",
    "\n    ",
    "\t",
    " ",
    "- ",
    "? ",
    ": ",
    ":",
    ",",
    "[",
    "]",
    "{",
    "}",
    "[[",
    "]]",
    "\"",
    "'",
    "'''",
    "|",
    ">",
    "&x ",
    "*x",
    "<<: ",
    "<<: *x",
    "!!str ",
    "!",
    "#",
    "---\n",
    "...\n",
    "%YAML 1.2\n",
    "\\",
    "\\u",
    "\\ud800",
    "5",
    "1.5",
    "true",
    "null",
    "~",
    "@",
    "`",
    "ü",
    "😀",
    "\u{feff}",
    "\0",
    "\u{85}",
    "\r",
    "\r\n",
    "=",
];

/// One change of a file.
#[derive(Clone, Debug)]
enum Edit {
    Remove,
    Insert(&'static str),
    Repeat,
    Cut,
}

fn edits() -> impl Strategy<Value = Vec<(prop::sample::Index, prop::sample::Index, Edit)>> {
    let edit = prop_oneof![
        2 => Just(Edit::Remove),
        6 => select(&TOKENS[..]).prop_map(Edit::Insert),
        2 => Just(Edit::Repeat),
        1 => Just(Edit::Cut),
    ];
    prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), edit), 1..6)
}

fn edited(text: &str, edits: Vec<(prop::sample::Index, prop::sample::Index, Edit)>) -> String {
    let mut text: Vec<char> = text.chars().collect();
    for (at, length, edit) in edits {
        let start = at.index(text.len() + 1);
        let end = (start + length.index(12)).min(text.len());
        match edit {
            Edit::Remove => drop(text.drain(start..end)),
            Edit::Insert(token) => drop(text.splice(start..start, token.chars())),
            Edit::Repeat => {
                let part = text[start..end].to_vec();
                drop(text.splice(start..start, part));
            }
            Edit::Cut => text.truncate(start),
        }
    }
    text.into_iter().collect()
}

fn files() -> impl Strategy<Value = (&'static str, String)> {
    let name = select(&["a.yaml", "a.toml", "a.json"][..]);
    let text = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200)
            .prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
        prop::collection::vec(select(&TOKENS[..]), 0..60).prop_map(|tokens| tokens.concat()),
    ];
    let valid = select(&[("a.yaml", YAML), ("a.toml", TOML), ("a.json", JSON)][..]);
    prop_oneof![
        1 => (name, text),
        1 => (valid, edits()).prop_map(|((name, text), edits)| (name, edited(text, edits))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8_192, ..ProptestConfig::default() })]

    #[test]
    fn no_file_panics((name, text) in files()) {
        // Checks places and shows problems.
        let (tree, problems) = parsed(name, &text);
        prop_assert!(tree.len() <= 1_000_000 && problems.len() <= 1_000);
    }

    /// A value that every format can write is the same tree in all of them.
    #[test]
    fn formats_agree(text in "\\PC{0,20}", number in any::<i64>(), list in prop::collection::vec(any::<bool>(), 0..4)) {
        let quoted = serde_json::to_string(&text).unwrap();
        let toml = format!("text = {quoted}\nmap = {{number = {number}}}\nlist = {list:?}\n");
        let yaml = format!("text: {quoted}\nmap:\n  number: {number}\nlist: {list:?}\n");
        let json = format!("{{\"text\": {quoted}, \"map\": {{\"number\": {number}}}, \"list\": {list:?}}}");
        let expected = super::tests::tree("a.toml", &toml);
        prop_assert_eq!(&super::tests::tree("a.yaml", &yaml), &expected);
        prop_assert_eq!(&super::tests::tree("a.yaml", &json), &expected);
        prop_assert_eq!(&super::tests::tree("a.json", &json), &expected);
    }
}

#[test]
fn the_files_that_are_edited_are_valid() {
    for (name, text) in [("a.yaml", YAML), ("a.toml", TOML), ("a.json", JSON)] {
        assert_eq!(parsed(name, text).1, [""; 0], "{name}");
    }
}
