//! How the client is configured.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hyper::Uri;
use hyper::header::HeaderValue;
use hyper_rustls::{ConfigBuilderExt, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use rustls::{ClientConfig, RootCertStore};
use tollgate_core::{ConfigError, SystemClock, Timer};

use super::HttpDocuments;
use super::exchange::Exchange;

/// Builds [`HttpDocuments`]; [`build`](Self::build) validates the settings.
#[must_use = "a builder does nothing until `build` is called"]
pub struct HttpDocumentsBuilder<C = SystemClock> {
    base_url: String,
    token: Option<String>,
    deadline: Duration,
    tls: Option<Arc<ClientConfig>>,
    clock: C,
}

impl HttpDocumentsBuilder {
    pub(super) fn new(base_url: &str) -> Self {
        let (deadline, clock) = (Duration::from_secs(5), SystemClock::new());
        Self { base_url: base_url.to_owned(), token: None, deadline, tls: None, clock }
    }
}

impl<C: Timer> HttpDocumentsBuilder<C> {
    /// Sets the token that requests are sent with. Default: none.
    pub fn token(mut self, token: &str) -> Self {
        self.token = Some(token.to_owned());
        self
    }

    /// Sets how long a call may take, from the connection to the last byte. Default: 5 s.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Sets which certificates are trusted and which one is shown, for `https`. Default: those that the system trusts,
    /// and none.
    pub fn tls(mut self, config: Arc<ClientConfig>) -> Self {
        self.tls = Some(config);
        self
    }

    /// Sets the clock of the deadline. Default: the system clock.
    pub fn clock<D: Timer>(self, clock: D) -> HttpDocumentsBuilder<D> {
        let Self { base_url, token, deadline, tls, clock: _ } = self;
        HttpDocumentsBuilder { base_url, token, deadline, tls, clock }
    }

    /// Validates the settings and builds the store. It connects at its first call.
    pub fn build(self) -> Result<HttpDocuments<C>, ConfigError> {
        let (base, is_https) = base_url(&self.base_url)?;
        let authorization = self.token.as_deref().map(authorization).transpose()?;
        if self.deadline.is_zero() {
            return Err(invalid("deadline", "is 0ns", "use more than zero"));
        }
        let tls = match self.tls {
            Some(config) => ClientConfig::clone(&config),
            None => trusted(is_https)?,
        };
        let schemes = HttpsConnectorBuilder::new().with_tls_config(tls);
        // The token is never sent in clear where TLS was asked for.
        let schemes = if is_https { schemes.https_only() } else { schemes.https_or_http() };
        let client = Client::builder(TokioExecutor::new()).build(schemes.enable_http1().build());
        let exchange = Exchange { base, authorization, deadline: self.deadline, client, clock: self.clock };
        Ok(HttpDocuments { exchange })
    }
}

fn invalid(setting: &'static str, problem: &str, advice: &str) -> ConfigError {
    ConfigError::new("HttpDocuments", setting, problem, advice)
}

/// Checks a base URL, and returns it without a slash at the end. Errors do not contain it: it may have a password.
fn base_url(url: &str) -> Result<(String, bool), ConfigError> {
    let advice = "use https://host:port, with a path if there is one";
    let invalid = |problem| invalid("base_url", problem, advice);
    let uri: Uri = url.parse().map_err(|_| invalid("is not a URL"))?;
    let is_https = match uri.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        Some(_) | None => return Err(invalid("does not begin with https:// or http://")),
    };
    if uri.authority().is_none_or(|authority| authority.host().is_empty()) {
        return Err(invalid("has no host"));
    }
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err(invalid("has a user or password; give a token instead"));
    }
    if uri.query().is_some() || url.contains('#') {
        return Err(invalid("has a query or a fragment"));
    }
    Ok((url.trim_end_matches('/').to_owned(), is_https))
}

/// Returns the header with the token. Errors do not contain it.
fn authorization(token: &str) -> Result<HeaderValue, ConfigError> {
    let is_valid = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    let header = HeaderValue::try_from(format!("Bearer {token}")).ok().filter(|_| is_valid);
    let mut header = header.ok_or_else(|| {
        let problem = "is empty, or has characters that a token cannot have";
        invalid("token", problem, "use visible ASCII characters, without a line break at the end")
    })?;
    header.set_sensitive(true);
    Ok(header)
}

/// Returns which certificates are trusted: those of the system, if there is TLS.
fn trusted(is_https: bool) -> Result<ClientConfig, ConfigError> {
    let advice = "check the certificates that the system trusts, or set `tls`";
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| invalid("tls", &error.to_string(), advice))?;
    let config = if is_https {
        config.with_native_roots().map_err(|error| invalid("tls", &error.to_string(), advice))?
    } else {
        config.with_root_certificates(RootCertStore::empty())
    };
    Ok(config.with_no_client_auth())
}

impl<C> fmt::Debug for HttpDocumentsBuilder<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpDocumentsBuilder").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}
