//! Texts are kept byte for byte, up to their largest size.

use tollgate_core::documents::{DocumentError, DocumentStore, MAX_DOCUMENT_SIZE};

use super::Plan;
use crate::documents::fixture::{Fixture, by_ada};
use crate::documents::suite::DocumentSubject;

pub(super) fn plan<T: DocumentSubject>(plan: &mut Plan<T>) {
    plan.add("texts::byte_for_byte", byte_for_byte);
    plan.add("texts::a_megabyte", a_megabyte);
    plan.add("texts::too_large", too_large);
}

async fn byte_for_byte<T: DocumentSubject>(fixture: Fixture<T>) {
    let texts = [
        "",
        "\n",
        " ",
        "a\r\nb\r\n",
        "a\rb",
        "no newline at the end",
        "\n\n\n",
        "\u{feff}with a mark",
        "null",
        "0",
        "{}",
        "ünïcödé 😀 \u{202e}",
        "é and e\u{301}",
        "---\n\n",
        "' \" ` $ \\ \\n %s %00",
        "\u{1}\u{7f}\u{85}",
        "a\0b",
        "\0",
    ];
    for (index, text) in texts.into_iter().enumerate() {
        let name = fixture.name(&format!("{index}"));
        fixture.put(&name, text, None).await;
        assert_eq!(fixture.current(&name).await, Some((text.to_owned(), 1)));
        let version = fixture.get_version(&name, 1).await.expect("it is kept");
        assert_eq!(version.text, text);
    }
}

async fn a_megabyte<T: DocumentSubject>(fixture: Fixture<T>) {
    let name = fixture.name("large");
    let text: String = (0..1_000_000_u32).map(|index| char::from(b' ' + (index % 89) as u8)).collect();
    fixture.put(&name, &text, None).await;
    assert!(fixture.get(&name).await.is_some_and(|document| document.text == text), "another text");
    fixture.put(&name, "small", Some(1)).await;
    let old = fixture.get_version(&name, 1).await;
    assert!(old.is_some_and(|document| document.text == text), "another text in the history");
}

async fn too_large<T: DocumentSubject>(fixture: Fixture<T>) {
    let name = fixture.name("large");
    let text = "x".repeat(MAX_DOCUMENT_SIZE + 1);
    let refused = fixture.store.put(&name, &text, None, &by_ada()).await;
    let size = match refused {
        Err(DocumentError::TooLarge { size }) => size,
        other => panic!("too large, not {other:?}"),
    };
    assert_eq!(size, MAX_DOCUMENT_SIZE + 1);
    assert_eq!(fixture.get(&name).await, None);
    assert_eq!(fixture.put(&name, "fits", None).await.version, 1);
}
