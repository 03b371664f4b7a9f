//! A server of documents as the protocol says, which counts answers and misbehaves when a test wants it to.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use axum::routing::get;
use tollgate_core::Time;
use tollgate_core::documents::{Change, Document, DocumentStore, Revision};
use tollgate_rules::HttpDocuments;
use tollgate_store_memory::MemoryDocuments;

pub(crate) const TOKEN: &str = "s3cret-t0ken";

/// A server on a port of its own. It ends with the runtime of its test.
pub(crate) struct Server {
    pub(crate) url: String,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    documents: MemoryDocuments,
    /// The status of each answer so far, and the raw path of its request.
    answers: Mutex<Vec<(u16, String)>>,
    /// Makes the answer to each request, if a test wants another one than a Tollgate's.
    misbehaves: Mutex<Option<Misbehave>>,
}

/// Makes an answer; `None`: there never is one.
type Misbehave = Box<dyn Fn() -> Option<Response> + Send>;

impl Server {
    pub(crate) async fn start() -> Self {
        let shared = Arc::<Shared>::default();
        let routes = Router::new()
            .route("/v1/rules", get(list))
            .route("/v1/rules/{name}", get(document))
            .route("/v1/rules/{name}/history", get(history))
            .with_state(Arc::clone(&shared));
        let routes = Router::new().merge(routes.clone()).nest("/below/a/path", routes);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Self { url, shared }
    }

    pub(crate) fn client(&self) -> HttpDocuments {
        HttpDocuments::new(&self.url, TOKEN).expect("valid")
    }

    pub(crate) async fn write(&self, name: &str, text: &str) -> u64 {
        let documents = &self.shared.documents;
        let expected = documents.get(name).await.expect("in memory");
        let expected = expected.map(|document| document.revision.version);
        let change = Change::by("Ada & Söhne", Time::from_nanos(1_790_000_000_123_456_789));
        let change = change.with_comment("100 %\nsure");
        documents.put(name, text, expected, &change).await.expect("the current version").version
    }

    pub(crate) fn documents(&self) -> &MemoryDocuments {
        &self.shared.documents
    }

    /// Makes the server answer like this from now on; `None`: never.
    pub(crate) fn misbehave(&self, answer: impl Fn() -> Option<Response> + Send + 'static) {
        *self.shared.misbehaves.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(answer));
    }

    /// Makes the server answer as a Tollgate does again.
    pub(crate) fn behave(&self) {
        *self.shared.misbehaves.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Returns the status of each answer since the last call.
    pub(crate) fn statuses(&self) -> Vec<u16> {
        let mut answers = self.shared.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.drain(..).map(|(status, _)| status).collect()
    }

    /// Returns the raw path of the last request.
    pub(crate) fn last_path(&self) -> String {
        let answers = self.shared.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.last().expect("a request").1.clone()
    }
}

impl Shared {
    /// Answers a request, unless the token is wrong or the server misbehaves.
    async fn answer(
        &self,
        headers: &HeaderMap,
        uri: &Uri,
        answer: impl Future<Output = Response>,
    ) -> Response {
        let expected = format!("Bearer {TOKEN}");
        let authorized =
            headers.get("authorization").is_some_and(|value| value.as_bytes() == expected.as_bytes());
        let misbehaves = {
            let misbehaves = self.misbehaves.lock().unwrap_or_else(PoisonError::into_inner);
            misbehaves.as_ref().map(|answer| answer())
        };
        let response = match misbehaves {
            Some(Some(response)) => response,
            Some(None) => std::future::pending().await,
            None if authorized => answer.await,
            None => status(401),
        };
        let answered = (response.status().as_u16(), uri.to_string());
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).push(answered);
        response
    }
}

pub(crate) fn status(status: u16) -> Response {
    text(status, &[], "")
}

pub(crate) fn text(status: u16, headers: &[(&str, &str)], text: impl Into<Body>) -> Response {
    let mut response = Response::builder().status(StatusCode::from_u16(status).expect("valid"));
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(text.into()).expect("valid")
}

fn digit(value: u8) -> char {
    char::from_digit(value.into(), 16).expect("four bits")
}

/// Escapes every byte, so that the client has to decode every form.
fn escaped(text: &str) -> String {
    text.bytes().flat_map(|byte| ['%', digit(byte >> 4), digit(byte & 15)]).collect()
}

async fn document(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    Query(query): Query<HashMap<String, u64>>,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    let answer = async {
        let found = match query.get("version") {
            Some(version) => shared.documents.get_version(&name, *version).await,
            None => shared.documents.get(&name).await,
        };
        let Some(Document { text: found, revision }) = found.expect("in memory") else { return status(404) };
        let tag = format!("\"{}\"", revision.version);
        if headers.get("if-none-match").is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
            return status(304);
        }
        let (author, comment) = (escaped(&revision.author), escaped(&revision.comment));
        let time = revision.time.nanos().to_string();
        let headers = [
            ("ETag", &*tag),
            ("Tollgate-Author", &*author),
            ("Tollgate-Comment", &*comment),
            ("Tollgate-Time", &*time),
        ];
        text(200, &headers, found)
    };
    shared.answer(&headers, &uri, answer).await
}

async fn list(
    State(shared): State<Arc<Shared>>,
    Query(query): Query<HashMap<String, String>>,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    let answer = async {
        let listed = shared.documents.list(&query["prefix"]).await.expect("in memory");
        let entry = |(name, version)| serde_json::json!({ "name": name, "version": version });
        let entries: Vec<_> = listed.into_iter().map(entry).collect();
        text(200, &[], serde_json::json!({ "documents": entries }).to_string())
    };
    shared.answer(&headers, &uri, answer).await
}

async fn history(
    State(shared): State<Arc<Shared>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    let answer = async {
        let entry = |revision: Revision| {
            let Revision { version, author, time, comment, deleted } = revision;
            let time = time.nanos();
            serde_json::json!({
                "version": version, "author": author, "time": time, "comment": comment, "deleted": deleted,
            })
        };
        let revisions = shared.documents.history(&name).await.expect("in memory");
        let revisions: Vec<_> = revisions.into_iter().map(entry).collect();
        text(200, &[], serde_json::json!({ "revisions": revisions }).to_string())
    };
    shared.answer(&headers, &uri, answer).await
}
