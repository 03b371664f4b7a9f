//! Documents, lists and histories; what is not sent again.

use std::sync::Arc;

use tollgate_core::documents::{Change, DocumentError, DocumentStore, Polled};
use tollgate_core::{ManualClock, Time};
use tollgate_rules::{HttpDocuments, Retriever};

use crate::server::{Server, TOKEN};

#[tokio::test]
async fn documents_arrive_as_they_are_stored() {
    let (server, text) = (Server::start().await, "domain: shop\n# größer 🦀\n");
    server.write("rules/shop", "old").await;
    server.write("rules/shop", text).await;
    let (client, stored) = (server.client(), server.documents());
    let document = client.get("rules/shop").await.expect("up").expect("there");
    assert_eq!(Some(document), stored.get("rules/shop").await.expect("in memory"));
    let old = client.get_version("rules/shop", 1).await.expect("up");
    assert_eq!(old, stored.get_version("rules/shop", 1).await.expect("in memory"));
    assert_eq!(client.get_version("rules/shop", 9).await.expect("up"), None);
    assert_eq!(client.get("rules/other").await.expect("up"), None);
    stored.delete("rules/shop", 2, &Change::by("bob", Time::EPOCH)).await.expect("there");
    assert_eq!(client.get("rules/shop").await.expect("up"), None);
    let history = client.history("rules/shop").await.expect("up");
    assert_eq!(history, stored.history("rules/shop").await.expect("in memory"));
    assert_eq!(history.len(), 3);
    assert_eq!(client.history("never").await.expect("up"), []);
}

#[tokio::test]
async fn an_unchanged_document_is_not_sent_again() {
    let server = Server::start().await;
    server.write("rules/shop", "one").await;
    let client = server.client();
    let poll = async |known| client.get_if_changed("rules/shop", known).await.expect("up");
    let Polled::Changed(first) = poll(None).await else { panic!("it was not known") };
    for _ in 0..5 {
        assert_eq!(poll(Some(first.revision.version)).await, Polled::Unchanged);
    }
    server.write("rules/shop", "two").await;
    let Polled::Changed(second) = poll(Some(1)).await else { panic!("it has changed") };
    assert_eq!((second.text.as_str(), second.revision.version), ("two", 2));
    assert_eq!(server.statuses(), [200, 304, 304, 304, 304, 304, 200]);
    assert_eq!(client.get_if_changed("rules/none", Some(1)).await.expect("up"), Polled::Missing);
}

#[tokio::test]
async fn any_name_is_one_segment_of_the_path() {
    let server = Server::start().await;
    let client = server.client();
    let names = [
        "a",
        "rules/shop.yaml",
        "../x",
        "..",
        ".",
        "a/../b",
        "a/history",
        "a?version=1",
        "a#b",
        "a b",
        "ü%2f+&=",
        "%",
    ];
    for name in names {
        server.write(name, name).await;
    }
    for name in names {
        let document = client.get(name).await.expect("up").expect(name);
        assert_eq!(document.text, name);
        assert_eq!(server.last_path().matches('/').count(), 3, "{}", server.last_path());
        assert_eq!(client.history(name).await.expect("up").len(), 1, "{name}");
    }
    for prefix in ["", "a", "a/", "../", "ü%2f+&", "x"] {
        let listed = client.list(prefix).await.expect("up");
        assert_eq!(listed, server.documents().list(prefix).await.expect("in memory"), "{prefix:?}");
    }
    let long = "x".repeat(513);
    assert!(matches!(client.get(&long).await, Err(DocumentError::InvalidName(_))));
    assert!(matches!(client.history("a\nb").await, Err(DocumentError::InvalidName(_))));
}

#[tokio::test]
async fn the_base_url_may_have_a_path() {
    let server = Server::start().await;
    server.write("rules/shop", "one").await;
    for path in ["/below/a/path", "/below/a/path/", "/", ""] {
        let client = HttpDocuments::new(&format!("{}{path}", server.url), TOKEN).expect("valid");
        assert!(client.get("rules/shop").await.expect("up").is_some(), "{path}");
    }
}

#[tokio::test]
async fn documents_can_only_be_read() {
    let server = Server::start().await;
    let (client, change) = (server.client(), Change::by("ada", Time::EPOCH));
    assert!(matches!(client.put("a", "b", None, &change).await, Err(DocumentError::ReadOnly)));
    assert!(matches!(client.delete("a", 1, &change).await, Err(DocumentError::ReadOnly)));
    assert!(server.statuses().is_empty());
}

#[tokio::test]
async fn a_retriever_keeps_the_rules_of_another_tollgate_current() {
    let server = Server::start().await;
    server.write("rules/a", "1").await;
    server.write("rules/b", "1").await;
    let retriever = Retriever::with_compiler(Arc::new(server.client()), |sources| {
        Ok(sources.iter().map(|source| source.text().to_owned()).collect::<String>())
    });
    let retriever = retriever.clock(ManualClock::default()).start().await.expect("valid");
    assert_eq!(*retriever.load(), "11");
    assert_eq!(server.statuses().len(), 4, "a list, both documents, and a list that agrees");
    server.write("rules/b", "2").await;
    assert!(retriever.refresh().await.expect("up"));
    assert_eq!(*retriever.load(), "12");
    assert_eq!(server.statuses().len(), 3, "only what has changed");
}
