//! Servers that are down, slow, wrong or hostile.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use tollgate_core::documents::{DocumentError, DocumentStore, MAX_DOCUMENT_SIZE};
use tollgate_core::{ConfigError, ErrorKind, ManualClock};
use tollgate_rules::HttpDocuments;

use crate::server::{Server, TOKEN, status, text};

/// Returns the kind and the message of an error, which must not contain the token.
#[track_caller]
fn failure<T: std::fmt::Debug>(result: Result<T, DocumentError>) -> (ErrorKind, String) {
    match result.expect_err("an error") {
        DocumentError::Store(error) => {
            let text = format!("{error} {error:?}");
            assert!(!text.contains(TOKEN), "{text}");
            (error.kind(), error.to_string())
        }
        other => panic!("{other:?}"),
    }
}

/// Asserts the kind and a part of the error of `get` when the server answers like this.
#[track_caller]
fn assert_failure<T: std::fmt::Debug>(result: Result<T, DocumentError>, kind: ErrorKind, part: &str) {
    let (found, message) = failure(result);
    assert!(found == kind && message.contains(part), "{found:?}: {message}");
}

/// Returns a server that answers like this.
async fn answering(answer: impl Fn() -> Option<Response> + Send + 'static) -> Server {
    let server = Server::start().await;
    server.misbehave(answer);
    server
}

#[tokio::test]
async fn a_server_that_is_down_is_unavailable() {
    // A port that was free a moment ago, and that nobody listens on.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    drop(listener);
    let client = HttpDocuments::new(&url, TOKEN).expect("valid");
    assert_failure(client.get("rules/shop").await, ErrorKind::Unavailable, &url);
    assert_failure(client.list("").await, ErrorKind::Unavailable, "efused");
}

#[tokio::test]
async fn a_slow_server_is_waited_for_until_the_deadline() {
    let asked = Arc::<AtomicUsize>::default();
    let counted = |answer: fn() -> Option<Response>| {
        let asked = Arc::clone(&asked);
        move || {
            asked.fetch_add(1, Ordering::SeqCst);
            answer()
        }
    };
    // One that never answers, and one whose text never ends.
    let silent = answering(counted(|| None)).await;
    let half = answering(counted(|| {
        let frames = futures_util::stream::once(async { Ok::<_, std::io::Error>("domain") });
        let frames = futures_util::StreamExt::chain(frames, futures_util::stream::pending());
        Some(text(200, &[("ETag", "\"1\"")], Body::from_stream(frames)))
    }))
    .await;
    for server in [silent, half] {
        let clock = ManualClock::default();
        let client = HttpDocuments::builder(&server.url).token(TOKEN).clock(clock.clone());
        let client = client.deadline(Duration::from_secs(3)).build().expect("valid");
        let advance = async {
            while asked.swap(0, Ordering::SeqCst) == 0 {
                tokio::task::yield_now().await;
            }
            // So that the first half of the text arrives, too.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            clock.advance(Duration::from_secs(3));
        };
        let (read, ()) = futures_util::future::join(client.get("rules/shop"), advance).await;
        assert_failure(read, ErrorKind::Timeout, "no answer within 3s");
    }
}

#[tokio::test]
async fn a_connection_that_breaks_within_a_text_is_an_error() {
    let server = answering(|| {
        let frames = futures_util::stream::iter([Ok("domain"), Err(std::io::Error::other("cut"))]);
        Some(text(200, &[("ETag", "\"1\"")], Body::from_stream(frames)))
    })
    .await;
    assert_failure(server.client().get("rules/shop").await, ErrorKind::Unavailable, "http://");
}

#[tokio::test]
async fn a_huge_answer_is_not_read() {
    let endless = || {
        let chunk = || Ok::<_, std::io::Error>(vec![b'#'; 65_536]);
        let frames = futures_util::stream::repeat_with(chunk);
        Some(text(200, &[("ETag", "\"1\"")], Body::from_stream(frames)))
    };
    let server = answering(endless).await;
    let client = server.client();
    assert_failure(client.get("rules/shop").await, ErrorKind::Corrupt, "more than 16777216 bytes");
    assert_failure(client.list("").await, ErrorKind::Corrupt, "more than 8388608 bytes");
    let server = Server::start().await;
    server.write("rules/shop", &"#".repeat(MAX_DOCUMENT_SIZE)).await;
    let read = server.client().get("rules/shop").await.expect("the largest there may be").expect("there");
    assert_eq!(read.text.len(), MAX_DOCUMENT_SIZE);
}

#[tokio::test]
async fn a_wrong_token_is_refused_and_in_no_error() {
    let server = Server::start().await;
    server.write("rules/shop", "one").await;
    let wrong = HttpDocuments::new(&server.url, "another-s3cret").expect("valid");
    let (kind, message) = failure(wrong.get("rules/shop").await);
    assert_eq!(kind, ErrorKind::Refused);
    assert!(
        message.ends_with("401 Unauthorized: the token may not read rules; use another one"),
        "{message}"
    );
    assert!(!message.contains("another-s3cret") && !format!("{wrong:?}").contains("s3cret"), "{wrong:?}");
    let builder = HttpDocuments::builder(&server.url).token(TOKEN);
    assert!(!format!("{builder:?}").contains(TOKEN));
    let none = HttpDocuments::builder(&server.url).build().expect("valid");
    assert_failure(none.list("").await, ErrorKind::Refused, "401");
    let forbidden = answering(|| Some(status(403))).await;
    assert_failure(forbidden.client().history("a").await, ErrorKind::Refused, "403 Forbidden");
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let target = Server::start().await;
    target.write("rules/shop", "one").await;
    let location = format!("{}/v1/rules/rules%2Fshop", target.url);
    let server = answering(move || Some(text(302, &[("Location", &location)], ""))).await;
    let advice =
        "302 Found: redirects are not followed; use the address that it redirects to as the base URL";
    assert_failure(server.client().get("rules/shop").await, ErrorKind::Refused, advice);
    assert!(target.statuses().is_empty(), "the token was sent elsewhere");
}

#[tokio::test]
async fn each_status_has_its_kind() {
    for (code, kind) in [
        (500, ErrorKind::Unavailable),
        (503, ErrorKind::Unavailable),
        (429, ErrorKind::Unavailable),
        (400, ErrorKind::Refused),
        (204, ErrorKind::Refused),
    ] {
        let server = answering(move || Some(status(code))).await;
        assert_failure(server.client().get("rules/shop").await, kind, &code.to_string());
    }
    let server = answering(|| Some(status(404))).await;
    assert!(server.client().get("rules/shop").await.expect("an answer").is_none());
    let advice = "there is no rules service; check the base URL";
    assert_failure(server.client().list("").await, ErrorKind::Refused, advice);
    assert_failure(server.client().history("a").await, ErrorKind::Refused, advice);
    let server = answering(|| Some(status(304))).await;
    assert_failure(server.client().get("a").await, ErrorKind::Corrupt, "never read");
    assert_failure(server.client().get_if_changed("a", None).await, ErrorKind::Corrupt, "never read");
    assert_failure(server.client().list("").await, ErrorKind::Corrupt, "never read");
}

#[tokio::test]
async fn answers_that_break_the_protocol_are_corrupt() {
    let bad_json = [
        "",
        "[",
        "[]",
        "{}",
        r#"{"documents":{}}"#,
        r#"{"documents":[{"name":"a"}]}"#,
        "\u{fffd}",
        r#"{"documents":[{"name":"a","version":0}]}"#,
        r#"{"documents":[{"name":"a","version":-1}]}"#,
        r#"{"documents":[{"name":"","version":1}]}"#,
        r#"{"documents":[{"name":"other","version":1}]}"#,
        r#"{"revisions":[{"version":1}]}"#,
        "<html>",
    ];
    for json in bad_json {
        let server = answering(move || Some(text(200, &[], json))).await;
        assert_failure(server.client().list("a").await, ErrorKind::Corrupt, "valid `documents`");
        assert_failure(server.client().history("a").await, ErrorKind::Corrupt, "valid `revisions`");
    }
    let deep = "[".repeat(100_000);
    let server = answering(move || Some(text(200, &[], deep.clone()))).await;
    assert_failure(server.client().list("").await, ErrorKind::Corrupt, "valid `documents`");
    for tag in ["", "1", "\"\"", "\"x\"", "\"0\"", "\"-1\"", "\"99999999999999999999\""] {
        let server = answering(move || Some(text(200, &[("ETag", tag)], "one"))).await;
        assert_failure(server.client().get("a").await, ErrorKind::Corrupt, "no `ETag` with a version");
    }
    let server = answering(|| Some(text(200, &[("ETag", "W/\"7\"")], "one"))).await;
    let document = server.client().get("a").await.expect("a weak tag is one, too").expect("there");
    assert_eq!((document.revision.version, document.revision.author.as_str()), (7, ""));
    assert_failure(server.client().get_version("a", 6).await, ErrorKind::Corrupt, "another version");
    for header in [("Tollgate-Time", "soon"), ("Tollgate-Author", "%ff"), ("Tollgate-Comment", "\u{fc}")] {
        let server = answering(move || Some(text(200, &[("ETag", "\"1\""), header], "one"))).await;
        assert_failure(server.client().get("a").await, ErrorKind::Corrupt, "cannot be read");
    }
    let server = answering(|| Some(text(200, &[("ETag", "\"1\"")], vec![0xff, 0xfe]))).await;
    assert_failure(server.client().get("a").await, ErrorKind::Corrupt, "is not UTF-8");
}

#[tokio::test]
async fn a_server_that_recovers_is_used_again() {
    let server = answering(|| Some(status(503))).await;
    server.write("rules/shop", "one").await;
    let client = server.client();
    assert_failure(client.get("rules/shop").await, ErrorKind::Unavailable, "503");
    server.behave();
    assert!(client.get("rules/shop").await.expect("up").is_some());
}

#[test]
fn invalid_settings_are_rejected_without_showing_secrets() {
    let error = |built: Result<HttpDocuments, ConfigError>| {
        let error = built.expect_err("invalid").to_string();
        assert!(!error.contains("s3cret"), "{error}");
        error
    };
    let https = "use https://host:port, with a path if there is one";
    for (url, problem) in [
        ("", "is not a URL"),
        ("tollgate:8080/s3cret", "is not a URL"),
        ("tollgate", "does not begin with https:// or http://"),
        ("ftp://tollgate", "does not begin with https:// or http://"),
        ("http://user:s3cret@tollgate", "has a user or password; give a token instead"),
        ("http://tollgate/?token=s3cret", "has a query or a fragment"),
        ("http://tollgate/#s3cret", "has a query or a fragment"),
    ] {
        let message = format!("`HttpDocuments`: `base_url` {problem}; {https}");
        assert_eq!(error(HttpDocuments::new(url, TOKEN)), message, "{url}");
    }
    for token in ["", "s3cret\n", "s3 cret", "s3crét"] {
        assert!(error(HttpDocuments::new("http://tollgate", token)).contains("visible ASCII characters"));
    }
    let zero = HttpDocuments::builder("http://tollgate").deadline(Duration::ZERO).build();
    assert_eq!(error(zero), "`HttpDocuments`: `deadline` is 0ns; use more than zero");
}
