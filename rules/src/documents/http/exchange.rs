//! One request and its answer: deadline, bounds, and what a status means.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue, IF_NONE_MATCH, USER_AGENT};
use hyper::{Request, Response, StatusCode};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use tollgate_core::documents::DocumentError;
use tollgate_core::{ErrorKind, StoreError, Timer};

use crate::deadline::within;

/// A client of one server.
pub(super) struct Exchange<C> {
    /// The base URL, without a slash at the end.
    pub(super) base: String,
    pub(super) authorization: Option<HeaderValue>,
    pub(super) deadline: Duration,
    pub(super) client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
    pub(super) clock: C,
}

/// What a server answers.
pub(super) enum Answer {
    Found { headers: HeaderMap, body: Bytes },
    Unchanged,
    Missing,
}

impl<C: Timer> Exchange<C> {
    /// Reads what is at a path, unless it is the version that is known.
    pub(super) async fn get(
        &self,
        path: &str,
        known: Option<u64>,
        max_size: usize,
    ) -> Result<Answer, DocumentError> {
        match within(&self.clock, self.deadline, self.exchange(path, known, max_size)).await {
            Some(answer) => answer,
            None => Err(self.error(ErrorKind::Timeout, format_args!("no answer within {:?}", self.deadline))),
        }
    }

    async fn exchange(
        &self,
        path: &str,
        known: Option<u64>,
        max_size: usize,
    ) -> Result<Answer, DocumentError> {
        let mut request = Request::get(format!("{}{path}", self.base)).header(USER_AGENT, "tollgate");
        if let Some(version) = known {
            request = request.header(IF_NONE_MATCH, format!("\"{version}\""));
        }
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        let request = request.body(Empty::new());
        let request = request.map_err(|error| self.error(ErrorKind::Internal, &error))?;
        let response = self.client.request(request).await;
        let response = response.map_err(|error| self.error(ErrorKind::Unavailable, causes(&error)))?;
        match response.status() {
            StatusCode::OK => {
                let (headers, body) = self.body(response, max_size).await?;
                Ok(Answer::Found { headers, body })
            }
            StatusCode::NOT_MODIFIED => Ok(Answer::Unchanged),
            StatusCode::NOT_FOUND => Ok(Answer::Missing),
            other => Err(self.refused(other)),
        }
    }

    async fn body(
        &self,
        response: Response<Incoming>,
        max_size: usize,
    ) -> Result<(HeaderMap, Bytes), DocumentError> {
        let too_large = || {
            let why = format_args!("the answer has more than {max_size} bytes; use smaller documents");
            self.error(ErrorKind::Corrupt, why)
        };
        let (parts, body) = response.into_parts();
        // Nothing of it is read if its size is known to be too large.
        if body.size_hint().lower() > max_size as u64 {
            return Err(too_large());
        }
        match Limited::new(body, max_size).collect().await {
            Ok(body) => Ok((parts.headers, body.to_bytes())),
            Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
            Err(error) => Err(self.error(ErrorKind::Unavailable, causes(&*error))),
        }
    }

    fn refused(&self, status: StatusCode) -> DocumentError {
        let (kind, why) = match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                (ErrorKind::Refused, "the token may not read rules; use another one")
            }
            StatusCode::TOO_MANY_REQUESTS => (ErrorKind::Unavailable, "too many requests; poll less often"),
            status if status.is_redirection() => (
                ErrorKind::Refused,
                "redirects are not followed; use the address that it redirects to as the base URL",
            ),
            status if status.is_server_error() => (ErrorKind::Unavailable, "the server cannot answer now"),
            _ => (ErrorKind::Refused, "this is no answer of a Tollgate; check the base URL"),
        };
        self.error(kind, format_args!("{status}: {why}"))
    }

    /// Returns the error of a server that has no such service.
    pub(super) fn no_service(&self) -> DocumentError {
        self.error(ErrorKind::Refused, "there is no rules service; check the base URL")
    }
}

impl<C> Exchange<C> {
    /// Returns the error of a server that does not keep to the protocol.
    pub(super) fn unexpected(&self, why: impl fmt::Display) -> DocumentError {
        self.error(ErrorKind::Corrupt, format_args!("{why}; check that it is a Tollgate of this version"))
    }

    fn error(&self, kind: ErrorKind, why: impl fmt::Display) -> DocumentError {
        StoreError::new(kind, format!("{}: {why}", self.base)).into()
    }
}

/// Returns what an error says together with its causes: the client's own says only that it could not connect.
fn causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

impl<C> fmt::Debug for Exchange<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange")
            .field("base", &self.base)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}
