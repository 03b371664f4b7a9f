//! Names are any text, compared byte by byte.

use tollgate_core::documents::{DocumentError, DocumentStore, MAX_DOCUMENT_NAME, Polled};

use super::Plan;
use crate::documents::fixture::{Fixture, by_ada};
use crate::documents::suite::DocumentSubject;

pub(super) fn plan<T: DocumentSubject>(plan: &mut Plan<T>) {
    plan.add("names::that_look_alike", that_look_alike);
    plan.add("names::hostile", hostile);
    plan.add("names::of_directories_and_devices", of_directories_and_devices);
    plan.add("names::of_512_bytes", of_512_bytes);
    plan.add("names::invalid", invalid);
}

/// Names that are one and the same to some file system, URL, collation or encoding.
const LOOK_ALIKE: [&str; 47] = [
    "a",
    "A",
    "a ",
    " a",
    "a.",
    ".a",
    "a/",
    "/a",
    "a/b",
    "a//b",
    "a/./b",
    "a/../b",
    "A/b",
    "a/B",
    "a\\b",
    "a:b",
    "a%2fb",
    "a%2Fb",
    "%61",
    "%",
    "%%",
    "%25",
    "a+b",
    "a b",
    "a%20b",
    "a\u{a0}b",
    "é",
    "e\u{301}",
    "É",
    "ß",
    "ss",
    "ẞ",
    "i",
    "I",
    "ı",
    "İ",
    "\u{212a}",
    "k",
    "K",
    "a\u{200b}",
    "ﬁ",
    "fi",
    "{a}",
    "a}",
    "{",
    "𝄞",
    "\u{feff}a",
];

/// Names that mean something to a file system, a shell, a query language or a server.
const HOSTILE: [&str; 30] = [
    "../x",
    "../../x",
    "..",
    ".",
    "/",
    "//",
    "/etc/x",
    "./x",
    "~",
    "~/x",
    "*",
    "[a-z]",
    "?",
    "CON",
    "con.txt",
    "aux:",
    "x.tmp",
    ".lock",
    "'; DROP TABLE x; --",
    "\"",
    "`x`",
    "$(x)",
    "{x}",
    "{}",
    "-rf",
    "--",
    "#",
    "x\u{2028}y",
    "\u{202e}x",
    "x~1",
];

/// Writes, reads and deletes each of the names, and sees that none of them is another's.
async fn expect_distinct<T: DocumentSubject>(fixture: &Fixture<T>, names: &[String]) {
    for name in names {
        assert_eq!(fixture.put(name, name, None).await.version, 1, "{name:?} is somebody else's");
    }
    for name in names {
        assert_eq!(fixture.current(name).await, Some((name.clone(), 1)), "the document {name:?}");
        assert_eq!(fixture.versions(name).await, [1], "the history of {name:?}");
        let listed = fixture.store.list(name).await.expect("a list");
        assert_eq!(listed.first(), Some(&(name.clone(), 1)), "the first document of {name:?}");
    }
    for (index, name) in names.iter().enumerate() {
        fixture.delete(name, 1).await;
        assert_eq!(fixture.get(name).await, None);
        if let Some(next) = names.get(index + 1) {
            assert_eq!(fixture.current(next).await, Some((next.clone(), 1)), "after deleting {name:?}");
        }
    }
}

async fn that_look_alike<T: DocumentSubject>(fixture: Fixture<T>) {
    let names: Vec<_> = LOOK_ALIKE.iter().map(|suffix| fixture.name(suffix)).collect();
    expect_distinct(&fixture, &names).await;
    // At the start of the name, too: a name need not have a prefix.
    let names: Vec<_> = LOOK_ALIKE.iter().map(|start| format!("{start}{}", fixture.unique())).collect();
    expect_distinct(&fixture, &names).await;
}

async fn hostile<T: DocumentSubject>(fixture: Fixture<T>) {
    let at_the_end = HOSTILE.iter().map(|hostile| fixture.name(hostile));
    let at_the_start = HOSTILE.iter().map(|hostile| format!("{hostile}{}", fixture.unique()));
    let in_the_middle = HOSTILE.iter().map(|hostile| fixture.name(&format!("x/{hostile}/y")));
    let names: Vec<_> = at_the_end.chain(at_the_start).chain(in_the_middle).collect();
    expect_distinct(&fixture, &names).await;
}

/// As whole names, without a prefix. They may exist from an earlier run on the same server.
async fn of_directories_and_devices<T: DocumentSubject>(fixture: Fixture<T>) {
    let names = [".", "..", "/", "../..", "*", "CON", "nul", "%", "_", " ", "-", "{}", "\\", "~"];
    let mut versions = Vec::new();
    for name in names {
        let expected = fixture.get(name).await.map(|document| document.revision.version);
        versions.push(fixture.put(name, name, expected).await.version);
    }
    for (name, version) in names.into_iter().zip(versions) {
        assert_eq!(fixture.current(name).await, Some((name.to_owned(), version)), "the document {name:?}");
        fixture.delete(name, version).await;
        assert_eq!(fixture.get(name).await, None);
    }
}

/// The longest names: also of characters that take many bytes once they are encoded.
async fn of_512_bytes<T: DocumentSubject>(fixture: Fixture<T>) {
    let fill = |with: &str, end: &str| {
        let room = MAX_DOCUMENT_NAME - fixture.name("").len() - end.len();
        let fill = with.repeat(room / with.len());
        let rest = "-".repeat(room - fill.len());
        fixture.name(&format!("{fill}{rest}{end}"))
    };
    let names: Vec<_> = [
        ("a", ""),
        ("a", "b"),
        ("A", ""),
        ("A", "b"),
        ("a/", ""),
        ("../", ""),
        ("😀", ""),
        ("😀", "b"),
        ("%", ""),
    ]
    .into_iter()
    .map(|(with, end)| fill(with, end))
    .collect();
    assert!(names.iter().all(|name| name.len() == MAX_DOCUMENT_NAME));
    expect_distinct(&fixture, &names).await;
}

/// Every method refuses an invalid name.
async fn invalid<T: DocumentSubject>(fixture: Fixture<T>) {
    let long = fixture.name(&"x".repeat(MAX_DOCUMENT_NAME));
    let control = ["\n", "\0", "\t", "\u{7f}", "\u{85}"].map(|control| fixture.name(control));
    for name in ["", long.as_str()].into_iter().chain(control.iter().map(String::as_str)) {
        let store = &fixture.store;
        let answers = [
            ("get", store.get(name).await.map(drop)),
            ("get_if_changed", store.get_if_changed(name, None).await.map(|_: Polled| ())),
            ("put", store.put(name, "text", None, &by_ada()).await.map(drop)),
            ("delete", store.delete(name, 1, &by_ada()).await.map(drop)),
            ("history", store.history(name).await.map(drop)),
            ("get_version", store.get_version(name, 1).await.map(drop)),
        ];
        for (method, answer) in answers {
            assert!(
                matches!(answer, Err(DocumentError::InvalidName(_))),
                "{method} of the invalid name {name:?} answers {answer:?}"
            );
        }
    }
    assert_eq!(fixture.list("").await, [], "no invalid document exists");
}
