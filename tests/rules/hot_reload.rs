//! Rules that are swapped while many threads are admitted by them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::runtime::Handle;
use tollgate::documents::{Change, DocumentStore};
use tollgate::memory::{MemoryDocuments, MemoryStore};
use tollgate::rules::Retriever;
use tollgate::{Clock, Limiter, ManualClock};

/// What all requests of the test may be admitted together.
const LIMIT: usize = 3000;
const SWAPS: u64 = 200;
/// Requests that are decided between two swaps: more than `LIMIT` in all.
const BETWEEN: usize = 20;

const BROKEN: &str = "domain: shop\nrules: [{ name: api, limti: 1/day }]";

/// A version of the rules: the limit that never changes, and rules that only this version has.
fn version(name: &str) -> String {
    format!(
        "
domain: shop
rules:
  - {{ name: first-{name}, per: user, limit: 1000000/day }}
  - {{ name: api, limit: {LIMIT}/day }}
  - {{ name: per-thread, per: user, limit: 1000000/day }}
  - {{ name: second-{name}, per: user, limit: 1000000/day }}
  - {{ name: third-{name}, when: {{ path: /** }}, limit: 1000000/day, shadow: true }}
"
    )
}

/// Ends the test if a thread of it fails.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

struct Load {
    retriever: Retriever,
    limiter: Arc<Limiter<MemoryStore, ManualClock>>,
    done: AtomicBool,
    decided: AtomicUsize,
    admitted: AtomicUsize,
    /// Requests of each version.
    versions: [AtomicUsize; 2],
}

impl Load {
    /// Sends requests of a user until all swaps are done.
    async fn send(&self, user: &str) {
        let _done = SetOnDrop(&self.done);
        let expected = ["a", "b"].map(|name| {
            let own = ["first", "second", "third"].map(|rule| format!("{rule}-{name}"));
            own.into_iter().chain(["api".to_owned(), "per-thread".to_owned()]).collect::<BTreeSet<_>>()
        });
        while !self.done.load(Ordering::SeqCst) {
            let rules = self.retriever.rules();
            let shop = rules.domain("shop").expect("in both versions");
            let matched = shop.match_attributes(&[("path", "/api"), ("user", user)]);
            let names: BTreeSet<_> = matched.iter().map(|one| one.name().to_owned()).collect();
            let version = expected.iter().position(|expected| *expected == names);
            let version = version.unwrap_or_else(|| panic!("half a rule set: {names:?}"));
            let admission = matched.admit(&self.limiter).await.expect("the memory store never fails");
            assert_eq!(admission.verdict().decisions().len(), 4);
            self.admitted.fetch_add(usize::from(admission.is_allowed()), Ordering::SeqCst);
            self.versions[version].fetch_add(1, Ordering::SeqCst);
            self.decided.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Swaps the rules, with broken ones in between.
    async fn swap(&self, documents: &MemoryDocuments) {
        let _done = SetOnDrop(&self.done);
        let mut current = 1;
        let mut write = async |text: &str| {
            let change = Change::by("test", self.limiter.clock().now());
            let revision =
                documents.put("rules/shop", text, Some(current), &change).await.expect("no one else");
            current = revision.version;
        };
        for number in 1..=SWAPS {
            if number % 5 == 0 {
                write(BROKEN).await;
                assert!(self.retriever.refresh().await.is_err());
                self.wait();
            }
            write(&version(if number % 2 == 0 { "a" } else { "b" })).await;
            assert!(self.retriever.refresh().await.expect("valid"));
            self.wait();
        }
    }

    /// Waits until more requests are decided.
    fn wait(&self) {
        let before = self.decided.load(Ordering::SeqCst);
        while self.decided.load(Ordering::SeqCst) < before + BETWEEN && !self.done.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_sees_half_a_rule_set_and_unchanged_limits_keep_their_counts() {
    let (documents, clock) = (Arc::new(MemoryDocuments::new()), ManualClock::default());
    let change = Change::by("test", clock.now());
    documents.put("rules/shop", &version("a"), None, &change).await.expect("new");
    let retriever = Retriever::builder(Arc::clone(&documents) as _).clock(clock.clone());
    let load = Load {
        retriever: retriever.start().await.expect("valid"),
        limiter: Arc::new(Limiter::with_clock(MemoryStore::new(), clock)),
        done: AtomicBool::default(),
        decided: AtomicUsize::default(),
        admitted: AtomicUsize::default(),
        versions: Default::default(),
    };
    let (load, runtime) = (&load, Handle::current());
    std::thread::scope(|scope| {
        for user in ["ann", "ben", "cleo", "dave"] {
            let runtime = runtime.clone();
            scope.spawn(move || runtime.block_on(load.send(user)));
        }
        scope.spawn(|| runtime.block_on(load.swap(&documents)));
    });
    let decided = load.decided.load(Ordering::SeqCst);
    assert!(decided > LIMIT, "{decided}");
    assert_eq!(load.admitted.load(Ordering::SeqCst), LIMIT, "of {decided}");
    assert!(load.versions.iter().all(|requests| requests.load(Ordering::SeqCst) >= BETWEEN));
    let stats = load.retriever.stats();
    assert_eq!((stats.loads, stats.rejections), (SWAPS + 1, SWAPS / 5));
}

#[tokio::test]
async fn a_slot_that_is_held_over_a_reload_is_released_once() {
    let slots = |slots| format!("domain: shop\nrules: [{{ name: exports, per: user, concurrent: {slots} }}]");
    let documents = Arc::new(MemoryDocuments::new());
    let clock = ManualClock::default();
    let put = async |text: String, expected| {
        let change = Change::by("test", clock.now());
        documents.put("rules/shop", &text, expected, &change).await.expect("no one else");
    };
    put(slots(2), None).await;
    let retriever = Retriever::builder(Arc::clone(&documents) as _).clock(clock.clone());
    let retriever = retriever.start().await.expect("valid");
    let limiter = Arc::new(Limiter::with_clock(MemoryStore::new(), clock.clone()));
    let admit = async || {
        let rules = retriever.rules();
        let shop = rules.domain("shop").expect("the domain");
        shop.match_attributes(&[("user", "alice")])
            .admit(&limiter)
            .await
            .expect("the memory store never fails")
    };
    let first = admit().await;
    put(slots(1), Some(1)).await;
    assert!(retriever.refresh().await.expect("valid"));
    assert!(first.is_allowed() && admit().await.is_denied(), "the slot of the old rules counts");
    drop(first);
    let second = admit().await;
    assert!(second.is_allowed() && admit().await.is_denied());
    put(slots(3), Some(2)).await;
    assert!(retriever.refresh().await.expect("valid"));
    let more = [admit().await, admit().await, admit().await];
    assert_eq!(more.each_ref().map(tollgate::Admission::is_allowed), [true, true, false]);
    drop(second);
    assert!(admit().await.is_allowed());
}
